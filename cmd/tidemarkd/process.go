package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/tidemark/tidemark/config"
	"github.com/tidemark/tidemark/server"
	"github.com/tidemark/tidemark/server/sink/file"
	"github.com/tidemark/tidemark/server/store/checkpointlog"
)

// process is what is around a server.
type process struct {
	options        *config.Server
	log            *slog.Logger
	signals        <-chan os.Signal
	stdout, stderr io.Writer
}

// errSignal is the end that was asked for before there was anything to drain.
var errSignal = errors.New("ended by a signal")

// run lives as long as the process. The error says why the end is not a clean one.
func (p *process) run() error {
	tokens, made, err := p.tokens()
	if err != nil {
		return err
	}
	options, err := p.serverOptions()
	if err != nil {
		return err
	}
	if options.Store, options.Sink, err = p.open(); err != nil {
		return err
	}
	if made {
		token, err := keptToken(p.options.DataDir)
		if err != nil {
			return errors.Join(err, options.Sink.Close(), options.Store.Close())
		}
		tokens = []config.Token{token}
	}
	options.Auth = auth(tokens)
	s, err := server.New(context.Background(), *options)
	if err != nil {
		return errors.Join(hinted(err), options.Sink.Close(), options.Store.Close())
	}
	err = p.serve(s, made, tokens)
	if errors.Is(err, errSignal) {
		err = nil
	}
	return errors.Join(err, p.shutdown(s, err != nil))
}

// hinted adds the way out to an error that an operator can decide about.
func hinted(err error) error {
	if errors.Is(err, file.ErrNotAsLeft) || errors.As(err, new(*checkpointlog.Damage)) {
		return fmt.Errorf("%w (--recover goes on with what is left; read docs/en/operating.md before)", err)
	}
	return err
}

// serve listens and answers until a signal comes or the server can't go on.
func (p *process) serve(s *server.Server, made bool, tokens []config.Token) error {
	admin, err := net.Listen("tcp", p.options.HTTP)
	if err != nil {
		return fmt.Errorf("--http %s: %w", p.options.HTTP, err)
	}
	web := &http.Server{Handler: s.Handler(p.options.Pprof), ReadHeaderTimeout: 10 * time.Second}
	go web.Serve(admin)
	p.log.Info("http", "address", admin.Addr().String())
	listener, err := p.listen()
	if err != nil {
		return err
	}
	if made {
		fmt.Fprintf(p.stderr, "No token was given: this one is for the collector %q. To send a file, one record a line:\n"+
			"  tidemark send --to %v --collector %s --token %s FILE\n",
			tokens[0].Collector, listener.Addr(), tokens[0].Collector, tokens[0].Secret)
	}
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case sig := <-p.signals:
		p.log.Info("stopping", "signal", sig.String(), "timeout", p.options.ShutdownTimeout.String())
		return nil
	}
}

// listen takes the address for collectors. What is spent on retries is spent on binding only.
func (p *process) listen() (net.Listener, error) {
	lc := net.ListenConfig{KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3,
	}}
	for failures := 0; ; failures++ {
		listener, err := lc.Listen(context.Background(), "tcp", p.options.Listen)
		if err == nil {
			return listener, nil
		}
		if !inUse(err) || failures == p.options.BindRetries {
			return nil, fmt.Errorf("--listen %s: %w, after %d attempts", p.options.Listen, err, failures+1)
		}
		p.log.Warn("the address can't be taken yet", "address", p.options.Listen, "error", err.Error(), "again", p.options.BindInterval.String())
		select {
		case <-time.After(p.options.BindInterval):
		case <-p.signals:
			return nil, errSignal
		}
	}
}

// shutdown drains the server within --shutdown-timeout. A second signal ends it at once, and so does a disk that hangs:
// what is not checkpointed the next life asks collectors for.
func (p *process) shutdown(s *server.Server, failed bool) error {
	timeout := p.options.ShutdownTimeout
	if failed {
		timeout = 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(ctx) }()
	limit := timeout + hangTime
	why := fmt.Errorf("the disk or the sink did not answer within %v", limit)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	signals := p.signals
	for {
		select {
		case err := <-done:
			return p.ended(err, failed)
		case sig := <-signals:
			signals = nil
			why = fmt.Errorf("stopped at once by a second signal (%v): what was not checkpointed will be asked for again", sig)
			timer.Reset(doubleTime)
		case <-timer.C:
			return why
		}
	}
}

// ended says how the end was. After a failure, why it failed is known already.
func (p *process) ended(err error, failed bool) error {
	if failed {
		return nil
	}
	if err == nil {
		p.log.Info("stopped")
	}
	return err
}

const (
	// hangTime is what a system call may take longer than the time given for the end.
	hangTime = 2 * time.Second
	// doubleTime is what a drain is given after a second signal: parents often pass on a signal that the terminal sent
	// to all, so that one comes twice.
	doubleTime = 200 * time.Millisecond
)
