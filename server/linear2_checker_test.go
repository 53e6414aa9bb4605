package server

import (
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
)

// helloTold reads "INSTANCE FIRST NEXT".
func helloTold(t *testing.T, words []string) *protocol.Hello {
	t.Helper()
	return &protocol.Hello{Instance: words[0], First: uint64(number(t, words[1])), Next: uint64(number(t, words[2]))}
}

// welcomeTold reads "COMMITTED RECEIVED [missing NUMBERS] [lost NUMBERS]".
func welcomeTold(t *testing.T, words []string) *protocol.Welcome {
	t.Helper()
	w := &protocol.Welcome{Committed: uint64(number(t, words[0])), Received: uint64(number(t, words[1]))}
	list := &w.Missing
	for _, word := range words[2:] {
		switch word {
		case "missing":
		case "lost":
			list = &w.Lost
		default:
			id := uint64(number(t, word))
			*list = append(*list, protocol.Range{First: id, Last: id})
		}
	}
	return w
}

// What the histories begin with: an instance that is new, and two batches of which the sink has both.
func seated2(more ...string) []string {
	return append([]string{"1 HELLO x 1 9 = WELCOME 0 0", "1 READY = PASSED"}, more...)
}

func stored2(more ...string) []string {
	return seated2(append([]string{"1 BATCH 1.a = PASSED", "1 BATCH 2.a = PASSED", "0 SINK 1.a 2.a", "0 STORE 2"}, more...)...)
}

// linearCases2 are histories that break a promise of dialect 2, each with one that differs in little and keeps it.
var linearCases2 = map[string]struct{ legal, illegal []string }{
	"acknowledged above what the sink has": {
		stored2("1 ACKED 2"),
		seated2("1 BATCH 1.a = PASSED", "1 BATCH 2.a = PASSED", "0 SINK 1.a", "0 STORE 1", "1 ACKED 2"),
	},
	"stored above what was given up": {
		seated2("1 BATCH 1.! = DECODE_FAILED", "1 BATCH 2.a = PASSED", "1 SKIP 1 = PASSED", "0 SINK 2.a", "0 STORE 2", "1 ACKED 2"),
		seated2("1 BATCH 1.! = DECODE_FAILED", "1 BATCH 2.a = PASSED", "0 SINK 2.a", "0 STORE 2", "1 ACKED 2"),
	},
	"the watermark falls": {
		stored2("1 BATCH 3.a = PASSED", "1 ACKED 2", "0 SINK 3.a", "0 STORE 3", "1 ACKED 3"),
		stored2("1 BATCH 3.a = PASSED", "1 ACKED 2", "0 SINK 3.a", "0 STORE 3", "1 ACKED 1"),
	},
	"a new connection is told a lower watermark": {
		stored2("1 ACKED 2", "2 HELLO x 1 9 = WELCOME 2 2"),
		stored2("1 ACKED 2", "2 HELLO x 1 9 = WELCOME 1 2"),
	},
	"the first ACK may say what WELCOME said": {
		stored2("2 HELLO x 1 9 = WELCOME 2 2", "2 READY = PASSED", "2 ACKED 2"),
		stored2("2 HELLO x 1 9 = WELCOME 2 2", "2 READY = PASSED", "2 ACKED 1"),
	},
	"two write": {
		seated2("1 BATCH 1.a = PASSED", "2 HELLO x 1 9 = WELCOME 0 1", "2 READY = PASSED"),
		seated2("2 HELLO x 1 9 = WELCOME 0 0", "2 READY = PASSED", "1 BATCH 1.a = PASSED", "0 SINK 1.a"),
	},
	"the older one writes before READY of the newer": {
		seated2("2 HELLO x 1 9 = WELCOME 0 0", "1 BATCH 1.a = PASSED", "1 FENCED"),
		seated2("2 HELLO x 1 9 = WELCOME 0 0", "1 BATCH 1.a = PASSED", "0 SINK 1.a"),
	},
	"the older one is not told that it is over": {
		seated2("2-5 2 HELLO x 1 9 = WELCOME 0 0", "2-5 2 FENCES", "3-4 1 BATCH 1.a = PASSED"),
		seated2("2-5 2 HELLO x 1 9 = WELCOME 0 0", "2-5 2 FENCES", "6-7 1 BATCH 1.a = PASSED"),
	},
	"what was on its way lands late": {
		seated2("2-9 1 BATCH 1.a", "3-4 2 HELLO x 1 9 = WELCOME 0 1", "5-5 0 SINK 1.a", "6-7 2 READY = PASSED"),
		seated2("2-9 1 BATCH 1.a", "3-4 2 HELLO x 1 9 = WELCOME 0 0", "5-5 0 SINK 1.a", "6-7 2 READY = PASSED"),
	},
	"what was on its way is dropped": {
		seated2("2-9 1 BATCH 1.a", "3-4 2 HELLO x 1 9 = WELCOME 0 0", "5-6 2 READY = PASSED", "7-7 2 BATCH 1.b = PASSED"),
		seated2("2-9 1 BATCH 1.a", "3-4 2 HELLO x 1 9 = WELCOME 0 1", "5-6 2 READY = PASSED", "7-7 2 BATCH 1.b = PASSED"),
	},
	"fenced though nobody came": {
		seated2("2 HELLO x 1 9 = WELCOME 0 0", "1 FENCED"),
		seated2("1 FENCED"),
	},
	"the older asker gets the seat": {
		[]string{"1 HELLO x 1 9 = WELCOME 0 0", "2 HELLO x 1 9 = WELCOME 0 0", "2 READY = PASSED"},
		[]string{"1 HELLO x 1 9 = WELCOME 0 0", "2 HELLO x 1 9 = WELCOME 0 0", "1 READY = PASSED"},
	},
	"another instance while one is alive": {
		seated2("2 HELLO y 0 0 = REJECTED"),
		seated2("2 HELLO y 0 0 = WELCOME 0 0"),
	},
	"rejected though nobody is there": {
		seated2("2-4 1 CLOSE", "3-5 2 HELLO y 0 0 = REJECTED"),
		seated2("2-4 1 CLOSE", "5-6 2 HELLO y 0 0 = REJECTED"),
	},
	"rejected though it is the same": {
		seated2("2 HELLO x 1 9 = WELCOME 0 0"),
		seated2("2 HELLO x 1 9 = REJECTED"),
	},
	"a superseded one comes back": {
		seated2("1 CLOSE", "2 HELLO y 0 0 = WELCOME 0 0", "2 READY = PASSED", "2 CLOSE", "3 HELLO x 1 9 = RETIRED"),
		seated2("1 CLOSE", "2 HELLO y 0 0 = WELCOME 0 0", "2 READY = PASSED", "2 CLOSE", "3 HELLO x 1 9 = WELCOME 0 0"),
	},
	"retired by HELLO alone": {
		seated2("1 CLOSE", "2 HELLO y 0 0 = WELCOME 0 0", "2 CLOSE", "3 HELLO x 1 9 = WELCOME 0 0"),
		seated2("1 CLOSE", "2 HELLO y 0 0 = WELCOME 0 0", "2 CLOSE", "3 HELLO x 1 9 = RETIRED"),
	},
	"a buffer without its end": {
		stored2("2 HELLO x 1 2 = FORGOT"),
		stored2("2 HELLO x 1 2 = WELCOME 2 2"),
	},
	"received is too high": {
		stored2("2 HELLO x 1 9 = WELCOME 2 2"),
		stored2("2 HELLO x 1 9 = WELCOME 2 3"),
	},
	"what was received is taken back": {
		seated2("1 BATCH 1.a = PASSED", "1 CLOSE", "2 HELLO x 1 9 = WELCOME 0 1"),
		seated2("1 BATCH 1.a = PASSED", "1 CLOSE", "2 HELLO x 1 9 = WELCOME 0 0"),
	},
	"missing is left out": {
		seated2("1 BATCH 2.a = PASSED", "2 HELLO x 1 9 = WELCOME 0 2 missing 1"),
		seated2("1 BATCH 2.a = PASSED", "2 HELLO x 1 9 = WELCOME 0 2"),
	},
	"lost is not told": {
		seated2("1 BATCH 2.a = PASSED", "2 HELLO x 2 9 = WELCOME 0 2 lost 1"),
		seated2("1 BATCH 2.a = PASSED", "2 HELLO x 2 9 = WELCOME 0 2"),
	},
	"given up by HELLO alone": {
		seated2("1 BATCH 2.a = PASSED", "2 HELLO x 2 9 = WELCOME 0 2 lost 1", "3 HELLO x 1 9 = WELCOME 0 2 missing 1"),
		seated2("1 BATCH 2.a = PASSED", "2 HELLO x 2 9 = WELCOME 0 2 lost 1", "3 HELLO x 1 9 = WELCOME 0 2"),
	},
	"a number taken again with other bytes": {
		seated2("1 BATCH 1.a = PASSED", "1 BATCH 1.b = CONFLICT"),
		seated2("1 BATCH 1.a = PASSED", "1 BATCH 1.b = PASSED"),
	},
	"conflict with the same bytes": {
		seated2("1 BATCH 1.a = PASSED", "1 BATCH 1.a = PASSED"),
		seated2("1 BATCH 1.a = PASSED", "1 BATCH 1.a = CONFLICT"),
	},
	"what was given up is taken": {
		seated2("1 BATCH 1.! = DECODE_FAILED", "1 SKIP 1 = PASSED", "1 BATCH 1.a = STALE"),
		seated2("1 BATCH 1.! = DECODE_FAILED", "1 SKIP 1 = PASSED", "1 BATCH 1.a = PASSED"),
	},
	"undecodable is taken": {
		seated2("1 BATCH 1.! = DECODE_FAILED"),
		seated2("1 BATCH 1.! = PASSED"),
	},
	"refused though there is room": {
		seated2("0 REFUSED", "0 REFUSED", "1 BATCH 1.a = RESEND"),
		seated2("0 REFUSED", "0 TAKEN", "1 BATCH 1.a = RESEND"),
	},
	"taken above a refused one": {
		seated2("0 REFUSED", "0 REFUSED", "1 BATCH 1.a = RESEND", "1 BATCH 2.a = PASSED", "1 BATCH 1.a = PASSED", "0 SINK 1.a"),
		seated2("0 REFUSED", "0 REFUSED", "1 BATCH 1.a = RESEND", "1 BATCH 2.a = PASSED", "1 BATCH 1.a = PASSED", "0 SINK 2.a"),
	},
	"in the sink twice": {
		stored2("0 CONTENT 1.a 2.a"),
		stored2("0 CONTENT 1.a 2.a 2.a"),
	},
	"in the sink with other bytes": {
		seated2("1 BATCH 1.a = PASSED", "0 SINK 1.a"),
		seated2("1 BATCH 1.a = PASSED", "0 SINK 1.b"),
	},
	"not in the sink in the end": {
		stored2("0 CONTENT 1.a 2.a"),
		stored2("1 BATCH 3.a = PASSED", "0 CONTENT 1.a 2.a"),
	},
}

func TestLinear2CheckerCanFail(t *testing.T) {
	for name, c := range linearCases2 {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, porcupine.Ok, porcupine.CheckOperationsTimeout(linearModel2, told(t, c.legal...), linearTimeout))
			require.Equal(t, porcupine.Illegal, porcupine.CheckOperationsTimeout(linearModel2, told(t, c.illegal...), linearTimeout))
		})
	}
}
