// Package collector is the sending side: it keeps every record until the ingress has acknowledged it.
//
// [Dial] makes a [Client]; [Client.Send] stores records and returns an id, [Client.Wait] and [Client.Flush] return when
// they are acknowledged. A [Journal] is the disk buffer: with it, what Send returned for survives a crash of this process
// and leaves the disk only when it is acknowledged, and the next process goes on where this one ended.
//
//	journal, err := collector.OpenJournal("buffer", collector.JournalOptions{})
//	...
//	client, err := collector.Dial(ctx, collector.Options{
//		Address: "127.0.0.1:9470", Collector: "edge-7", Token: token, Journal: journal,
//	})
//	...
//	defer client.Close()
//	id, err := client.Send(ctx, []byte("a record"), []byte("another"))
//	err = client.Wait(ctx, id)
//
// The rule of the package: a record is forgotten when an ACK covers it, and for no other reason. An end of a connection,
// a reset and a time-out all mean "unknown": what is still held is sent again, in order, and what the ingress has already
// it recognises. In dialect 2 the ingress says on each connection what it misses, and only that is sent again.
//
// The ids that Send returns count the batches of a buffer from 1. The numbers on the wire are these ids with a constant
// added, which is fixed, durably, before the first of them is sent. When the ingress says RETIRED or FORGOT, the numbers
// are taken: another instance of this collector used them, or the buffer is an older copy. Then all that is held goes
// under new numbers of a new instance. What the ingress had of it already is there twice; this is counted
// ([Status].Renewals) and logged as an error. FENCED says that another connection of the same instance came later: a HELLO
// of an own one that broke, which came late, or a process with a copy of the buffer. The client comes again as often as
// the first can be the reason, and then ends with [ErrFenced].
//
// Bounds. In memory are at most Window batches and 64 MiB of their payloads, or what the ingress allows if that is less,
// and on top the largest single Send, three times; what is beyond lies in the journal and is read from there when there is room.
// On disk are at most JournalOptions.MaxBytes. A full buffer, or a full disk, drops nothing: Send waits until there is
// room or its context ends, and [Status].BufferFull says so. Without a journal Send waits while the window is full.
//
// What to send next and what a message means is decided by [Core2] for dialect 2 and [Core] for dialect 1. They are pure,
// and implement the collector's actions of docs/spec/Seat.tla (Connect, SendBatch, TakeReply, StartAnew, Break; Produce is
// Load) and of docs/spec/System.tla (Connect, Produce, SendBatch, SendCommit, TakeReply, with GoBackN). The words on the
// wire are those of package protocol.
package collector
