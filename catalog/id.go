package catalog

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/forebay/forebay"
)

// reservedID is a word of the API's paths. A source or sink with this id could not be read.
const reservedID = "deleted"

// NormalizeID makes the id of a source or sink from an id or name that a user has given. The id has lower-case ASCII letters and
// digits, with '-' between words and before capitals. Accents are dropped ("Žluťoučký Kůň" becomes "zlutoucky-kun"),
// letters that have none are written out ("ß" becomes "ss"), all other characters separate words, and the id is cut to
// [forebay.MaxIDLength]. The result is empty when the text has neither letter nor digit that can be kept.
func NormalizeID(text string) string {
	var b strings.Builder
	gap := false // a '-' is owed before the next letter
	capital := false
	write := func(r rune) {
		if gap && b.Len() > 0 {
			b.WriteByte('-')
		}
		gap = false
		b.WriteRune(r)
	}
	for _, r := range norm.NFD.String(text) {
		if unicode.Is(unicode.Mn, r) {
			continue
		}
		isCapital := r >= 'A' && r <= 'Z'
		if isCapital && !capital {
			gap = true
		}
		capital = unicode.IsUpper(r)
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			write(r)
		case isCapital:
			write(unicode.ToLower(r))
		default:
			letters, known := writtenOut[unicode.ToLower(r)]
			if !known {
				gap = true
				continue
			}
			for _, l := range letters {
				write(l)
			}
		}
	}
	id := b.String()
	if len(id) > forebay.MaxIDLength {
		id = strings.TrimRight(id[:forebay.MaxIDLength], "-")
	}
	return id
}

// writtenOut are the Latin letters that have no decomposition.
var writtenOut = map[rune]string{
	'ß': "ss", 'æ': "ae", 'œ': "oe", 'ø': "o", 'đ': "d", 'ð': "d", 'þ': "th", 'ħ': "h", 'ı': "i", 'ł': "l", 'ŧ': "t", 'ŋ': "n", 'ĸ': "k",
}

// newID checks and normalizes the id of a create request, or else its name.
func newID(given, name, field string) (string, *Error) {
	text := given
	if text == "" {
		text, field = name, "name"
	}
	if n := utf8.RuneCountInString(text); n > forebay.MaxIDLength {
		return "", refuse(BadRequest, "%s has %d characters, at most %d are allowed.", field, n, forebay.MaxIDLength)
	}
	id := NormalizeID(text)
	switch id {
	case "":
		return "", refuse(BadRequest, "No id can be made from %s %q: it needs a Latin letter or a digit.", field, text)
	case reservedID:
		return "", refuse(BadRequest, "The id %q is reserved, choose another %s.", id, field)
	}
	return id, nil
}
