package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// tidemarkPeer is tidemarkd with the file sink, each collector a stream of its own.
type tidemarkPeer struct {
	settings *Settings
	programs string // folder with tidemarkd
	dialect  int
}

// buildTidemark compiles the server of the module next to this one into a folder.
func buildTidemark(ctx context.Context, programs string) error {
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/tidemark/tidemark")
	module, err := list.Output()
	if err != nil {
		return fmt.Errorf("go list -m, which works in the folder bench only: %w", err)
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", programs+string(filepath.Separator), "./cmd/tidemarkd")
	build.Dir = strings.TrimSpace(string(module))
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

func (p *tidemarkPeer) Name() string {
	if p.dialect == 1 {
		return "tidemark-1"
	}
	return "tidemark"
}

func (p *tidemarkPeer) Durability() string {
	how := "dialect 2, a batch is one message"
	if p.dialect == 1 {
		how = "dialect 1, one record a BATCH line"
	}
	return "file sink and checkpoint log fdatasynced, then acknowledged; " + how
}

func (p *tidemarkPeer) Missing() string { return "" }

func (p *tidemarkPeer) Start(ctx context.Context, dir string) (Server, error) {
	path := filepath.Join(dir, "out.log")
	window := p.settings.Window
	if p.dialect == 1 { // each record has a number
		window *= p.settings.Batch
	}
	args := []string{
		"--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
		"--data-dir", filepath.Join(dir, "data"), "--sink", "file:" + path,
		"--queue-capacity", fmt.Sprint(max(1024, window*5/4)), // room for the whole window below the backpressure ratio of 0.9
		"--ahead", fmt.Sprint(max(4096, window)), "--history", fmt.Sprint(max(4096, window)),
	}
	for i := range p.settings.Collectors {
		args = append(args, "--token", fmt.Sprintf("c%d=%s", i, tokenOf(i)))
	}
	process, err := launch(listeningAddress, filepath.Join(p.programs, "tidemarkd"), args...)
	if err != nil {
		return nil, err
	}
	server := &tidemarkServer{fileServer: fileServer{process, path}, peer: p}
	return server, process.wait(ctx)
}

func tokenOf(collector int) string { return fmt.Sprintf("token-of-c%d", collector) }

// listeningAddress reads the log line that says where collectors connect.
func listeningAddress(line []byte) string {
	var entry struct{ Msg, Address string }
	if json.Unmarshal(line, &entry) != nil || entry.Msg != "listening" {
		return ""
	}
	return entry.Address
}

type tidemarkServer struct {
	fileServer
	peer *tidemarkPeer
}

func (s *tidemarkServer) Connect(ctx context.Context, collector int, acknowledged uint64) (Conn, error) {
	if s.peer.dialect == 1 {
		return dialDialect1(ctx, s.process.Address, tokenOf(collector), acknowledged, uint64(s.peer.settings.Batch))
	}
	return dialDialect2(ctx, s.process.Address, collector, acknowledged, s.peer.settings)
}
