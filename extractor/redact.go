package extractor

import (
	"net/url"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/forebay/forebay/extractor/internal/function"
	"github.com/forebay/forebay/extractor/internal/tree"
)

// A redactor knows the secret values of a run and takes them out of texts for logs and errors: attributes whose names
// begin with '#', what a login answered, and everything that was computed from them. It is safe for concurrent use.
//
// Values that are computed during a run replace each other: of those, the latest are known. So memory is bounded
// although a run may log in before every request.
type redactor struct {
	mu sync.Mutex
	// lasting and recent have the spellings of each value; those of recent are dropped from the front.
	lasting, recent [][]string
	// dynamic is true during a run: what is added then is recent.
	dynamic bool
	// spellings are all of them, the longest first, so that no secret hides the rest of a longer one.
	spellings []string
}

// maxRecent is how many values of a run are known at once. A login with a handful of values, and the one before it,
// fit many times.
const maxRecent = 64

// fork returns a redactor for one run, which knows what r knows.
func (r *redactor) fork() *redactor {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &redactor{lasting: slices.Clone(r.lasting), spellings: slices.Clone(r.spellings), dynamic: true}
}

const redacted = "***"

// shortSecret is up to where a secret is looked for as a whole word only: "1" must not make every number unreadable.
const shortSecret = 3

func (r *redactor) addNode(n tree.Node) {
	n.Leaves(func(_ string, leaf tree.Node) {
		if leaf.Kind() != tree.Bool {
			r.add(leaf.Text())
		}
	})
}

// add makes a text secret, in the spellings that it has in URLs, JSON and encoded headers.
func (r *redactor) add(secret string) {
	secret = strings.TrimSpace(secret)
	if secret == "" {
		return
	}
	quoted := tree.OfString(secret)
	inner := func(style tree.Style) string {
		b := quoted.AppendJSON(nil, style)
		return string(b[1 : len(b)-1])
	}
	spellings := []string{
		secret, function.EncodeForm(secret), url.PathEscape(secret), encodeQuery(secret), normalize(secret, pathBytes),
		normalize(secret, queryBytes), inner(tree.Plain), inner(tree.Escaped),
	}
	slices.Sort(spellings)
	spellings = slices.Compact(spellings)
	same := func(known []string) bool { return slices.Equal(known, spellings) }

	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.ContainsFunc(r.lasting, same) {
		return
	}
	if at := slices.IndexFunc(r.recent, same); at >= 0 { // now it is the latest
		r.recent = append(slices.Delete(r.recent, at, at+1), spellings)
		return
	}
	if r.dynamic {
		if r.recent = append(r.recent, spellings); len(r.recent) > maxRecent {
			r.recent = slices.Delete(r.recent, 0, 1)
		}
	} else {
		r.lasting = append(r.lasting, spellings)
	}
	r.spellings = slices.Concat(slices.Concat(r.lasting...), slices.Concat(r.recent...))
	slices.SortStableFunc(r.spellings, func(a, b string) int { return len(b) - len(a) })
}

// clean returns the text without secrets.
func (r *redactor) clean(text string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range r.spellings {
		if len(v) > shortSecret {
			text = strings.ReplaceAll(text, v, redacted)
		} else {
			text = replaceWord(text, v)
		}
	}
	return text
}

// holds reports whether a text has a secret in it.
func (r *redactor) holds(text string) bool { return r.clean(text) != text }

// cleanError returns an error without secrets in its text; the one that it wraps is as it was.
func (r *redactor) cleanError(err error) error {
	if err == nil {
		return nil
	}
	if text := r.clean(err.Error()); text != err.Error() {
		return &cleanedError{text, err}
	}
	return err
}

type cleanedError struct {
	text string
	err  error
}

func (e *cleanedError) Error() string { return e.text }
func (e *cleanedError) Unwrap() error { return e.err }

// replaceWord redacts a short secret where no letter or digit stands beside it.
func replaceWord(text, word string) string {
	var b strings.Builder
	from := 0 // what is not written yet
	for look := 0; ; {
		at := strings.Index(text[look:], word)
		if at < 0 {
			b.WriteString(text[from:])
			return b.String()
		}
		at += look
		end := at + len(word)
		look = at + 1
		if (at == 0 || !alphanumeric(text[at-1])) && (end == len(text) || !alphanumeric(text[end])) {
			b.WriteString(text[from:at])
			b.WriteString(redacted)
			from, look = end, end
		}
	}
}

func alphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= utf8.RuneSelf
}

// excerpt returns the start of a body for an error. It is cleaned before it is cut, so that no part of a secret stays.
func (r *redactor) excerpt(body string) string {
	const look, most = 8192, 500
	text := strings.ToValidUTF8(body[:min(len(body), look)], "")
	if len(body) > look {
		// A secret may be cut at the end of what is looked at.
		text = text[:strings.LastIndexAny(text, " \t\r\n,;\"'&<>")+1]
	}
	text = strings.Join(strings.Fields(r.clean(text)), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
