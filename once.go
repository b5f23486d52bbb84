package forebay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/internal/kept"
	"github.com/forebay/forebay/internal/receipt"
)

// Once makes a call repeatable. See [Engine.IngestOnce].
type Once struct {
	// Key names the call among all calls to its source. It must not be empty.
	Key string
	// Content is the content that the key stands for. A call with a known key and different content is refused with
	// [ErrOtherContent]. Default: contents are not compared.
	Content []byte
	// Within is how long an earlier call counts. Default: as long as keys are kept, see buffer.Tuning.KeyRetention.
	Within time.Duration
	// Turn, when set, keeps the turn of the key after the call has returned, until [Turn.End]. Default: the turn ends with the call.
	Turn *Turn
}

// Turn is the turn of a call whose key identifies the call only until its outcome has reached the sender. Other calls with the key wait until
// End. Use it for senders that cannot name their calls. Then the key is computed from the content of a call, and a later call with the same content
// is a new call. A Turn must be zero before the call, and serves one call.
type Turn struct{ claim *buffer.Claim }

// End ends the turn. It must be called after every call with a Turn, whatever the call returned. arrived says that the sender has received the
// outcome and will not repeat the call. Then the key is forgotten. Otherwise the next call with the key repeats this call. After a crash within
// about a second of End, or before the next commit, the key may still be known.
//
// Calls after the first do nothing.
func (t *Turn) End(arrived bool) {
	if t.claim == nil {
		return
	}
	if arrived {
		t.claim.Forget()
	}
	t.claim.Release()
	t.claim = nil
}

// ErrOtherContent is returned for a key that an earlier call has used with different content. Nothing was stored.
var ErrOtherContent = errors.New("the key was used for other content: use a new key for a new call")

// attempt is a running call with a key.
type attempt struct {
	claim *buffer.Claim
	held  bool // by a Turn
	sum   receipt.Sum
	// By sink of the source, stored has the records that earlier calls have stored, taken the records that this call has
	// mapped and that have no receipt yet.
	stored, taken []receipt.Spans
	// storedAside and takenAside are those among them that went into the quarantine.
	storedAside, takenAside []receipt.Spans
}

// attempt waits for the turn of a call with a key. It returns nil without a key. The caller releases the claim.
func (e *Engine) attempt(ctx context.Context, src *source, once *Once) (*attempt, error) {
	if once == nil {
		return nil, nil
	}
	if once.Key == "" {
		return nil, errors.New("forebay: the key of the call is empty: set Once.Key to a text that is the same when the call is repeated")
	}
	claim, err := e.buf.Claim(ctx, kept.CallKey(src.def.ID, once.Key))
	if err != nil {
		return nil, err
	}
	bySink := func() []receipt.Spans { return make([]receipt.Spans, len(src.sinks)) }
	a := &attempt{claim: claim, sum: receipt.SumOf(once.Content), stored: bySink(), taken: bySink(), storedAside: bySink(), takenAside: bySink()}
	for _, r := range claim.Receipts() {
		if once.Within > 0 && time.Since(r.At) >= once.Within {
			continue
		}
		sum, stored, aside, ok := receipt.Parse(r.Data)
		if !ok {
			continue // of a later version of this library
		}
		if sum != a.sum && sum != (receipt.Sum{}) && a.sum != (receipt.Sum{}) {
			claim.Release()
			return nil, fmt.Errorf("source %q, key %.60q: %w", src.def.ID, once.Key, ErrOtherContent) // without a turn: End does nothing
		}
		k := slices.IndexFunc(src.sinks, func(s *sink) bool { return s.handle.ID() == r.SinkID })
		if k >= 0 {
			a.stored[k], a.storedAside[k] = a.stored[k].Join(stored), a.storedAside[k].Join(aside)
		}
	}
	if once.Turn != nil {
		once.Turn.claim, a.held = claim, true
	}
	return a, nil
}

// release ends the caller's part of the turn, unless a Turn holds it. It may be called again, and on nil.
func (a *attempt) release() {
	if a != nil && !a.held {
		a.claim.Release()
	}
}

// has reports whether an earlier call has stored record i at sink k.
func (a *attempt) has(k, i int) bool { return a != nil && a.stored[k].Has(i) }

// knows reports whether earlier calls have stored rows at sink k.
func (a *attempt) knows(k int) bool { return a != nil && len(a.stored[k]) > 0 }

// hasAside reports whether it is in the quarantine, or was.
func (a *attempt) hasAside(k, i int) bool { return a.storedAside[k].Has(i) }

// take notes that record i is mapped for sink k.
func (a *attempt) take(k, i int) {
	if a != nil {
		a.taken[k] = a.taken[k].With(i)
	}
}

// takeAside notes that record i goes into the quarantine of sink k.
func (a *attempt) takeAside(k, i int) {
	if a != nil {
		a.take(k, i)
		a.takenAside[k] = a.takenAside[k].With(i)
	}
}

// addReceipt gives the rows of sink k their receipt. They are of records below a number. The rows of later records are
// mapped, and not part of this portion.
func (a *attempt) addReceipt(r *buffer.Rows, k, below int) {
	now, later := a.taken[k].Cut(below)
	aside, laterAside := a.takenAside[k].Cut(below)
	a.taken[k], a.takenAside[k] = later, laterAside
	r.Claim, r.Receipt = a.claim, receipt.Append(nil, a.sum, now, aside)
}
