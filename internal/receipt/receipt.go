// Package receipt encodes the rows that a call with a key has stored at a sink.
package receipt

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"
)

// contentSum is a hash of a content. The zero value stands for none.
type contentSum [16]byte

// sumOf returns the hash of a content. Nil has none.
func sumOf(content []byte) (s contentSum) {
	if content != nil {
		sum := sha256.Sum256(content)
		copy(s[:], sum[:])
	}
	return s
}

// spans are record numbers, ascending, not empty and apart from each other.
type spans []span

type span struct{ from, to int } // to is outside

// has reports whether a number is among them.
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

// join returns the numbers of both.
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

// A receipt is a version byte, the hash of the content, and two varints for each span of records, namely its distance from the end
// of the span before, and its length. Records that it does not name are not stored by it. With records in the quarantine its version
// is another, and the number of the spans stands before them, and the spans of those in the quarantine, which are part of the others, follow.
const (
	versionPlain = 1
	versionAside = 2
)

// encode returns the receipt of a call whose content has the hash sum. aside are the records among stored that are in the quarantine.
func encode(sum contentSum, stored, aside spans) []byte {
	if len(aside) == 0 {
		return appendSpans(append([]byte{versionPlain}, sum[:]...), stored)
	}
	b := binary.AppendUvarint(append([]byte{versionAside}, sum[:]...), uint64(len(stored)))
	return appendSpans(appendSpans(b, stored), aside)
}

func appendSpans(b []byte, stored spans) []byte {
	at := 0
	for _, p := range stored {
		b = binary.AppendUvarint(b, uint64(p.from-at))
		b = binary.AppendUvarint(b, uint64(p.to-p.from))
		at = p.to
	}
	return b
}

// parse reads a receipt. It returns false for one of a later version of this library.
func parse(b []byte) (sum contentSum, stored, aside spans, ok bool) {
	if len(b) < 1+len(sum) || b[0] != versionPlain && b[0] != versionAside {
		return sum, nil, nil, false
	}
	version := b[0]
	b = b[1+copy(sum[:], b[1:]):]
	if version == versionPlain {
		stored, _, ok = parseSpans(b, math.MaxInt)
		return sum, stored, nil, ok
	}
	count, n := binary.Uvarint(b)
	if n <= 0 || count > uint64(len(b)) {
		return sum, nil, nil, false
	}
	if stored, b, ok = parseSpans(b[n:], int(count)); !ok || len(stored) < int(count) {
		return sum, nil, nil, false
	}
	aside, _, ok = parseSpans(b, math.MaxInt)
	return sum, stored, aside, ok
}

// parseSpans reads up to most spans and returns what follows them.
func parseSpans(b []byte, most int) (stored spans, rest []byte, ok bool) {
	at := 0
	for len(b) > 0 && len(stored) < most {
		gap, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, nil, false
		}
		size, m := binary.Uvarint(b[n:])
		if m <= 0 || gap > math.MaxInt32 || size == 0 || size > math.MaxInt32 {
			return nil, nil, false
		}
		b = b[n+m:]
		at += int(gap)
		stored = append(stored, span{at, at + int(size)})
		at += int(size)
	}
	return stored, b, true
}

// Count returns how many records a receipt names, and how many of them went into the quarantine. It returns false for a receipt of a later
// version of this library.
func Count(data []byte) (stored, aside int, ok bool) {
	_, s, a, ok := parse(data)
	return s.count(), a.count(), ok
}

// count returns the number of records.
func (s spans) count() (n int) {
	for _, p := range s {
		n += p.to - p.from
	}
	return n
}
