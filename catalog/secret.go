package catalog

import (
	"context"
	"crypto/rand"
	"fmt"
	"math/big"
	"time"
)

// MaxSecretOverlap is the longest time for which an old secret may stay valid in addition to the new one.
const MaxSecretOverlap = 7 * 24 * time.Hour

// newSecret returns 48 random letters and digits.
func newSecret() string {
	const digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	secret := make([]byte, 48)
	for i := range secret {
		n, _ := rand.Int(rand.Reader, big.NewInt(int64(len(digits)))) // crypto/rand never fails
		secret[i] = digits[n.Int64()]
	}
	return string(secret)
}

// setSecret replaces the secret. The one before is accepted for the overlap, an older one no more.
func (s *Source) setSecret(secret string, at time.Time, overlap time.Duration) {
	s.endOldSecret()
	if overlap > 0 {
		s.OldSecret, s.OldSecretUntil = s.Secret, at.Add(overlap)
	}
	s.Secret = secret
}

// endOldSecret forgets the old secret. What it was is kept nowhere, so nothing can bring it back.
func (s *Source) endOldSecret() { s.OldSecret, s.OldSecretUntil = "", time.Time{} }

// RotateSecret gives a source a new secret and returns the source. The old one is also accepted for the overlap, 0 to
// [MaxSecretOverlap], and an older one ends at once. Without an overlap, which is right after a leak, the new
// secret is the only one from now on. When ctx ends before the outcome is known, the secret may be rotated or not.
// [Catalog.Source] tells.
func (c *Catalog) RotateSecret(ctx context.Context, by By, id string, overlap time.Duration) (Source, error) {
	if overlap < 0 || overlap > MaxSecretOverlap {
		return Source{}, refuse(BadRequest, "overlap is %s, must be from 0s to %s.", overlap, MaxSecretOverlap)
	}
	secret := newSecret()
	err := c.direct(ctx, by, Ref{Source: id}, id, live(func(ch *change) error {
		ch.next.source.setSecret(secret, ch.at, overlap)
		text := "Rotated secret."
		if overlap > 0 {
			text = fmt.Sprintf("Rotated secret. The old one is accepted until %s.", Time(ch.next.source.OldSecretUntil))
		}
		ch.addVersion("", text)
		return nil
	}))
	if err != nil {
		return Source{}, err
	}
	return c.Source(id)
}
