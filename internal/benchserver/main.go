// Command benchserver measures how many records a second the server acknowledges as durable, beside a
// bare loop that appends the same bytes to a file and calls fdatasync as often, in one run:
// A B A B. It prints a line a round and the medians, for 1 and for 16 connections.
//
// A record counts when ACK covers it, so it is in the sink file and in a checkpoint, both synced.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark/tidemark/server"
	"github.com/tidemark/tidemark/server/sink/file"
	"github.com/tidemark/tidemark/server/store/checkpointlog"
	"github.com/tidemark/tidemark/statemachine"
)

var (
	records = flag.Int("records", 400_000, "records a connection group sends in a round")
	size    = flag.Int("size", 256, "bytes of a record")
	rounds  = flag.Int("rounds", 5, "rounds of each measurement")
	dir     = flag.String("dir", "", "folder to write in; empty: a temporary one")
	window  = flag.Int("window", 4096, "records on their way, a connection")
	profile = flag.String("cpuprofile", "", "file for a CPU profile of server and load together")
)

func main() {
	flag.Parse()
	if *profile != "" {
		f, err := os.Create(*profile)
		check(err)
		check(pprof.StartCPUProfile(f))
		defer pprof.StopCPUProfile()
	}
	if *dir == "" {
		temp, err := os.MkdirTemp("", "tidemark-bench-")
		check(err)
		defer os.RemoveAll(temp)
		*dir = temp
	}
	fmt.Printf("%s, %d CPUs, %s; %d records of %d B a round, window %d\n",
		runtime.GOOS+"/"+runtime.GOARCH, runtime.NumCPU(), runtime.Version(), *records, *size, *window)
	for _, connections := range []int{1, 16} {
		var ours, bare, ratios []float64
		for round := range *rounds {
			a, syncs := measureServer(connections, round)
			b := measureBare(syncs, round)
			ours, bare, ratios = append(ours, a), append(bare, b), append(ratios, a/b)
			fmt.Printf("%2d connections, round %d: server %9.0f records/s (%d checkpoints), bare loop %9.0f records/s, ratio %.2f\n",
				connections, round+1, a, syncs, b, a/b)
		}
		fmt.Printf("%2d connections, medians: server %9.0f records/s, bare loop %9.0f records/s, ratio %.2f\n",
			connections, median(ours), median(bare), median(ratios))
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// measureServer runs a server and its load in this process, and counts what is acknowledged.
func measureServer(connections, round int) (perSecond float64, checkpoints uint64) {
	base := filepath.Join(*dir, fmt.Sprintf("server-%d-%d", connections, round))
	check(os.Mkdir(base, 0o755))
	defer os.RemoveAll(base)
	sink, err := file.Open(file.Options{Path: filepath.Join(base, "out.log")})
	check(err)
	store, err := checkpointlog.Open(filepath.Join(base, "data"), checkpointlog.Options{})
	check(err)
	tokens := map[string]string{}
	for i := range connections {
		tokens[fmt.Sprintf("token-%d", i)] = fmt.Sprintf("c%d", i)
	}
	limits := statemachine.DefaultLimits()
	limits.QueueCapacity = 4096
	s, err := server.New(context.Background(), server.Options{
		Sink: sink, Store: store, Auth: server.Tokens(tokens), Limits: limits, Log: slog.New(slog.DiscardHandler)})
	check(err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	go s.Serve(l)
	var load sync.WaitGroup
	begin := time.Now()
	for i := range connections {
		load.Go(func() { push(l.Addr().String(), fmt.Sprintf("token-%d", i), *records/connections) })
	}
	load.Wait()
	elapsed := time.Since(begin)
	check(s.Shutdown(context.Background()))
	stored, _, err := checkpointlog.Read(filepath.Join(base, "data"))
	check(err)
	return float64(*records/connections*connections) / elapsed.Seconds(), stored.Number
}

// measureBare appends the same bytes to a file, in as many pieces as the server took checkpoints.
func measureBare(syncs uint64, round int) (perSecond float64) {
	path := filepath.Join(*dir, fmt.Sprintf("bare-%d", round))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	check(err)
	defer os.Remove(path)
	defer f.Close()
	line := []byte(strings.Repeat("x", *size) + "\n")
	left := *records
	piece := max(1, left/int(max(syncs, 1)))
	buf := slices.Repeat(line, piece)
	begin := time.Now()
	for left > 0 {
		n := min(piece, left)
		_, err := f.Write(buf[:n*len(line)])
		check(err)
		check(unix.Fdatasync(int(f.Fd())))
		left -= n
	}
	return float64(*records) / time.Since(begin).Seconds()
}
