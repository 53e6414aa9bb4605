package explore

import "sync"

// pool holds each different item once, under its key. Goroutines share it; items never change.
type pool[T any] struct {
	mu    sync.RWMutex
	ids   map[string]uint32
	items []T
}

func (p *pool[T]) find(key []byte) (uint32, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	id, ok := p.ids[string(key)]
	return id, ok
}

// add makes an item for the key, unless another goroutine was faster.
func (p *pool[T]) add(key []byte, item func(id uint32) T) uint32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if id, ok := p.ids[string(key)]; ok {
		return id
	}
	if p.ids == nil {
		p.ids = map[string]uint32{}
	}
	id := uint32(len(p.items))
	p.ids[string(key)] = id
	p.items = append(p.items, item(id))
	return id
}

// firsts tells which item of a pool was the first with a part of the key; the pool's lock guards it.
type firsts map[string]uint32

func (f firsts) first(part []byte, id uint32) uint32 {
	if old, ok := f[string(part)]; ok {
		return old
	}
	f[string(part)] = id
	return id
}

// view is a pool as one goroutine sees it: it reads without the lock what it has seen.
type view[T any] struct {
	*pool[T]
	seen []T
}

func (v *view[T]) at(id uint32) T {
	if int(id) >= len(v.seen) {
		v.mu.RLock()
		v.seen = v.items
		v.mu.RUnlock()
	}
	return v.seen[id]
}
