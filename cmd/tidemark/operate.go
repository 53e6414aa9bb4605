package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/tidemark/tidemark/config"
	"github.com/tidemark/tidemark/server"
	"github.com/tidemark/tidemark/server/store/checkpointlog"
)

// admin is the address of the operator's side of a server.
type admin struct {
	HTTP string `name:"http" env:"TIDEMARK_HTTP" default:"127.0.0.1:9471" placeholder:"HOST:PORT" allowed:"HOST:PORT" help:"The server's --http address."`
}

// call asks the server and decodes its answer into value.
func (a *admin) call(ctx context.Context, method, path string, value any) error {
	if _, _, err := net.SplitHostPort(a.HTTP); err != nil {
		return &config.UsageError{Option: "http", Value: a.HTTP, Problem: "must be HOST:PORT"}
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://"+a.HTTP+path, nil)
	if err != nil {
		return &config.UsageError{Option: "http", Value: a.HTTP, Problem: "must be HOST:PORT"}
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("no answer from the server's --http address: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 4<<10))
		return fmt.Errorf("the server at %s answers: %s", a.HTTP, strings.TrimSpace(string(text)))
	}
	if err := json.NewDecoder(response.Body).Decode(value); err != nil {
		return fmt.Errorf("the answer of %s can't be read: %w", a.HTTP, err)
	}
	return nil
}

// streams shows what the server tells of its streams.
type streams struct {
	admin
	JSON bool `name:"json" help:"Print what the server says as JSON."`
}

func (s *streams) run(ctx context.Context, p *program) error {
	if s.JSON {
		var list json.RawMessage
		if err := s.call(ctx, http.MethodGet, "/streams", &list); err != nil {
			return err
		}
		_, err := fmt.Fprintf(p.out, "%s\n", list)
		return err
	}
	var list []server.Status
	if err := s.call(ctx, http.MethodGet, "/streams", &list); err != nil {
		return err
	}
	return printStreams(p.out, list)
}

func printStreams(out io.Writer, list []server.Status) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "COLLECTOR\tCONNECTED\tCOMMITTED\tRECEIVED\tHELD\tBYTES\tMISSING\tLAG\tWAITING FOR")
	for _, s := range list {
		lag := "-"
		if s.LagSeconds > 0 {
			lag = fmt.Sprintf("%.1fs", s.LagSeconds)
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%s\t%s\t%s\n", s.Collector, yesNo(s.Connected), s.Committed, s.Received,
			s.Held, s.HeldBytes, ranges(s.Missing), lag, s.Waiting)
	}
	return w.Flush()
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// ranges writes numbers as people do: 3, 5 to 9; of many only the first few.
func ranges(list [][2]uint64) string {
	const most = 5
	if len(list) == 0 {
		return "-"
	}
	var texts []string
	for i, r := range list {
		if i == most {
			texts = append(texts, fmt.Sprintf("and %d ranges more", len(list)-most))
			break
		}
		text := strconv.FormatUint(r[0], 10)
		if r[0] != r[1] {
			text += " to " + strconv.FormatUint(r[1], 10)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}

// resume gives a halted stream another chance.
type resume struct {
	admin
	Collector string `arg:"" name:"COLLECTOR" help:"Name of the collector."`
}

func (r *resume) run(ctx context.Context, p *program) error {
	var nothing struct{}
	if err := r.call(ctx, http.MethodPost, "/streams/"+url.PathEscape(r.Collector)+"/resume", &nothing); err != nil {
		return err
	}
	_, err := fmt.Fprintf(p.out, "the stream of %s was resumed\n", r.Collector)
	return err
}

// forget gives up numbers.
type forget struct {
	admin
	Collector string `arg:"" name:"COLLECTOR" help:"Name of the collector."`
	Below     string `name:"below" required:"" placeholder:"N" allowed:"a number from 1 to 9223372036854775807" help:"Give up what is missing below this number."`
	Yes       bool   `name:"yes" help:"Do not ask."`
}

func (f *forget) run(ctx context.Context, p *program) error {
	if below, err := strconv.ParseUint(f.Below, 10, 63); err != nil || below == 0 {
		return &config.UsageError{Option: "below", Value: f.Below, Problem: "must be a number from 1 to 9223372036854775807"}
	}
	if !f.Yes && !p.interactive {
		return &config.UsageError{Option: "yes", Problem: "is needed where nobody can be asked: standard input is not a terminal"}
	}
	path := "/streams/" + url.PathEscape(f.Collector)
	var lost [][2]uint64
	if err := f.call(ctx, http.MethodGet, path+"/lost?below="+f.Below, &lost); err != nil {
		return err
	}
	if len(lost) == 0 {
		_, err := fmt.Fprintf(p.out, "nothing is missing of %s below %s: nothing was given up\n", f.Collector, f.Below)
		return err
	}
	fmt.Fprintf(p.out, "these numbers of %s are lost then: %s\n", f.Collector, ranges(lost))
	if !f.Yes && !p.agrees("give them up for good?") {
		return fmt.Errorf("nothing was given up")
	}
	if err := f.call(ctx, http.MethodPost, path+"/forget?below="+f.Below, &lost); err != nil {
		return err
	}
	_, err := fmt.Fprintf(p.out, "given up: %s\n", ranges(lost))
	return err
}

// agrees asks a person.
func (p *program) agrees(question string) bool {
	fmt.Fprintf(p.out, "%s Type yes: ", question)
	answer, _ := bufio.NewReader(p.in).ReadString('\n')
	return strings.TrimSpace(answer) == "yes"
}

// inspect shows what a data directory holds.
type inspect struct {
	Dir string `arg:"" name:"DIR" help:"The server's --data-dir."`
}

func (i *inspect) run(p *program) error { return checkpointlog.Inspect(i.Dir, p.out) }
