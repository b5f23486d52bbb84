// Package textcut shortens texts without leaving a part of a character.
package textcut

import "unicode/utf8"

// Head returns the beginning of a text, at most so many bytes. It leaves a character out if only a part of it fits. Where a text is not UTF-8,
// no more than three bytes are left out for that. The result shares the memory of the text.
func Head[T ~string | ~[]byte](text T, most int) T {
	if len(text) <= most {
		return text
	}
	for end := most; end >= 0 && end > most-utf8.UTFMax; end-- {
		if utf8.RuneStart(text[end]) {
			return text[:end]
		}
	}
	return text[:most] // it is not UTF-8
}

// Short returns a text of at most so many bytes as it is, and the head of a longer one with … after it.
func Short[T ~string | ~[]byte](text T, most int) string {
	if len(text) <= most {
		return string(text)
	}
	return string(Head(text, most)) + "…"
}
