// Package collector is the sending side: it keeps every record until the ingress has acknowledged it.
//
// [New] makes a [Client]; [Client.Send] numbers records and stores them, [Client.Wait] returns when all of them are
// acknowledged. A [Journal] keeps numbers and unacknowledged records on disk, so that the next process goes on where
// this one ended.
//
//	journal, err := collector.OpenJournal("buffer")
//	...
//	client, err := collector.New(collector.Options{Address: "127.0.0.1:9470", Token: token, Journal: journal})
//	...
//	defer client.Close()
//	err = client.Send(ctx, []byte("a record"))
//	err = client.Wait(ctx)
//
// The rule of the package: a record is forgotten when an ACK covers it, and for no other reason. An end of a connection,
// a reset and a time-out all mean "unknown": after each of them everything that is still held is sent again, in order,
// and what the ingress has already it recognises.
//
// What to send next and what a reply means is decided by [Core], which is pure and implements the collector's actions
// of docs/spec/System.tla (Connect, Produce, SendBatch, SendCommit, TakeReply, with GoBackN). The words on the wire are
// those of package protocol, dialect 1.
package collector
