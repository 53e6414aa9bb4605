package file

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/server/internal/disk/disktest"
	"github.com/tidemark/tidemark/server/sink"
)

// What no checkpoint covers is moved to PATH.cut-N; the last 8 are kept.
func TestCutIsKept(t *testing.T) {
	o, lines := logged(Options{})
	d, position := committed(t, o, "covered")
	for i := 1; i <= 12; i++ {
		l := begin(t, d, position, o)
		require.Equal(t, "covered\n", content(d))
		l.write(fmt.Sprint("not covered ", i))
		require.NoError(t, l.Close())
	}
	l := begin(t, d, position, o)
	require.Equal(t, append([]string{path}, names(10, 12)...), fileNames(d)[:4])
	require.Len(t, fileNames(d), 1+cutsKept)
	for i := 5; i <= 12; i++ {
		require.Equal(t, fmt.Sprintf("not covered %d\n", i), string(d.Files()[names(i, i)[0]]))
	}
	require.Contains(t, lines.String(), "to=/out.cut-12")
	require.NoError(t, l.Close())
}

// changed are the ways a file can be another than the one the checkpoint speaks of: what is said, and
// what Options.Recover makes of it.
var changed = map[string]struct {
	framing Framing
	records []string
	change  func(*testing.T, *disktest.Disk)
	says    string
	left    string
	lost    string // in the log
}{
	"unknown position": {
		change: func(t *testing.T, d *disktest.Disk) { rewrite(t, d, "old\nhalf") },
		says:   "it has 8 bytes and no checkpoint knows of them", left: "old\n", lost: "bytes_short=0",
	},
	"gone": {
		records: []string{"a", "b"}, change: func(_ *testing.T, d *disktest.Disk) { d.Replace(path, nil) },
		says: "it is gone, the last checkpoint has 4 bytes in it", left: "", lost: "bytes_short=4",
	},
	"shorter": {
		records: []string{"a", "bcd"}, change: func(t *testing.T, d *disktest.Disk) { rewrite(t, d, "a\nbc") },
		says: "it has 4 bytes, 6 at the last checkpoint", left: "a\n", lost: "bytes_short=4",
	},
	"shorter, length": {
		framing: Length, records: []string{"a", "bcd"}, change: func(t *testing.T, d *disktest.Disk) { rewrite(t, d, "\x01a\x03bc") },
		says: "it has 5 bytes, 6 at the last checkpoint", left: "\x01a", lost: "bytes_short=4",
	},
	"other bytes": {
		records: []string{"a", "b"}, change: func(t *testing.T, d *disktest.Disk) { rewrite(t, d, "a\nc\nd\ne") },
		says: "its bytes before offset 4 are not those of the last checkpoint", left: "a\nc\nd\n", lost: "be there twice",
	},
	"another file": {
		records: []string{"a"}, change: func(_ *testing.T, d *disktest.Disk) { d.Replace(path, []byte("x\ny\n")) },
		says: "it is another file: inode 2, at the last checkpoint it was /out with inode 1", left: "x\ny\n", lost: "may be lost",
	},
	"a copy": {
		records: []string{"a"}, change: func(_ *testing.T, d *disktest.Disk) { d.Replace(path, []byte("a\nb\n")) },
		says: "it is another file: inode 2, at the last checkpoint it was /out with inode 1", left: "a\n", lost: "its bytes are those of the last checkpoint",
	},
	"no line at all": {
		change: func(t *testing.T, d *disktest.Disk) { rewrite(t, d, strings.Repeat("x", 200_000)) },
		says:   "it has 200000 bytes and no checkpoint knows of them", left: "", lost: "may be lost",
	},
	"a length that never ends": {
		framing: Length, change: func(t *testing.T, d *disktest.Disk) {
			rewrite(t, d, "\x02ab\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")
		},
		says: "it has 14 bytes and no checkpoint knows of them", left: "\x02ab", lost: "may be lost",
	},
	"a length beyond the end": {
		framing: Length, change: func(t *testing.T, d *disktest.Disk) { rewrite(t, d, "\x02ab\xff\xff\xff\xff\xff\xff\xff\xff\x7f") },
		says: "it has 12 bytes and no checkpoint knows of them", left: "\x02ab", lost: "may be lost",
	},
}

// A file that can't be the one of the checkpoint is refused and left alone; the operator can accept it.
func TestChangedFile(t *testing.T) {
	for name, c := range changed {
		t.Run(name, func(t *testing.T) {
			d, position := committed(t, Options{Framing: c.framing}, c.records...)
			if c.records == nil {
				position = nil
			}
			c.change(t, d)
			before := content(d)
			s := open(t, d, Options{Framing: c.framing})
			err := s.Recover(background, position)
			require.ErrorContains(t, err, "output file: /out: "+c.says)
			require.NotErrorIs(t, err, sink.ErrTransient)
			require.Equal(t, before, content(d))
			_, err = s.Begin(background)
			require.Error(t, err, "a file that was refused is used")
			require.NoError(t, s.Close())
			require.Equal(t, name != "gone", len(d.Files()) > 0, "a file that is gone came back empty")

			o, lines := logged(Options{Framing: c.framing, Recover: true})
			l := begin(t, d, position, o)
			require.Equal(t, c.left, content(d))
			require.Contains(t, lines.String(), c.lost)
			require.Contains(t, lines.String(), c.says)
			if cut := before[len(c.left):]; cut != "" {
				require.Equal(t, cut, string(d.Files()[names(1, 1)[0]]), "what was cut was not kept")
			}
			l.write("more")
			position = l.commit()
			require.NoError(t, l.Close())
			require.NoError(t, begin(t, d, position, Options{Framing: c.framing}).Close())
		})
	}
}

func TestPositionOfAnotherKind(t *testing.T) {
	for _, position := range []string{"", "12", `{"offset":-1}`, `{"path":"/out","more":1}`} {
		d, _ := committed(t, Options{}, "a")
		s := open(t, d, Options{})
		require.ErrorContains(t, s.Recover(background, []byte(position)), "the checkpoint's position is none of an output file")
		require.NoError(t, s.Close())
		require.NoError(t, begin(t, d, []byte(position), Options{Recover: true}).Close())
		require.Equal(t, "a\n", content(d))
	}
}

// Nothing was in the file at the last checkpoint: whether it is there now does not matter.
func TestEmptyFileMayBeGone(t *testing.T) {
	d, position := committed(t, Options{})
	d.Replace(path, nil)
	l := begin(t, d, position, Options{})
	l.write("a")
	require.NoError(t, l.Close())
}

// The checksum speaks of the last 4 KiB, across deliveries of any size.
func TestTailIsThatOfTheFile(t *testing.T) {
	d := disktest.New()
	l := begin(t, d, nil, Options{})
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		l.write(strings.Repeat("x", random.IntN(7000)), fmt.Sprint(random.Uint64()))
		all := content(d)
		require.Equal(t, all[max(0, len(all)-tailSize):], string(l.tail))
	}
	position := l.commit()
	require.NoError(t, l.Close())
	all := []byte(content(d))
	all[len(all)-tailSize] ^= 1
	rewrite(t, d, string(all))
	require.ErrorContains(t, open(t, d, Options{}).Recover(background, position), "are not those of the last checkpoint")
}

// Recover is durable when it returns, and a failure on the way loses nothing.
func TestRecoverFailsAnywhere(t *testing.T) {
	for k := 0; ; k++ {
		d, position := committed(t, Options{}, "covered")
		l := begin(t, d, position, Options{})
		l.write("not covered")
		require.NoError(t, l.Close())
		s := open(t, d, Options{})
		calls := 0
		d.Hook = func(disktest.Call) (int, error) {
			if calls++; calls-1 == k {
				return 3, syscall.EIO
			}
			return 0, nil
		}
		err := s.Recover(background, position)
		d.Hook = nil
		if err == nil {
			require.Greater(t, k, 7)
			after := d.PowerCut(func(int) int { return 0 })
			require.Equal(t, "covered\n", content(after))
			require.Equal(t, "not covered\n", string(after.Files()[names(1, 1)[0]]))
			return
		}
		require.ErrorIs(t, err, syscall.EIO)
		require.NoError(t, s.Close())
		require.NoError(t, begin(t, d, position, Options{}).Close())
		require.Equal(t, "covered\n", content(d))
		var kept strings.Builder
		for _, data := range d.Files() {
			kept.Write(data)
		}
		require.Contains(t, kept.String(), "not covered\n")
	}
}

// Whatever call a process dies in and whatever a power cut leaves: what was committed is there, once.
func TestCrashAnywhere(t *testing.T) {
	for k := 0; ; k++ {
		survived := false
		for seed := range uint64(8) {
			t.Run(fmt.Sprintf("call=%d/seed=%d", k, seed), func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, uint64(k)))
				d := disktest.New()
				calls := 0
				d.Hook = func(c disktest.Call) (int, error) {
					if calls++; calls > k {
						return min(random.IntN(40), c.Bytes), syscall.EIO
					}
					return 0, nil
				}
				position, want, err := deliverUntilDead(d)
				survived = err == nil
				after := d.PowerCut(random.IntN)
				if seed == 0 {
					after = d.Kill()
				}
				if position == nil && len(after.Files()[path]) > 0 {
					s := open(t, after, Options{}) // bytes, and no checkpoint: the operator is asked
					require.Error(t, s.Recover(background, nil))
					return
				}
				require.NoError(t, begin(t, after, position, Options{}).Close())
				require.Equal(t, want, content(after))
				require.Equal(t, want, content(after.PowerCut(random.IntN)), "what Recover did was not durable")
			})
		}
		if survived {
			require.Greater(t, k, 20)
			return
		}
	}
}

// deliverUntilDead commits one transaction after another, each while the next is written, and returns
// the last position that a store could know.
func deliverUntilDead(d *disktest.Disk) (position []byte, want string, err error) {
	s, err := Open(Options{Path: path, fs: d})
	if err != nil {
		return nil, "", err
	}
	if err := s.Recover(background, nil); err != nil {
		return nil, "", err
	}
	written := ""
	txn, err := s.Begin(background)
	if err != nil {
		return nil, "", err
	}
	for i := range 10 {
		record := fmt.Sprint("record ", i, strings.Repeat(".", 30*i))
		if _, err := txn.Write(background, delivery(record)); err != nil {
			return position, want, err
		}
		written += record + "\n"
		sealed, err := txn.Seal()
		if err != nil {
			return position, want, err
		}
		sofar := written
		next, err := s.Begin(background)
		if err != nil {
			return position, want, err
		}
		if _, err := next.Write(background, delivery("the next transaction's")); err != nil {
			return position, want, err
		}
		written += "the next transaction's\n"
		if err := txn.Commit(background); err != nil {
			return position, want, err
		}
		position, want, txn = sealed, sofar, next
	}
	return position, want, nil
}

func BenchmarkWrite(b *testing.B) {
	s, err := Open(Options{Path: b.TempDir() + "/out"})
	require.NoError(b, err)
	require.NoError(b, s.Recover(background, nil))
	txn, err := s.Begin(background)
	require.NoError(b, err)
	d := delivery(strings.Repeat("x", 256))
	for range 99 {
		d.Batches[0].Payload = protocol.AppendRecord(d.Batches[0].Payload, []byte(strings.Repeat("x", 256)))
	}
	b.SetBytes(100 * 257)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := txn.Write(background, d); err != nil {
			b.Fatal(err)
		}
	}
	require.NoError(b, s.Close())
}
