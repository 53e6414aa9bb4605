package checkpointlog

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/tidemark/tidemark/server/internal/disk"
	"github.com/tidemark/tidemark/server/store"
	"github.com/tidemark/tidemark/statemachine"
)

// Info is what reading a log found beside the checkpoint itself.
type Info struct {
	Path   string // of the log
	Format int    // as the header says, also when that is damaged
	Bytes  int64
	Frames uint64
	Sealed bool    // the last frame has its mark; without it a write may be going on
	Torn   string  // what is wrong with an unfinished write at the end, or empty
	Damage *Damage // nil: none
}

// Read reads the log of a data directory, or a log, also while a server uses it. With damage in it
// what was stored before the damage is returned. Nothing is locked, changed or synced: what it
// returns need not be durable.
func Read(path string) (*store.Stored, *Info, error) {
	if info, err := disk.OS.Stat(path); err == nil && info.Mode.IsDir() {
		path = filepath.Join(path, FileName)
	}
	f, err := disk.OS.OpenRead(path)
	if err != nil {
		return nil, nil, err
	}
	st, info, err := read(f, path)
	return st, info, errors.Join(err, f.Close())
}

func read(f disk.File, path string) (*store.Stored, *Info, error) {
	info := &Info{Path: path}
	r, st, damage, err := readGood(f, path)
	if err != nil {
		return nil, nil, err
	}
	info.Format = int(r.format)
	info.Bytes, info.Frames, info.Sealed, info.Torn, info.Damage = r.size, r.frames, r.sealed, r.torn, damage
	return st, info, nil
}

// Inspect writes what Read finds for people.
func Inspect(path string, w io.Writer) error {
	st, info, err := Read(path)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "file        %s\nformat      %d\nbytes       %d\nframes      %d\n", info.Path, info.Format, info.Bytes, info.Frames)
	fmt.Fprintf(w, "checkpoint  %d\nposition    %s\n", st.Number, printable(st.Position))
	switch {
	case info.Damage != nil:
		fmt.Fprintf(w, "state       %v; below is what comes before\n", info.Damage)
	case info.Torn != "":
		fmt.Fprintf(w, "state       a write goes on or was cut short: %s\n", info.Torn)
	case !info.Sealed:
		fmt.Fprintf(w, "state       the last frame has no mark yet\n")
	default:
		fmt.Fprintf(w, "state       good\n")
	}
	return inspectStreams(st, w)
}

func inspectStreams(st *store.Stored, w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\nCOLLECTOR\tINSTANCE\tEPOCH\tWATERMARK\tRECEIVED\tMISSING\tDIGESTS\tQUEUED\tQUEUED BYTES\n")
	names := slices.AppendSeq(slices.Collect(maps.Keys(st.Images)), maps.Keys(st.Seats))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		img := cmp.Or(st.Images[name], &statemachine.Image{})
		instance := "-"
		if s, ok := st.Seats[name]; ok {
			instance = strconv.Quote(s.Instance)
		}
		bytes := 0
		for _, b := range img.Queue {
			bytes += len(b.Payload)
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%s\t%d\t%d\t%d\n", strconv.Quote(name), instance, img.Epoch, img.Watermark,
			img.Received, ranges(img.Missing), len(img.Digests), len(img.Queue), bytes)
	}
	return t.Flush()
}

const rangesShown = 8

func ranges(list []statemachine.Range) string {
	var texts []string
	for _, r := range list[:min(len(list), rangesShown)] {
		text := strconv.FormatUint(r.First, 10)
		if r.Last > r.First {
			text += "-" + strconv.FormatUint(r.Last, 10)
		}
		texts = append(texts, text)
	}
	if more := len(list) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return cmp.Or(strings.Join(texts, " "), "-")
}

// printable is the position as it is when it is plain text, quoted otherwise.
func printable(position []byte) string {
	text := string(position)
	switch {
	case position == nil:
		return "none"
	case strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }):
		return strconv.Quote(text)
	default:
		return text
	}
}
