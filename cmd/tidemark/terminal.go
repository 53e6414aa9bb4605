package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"github.com/tidemark/tidemark/collector"
)

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// watch shows how far a send is: a line that changes on a terminal, and a word when nothing moves for long.
type watch struct {
	begin    time.Time
	status   func() collector.Status
	log      *slog.Logger
	progress *mpb.Progress // nil: no terminal
	bar      *mpb.Bar
	end      context.CancelFunc
	over     chan struct{}
}

const stallTime = 10 * time.Second

// newWatch makes the log of a send, which does not disturb the line on the terminal.
func newWatch(p *program) *watch {
	w := &watch{begin: time.Now(), over: make(chan struct{})}
	out := p.err
	if p.terminal {
		w.progress = mpb.New(mpb.WithOutput(p.err), mpb.WithRefreshRate(200*time.Millisecond))
		out = w.progress
	}
	w.log = slog.New(plainHandler{out: out})
	return w
}

// start begins to show the status.
func (w *watch) start(status func() collector.Status) {
	w.status = status
	ctx, cancel := context.WithCancel(context.Background())
	w.end = cancel
	if w.progress != nil {
		w.bar = w.progress.New(0, mpb.NopStyle(), mpb.PrependDecorators(decor.Any(func(decor.Statistics) string { return w.line() })))
	}
	go w.stalls(ctx)
}

// line is the one on the terminal.
func (w *watch) line() string {
	s := w.status()
	rate := float64(s.Acknowledged) / max(time.Since(w.begin).Seconds(), 1e-3)
	state := ""
	if !s.Connected {
		state = "  not connected"
	}
	if s.BufferFull {
		state += "  buffer full"
	}
	return fmt.Sprintf("records %d  acknowledged %d  %.0f/s%s", s.Records, s.Acknowledged, rate, state)
}

// stalls says once when records wait and nothing was acknowledged for long.
func (w *watch) stalls(ctx context.Context) {
	defer close(w.over)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	since, acknowledged, said := time.Now(), uint64(0), false
	for {
		select {
		case now := <-tick.C:
			s := w.status()
			if s.Acknowledged != acknowledged || s.Acknowledged == s.Records {
				since, acknowledged, said = now, s.Acknowledged, false
			}
			if !said && now.Sub(since) >= stallTime {
				said = true
				w.log.Warn("nothing was acknowledged for a while; `tidemark streams` asks the server why",
					"records waiting", s.Records-s.Acknowledged, "connected", s.Connected)
			}
		case <-ctx.Done():
			return
		}
	}
}

// stop leaves the last line on the terminal.
func (w *watch) stop() {
	w.end()
	<-w.over
	if w.progress != nil {
		w.bar.SetTotal(-1, true)
		w.progress.Wait()
	}
}

// plainHandler writes log lines for a person who runs a command.
type plainHandler struct{ out io.Writer }

func (h plainHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo
}

func (h plainHandler) Handle(_ context.Context, r slog.Record) error {
	line := "tidemark: " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += fmt.Sprintf("; %s: %v", a.Key, a.Value)
		return true
	})
	_, err := io.WriteString(h.out, line+"\n")
	return err
}

func (h plainHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h plainHandler) WithGroup(string) slog.Handler      { return h }
