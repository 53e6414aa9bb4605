package statemachine

import (
	"slices"
	"sort"
)

// ranges is a set of numbers as canonical intervals: sorted, disjoint, never adjacent.
type ranges []Range

// search is the index of the first range that ends at or above id.
func (r ranges) search(id uint64) int {
	return sort.Search(len(r), func(i int) bool { return r[i].Last >= id })
}

func (r ranges) contains(id uint64) bool {
	i := r.search(id)
	return i < len(r) && r[i].First <= id
}

// add puts first to last into the set; an empty interval (first > last) changes nothing.
func (r *ranges) add(first, last uint64) {
	if first > last {
		return
	}
	from := r.search(max(first, 1) - 1) // also the neighbour that ends right before first
	to := from
	for to < len(*r) && (*r)[to].First <= last+1 {
		first, last = min(first, (*r)[to].First), max(last, (*r)[to].Last)
		to++
	}
	if from == to {
		*r = slices.Insert(*r, from, Range{first, last})
		return
	}
	(*r)[from] = Range{first, last}
	*r = slices.Delete(*r, from+1, to)
}

func (r *ranges) remove(id uint64) {
	i := r.search(id)
	if i == len(*r) || (*r)[i].First > id {
		return
	}
	at := &(*r)[i]
	switch {
	case at.First == at.Last:
		*r = slices.Delete(*r, i, i+1)
	case at.First == id:
		at.First++
	case at.Last == id:
		at.Last--
	default:
		upper := Range{id + 1, at.Last}
		at.Last = id - 1
		*r = slices.Insert(*r, i+1, upper)
	}
}

// removeBelow takes out every number below first.
func (r *ranges) removeBelow(first uint64) {
	i := r.search(first)
	*r = slices.Delete(*r, 0, i)
	if len(*r) > 0 && (*r)[0].First < first {
		(*r)[0].First = first
	}
}

// canonical tells whether the set is as its type promises, within low to high.
func (r ranges) canonical(low, high uint64) bool {
	for i, x := range r {
		if x.First > x.Last || x.First < low || x.Last > high {
			return false
		}
		if i > 0 && r[i-1].Last+1 >= x.First {
			return false
		}
	}
	return true
}
