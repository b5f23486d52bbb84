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
type redactor struct {
	mu sync.Mutex
	// values are all spellings of the secrets, the longest first, so that no secret hides the rest of a longer one.
	values []string
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
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, spelling := range []string{
		secret, function.EncodeForm(secret), url.PathEscape(secret), encodeQuery(secret), normalize(secret, pathBytes),
		normalize(secret, queryBytes), inner(tree.Plain), inner(tree.Escaped),
	} {
		if !slices.Contains(r.values, spelling) {
			r.values = append(r.values, spelling)
		}
	}
	slices.SortStableFunc(r.values, func(a, b string) int { return len(b) - len(a) })
}

// clean returns the text without secrets.
func (r *redactor) clean(text string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range r.values {
		if len(v) > shortSecret {
			text = strings.ReplaceAll(text, v, redacted)
		} else {
			text = replaceWord(text, v)
		}
	}
	return text
}

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
func (r *redactor) excerpt(body []byte) string {
	const look, most = 8192, 500
	text := strings.ToValidUTF8(string(body[:min(len(body), look)]), "")
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
