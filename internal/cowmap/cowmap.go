// Package cowmap has a map that is read without a lock.
package cowmap

import (
	"hash/maphash"
	"iter"
	"maps"
	"sync/atomic"
)

// Map has values by id. Readers need no lock. Each part is an immutable map, so that a change copies one part, and not all values. Only one
// goroutine may change the map at a time.
type Map[V any] struct {
	seed  maphash.Seed
	parts [256]atomic.Pointer[map[string]*V]
	count atomic.Int64
}

// New returns an empty map.
func New[V any]() *Map[V] {
	m := &Map[V]{seed: maphash.MakeSeed()}
	for i := range m.parts {
		m.parts[i].Store(new(map[string]*V))
	}
	return m
}

func (m *Map[V]) part(id string) *atomic.Pointer[map[string]*V] {
	return &m.parts[maphash.String(m.seed, id)%uint64(len(m.parts))]
}

// Get returns the value of an id, or nil for an id without one.
func (m *Map[V]) Get(id string) *V { return (*m.part(id).Load())[id] }

// Put sets the value of an id, and nil removes it.
func (m *Map[V]) Put(id string, v *V) {
	part := m.part(id)
	next := maps.Clone(*part.Load())
	before := len(next)
	switch {
	case v == nil:
		delete(next, id)
	case next == nil:
		next = map[string]*V{id: v}
	default:
		next[id] = v
	}
	part.Store(&next)
	m.count.Add(int64(len(next) - before))
}

// Len returns the number of values.
func (m *Map[V]) Len() int { return int(m.count.Load()) }

// All returns the values in no order. A value that changes meanwhile appears as it was or as it is.
func (m *Map[V]) All() iter.Seq[*V] {
	return func(yield func(*V) bool) {
		for i := range m.parts {
			for _, v := range *m.parts[i].Load() {
				if !yield(v) {
					return
				}
			}
		}
	}
}
