package statemachine

import "fmt"

// Limits are the constants of Stream.tla: what bounds one stream. They are fixed for the life of a
// [Stream] and may be shared by many. The zero value is not usable; start from [DefaultLimits].
//
// What a stored image holds above smaller limits is kept and drains: until then new batches are
// answered [QueueFull].
type Limits struct {
	// QueueCapacity is how many batches a stream holds until a completed checkpoint covers them; at
	// least 1. A host that wants to push back early passes the reduced number.
	QueueCapacity int
	// QueueBytes bounds the payload bytes held, likewise; 0 means no bound. A stream below it takes
	// one more batch whole, so it can exceed the bound by less than one batch.
	QueueBytes int64
	// Ahead is how far above the watermark a number may be; with Sparse, how many numbers above the
	// watermark are remembered. At least 1.
	Ahead uint64
	// History is how many committed numbers keep their digest, so that a batch sent again is
	// recognised. At least Ahead in a real host (see Check).
	History int
	// MaxCheckpoints is how many checkpoints may be open at once; at the bound the oldest is
	// forgotten. At least 1.
	MaxCheckpoints int
	// MaxNacks is how many deliveries may fail in a row before the stream halts; at least 1.
	MaxNacks int
	// KeepPayloads puts the payloads of undelivered batches into the image. Without it they are
	// missing after a restart, and the collectors send them again.
	KeepPayloads bool
	// Sparse says that a collector's numbers have gaps by nature. It must then send again all it
	// holds, in order, on every connection.
	Sparse bool
}

// DefaultLimits are those of the server: 1024 batches and 64 MiB held, 4096 numbers ahead and
// remembered, 8 open checkpoints, 5 failed deliveries.
func DefaultLimits() Limits {
	return Limits{
		QueueCapacity: 1024, QueueBytes: 64 << 20, Ahead: 4096, History: 4096,
		MaxCheckpoints: 8, MaxNacks: 5,
	}
}

// Check says what is wrong with the limits for a host that serves real collectors. Beyond the
// ASSUME of Stream.tla it demands History >= Ahead: a collector may send again what was committed
// while its RECEIVED was lost, and with the digest forgotten it would be told STALE for ever.
func (l *Limits) Check() error {
	if err := l.assume(); err != nil {
		return err
	}
	if uint64(l.History) < l.Ahead {
		return fmt.Errorf("history is %d, allowed is at least ahead, which is %d", l.History, l.Ahead)
	}
	return nil
}

// assume is the ASSUME of Stream.tla.
func (l *Limits) assume() error {
	for _, c := range []struct {
		name         string
		value, least int64
	}{
		{"queue capacity", int64(l.QueueCapacity), 1},
		{"queue bytes", l.QueueBytes, 0},
		{"max checkpoints", int64(l.MaxCheckpoints), 1},
		{"max nacks", int64(l.MaxNacks), 1},
		{"history", int64(l.History), 0},
	} {
		if c.value < c.least {
			return fmt.Errorf("%s is %d, allowed is at least %d", c.name, c.value, c.least)
		}
	}
	if l.Ahead < 1 {
		return fmt.Errorf("ahead is 0, allowed is at least 1")
	}
	return nil
}
