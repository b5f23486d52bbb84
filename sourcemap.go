package forebay

import (
	"hash/maphash"
	"iter"
	"maps"
	"sync/atomic"
)

// sourceMap has the sources by id. Readers take no lock. Each part is an immutable map, so that a change copies one part, and not the map
// of all sources. The holder of Engine.define alone changes it.
type sourceMap struct {
	seed  maphash.Seed
	parts [256]atomic.Pointer[map[string]*source]
	count atomic.Int64
}

func newSourceMap() *sourceMap {
	m := &sourceMap{seed: maphash.MakeSeed()}
	for i := range m.parts {
		m.parts[i].Store(new(map[string]*source))
	}
	return m
}

func (m *sourceMap) part(id string) *atomic.Pointer[map[string]*source] {
	return &m.parts[maphash.String(m.seed, id)%uint64(len(m.parts))]
}

// get returns nil for an id that no source has.
func (m *sourceMap) get(id string) *source { return (*m.part(id).Load())[id] }

// put sets the source of an id; nil removes it.
func (m *sourceMap) put(id string, src *source) {
	part := m.part(id)
	next := maps.Clone(*part.Load())
	before := len(next)
	switch {
	case src == nil:
		delete(next, id)
	case next == nil:
		next = map[string]*source{id: src}
	default:
		next[id] = src
	}
	part.Store(&next)
	m.count.Add(int64(len(next) - before))
}

func (m *sourceMap) len() int { return int(m.count.Load()) }

// all returns the sources in no order. A source that changes meanwhile appears as it was or as it is.
func (m *sourceMap) all() iter.Seq[*source] {
	return func(yield func(*source) bool) {
		for i := range m.parts {
			for _, src := range *m.parts[i].Load() {
				if !yield(src) {
					return
				}
			}
		}
	}
}
