package statemachine

import "sort"

// digests maps numbers to sums: eight bytes a number while the numbers have no gaps. The sums lie
// in the order of their numbers; a span says which numbers a stretch of them has.
type digests struct {
	spans fifo[span]
	sums  fifo[uint64]
	gone  uint64 // sums dropped from the front so far
}

// span is the numbers first to last; the sum of first is the at-th ever, counted with the dropped ones.
type span struct{ first, last, at uint64 }

func (d *digests) len() int { return d.sums.len() }

// search is the index of the first span that ends at or above id.
func (d *digests) search(id uint64) int {
	spans := d.spans.live()
	if n := len(spans); n > 0 && spans[n-1].last < id {
		return n // numbers mostly come in order
	}
	return sort.Search(len(spans), func(i int) bool { return spans[i].last >= id })
}

// index is where the sum of id lies, or would lie, and whether it is there.
func (d *digests) index(id uint64) (int, bool) {
	i := d.search(id)
	if i == d.spans.len() {
		return d.sums.len(), false
	}
	s := d.spans.live()[i]
	if id < s.first {
		return int(s.at - d.gone), false
	}
	return int(s.at - d.gone + id - s.first), true
}

func (d *digests) get(id uint64) (uint64, bool) {
	i, ok := d.index(id)
	if !ok {
		return 0, false
	}
	return d.sums.live()[i], true
}

// set remembers sum under id and tells whether that changed anything.
func (d *digests) set(id, sum uint64) bool {
	if spans := d.spans.live(); len(spans) > 0 && spans[len(spans)-1].last+1 == id {
		spans[len(spans)-1].last = id // the next number: the straight path
		d.sums.push(sum)
		return true
	}
	i, ok := d.index(id)
	if ok {
		old := d.sums.live()[i]
		d.sums.live()[i] = sum
		return old != sum
	}
	d.cover(id, uint64(i)+d.gone)
	if i == d.sums.len() {
		d.sums.push(sum)
	} else {
		d.sums.insert(i, sum)
	}
	return true
}

// cover adds id, whose sum is about to lie at the at-th place, to the spans.
func (d *digests) cover(id, at uint64) {
	i := d.search(id)
	spans := d.spans.live()
	for j := i; j < len(spans); j++ {
		spans[j].at++
	}
	joinsLeft := i > 0 && spans[i-1].last+1 == id
	joinsRight := i < len(spans) && spans[i].first == id+1
	switch {
	case joinsLeft && joinsRight:
		spans[i].first, spans[i].at = spans[i-1].first, spans[i-1].at
		copy(spans[i-1:], spans[i:])
		d.spans.buf = d.spans.buf[:len(d.spans.buf)-1]
	case joinsLeft:
		spans[i-1].last = id
	case joinsRight:
		spans[i].first, spans[i].at = id, at
	default:
		d.spans.insert(i, span{id, id, at})
	}
}

// forget drops every number up to and including high.
func (d *digests) forget(high uint64) {
	n, found := d.index(high)
	if found {
		n++
	}
	if n == 0 {
		return
	}
	d.sums.drop(n)
	d.gone += uint64(n)
	d.spans.drop(d.search(high + 1))
	if spans := d.spans.live(); len(spans) > 0 && spans[0].first <= high {
		spans[0].at += high + 1 - spans[0].first
		spans[0].first = high + 1
	}
}

// above counts the numbers above id.
func (d *digests) above(id uint64) int {
	i, found := d.index(id)
	if found {
		i++
	}
	return d.sums.len() - i
}

// appendTo appends the numbers above low with their sums, in order.
func (d *digests) appendTo(list []Digest, low uint64) []Digest {
	sums := d.sums.live()
	for _, s := range d.spans.live() {
		for id := max(s.first, low+1); id <= s.last; id++ {
			list = append(list, Digest{id, sums[s.at-d.gone+id-s.first]})
		}
	}
	return list
}
