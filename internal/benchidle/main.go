// Command benchidle measures what collectors cost that are connected and send nothing: bytes of the server process for
// each, fresh and with a full history of remembered batches, and what an active one's acknowledgements take alone and
// beside them. Dialect 2, file sink, in a temporary folder: `make bench-idle`.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidemark/tidemark/collector"
	"github.com/tidemark/tidemark/internal/daemon"
	"github.com/tidemark/tidemark/protocol"
)

var (
	idle    = flag.Int("idle", 10_000, "collectors that are connected and send nothing")
	batches = flag.Int("batches", 2000, "batches of the active collector in each measurement, one at a time")
	size    = flag.Int("size", 256, "bytes of a record")
	history = flag.Int("history", 0, "batches of one empty record that each idle collector sends before it rests; 4096 fill the history")
)

func main() {
	flag.Parse()
	dir, err := os.MkdirTemp("", "tidemark-idle-")
	check(err)
	defer os.RemoveAll(dir)
	check(daemon.Build(context.Background(), dir))
	server, err := daemon.Start(dir, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data-dir", filepath.Join(dir, "data"),
		"--sink", "file:"+filepath.Join(dir, "out.log"), "--token-file", tokens(dir), "--idle-timeout", "15s",
		"--max-connections", strconv.Itoa(*idle+10))
	check(err)
	defer server.Kill()

	active, err := collector.Dial(context.Background(), collector.Options{Address: server.Address, Collector: "active", Token: "token-active"})
	check(err)
	defer active.Close()
	before := resident(server) // a server that has done nothing yet
	measure(active)            // warm
	fmt.Printf("alone: %s, resident %d KiB, at first %d KiB\n", measure(active), resident(server)/1024, before/1024)
	begin := time.Now()
	resting := make([]net.Conn, *idle) // one that nobody refers to would be closed
	for i := range resting {
		resting[i] = rest(server.Address, i)
	}
	for pings.Load() < int64(*idle) { // each was asked whether it lives: then the server has given back what it can
		measure(active)
	}
	fmt.Printf("%d idle collectors connected in %.1f s\n", *idle, time.Since(begin).Seconds())
	if n := connections(server); n != *idle+1 {
		log.Fatalf("%d connections are open", n)
	}
	fmt.Printf("beside them: %s, resident %d KiB\n", measure(active), resident(server)/1024)
	fmt.Printf("bytes of the server for each idle collector: %d\n", (resident(server)-before) / *idle)
	for _, conn := range resting {
		check(conn.Close())
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func tokens(dir string) string {
	text := strings.Builder{}
	fmt.Fprintln(&text, "active=token-active")
	for i := range *idle {
		fmt.Fprintf(&text, "c%d=token-%d\n", i, i)
	}
	path := filepath.Join(dir, "tokens")
	check(os.WriteFile(path, []byte(text.String()), 0o600))
	return path
}

// measure sends batches one at a time, and says how long each took to be acknowledged.
func measure(c *collector.Client) string {
	record := make([]byte, *size)
	for i := range record {
		record[i] = 'x'
	}
	took := make([]time.Duration, *batches)
	for i := range took {
		begin := time.Now()
		id, err := c.Send(context.Background(), record)
		check(err)
		check(c.Wait(context.Background(), id))
		took[i] = time.Since(begin)
	}
	slices.Sort(took)
	return fmt.Sprintf("acknowledged after p50 %.2f ms, p99 %.2f ms", took[len(took)/2].Seconds()*1e3, took[len(took)*99/100].Seconds()*1e3)
}

// rest connects a collector that then sends nothing. Its connection stays open.
func rest(address string, i int) net.Conn {
	conn, err := net.Dial("tcp", address)
	check(err)
	name := fmt.Sprintf("c%d", i)
	out := protocol.AppendHello2(nil, &protocol.Hello{Collector: name, Instance: "i-" + name, Token: fmt.Sprintf("token-%d", i)})
	out = protocol.AppendReady2(out)
	_, err = conn.Write(out)
	check(err)
	in := bufio.NewReaderSize(conn, 512)
	line, err := in.ReadString('\n')
	check(err)
	if !strings.HasPrefix(line, "WELCOME ") {
		log.Fatalf("collector %d: %s", i, line)
	}
	payload := protocol.AppendRecord(nil, nil)
	for id := range uint64(*history) {
		out = protocol.AppendBatch2(out[:0], id+1, 1, payload)
		_, err := conn.Write(out)
		check(err)
		if (id+1)%512 == 0 || id+1 == uint64(*history) { // the window
			acknowledged(in, id+1)
		}
	}
	go answer(conn, in)
	return conn
}

// pings counts those that were answered.
var pings atomic.Int64

// answer says that the collector lives.
func answer(conn net.Conn, in *bufio.Reader) {
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		if line == "PING\r\n" {
			conn.Write(protocol.AppendPong2(nil))
			pings.Add(1)
		}
	}
}

// acknowledged reads until a watermark covers id.
func acknowledged(in *bufio.Reader, id uint64) {
	for {
		line, err := in.ReadString('\n')
		check(err)
		watermark, isAck := strings.CutPrefix(strings.TrimSpace(line), "ACK ")
		if n, _ := strconv.ParseUint(watermark, 10, 64); isAck && n >= id {
			return
		}
	}
}

// resident is the resident memory of the server process, in bytes.
func resident(p *daemon.Process) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	check(err)
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, "VmRSS:"); found {
			kib, err := strconv.Atoi(strings.Fields(value)[0])
			check(err)
			return kib * 1024
		}
	}
	log.Fatal("no VmRSS")
	return 0
}

// connections is how many the server counts.
func connections(p *daemon.Process) int {
	resp, err := http.Get("http://" + p.HTTP + "/metrics")
	check(err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	check(err)
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, "tidemark_connections "); found {
			n, err := strconv.Atoi(strings.TrimSpace(value))
			check(err)
			return n
		}
	}
	log.Fatal("no tidemark_connections")
	return 0
}
