package collector

import "encoding/binary"

// CopyFrom makes c a deep copy of o; only payloads are shared. A search can try a step on a copy. The zero Core2 may be
// copied to.
func (c *Core2) CopyFrom(o *Core2) {
	buffer, missing, skips, owed := c.buffer.items, c.missing, c.skips, c.pings.owed
	*c = *o
	c.buffer = queue[loaded]{items: append(buffer[:0], o.buffer.items[o.buffer.head:]...)}
	c.missing = append(missing[:0], o.missing...)
	c.skips = append(skips[:0], o.skips...)
	c.pings.owed = append(owed[:0], o.pings.owed...)
}

// AppendKey appends bytes that are equal for two cores with the same name, token and limits if and only if they are in the
// same state and do the same from then on, in a search without a clock: times are not in it, nor are counts.
func (c *Core2) AppendKey(dst []byte) []byte {
	flags := uint64(c.mode)
	for _, set := range [...]bool{c.numbers.Known, c.before.Known, c.confirmed, c.bye, c.resume.IsZero()} {
		flags <<= 1
		if set {
			flags |= 1
		}
	}
	for _, v := range [...]uint64{
		flags, uint64(c.numbers.Offset), uint64(c.before.Offset), c.next, c.first, c.hello.first, c.hello.last, c.welcome.first,
		c.welcome.last, c.acked, c.cursor, c.top, c.sent, c.window.Batches, uint64(c.window.Bytes), uint64(c.buffer.len()),
		uint64(len(c.missing)), uint64(len(c.skips)), uint64(len(c.pings.owed)), uint64(c.away), uint64(c.pings.idle),
	} {
		dst = binary.AppendUvarint(dst, v)
	}
	for _, r := range c.missing {
		dst = binary.AppendUvarint(binary.AppendUvarint(dst, r.first), r.last)
	}
	for _, id := range c.skips {
		dst = binary.AppendUvarint(dst, id)
	}
	for _, command := range c.pings.owed {
		dst = append(dst, byte(command))
	}
	for _, text := range [...]string{c.numbers.Instance, c.before.Instance} {
		dst = append(binary.AppendUvarint(dst, uint64(len(text))), text...)
	}
	for _, b := range c.buffer.items[c.buffer.head:] {
		skipped := byte(0)
		if b.skipped {
			skipped = 1
		}
		dst = appendEntry(append(dst, skipped), b.Batch)
	}
	return dst
}
