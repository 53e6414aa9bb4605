package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tidemark/tidemark/collector"
	"github.com/tidemark/tidemark/config"
)

// sender is one run of `tidemark send`.
type sender struct {
	o       *config.Send
	log     *slog.Logger
	journal *collector.Journal // nil: no buffer
	client  *collector.Client
	source  *source
	batch   [][]byte        // lines that were read and are not in the buffer yet
	size    int             // their bytes
	reading context.Context // ends when no more is to be read
	running context.Context // ends when all is to stop at once
}

// errInterrupted says that a signal came before everything was acknowledged.
var errInterrupted = errors.New("interrupted")

func (p *program) send(o *config.Send) error {
	token, err := token(o)
	if err != nil {
		return err
	}
	files, err := openSource(o.Files, p.in)
	if err != nil {
		return err
	}
	w := newWatch(p)
	s := &sender{o: o, log: w.log, source: files}
	if err := s.open(token); err != nil {
		return err
	}
	cancel := s.obey(p.signals)
	defer cancel()
	w.start(s.client.Status)
	err = s.send()
	w.stop()
	status := s.client.Status()
	err = errors.Join(err, s.client.Close())
	p.summary(o.JSON, status, time.Since(w.begin))
	if errors.Is(err, context.Canceled) {
		err = errInterrupted
	}
	if left := status.Records - status.Acknowledged; err != nil && left > 0 && s.journal != nil {
		err = fmt.Errorf("%w; %d records are not acknowledged and stay in the buffer: the next send goes on with them", err, left)
	}
	return err
}

func token(o *config.Send) (string, error) {
	switch {
	case o.TokenFile != "":
		return config.ReadToken(o.TokenFile)
	case o.Token == "":
		return "", &config.UsageError{Option: "token", Problem: "is missing: must be given by --token, --token-file or TIDEMARK_TOKEN"}
	}
	return o.Token, nil
}

// open takes the buffer and makes the client, which begins with what is in the buffer.
func (s *sender) open(token string) (err error) {
	if s.o.Buffer != "none" {
		dir := s.o.Buffer
		if dir == "" {
			if dir, err = stateDir(s.o.To, s.o.Collector); err != nil {
				return err
			}
		}
		if s.journal, err = collector.OpenJournal(dir, collector.JournalOptions{}); err != nil {
			return err
		}
		if err := s.goOn(dir); err != nil {
			return errors.Join(err, s.journal.Close())
		}
	}
	s.client, err = collector.Dial(context.Background(), collector.Options{
		Address: s.o.To, Collector: s.o.Collector, Token: token, Dialect: s.o.Dialect, Journal: s.journal, Window: s.o.Window, Log: s.log,
		BatchRecords: s.o.Batch,
		Backoff:      collector.Backoff{Min: s.o.RetryMin, Max: s.o.RetryMax},
	})
	if err != nil && s.journal != nil {
		err = errors.Join(err, s.journal.Close())
	}
	return err
}

// goOn takes up what an earlier process left.
func (s *sender) goOn(dir string) error {
	if cut, file := s.journal.Cut(); cut > 0 {
		s.log.Warn("an unfinished write at the end of the buffer was cut off", "buffer", dir, "bytes", cut, "kept", file)
	}
	before := s.journal.Source()
	resumed, lost, err := s.source.resume(before)
	if err != nil {
		return err
	}
	for _, at := range lost {
		s.log.Warn("this file was replaced or cut since it was begun: what stood behind these bytes of the old one is not sent, and has to "+
			"be sent by itself; the one there now is read from its beginning",
			"file", s.source.files[at.File].path, "bytes", at.Offset)
	}
	switch {
	case len(lost) > 0:
	case resumed:
		s.log.Info("these files were begun before: going on where that ended", "buffer", dir)
	case len(before) > 0:
		s.log.Warn("an earlier send of other files did not come to its end: what it had not read is not sent", "buffer", dir)
	}
	return nil
}

// stateDir is the folder of the buffer for a target and a collector, among what programs keep for this user.
func stateDir(to, name string) (string, error) {
	base := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(base) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", &config.UsageError{Option: "buffer", Problem: "must be given: " + err.Error()}
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "tidemark", url.QueryEscape(to), name), nil
}

// obey makes signals end the run: with --follow the first one ends the reading only.
func (s *sender) obey(signals <-chan os.Signal) (stop context.CancelFunc) {
	var stopReading context.CancelFunc
	s.running, stop = context.WithCancel(context.Background())
	s.reading, stopReading = context.WithCancel(s.running)
	done := s.running.Done()
	go func() {
		for {
			select {
			case <-signals:
				if s.o.Follow && s.reading.Err() == nil {
					stopReading()
				} else {
					stop()
				}
			case <-done:
				return
			}
		}
	}()
	return stop
}

// send reads all files and waits until everything is acknowledged.
func (s *sender) send() error {
	read := make(chan error, 1)
	go func() { read <- s.readAll() }()
	var bad error
	select {
	case bad = <-read:
	case <-s.stuck():
	case <-s.client.Done(): // nothing more can be sent
	}
	if bad == nil {
		bad = s.running.Err() // not all was read
	}
	if err := s.client.Flush(s.running); err != nil {
		return why(err, bad)
	}
	if bad == nil && s.journal != nil && !s.o.Follow {
		return s.journal.Finish()
	}
	return bad
}

// why tells the reason of an end that came from the client, and perhaps from the reader: the client's first, and that it
// was to end only when there is no other.
func why(client, reader error) error {
	switch {
	case errors.Is(client, context.Canceled), errors.Is(reader, client):
		return cmp.Or(reader, client)
	case errors.Is(reader, context.Canceled):
		return client
	}
	return errors.Join(client, reader)
}

// stuck tells when not to wait for the reader any more: the end was asked for, and reading standard input can't be
// called off.
func (s *sender) stuck() <-chan struct{} {
	if !slices.Contains(s.o.Files, stdin) {
		return nil
	}
	return s.reading.Done()
}

// readAll reads the files to their ends, and with --follow what is appended, until that is ended. What it has read when
// it fails is sent.
func (s *sender) readAll() error {
	bad := s.readOnce()
	if bad == nil && s.o.Follow {
		bad = s.readOn()
	}
	return errors.Join(s.flush(), bad)
}

func (s *sender) readOnce() error {
	for i := s.source.at; i < len(s.source.files); i++ {
		if !s.o.Follow {
			s.source.at = i
		}
		l := s.source.files[i]
		if err := s.readFile(l, s.o.Follow); err != nil {
			return err
		}
		if s.o.Follow {
			continue
		}
		if err := l.close(); err != nil {
			return err
		}
	}
	return nil
}

// readOn looks for what was appended, again and again.
func (s *sender) readOn() error {
	tick := time.NewTicker(followTime)
	defer tick.Stop()
	for {
		if err := s.flush(); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-s.reading.Done():
			return nil
		}
		for _, l := range s.source.files {
			if l.path == stdin {
				continue // it ended for good
			}
			if err := s.readMore(l); err != nil {
				return err
			}
		}
	}
}

const followTime = 200 * time.Millisecond

// readMore reads what was appended to one file. One that is over is read to its end, before the file that took its place.
func (s *sender) readMore(l *lineFile) error {
	over := l.over()
	if err := s.readFile(l, !over); err != nil || !over || !l.ended {
		return err
	}
	if err := l.renew(s.log); err != nil {
		return err
	}
	return s.readFile(l, true)
}

// readFile reads one file up to its end. Its last lines may be left in the batch. The last line of a file that more may
// come from needs an end.
func (s *sender) readFile(l *lineFile, more bool) error {
	if err := l.open(); err != nil {
		return err
	}
	for l.ended = false; !l.ended && s.reading.Err() == nil; {
		if l.inode == 0 { // reading may wait for long
			if err := s.flush(); err != nil {
				return err
			}
		}
		bad := l.fill()
		for {
			line, ok, err := l.next(more)
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			if err := s.add(line); err != nil {
				return err
			}
		}
		if bad != nil {
			return bad
		}
	}
	return nil
}

// add puts a line to those that were read, and sends them when they are many: together they need one sync of the buffer.
func (s *sender) add(line []byte) error {
	s.batch = append(s.batch, bytes.Clone(line))
	s.size += len(line)
	if len(s.batch) >= s.most() || s.size >= groupBytes {
		return s.flush()
	}
	return nil
}

// most is how many lines go into the buffer at once: half of a window.
func (s *sender) most() int {
	records := 1
	if s.o.Dialect == 2 {
		records = s.o.Batch
	}
	return max(1, s.o.Window/2) * records
}

const groupBytes = 1 << 20 // into the buffer at once

// flush puts all that was read into the buffer, from which it is sent.
func (s *sender) flush() error {
	if len(s.batch) == 0 {
		return nil
	}
	_, err := s.client.SendFrom(s.running, s.source.position(), s.batch...)
	clear(s.batch)
	s.batch, s.size = s.batch[:0], 0
	return err
}

// summary tells what became of a send.
func (p *program) summary(asJSON bool, s collector.Status, took time.Duration) {
	if !asJSON {
		fmt.Fprintf(p.err, "tidemark: %d records, %d acknowledged, %d sent again, %d reconnects, %.1fs\n",
			s.Records, s.Acknowledged, s.Resent, s.Reconnects, took.Seconds())
		return
	}
	fmt.Fprintf(p.out, `{"records":%d,"acknowledged":%d,"sent":%d,"resent":%d,"reconnects":%d,"seconds":%.3f}`+"\n",
		s.Records, s.Acknowledged, s.Sent, s.Resent, s.Reconnects, took.Seconds())
}
