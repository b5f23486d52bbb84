package extractor

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/forebay/forebay/driverkit/textcut"
	"github.com/forebay/forebay/extractor/internal/tree"
)

// A redactor knows the secret values of a run and removes them from texts for logs and errors. Secrets are attributes whose names
// begin with '#', the responses of logins, and everything that was computed from them. It is safe for concurrent use.
//
// Of the values that are computed during a run it knows the latest only, so memory is bounded although a run may log in
// before every request.
type redactor struct {
	mu sync.Mutex
	// lasting and recent hold the values. The oldest of recent are dropped.
	lasting, recent []secret
	// dynamic is true during a run, and values added then are recent.
	dynamic bool
}

// A secret is a value to hide. A text has it as it is, in escapes of any kind, or within base64.
type secret struct {
	value     string
	spellings []string // as it stands in decoded texts
	base64    []core
}

// maxRecent is how many values of a run are known at once, enough for many logins.
const maxRecent = 64

// fork returns a redactor for one run, which knows the secrets of r.
func (r *redactor) fork() *redactor {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &redactor{lasting: slices.Clone(r.lasting), dynamic: true}
}

const redacted = "***"

// shortSecret is the length up to which a secret counts as a whole word only: "1" must not hide parts of every number.
const shortSecret = 3

func (r *redactor) addNode(n tree.Node) {
	n.Leaves(func(_ string, leaf tree.Node) {
		if leaf.Kind() != tree.Bool {
			r.add(leaf.Text())
		}
	})
}

// add makes a text secret.
func (r *redactor) add(value string) {
	value = strings.TrimSpace(value)
	if value == "" {
		return
	}
	same := func(known secret) bool { return known.value == value }

	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.ContainsFunc(r.lasting, same) {
		return
	}
	if at := slices.IndexFunc(r.recent, same); at >= 0 { // now it is the latest
		known := r.recent[at]
		r.recent = append(slices.Delete(r.recent, at, at+1), known)
		return
	}
	added := secret{value, spellingsOf(value), inBase64(value)}
	if !r.dynamic {
		r.lasting = append(r.lasting, added)
	} else if r.recent = append(r.recent, added); len(r.recent) > maxRecent {
		r.recent = slices.Delete(r.recent, 0, 1)
	}
}

// A span is a part of a text.
type span struct{ begin, end int }

// find returns where a text has secrets, in order and apart from each other.
func (r *redactor) find(text string) []span {
	r.mu.Lock()
	secrets := slices.Concat(r.lasting, r.recent)
	r.mu.Unlock()
	var found []span
	v := view{text: text}
	for range maxDecoding + 1 {
		for _, s := range secrets {
			found = s.find(found, v)
		}
		var changed bool
		if v, changed = v.decoded(); !changed {
			break
		}
	}
	slices.SortFunc(found, func(a, b span) int { return cmp.Or(a.begin-b.begin, b.end-a.end) })
	apart := found[:0]
	for _, f := range found {
		if last := len(apart) - 1; last >= 0 && f.begin < apart[last].end {
			apart[last].end = max(apart[last].end, f.end)
		} else {
			apart = append(apart, f)
		}
	}
	return apart
}

// find appends where a view has the secret, as spans of the text that it is a view of.
func (s secret) find(found []span, v view) []span {
	add := func(begin, end int) { found = append(found, span{v.source(begin), v.source(end)}) }
	for _, spelling := range s.spellings {
		for begin, end := range occurrences(v.text, spelling) {
			if len(spelling) > shortSecret || (begin == 0 || !alphanumeric(v.text[begin-1])) && (end == len(v.text) || !alphanumeric(v.text[end])) {
				add(begin, end)
			}
		}
	}
	for _, c := range s.base64 {
		for begin, end := range occurrences(v.text, c.text) {
			add(c.run(v.text, begin, end))
		}
	}
	return found
}

// occurrences yields the bounds of every occurrence of a part, including overlapping ones.
func occurrences(text, part string) iter.Seq2[int, int] {
	return func(yield func(int, int) bool) {
		for from := 0; ; {
			at := strings.Index(text[from:], part)
			if at < 0 || !yield(from+at, from+at+len(part)) {
				return
			}
			from += at + 1
		}
	}
}

// clean returns the text without secrets.
func (r *redactor) clean(text string) string {
	found := r.find(text)
	if len(found) == 0 {
		return text
	}
	var b strings.Builder
	from := 0
	for _, f := range found {
		b.WriteString(text[from:f.begin])
		b.WriteString(redacted)
		from = f.end
	}
	b.WriteString(text[from:])
	return b.String()
}

func (r *redactor) holds(text string) bool { return len(r.find(text)) > 0 }

// cleanError returns an error without secrets in its text. The wrapped error is unchanged.
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

func alphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= utf8.RuneSelf
}

// excerpt returns the start of a body for an error. It is cleaned before it is cut, so that no part of a secret stays.
func (r *redactor) excerpt(body string) string {
	const look, most = 8192, 500
	text := strings.ToValidUTF8(body[:min(len(body), look)], "")
	if len(body) > look {
		// A secret may be cut at the end of the examined text.
		text = text[:strings.LastIndexAny(text, " \t\r\n,;\"'&<>")+1]
	}
	return textcut.Short(strings.Join(strings.Fields(r.clean(text)), " "), most)
}
