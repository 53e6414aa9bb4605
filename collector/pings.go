package collector

import (
	"time"

	"github.com/tidemark/tidemark/protocol"
)

// pings keep both sides of a connection from being idle.
type pings struct {
	idle        time.Duration
	heard, said time.Time
	asked       time.Time // PING
	owed        []protocol.Command
}

// due is when the next PING goes: each side must hear something before idle is over.
func (p *pings) due() time.Time {
	last := p.heard
	if p.said.Before(last) {
		last = p.said
	}
	if p.asked.After(last) {
		last = p.asked
	}
	return last.Add(p.idle / 3)
}

func (p *pings) appendOwed(dst []byte, now time.Time) []byte {
	for _, command := range p.owed {
		if command == protocol.CommandReady {
			dst = protocol.AppendReady2(dst)
		} else {
			dst = protocol.AppendPong2(dst)
		}
	}
	p.owed = p.owed[:0]
	if p.idle > 0 && !now.Before(p.due()) {
		p.asked = now
		dst = protocol.AppendPing2(dst)
	}
	return dst
}
