//go:build !forebay_notemplates

package template

import (
	"unicode/utf8"
	"unsafe"
)

// Jsonnet counts characters, Go counts bytes. For the last few long texts a machine remembers the offset of every 64th
// character, so that a character is found without counting from the start.

type textIndex struct {
	s     string
	count int      // characters
	marks []uint32 // offset of every markEvery-th character, nil if each character is one byte

	// The last character found and its offset. Most programs ask for the next one.
	last, lastAt int
}

const (
	markEvery  = 64
	shortText  = 64 // up to this length counting is as fast
	keptTexts  = 4
	bytesAStep = 32 // of a text that is only read
)

// sameMemory reports whether two strings are the same bytes of memory, a comparison that costs nothing.
func sameMemory(a, b string) bool {
	return len(a) == len(b) && unsafe.StringData(a) == unsafe.StringData(b)
}

// indexOf returns the index of a long text.
func (m *machine) indexOf(s string) *textIndex {
	for i := range m.indexed {
		if t := &m.indexed[i]; sameMemory(t.s, s) {
			return t
		}
	}
	m.step(1 + len(s)/bytesAStep)
	t := &m.indexed[m.nextText%keptTexts]
	m.nextText++
	m.known = true
	*t = textIndex{s: s, count: utf8.RuneCountInString(s)}
	if t.count == len(s) {
		return t
	}
	m.alloc(4 * (t.count/markEvery + 1))
	t.marks = make([]uint32, 0, t.count/markEvery+1)
	n := 0
	for i := range s {
		if n%markEvery == 0 {
			t.marks = append(t.marks, uint32(i))
		}
		n++
	}
	return t
}

// offset returns where character number n begins, which may be the one after the last.
func (t *textIndex) offset(n int) int {
	switch {
	case n >= t.count:
		return len(t.s)
	case t.marks == nil:
		return n
	}
	from, at := n-n%markEvery, int(t.marks[n/markEvery])
	if from <= t.last && t.last <= n {
		from, at = t.last, t.lastAt
	}
	for range n - from {
		_, size := utf8.DecodeRuneInString(t.s[at:])
		at += size
	}
	t.last, t.lastAt = n, at
	return at
}

// runeCount returns the number of characters.
func (m *machine) runeCount(s string) int {
	if len(s) <= shortText {
		return utf8.RuneCountInString(s)
	}
	return m.indexOf(s).count
}

// runeSlice returns the characters from number from up to number to, or to the end. Neither is negative.
func (m *machine) runeSlice(s string, from, to int) string {
	m.ticks(2)
	if len(s) > shortText {
		t := m.indexOf(s)
		if t.marks != nil && from != t.last {
			m.step(1)
		}
		start := t.offset(from)
		return s[start:max(start, t.offset(to))]
	}
	start, n := len(s), 0
	for i := range s {
		if n == from {
			start = i
		}
		if n == to {
			return s[min(start, i):i]
		}
		n++
	}
	return s[start:]
}
