package forebay

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/mapping"
)

// Once makes a call repeatable: see [Engine.IngestOnce].
type Once struct {
	// Key names the call among all calls to its source: any text that is not empty.
	Key string
	// Content is what the key stands for. A call with the key of an earlier one and other content is refused with
	// [ErrOtherContent]. Default: contents are not compared.
	Content []byte
	// Within is how long an earlier call counts. Default: as long as keys are kept, see buffer.Options.KeyRetention.
	Within time.Duration
}

// ErrOtherContent is returned for a key that an earlier call has used for other content. Nothing was stored.
var ErrOtherContent = errors.New("the key was used for other content")

// IngestOnce is [Engine.IngestBatch] for a call that may be repeated, because its caller did not learn the outcome or some
// sinks have failed. What a call with the same key has stored is not stored again: at those sinks the result is that of the
// first call, with SinkResult.Replayed. All else is stored now, and what was rejected is rejected again. The records must be
// the same, in the same order.
//
// The key is stored in one batch with the rows, so the promise holds after a crash, a power cut or an unknown outcome
// ([buffer.FailedError], a ctx that ended), in copies of the data directory too. It is kept for
// buffer.Options.KeyRetention, by default 24 h, within the bounds of MaxKeys and MaxKeyBytes. Calls at once with one key take turns.
// A call without a key costs nothing for it.
//
// Errors are those of IngestBatch, and [ErrOtherContent].
func (e *Engine) IngestOnce(ctx context.Context, sourceID string, once Once, recs []*mapping.Record) ([]Result, error) {
	return e.ingestBatch(ctx, sourceID, &once, false, recs)
}

// attempt is a call with a key under way.
type attempt struct {
	claim *buffer.Claim
	sum   contentSum
	// stored are the records that earlier calls have stored, taken those that this call has mapped and that have no receipt
	// yet; both by sink of the source.
	stored, taken []spans
	// below bounds the records of the next receipts: rows of later ones are mapped and not handed to the buffer yet.
	below int
}

// contentSum is a hash of a content; the zero value stands for none.
type contentSum [16]byte

func sumOf(content []byte) (s contentSum) {
	if content != nil {
		sum := sha256.Sum256(content)
		copy(s[:], sum[:])
	}
	return s
}

// keyOf hashes the name of a call. The length keeps a source from meeting the keys of another.
func keyOf(sourceID, name string) (k buffer.Key) {
	text := binary.AppendUvarint(make([]byte, 0, 256), uint64(len(sourceID)))
	sum := sha256.Sum256(append(append(text, sourceID...), name...))
	copy(k[:], sum[:])
	return k
}

// attempt waits for the turn of a call with a key; nil without a key. The caller releases the claim.
func (e *Engine) attempt(ctx context.Context, src *source, once *Once) (*attempt, error) {
	if once == nil {
		return nil, nil
	}
	if once.Key == "" {
		return nil, errors.New("forebay: the key of the call is empty")
	}
	claim, err := e.buf.Claim(ctx, keyOf(src.def.ID, once.Key))
	if err != nil {
		return nil, err
	}
	a := &attempt{
		claim: claim, sum: sumOf(once.Content), stored: make([]spans, len(src.sinks)), taken: make([]spans, len(src.sinks)), below: math.MaxInt,
	}
	for _, r := range claim.Receipts() {
		if once.Within > 0 && time.Since(r.At) >= once.Within {
			continue
		}
		sum, stored, ok := parseReceipt(r.Data)
		if !ok {
			continue // of a later version of this library
		}
		if sum != a.sum && sum != (contentSum{}) && a.sum != (contentSum{}) {
			claim.Release()
			return nil, ErrOtherContent
		}
		k := slices.IndexFunc(src.sinks, func(s *sink) bool { return s.handle.ID() == r.SinkID })
		if k >= 0 {
			a.stored[k] = a.stored[k].join(stored)
		}
	}
	return a, nil
}

// release ends the part of the caller in the turn. It may be repeated, also on nil.
func (a *attempt) release() {
	if a != nil {
		a.claim.Release()
	}
}

// has reports whether an earlier call has stored record i at sink k.
func (a *attempt) has(k, i int) bool { return a != nil && a.stored[k].has(i) }

// knows reports whether earlier calls have stored anything at sink k.
func (a *attempt) knows(k int) bool { return a != nil && len(a.stored[k]) > 0 }

// take notes that record i is mapped for sink k.
func (a *attempt) take(k, i int) {
	if a != nil {
		a.taken[k] = a.taken[k].with(i)
	}
}

// rows completes the rows of sink k with their receipt.
func (a *attempt) rows(r buffer.Rows, k int) buffer.Rows {
	if a == nil {
		return r
	}
	now, later := a.taken[k].cut(a.below)
	a.taken[k] = later
	r.Claim, r.Receipt = a.claim, appendReceipt(nil, a.sum, now)
	return r
}

// spans are record numbers: ascending, not empty and apart from each other.
type spans []span

type span struct{ from, to int } // to is outside

func (s spans) has(i int) bool {
	at, found := slices.BinarySearchFunc(s, i, func(p span, i int) int { return cmp.Compare(p.from, i) })
	return found || at > 0 && i < s[at-1].to
}

// with adds a number above all others.
func (s spans) with(i int) spans {
	if n := len(s); n > 0 && s[n-1].to == i {
		s[n-1].to++
		return s
	}
	return append(s, span{i, i + 1})
}

// cut returns the numbers below a bound, and the others.
func (s spans) cut(below int) (low, high spans) {
	for _, p := range s {
		if p.from < below {
			low = append(low, span{p.from, min(p.to, below)})
		}
		if p.to > below {
			high = append(high, span{max(p.from, below), p.to})
		}
	}
	return low, high
}

func (s spans) join(o spans) spans {
	all := slices.Concat(s, o)
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	joined := all[:0]
	for _, p := range all {
		if n := len(joined); n > 0 && p.from <= joined[n-1].to {
			joined[n-1].to = max(joined[n-1].to, p.to)
			continue
		}
		joined = append(joined, p)
	}
	return joined
}

// A receipt is the hash of the content, and then for each span of records how far it begins behind the one before and how
// long it is, as varints. It says nothing of records that it does not name.
const receiptVersion = 1

func appendReceipt(b []byte, sum contentSum, stored spans) []byte {
	b = append(append(b, receiptVersion), sum[:]...)
	at := 0
	for _, p := range stored {
		b = binary.AppendUvarint(b, uint64(p.from-at))
		b = binary.AppendUvarint(b, uint64(p.to-p.from))
		at = p.to
	}
	return b
}

func parseReceipt(b []byte) (sum contentSum, stored spans, ok bool) {
	if len(b) < 1+len(sum) || b[0] != receiptVersion {
		return sum, nil, false
	}
	b = b[1+copy(sum[:], b[1:]):]
	at := 0
	for len(b) > 0 {
		gap, n := binary.Uvarint(b)
		if n <= 0 {
			return sum, nil, false
		}
		size, m := binary.Uvarint(b[n:])
		if m <= 0 || gap > math.MaxInt32 || size == 0 || size > math.MaxInt32 {
			return sum, nil, false
		}
		b = b[n+m:]
		at += int(gap)
		stored = append(stored, span{at, at + int(size)})
		at += int(size)
	}
	return sum, stored, true
}
