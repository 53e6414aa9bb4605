package checkpointlog

import (
	"encoding/binary"

	"github.com/tidemark/tidemark/server/store"
	"github.com/tidemark/tidemark/statemachine"
)

// seat is an entry of the list of seats in a body.
type seat struct {
	collector string
	image     statemachine.SeatImage
}

// appendSeats writes nothing at all when there are none: most frames, and all of format 1.
func appendSeats(dst []byte, list []seat) []byte {
	if len(list) == 0 {
		return dst
	}
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for _, s := range list {
		dst = appendText(dst, s.collector)
		dst = appendText(dst, s.image.Instance)
		dst = binary.AppendUvarint(dst, uint64(len(s.image.Retired)))
		for _, name := range s.image.Retired {
			dst = appendText(dst, name)
		}
	}
	return dst
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

const minSeat = 4 // bytes of an entry: no collector, an instance of one, none retired

func (p *bodyParser) seats() []seat {
	if len(p.rest) == 0 {
		return nil
	}
	n := p.uvarint()
	if n == 0 || n > uint64(len(p.rest)/minSeat) {
		p.bad = true
		return nil
	}
	list := make([]seat, 0, n)
	for ; n > 0 && !p.bad; n-- {
		list = append(list, p.seat())
	}
	return list
}

func (p *bodyParser) seat() (s seat) {
	s.collector, s.image.Instance = p.text(), p.text()
	for n := p.uvarint(); n > 0 && !p.bad; n-- {
		s.image.Retired = append(s.image.Retired, p.text())
	}
	p.bad = p.bad || store.CheckSeat(&s.image) != nil
	return s
}

func (p *bodyParser) text() string { return string(p.bytes(p.uvarint())) }
