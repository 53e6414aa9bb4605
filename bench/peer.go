package main

import (
	"context"
	"fmt"
	"strings"
)

// A Peer is one thing that is compared.
type Peer interface {
	Name() string
	// Durability says in a few words what was done before an acknowledgement, and how the peer was configured for it.
	Durability() string
	// Missing says why the peer can't run on this machine; empty when it can.
	Missing() string
	// Start runs a server on a folder, and again on what an earlier one left there. It is ready when Start returns.
	Start(ctx context.Context, dir string) (Server, error)
}

// A Server is a running server of a peer.
type Server interface {
	Process() *Process
	// Connect is for the collector with this index, which goes on after the records it knows to be acknowledged.
	Connect(ctx context.Context, collector int, acknowledged uint64) (Conn, error)
	// Read visits each record that is stored, as often as it is. The bytes are valid until visit returns.
	Read(ctx context.Context, visit func(record []byte)) error
}

// A Conn is one collector's connection. Send, Acknowledged and Close are called from different goroutines.
type Conn interface {
	// Send hands over one batch and does not wait for its acknowledgement. It keeps nothing of b.
	Send(b *Batch) error
	// Acknowledged waits for news, and tells how many records of this connection are acknowledged, without a hole.
	Acknowledged() (records uint64, err error)
	Close() error
}

// peersOf makes the peers with these names, in this order.
func peersOf(s *Settings, names, programs string) (peers []Peer, err error) {
	makers := map[string]func() Peer{
		"tidemark":    func() Peer { return &tidemarkPeer{settings: s, programs: programs, dialect: 2} },
		"tidemark-1":  func() Peer { return &tidemarkPeer{settings: s, programs: programs, dialect: 1} },
		"bare":        func() Peer { return &barePeer{settings: s} },
		"nats":        func() Peer { return &natsPeer{settings: s} },
		"nats-atomic": func() Peer { return &natsPeer{settings: s, atomic: true} },
		"redis":       func() Peer { return &redisPeer{settings: s} },
		"lumber":      func() Peer { return &lumberPeer{settings: s} },
		"relp":        func() Peer { return &relpPeer{} },
	}
	for name := range strings.SplitSeq(names, ",") {
		maker, ok := makers[name]
		if !ok {
			return nil, fmt.Errorf("-peers: unknown peer %q, known are %s", name, allPeers)
		}
		peers = append(peers, maker())
	}
	return peers, nil
}

const allPeers = "tidemark,tidemark-1,bare,nats,nats-atomic,redis,lumber,relp"
