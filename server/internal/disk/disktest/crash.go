package disktest

import (
	"maps"
	"slices"
)

// PowerCut returns the disk as it may be after the power went: pick(n) chooses 0 to n-1 for each
// freedom, 0 the most lost. The old disk and its open files must not be used any more.
func (d *Disk) PowerCut(pick func(n int) int) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	after := &Disk{inodes: d.inodes, names: map[string]*inode{}}
	names := maps.Clone(d.synced)
	for _, c := range d.pending[:pick(len(d.pending)+1)] {
		c.apply(names)
	}
	for _, path := range slices.Sorted(maps.Keys(names)) {
		node := *names[path]
		node.data = node.left(pick)
		node.durable, node.locked = slices.Clone(node.data), false
		after.names[path] = &node
	}
	after.synced = maps.Clone(after.names)
	return after
}

// Kill returns the disk as it is after the process was killed: all calls that returned are there.
// What was not synced is still not durable.
func (d *Disk) Kill() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	after := &Disk{inodes: d.inodes, names: map[string]*inode{}, synced: map[string]*inode{}}
	copies := map[*inode]*inode{}
	copyOf := func(n *inode) *inode {
		if n != nil && copies[n] == nil {
			copies[n] = &inode{number: n.number, dir: n.dir, data: slices.Clone(n.data), durable: slices.Clone(n.durable)}
		}
		return copies[n]
	}
	for path, n := range d.names {
		after.names[path] = copyOf(n)
	}
	for path, n := range d.synced {
		after.synced[path] = copyOf(n)
	}
	for _, c := range d.pending {
		after.pending = append(after.pending, change{c.path, copyOf(c.node), c.old})
	}
	return after
}

// left is what a power cut leaves of a file.
func (n *inode) left(pick func(n int) int) []byte {
	short, long := min(len(n.data), len(n.durable)), max(len(n.data), len(n.durable))
	size := short + pick(long-short+1)
	out := make([]byte, size)
	copy(out, n.durable)
	for at := 0; at < size; at += sector {
		end := min(at+sector, size)
		fresh := n.data[min(at, len(n.data)):min(end, len(n.data))]
		if string(fresh) != string(out[at:end]) && pick(2) == 1 {
			copy(out[at:end], fresh)
		}
	}
	return out
}
