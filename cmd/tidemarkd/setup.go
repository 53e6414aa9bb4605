package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/tidemark/tidemark/cmd/internal/version"
	"github.com/tidemark/tidemark/config"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/server"
	"github.com/tidemark/tidemark/server/sink"
	"github.com/tidemark/tidemark/server/sink/file"
	"github.com/tidemark/tidemark/server/sink/stdout"
	"github.com/tidemark/tidemark/server/store"
	"github.com/tidemark/tidemark/server/store/checkpointlog"
	"github.com/tidemark/tidemark/statemachine"
)

// serverOptions are all but store, sink and auth.
func (p *process) serverOptions() (*server.Options, error) {
	o := p.options
	limits := statemachine.DefaultLimits()
	limits.QueueCapacity = int(reduced(int64(o.QueueCapacity), o.BackpressureRatio))
	limits.QueueBytes = reduced(int64(o.QueueBytes), o.BackpressureRatio)
	limits.Ahead, limits.History = uint64(o.Ahead), o.History
	limits.KeepPayloads = o.Snapshot == config.SnapshotFull
	limits.Sparse = o.Numbering == config.NumberingSparse
	packets, err := p.packets()
	if err != nil {
		return nil, err
	}
	first := map[string]uint64{}
	for _, f := range o.First {
		first[f.Collector] = f.ID
	}
	return &server.Options{
		Limits: limits, First: first, TotalBytes: reduced(int64(o.TotalBytes), o.BackpressureRatio),
		Durable: o.Received == config.ReceivedDurable, ReceivedWait: o.ReceivedWait, RetryAfter: o.RetryAfter,
		Packets: packets, MaxLineBytes: int(o.MaxLineBytes),
		MaxConnections: o.MaxConnections, AuthTimeout: o.AuthTimeout, IdleTimeout: o.IdleTimeout, WriteTimeout: o.WriteTimeout,
		CheckpointInterval: o.CheckpointInterval, Log: p.log, Name: "tidemarkd " + version.String(),
	}, nil
}

// reduced is the limit at which back-pressure begins.
func reduced(limit int64, ratio float64) int64 {
	return max(1, min(limit, int64(math.Ceil(float64(limit)*ratio))))
}

// packets is the decoder of packet mode; nil without it.
func (p *process) packets() (*protocol.PacketDecoder, error) {
	if p.options.PacketMode != config.PacketModePacket {
		return nil, nil
	}
	var key []byte
	if path := p.options.SecretKeyFile; path != "" {
		var err error
		if key, err = config.ReadSecretKey(path); err != nil {
			return nil, err
		}
		p.warnOpen("secret-key-file", path)
	}
	return protocol.NewPacketDecoder(key, int(p.options.MaxLineBytes))
}

// open takes the data directory and the sink for this process.
func (p *process) open() (store.Store, sink.Sink, error) {
	log, err := checkpointlog.Open(p.options.DataDir, checkpointlog.Options{Recover: p.options.Recover, Log: p.log})
	if err != nil {
		return nil, nil, err
	}
	out, err := p.openSink()
	if err != nil {
		return nil, nil, errors.Join(err, log.Close())
	}
	return log, out, nil
}

func (p *process) openSink() (sink.Sink, error) {
	if p.options.Sink.Kind == config.SinkStdout {
		return stdout.New(p.stdout), nil
	}
	framing, err := file.ParseFraming(string(p.options.Sink.Framing))
	if err != nil {
		return nil, err
	}
	return file.Open(file.Options{Path: p.options.Sink.Path, Framing: framing, Recover: p.options.Recover, Log: p.log})
}

// tokens are those that are configured; none: one has to be made.
func (p *process) tokens() (tokens []config.Token, none bool, err error) {
	if path := p.options.TokenFile; path != "" {
		if tokens, err = config.ReadTokens(path); err != nil {
			return nil, false, err
		}
		p.warnOpen("token-file", path)
		return tokens, false, nil
	}
	return p.options.Token, len(p.options.Token) == 0, nil
}

// warnOpen tells of a file with secrets that everyone can read.
func (p *process) warnOpen(option, path string) {
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o004 != 0 {
		p.log.Warn("everyone on this machine can read the secrets in this file", "option", option, "file", path,
			"command", "chmod o-r "+path)
	}
}

func auth(tokens []config.Token) server.Auth {
	collectors := map[string]string{}
	for _, t := range tokens {
		collectors[t.Secret] = t.Collector
	}
	return server.Tokens(collectors)
}

const defaultCollector = "default"

// keptToken is the token for the default collector. It is made with the data directory and kept there, so that the same
// command goes on after a restart.
func keptToken(dataDir string) (config.Token, error) {
	path := filepath.Join(dataDir, defaultCollector+".token")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		text = []byte(rand.Text())
		err = writeFile(path, text)
	}
	token := config.Token{Collector: defaultCollector, Secret: strings.TrimSpace(string(text))}
	if err == nil && token.Secret == "" {
		err = fmt.Errorf("%s: must hold a token; remove it, and another one is made", path)
	}
	return token, err
}

// writeFile makes a file that is there whole or not at all.
func writeFile(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".token-")
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, string(text)+"\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// inUse tells a bind that may succeed later from one that never will.
func inUse(err error) bool {
	return errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EADDRNOTAVAIL)
}
