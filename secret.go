package forebay

import (
	"crypto/sha256"
	"crypto/subtle"
	"time"
)

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

// secrets of a source, as digests: ConstantTimeCompare reveals the length of what it compares. The zero digest stands for no
// secret: no text is known that has it.
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
	if old == 1 && !time.Now().Before(s.oldUntil) { // only who has the old secret pays for the clock
		old = 0
	}
	return current|old == 1
}

func secretDigest(s string) [sha256.Size]byte {
	var buf [256]byte // longer secrets cost an allocation
	return sha256.Sum256(append(buf[:0], s...))
}
