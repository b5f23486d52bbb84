package forebay

import (
	"crypto/sha256"
	"crypto/subtle"
	"hash/maphash"
	"iter"
	"maps"
	"sync/atomic"
	"time"
)

// sourceMap has the sources by id. Readers need no lock. Each part is an immutable map, so that a change copies one part, and not the map
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

// put sets the source of an id, and nil removes it.
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

// SourceWithSecret returns the definition of a source if secret is its Secret, or its OldSecret before OldSecretUntil. No
// secret fits a source without one.
//
// Its duration depends on the given secret alone, not on whether the source exists or which secrets it has.
func (e *Engine) SourceWithSecret(id, secret string) (Source, bool) {
	src := e.sources.get(id)
	if src == nil {
		src = noSource
	}
	got := secretDigest(secret)
	if !src.secrets.accept(&got) {
		return Source{}, false
	}
	return src.def, true
}

// SourcesWithSecret returns the definitions of all sources that the secret fits, by the rule of SourceWithSecret, in no order.
// All sources are compared, so that the duration does not tell which one fits.
func (e *Engine) SourcesWithSecret(secret string) []Source {
	got := secretDigest(secret)
	var list []Source
	for src := range e.sources.all() {
		if src.secrets.accept(&got) {
			list = append(list, src.def)
		}
	}
	return list
}

// secrets of a source, as digests: ConstantTimeCompare reveals the length of the compared values. The zero digest stands for
// no secret, because no text is known that has it.
type secrets struct {
	current, old [sha256.Size]byte
	oldUntil     time.Time
}

// noSource is compared with the secret of a request to an unknown source.
var noSource = &source{}

func newSecrets(def Source) secrets {
	s := secrets{oldUntil: def.OldSecretUntil}
	if def.Secret != "" {
		s.current = secretDigest(def.Secret)
	}
	if def.OldSecret != "" {
		s.old = secretDigest(def.OldSecret)
	}
	return s
}

func (s *secrets) accept(got *[sha256.Size]byte) bool {
	current := subtle.ConstantTimeCompare(got[:], s.current[:])
	old := subtle.ConstantTimeCompare(got[:], s.old[:])
	if old == 1 && !time.Now().Before(s.oldUntil) { // only requests with the old secret pay for the clock
		old = 0
	}
	return current|old == 1
}

func secretDigest(s string) [sha256.Size]byte {
	var buf [256]byte // longer secrets cost an allocation
	return sha256.Sum256(append(buf[:0], s...))
}
