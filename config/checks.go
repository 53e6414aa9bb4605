package config

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
)

func between[T cmp.Ordered](v, low, high T) bool { return low <= v && v <= high }

func oneOf(v string, allowed ...string) bool { return slices.Contains(allowed, v) }

func isRatio(v float64) bool { return v > 0 && v <= 1 }

func isAddress(v string) bool {
	_, port, err := net.SplitHostPort(v)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// isName allows what is safe in a metric label, a file name and a log line.
func isName(v string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	return between(len(v), 1, 64) && strings.Trim(v, letters) == "" && strings.Trim(v, ".") != ""
}

// maxToken is how long a token may be, in bytes: the line that shows it to the server has at most 4 KiB.
const maxToken = 4<<10 - len("__AUTH__:")

var shortToken = fmt.Sprintf("at most %d bytes long", maxToken)

// isToken allows what can be sent as a token on a line; how long it may be is checked apart.
func isToken(v string) bool {
	return v != "" && !strings.Contains(v, "\n") && !strings.HasSuffix(v, "\r")
}

// validTokens allows several tokens for one collector, so that they can be changed one after the other.
func validTokens(tokens []Token) bool {
	seen := map[string]bool{}
	for _, t := range tokens {
		if !t.valid() || seen[t.Secret] {
			return false
		}
		seen[t.Secret] = true
	}
	return true
}

func validFirsts(firsts []First) bool {
	seen := map[string]bool{}
	for _, f := range firsts {
		if !f.valid() || seen[f.Collector] {
			return false
		}
		seen[f.Collector] = true
	}
	return true
}

// together checks what one option demands of another.
func (o *Server) together() error {
	durable := o.Received == ReceivedDurable
	most := Size(float64(o.TotalBytes) * o.BackpressureRatio)
	switch {
	case o.History < o.Ahead:
		return bad("history", o.History, fmt.Sprintf("at least --ahead, which is %d", o.Ahead))
	case o.QueueBytes > o.TotalBytes:
		return bad("queue-bytes", o.QueueBytes, fmt.Sprintf("at most --total-bytes, which is %v", o.TotalBytes))
	case o.MaxLineBytes > most:
		return bad("max-line-bytes", o.MaxLineBytes, fmt.Sprintf("at most --total-bytes times --backpressure-ratio, which is %v", most))
	case durable && o.ReceivedWait >= o.IdleTimeout:
		return bad("received-wait", o.ReceivedWait, fmt.Sprintf("below --idle-timeout, which is %v, with --received durable", o.IdleTimeout))
	case durable && o.CheckpointInterval >= o.ReceivedWait:
		return bad("checkpoint-interval", o.CheckpointInterval, fmt.Sprintf("below --received-wait, which is %v, with --received durable", o.ReceivedWait))
	case slices.ContainsFunc(o.Token, func(t Token) bool { return len(t.Secret) > maxToken }):
		return bad("token", secret, shortToken)
	case len(o.Token) > 0 && o.TokenFile != "":
		return bad("token-file", o.TokenFile, "left out when there is --token")
	case o.SecretKeyFile != "" && o.PacketMode != PacketModePacket:
		return bad("secret-key-file", o.SecretKeyFile, "left out without --packet-mode PACKET")
	}
	return nil
}

// together checks what one option demands of another.
func (o *Send) together() error {
	switch {
	case o.Token != "" && o.TokenFile != "":
		return bad("token-file", o.TokenFile, "left out when there is --token")
	case o.Token != "" && !isToken(o.Token):
		return bad("token", secret, "without an LF, and not end in CR")
	case len(o.Token) > maxToken:
		return bad("token", secret, shortToken)
	case o.RetryMax < o.RetryMin:
		return bad("retry-max", o.RetryMax, fmt.Sprintf("at least --retry-min, which is %v", o.RetryMin))
	}
	return nil
}
