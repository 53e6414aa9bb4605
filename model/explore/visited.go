package explore

import "hash/maphash"

// visited finds a world among those seen. The worlds themselves are compared: no hash decides.
type visited[W comparable] struct {
	seed  maphash.Seed
	nodes []node[W]
	slots []uint64 // hash << 32 | place in nodes + 1; 0 is free
}

// node is a world seen, and how it was found.
type node[W comparable] struct {
	world  W
	parent uint32
	step   step
}

func newVisited[W comparable]() *visited[W] {
	return &visited[W]{seed: maphash.MakeSeed(), slots: make([]uint64, 1<<16)}
}

func (v *visited[W]) hash(w *W) uint32 { return uint32(maphash.Comparable(v.seed, *w) >> 32) }

// add says whether s is new, and then keeps it.
func (v *visited[W]) add(s *successor[W]) bool {
	mask := uint32(len(v.slots) - 1)
	i := s.hash & mask
	for ; v.slots[i] != 0; i = (i + 1) & mask {
		slot := v.slots[i]
		if uint32(slot>>32) == s.hash && v.nodes[uint32(slot)-1].world == s.world {
			return false
		}
	}
	v.nodes = append(v.nodes, node[W]{s.world, s.parent, s.step})
	v.slots[i] = uint64(s.hash)<<32 | uint64(len(v.nodes))
	if len(v.nodes)*2 > len(v.slots) {
		v.grow()
	}
	return true
}

func (v *visited[W]) grow() {
	old := v.slots
	v.slots = make([]uint64, 2*len(old))
	mask := uint32(len(v.slots) - 1)
	for _, slot := range old {
		if slot == 0 {
			continue
		}
		i := uint32(slot>>32) & mask
		for v.slots[i] != 0 {
			i = (i + 1) & mask
		}
		v.slots[i] = slot
	}
}
