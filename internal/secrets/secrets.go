// Package secrets compares the secret of a request with the secrets of a source, in a time that depends on the given secret alone.
package secrets

import (
	"crypto/sha256"
	"crypto/subtle"
	"time"
)

// Digest stands for a secret, because ConstantTimeCompare reveals the length of the compared values. The zero digest stands for no secret, because
// no text is known that has it.
type Digest [sha256.Size]byte

// DigestOf returns the digest of a given secret.
func DigestOf(secret string) Digest {
	var buf [256]byte // longer secrets cost an allocation
	return sha256.Sum256(append(buf[:0], secret...))
}

// Secrets are the secrets of a source. The zero value accepts none.
type Secrets struct {
	current, old Digest
	oldUntil     time.Time
}

// New returns the secrets of a source. It accepts old before oldUntil. An empty secret is none.
func New(current, old string, oldUntil time.Time) Secrets {
	s := Secrets{oldUntil: oldUntil}
	if current != "" {
		s.current = DigestOf(current)
	}
	if old != "" {
		s.old = DigestOf(old)
	}
	return s
}

// Accept reports whether a given secret fits now.
func (s *Secrets) Accept(got *Digest) bool {
	current := subtle.ConstantTimeCompare(got[:], s.current[:])
	old := subtle.ConstantTimeCompare(got[:], s.old[:])
	if old == 1 && !time.Now().Before(s.oldUntil) { // only requests with the old secret pay for the clock
		old = 0
	}
	return current|old == 1
}
