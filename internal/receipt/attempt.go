package receipt

import (
	"errors"
	"time"

	"github.com/forebay/forebay/buffer"
)

// ErrOtherContent is returned for a key that an earlier call has used with different content.
var ErrOtherContent = errors.New("the key was used for other content: use a new key for a new call")

// An Attempt is a running call with a key. It knows which records earlier calls have stored, and makes the receipts of the rows of this call. The
// methods without an error serve a call without a key too, for which the attempt is nil. Only one goroutine may use it.
type Attempt struct {
	claim *buffer.Claim
	held  bool // by a Turn
	sum   contentSum
	// By sink of the source, stored has the records that earlier calls have stored, taken the records that this call has
	// mapped and that have no receipt yet.
	stored, taken []spans
	// storedAside and takenAside are those among them that went into the quarantine.
	storedAside, takenAside []spans
}

// Begin returns the attempt of a call that has the turn of its key, after calls with the earlier receipts. It is for the sinks 0 to sinks-1, and place returns the place of a sink by its name
// in the buffer, or a negative number. Calls that are older than within do not count, unless it is 0. The error is ErrOtherContent.
func Begin(claim *buffer.Claim, earlier []buffer.Receipt, content []byte, within time.Duration, sinks int, place func(sinkID string) int) (*Attempt, error) {
	bySink := func() []spans { return make([]spans, sinks) }
	a := &Attempt{claim: claim, sum: sumOf(content), stored: bySink(), taken: bySink(), storedAside: bySink(), takenAside: bySink()}
	for _, r := range earlier {
		if within > 0 && time.Since(r.At) >= within {
			continue
		}
		sum, stored, aside, ok := parse(r.Data)
		if !ok {
			continue // of a later version of this library
		}
		if sum != a.sum && sum != (contentSum{}) && a.sum != (contentSum{}) {
			return nil, ErrOtherContent
		}
		if k := place(r.SinkID); k >= 0 {
			a.stored[k], a.storedAside[k] = a.stored[k].join(stored), a.storedAside[k].join(aside)
		}
	}
	return a, nil
}

// Hold keeps the turn after Release.
func (a *Attempt) Hold() {
	if a != nil {
		a.held = true
	}
}

// Release ends the turn, unless it is held. It may be called again.
func (a *Attempt) Release() {
	if a != nil && !a.held {
		a.claim.Release()
	}
}

// Has reports whether an earlier call has stored record i at sink k.
func (a *Attempt) Has(k, i int) bool { return a != nil && a.stored[k].has(i) }

// Knows reports whether earlier calls have stored rows at sink k.
func (a *Attempt) Knows(k int) bool { return a != nil && len(a.stored[k]) > 0 }

// HasAside reports whether record i is in the quarantine of sink k, or was.
func (a *Attempt) HasAside(k, i int) bool { return a != nil && a.storedAside[k].has(i) }

// Take notes that record i is mapped for sink k.
func (a *Attempt) Take(k, i int) {
	if a != nil {
		a.taken[k] = a.taken[k].with(i)
	}
}

// TakeAside notes that record i goes into the quarantine of sink k.
func (a *Attempt) TakeAside(k, i int) {
	if a != nil {
		a.Take(k, i)
		a.takenAside[k] = a.takenAside[k].with(i)
	}
}

// AddTo gives the rows of sink k their receipt. They are of records below a number. The rows of later records are
// mapped, and not part of this portion.
func (a *Attempt) AddTo(r *buffer.Rows, k, below int) {
	if a == nil {
		return
	}
	now, later := a.taken[k].cut(below)
	aside, laterAside := a.takenAside[k].cut(below)
	a.taken[k], a.takenAside[k] = later, laterAside
	r.Claim, r.Receipt = a.claim, encode(a.sum, now, aside)
}
