package server

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

// told makes a history by hand, from lines "[CALL-RETURN] CONNECTION VERB ARGUMENTS [= CODE [WATERMARK]]".
// Without times an operation comes after all before it. Without a code it was not answered.
func told(t *testing.T, lines ...string) []porcupine.Operation {
	t.Helper()
	list := []porcupine.Operation{}
	orders := map[int]int{}
	for i, line := range lines {
		call, returned := int64(10*i), int64(10*i+1)
		f := strings.Fields(line)
		if from, to, ok := strings.Cut(f[0], "-"); ok {
			call, returned, f = number(t, from)*10, number(t, to)*10, f[1:]
		}
		in, out := asked{collector: "a", from: int(number(t, f[0])), verb: f[1]}, outcome{}
		args, reply := f[2:], []string(nil)
		for j, word := range args {
			if word == "=" {
				args, reply = args[:j], args[j+1:]
				break
			}
		}
		if reply != nil {
			out.code = reply[0]
		}
		if out.code == "WELCOME" {
			out.welcome = welcomeTold(t, reply[1:])
		} else if len(reply) > 1 {
			out.watermark = uint64(number(t, reply[1]))
		}
		switch in.verb {
		case "SINK", "CONTENT":
			in.bodies = args
		case "BATCH":
			in.body = args[0]
			digits, _, _ := strings.Cut(args[0], ".")
			in.id = uint64(number(t, digits))
		case "COMMIT", "STORE", "SKIP", "ACKED":
			in.id = uint64(number(t, args[0]))
		case "HELLO":
			in.hello = helloTold(t, args)
		}
		in.order = orders[in.from]
		if out.code != "" {
			orders[in.from]++
		}
		list = append(list, porcupine.Operation{ClientId: in.from, Input: in, Call: call, Output: out, Return: returned})
	}
	return list
}

func number(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err)
	return n
}

// What the histories begin with.
const login, accepted = "1 AUTH = ACK", "1 BATCH 1.a = RECEIVED"

// after goes on when batch 1 is acknowledged, filled is so many batches that are not in the sink.
func after(more ...string) []string {
	return append([]string{login, accepted, "0 SINK 1.a", "0 STORE 1", "1 COMMIT 1 = ACK 1"}, more...)
}

func filled(batches int, more ...string) []string {
	list := []string{login}
	for i := range batches {
		list = append(list, "1 BATCH "+strconv.Itoa(i+1)+".a = RECEIVED")
	}
	return append(list, more...)
}

// linearCases are histories that break a promise, each with one that differs in little and keeps it.
var linearCases = map[string]struct{ legal, illegal []string }{
	"acknowledged above what was accepted": {
		after("1 BATCH 2.a = RECEIVED", "0 SINK 2.a", "0 STORE 2", "1 COMMIT 1 = ACK 2"),
		after("1 COMMIT 1 = ACK 2"),
	},
	"acknowledged before it is stored": {
		after(),
		[]string{login, accepted, "0 SINK 1.a", "1 COMMIT 1 = ACK 1", "0 STORE 1"},
	},
	"stored before it is in the sink": {
		after(),
		[]string{login, accepted, "0 STORE 1", "0 SINK 1.a"},
	},
	"two owners": {
		[]string{login, "2-9 1 CLOSE", "2 AUTH = ACK", "2 BATCH 1.a = RECEIVED"},
		[]string{login, "2 AUTH = ACK", accepted},
	},
	"let in while the first is still answered": {
		[]string{login, accepted, "3-9 1 CLOSE", "3-5 2 AUTH = ACK"},
		[]string{login, "1-3 2 AUTH = ACK", "4 1 BATCH 1.a = RECEIVED", "9-9 1 CLOSE"},
	},
	"rejected though nobody else was there": {
		[]string{login, "2 AUTH = REJECTED"},
		[]string{"2 AUTH = REJECTED"},
	},
	"a number taken again with other bytes": {
		after("1 BATCH 1.b = CONFLICT"),
		after("1 BATCH 1.b = RECEIVED"),
	},
	"conflict with the same bytes": {
		after("1 BATCH 1.a = RECEIVED"),
		after("1 BATCH 1.a = CONFLICT"),
	},
	"the watermark falls": {
		after("1 BATCH 2.a = RECEIVED", "0 SINK 2.a", "0 STORE 2", "1 COMMIT 1 = ACK 2", "1 COMMIT 1 = ACK 2"),
		after("1 BATCH 2.a = RECEIVED", "0 SINK 2.a", "0 STORE 2", "1 COMMIT 1 = ACK 2", "1 COMMIT 1 = ACK 1"),
	},
	"what was received is lost with the connection": {
		[]string{login, accepted, "2-9 1 CLOSE", "3-5 2 AUTH = ACK", "6-7 2 COMMIT 1 = PENDING"},
		[]string{login, accepted, "2-9 1 CLOSE", "3-5 2 AUTH = ACK", "6-7 2 COMMIT 1 = RETRY"},
	},
	"an unanswered batch may be there": {
		[]string{login, "1-9 1 BATCH 1.a", "1-9 1 CLOSE", "2-4 2 AUTH = ACK", "5-6 2 BATCH 1.b = CONFLICT"},
		[]string{login, "1-1 1 CLOSE", "2-4 2 AUTH = ACK", "5-6 2 BATCH 1.b = CONFLICT"},
	},
	"a batch lands after its connection lost the seat": {
		[]string{login, "1-9 1 BATCH 1.a", "1-9 1 CLOSE", "2-3 2 AUTH = ACK", "4-5 2 COMMIT 1 = PENDING", "6-7 0 SINK 1.a"},
		[]string{login, "1-9 1 BATCH 1.a", "1-9 1 CLOSE", "2-3 2 AUTH = ACK", "4-5 2 COMMIT 1 = RETRY", "6-7 0 SINK 1.a"},
	},
	"in the sink twice": {
		after("0 CONTENT 1.a"),
		after("0 SINK 1.a"),
	},
	"in the sink with other bytes": {
		[]string{login, accepted, "0 SINK 1.a"},
		[]string{login, accepted, "0 SINK 1.b"},
	},
	"not in the sink in the end": {
		after("0 CONTENT 1.a"),
		after("1 BATCH 2.a = RECEIVED", "0 CONTENT 1.a"),
	},
	"taken above a refused one": {
		[]string{login, "1 BATCH 30.a = QUEUE_FULL", "1 BATCH 31.a = RETRY"},
		[]string{login, "1 BATCH 9.a = RECEIVED", "1 BATCH 30.a = QUEUE_FULL", "1 BATCH 31.a = QUEUE_FULL"},
	},
	"retry though nothing is owed": {
		[]string{login, "1 BATCH 30.a = QUEUE_FULL", "1 BATCH 1.a = RECEIVED"},
		[]string{login, "1 BATCH 1.a = RETRY"},
	},
	"full though there is room": {
		filled(linearCapacity, "1 BATCH 7.a = QUEUE_FULL"),
		filled(linearCapacity-1, "1 BATCH 7.a = QUEUE_FULL"),
	},
	"taken though there is no room": {
		filled(linearCapacity, "0 SINK 1.a", "0 STORE 1", "1 BATCH 7.a = RECEIVED"),
		filled(linearCapacity, "0 SINK 1.a", "1 BATCH 7.a = RECEIVED"),
	},
	"acknowledged without a proof": {
		after("5-9 1 CLOSE", "6-7 2 AUTH = ACK", "8-9 2 COMMIT 1 = RESEND"),
		after("5-9 1 CLOSE", "6-7 2 AUTH = ACK", "8-9 2 COMMIT 1 = ACK 1"),
	},
	"asked again though it was proven": {
		after("1 COMMIT 1 = ACK 1"),
		after("1 COMMIT 1 = RESEND"),
	},
	"pending though it was acknowledged": {
		[]string{login, accepted, "1 COMMIT 1 = PENDING"},
		after("1 COMMIT 1 = PENDING"),
	},
	"too old though it is not": {
		[]string{login, "1 BATCH 30.a = QUEUE_FULL"},
		after("1 BATCH 1.a = STALE"),
	},
	"answers in another order": {
		[]string{login, "1-4 1 BATCH 1.a = RECEIVED", "1-5 1 COMMIT 1 = PENDING"},
		[]string{login, "1-4 1 BATCH 1.a = PENDING", "1-5 1 COMMIT 1 = RECEIVED"},
	},
}

func TestLinearCheckerCanFail(t *testing.T) {
	for name, c := range linearCases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, porcupine.Ok, porcupine.CheckOperationsTimeout(linearModel, told(t, c.legal...), linearTimeout))
			require.Equal(t, porcupine.Illegal, porcupine.CheckOperationsTimeout(linearModel, told(t, c.illegal...), linearTimeout))
		})
	}
}

// A failure leaves a page behind.
func TestLinearFailureIsKept(t *testing.T) {
	t.Setenv("HISTORY_DIR", t.TempDir())
	h := newHistory(linearModel)
	h.list = told(t, "1 AUTH = ACK", "1 COMMIT 1 = ACK 1")
	result, path := h.judge()
	require.Equal(t, porcupine.Illegal, result)
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(page), "COMMIT 1: ACK 1")
	h.list = h.list[:1]
	result, path = h.judge()
	require.Equal(t, porcupine.Ok, result)
	require.Empty(t, path)
}
