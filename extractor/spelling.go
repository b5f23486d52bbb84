package extractor

import (
	"encoding/base64"
	"html"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDecoding is how many nested encodings are undone to find a secret. A URL in a JSON text in HTML has three.
const maxDecoding = 3

// A view is a text with its escapes decoded. Its byte i stands for the bytes from[i] to from[i+1] of the original.
type view struct {
	text string
	from []int
}

// decoded undoes one layer of escapes: percent signs, JSON and HTML. changed is false when there are none. A view whose from
// is nil is the original.
func (v view) decoded() (_ view, changed bool) {
	if !strings.ContainsAny(v.text, `%\&`) {
		return v, false
	}
	out := make([]byte, 0, len(v.text))
	from := make([]int, 0, len(v.text)+1)
	for at := 0; at < len(v.text); {
		plain, size := unescapeOne(v.text[at:])
		if size == 0 {
			plain, size = v.text[at:at+1], 1
		} else {
			changed = true
		}
		for range len(plain) {
			from = append(from, v.source(at))
		}
		out = append(out, plain...)
		at += size
	}
	return view{string(out), append(from, v.source(len(v.text)))}, changed
}

// spellingsOf returns a value and what becomes of it when a text that has it is decoded more often than it was encoded. What looks
// like an escape in it is decoded too, and a '\' at its end with what follows. A form has '+' for a space.
func spellingsOf(value string) []string {
	spellings := []string{value}
	if open := strings.TrimRight(value, `\`); open != value && strings.TrimSpace(open) != "" {
		spellings = append(spellings, open)
		value = open
	}
	v := view{text: value}
	for range maxDecoding {
		var changed bool
		if v, changed = v.decoded(); !changed || strings.TrimSpace(v.text) == "" {
			break
		}
		spellings = append(spellings, v.text)
	}
	for _, spelling := range spellings {
		if form := strings.ReplaceAll(spelling, " ", "+"); form != spelling {
			spellings = append(spellings, form)
		}
	}
	return spellings
}

// source returns where a byte of the view begins in the original.
func (v view) source(i int) int {
	if v.from == nil {
		return i
	}
	return v.from[i]
}

// unescapeOne decodes the escape at the start of s. size is its length, 0 without an escape.
func unescapeOne(s string) (plain string, size int) {
	switch {
	case len(s) > 2 && s[0] == '%' && isHex(s[1]) && isHex(s[2]):
		b, _ := strconv.ParseUint(s[1:3], 16, 8)
		return string([]byte{byte(b)}), 3
	case len(s) > 1 && s[0] == '\\':
		if i := strings.IndexByte(`"\/bfnrt`, s[1]); i >= 0 {
			return "\"\\/\b\f\n\r\t"[i : i+1], 2
		}
		r, ok := unicodeEscape(s)
		if !ok {
			return "", 0
		}
		if low, ok := unicodeEscape(s[6:]); ok {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				return string(pair), 12
			}
		}
		return string(r), 6
	case s[0] == '&':
		const longest = 12 // of the entities that programs write
		end := strings.IndexByte(s[:min(len(s), longest)], ';')
		if end < 0 || strings.ContainsFunc(s[1:end], func(r rune) bool { return r != '#' && (r >= utf8.RuneSelf || !alphanumeric(byte(r))) }) {
			return "", 0
		}
		if plain := html.UnescapeString(s[:end+1]); plain != s[:end+1] {
			return plain, end + 1
		}
	}
	return "", 0
}

func unicodeEscape(s string) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	r, err := strconv.ParseUint(s[2:6], 16, 16)
	return rune(r), err == nil
}

// minBase64 is the length of the shortest core because shorter ones occur by chance.
const minBase64 = 5

// A core is the part of a base64 text that depends on a secret in it alone. before and after report whether the characters
// next to it hold bits of the secret too.
type core struct {
	text          string
	before, after bool
}

// inBase64 returns the cores of a secret for each alignment, in both alphabets.
func inBase64(secret string) []core {
	var cores []core
	for shift := range 3 {
		begin, end := (8*shift+5)/6, 8*(shift+len(secret))/6
		if end-begin < minBase64 {
			continue
		}
		text := []byte(strings.Repeat("\x00", shift) + secret)
		for _, alphabet := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			c := core{alphabet.EncodeToString(text)[begin:end], 8*shift%6 != 0, 8*(shift+len(secret))%6 != 0}
			if len(cores) == 0 || cores[len(cores)-1] != c {
				cores = append(cores, c)
			}
		}
	}
	return cores
}

// run returns the bounds of the base64 text around an occurrence. A slash in it that holds no bits of the secret is taken
// for one of a path.
func (c core) run(text string, begin, end int) (int, int) {
	if c.before && begin > 0 {
		begin--
	}
	for begin > 0 && text[begin-1] < utf8.RuneSelf && alphanumeric(text[begin-1]) {
		begin--
	}
	if c.after && end < len(text) {
		end++
	}
	for end < len(text) && text[end] < utf8.RuneSelf && (alphanumeric(text[end]) || text[end] == '=') {
		end++
	}
	return begin, end
}
