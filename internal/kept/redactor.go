package kept

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/forebay/forebay/internal/tracecontext"
	"github.com/forebay/forebay/mapping"
)

// Redactor removes secrets from the records of a source before they are stored, namely headers that are not known to be harmless, and texts that
// are secrets of the source. It is safe for concurrent use.
type Redactor struct {
	secrets []string                        // of the source, plain and escaped for a path or a query, because proxies copy the path into headers
	names   map[string]bool                 // canonical names of headers that are kept
	all     bool                            // all headers are kept
	trace   bool                            // see NamesTrace
	decided atomic.Pointer[map[string]bool] // results of keeps for the first names, never changed but replaced
}

// NewRedactor returns the redactor of a source with these secrets, Source.KeepHeaders and mappers. It keeps the headers that a mapper reads.
func NewRedactor(secrets, keepHeaders []string, mappers ...*mapping.Mapper) *Redactor {
	r := &Redactor{secrets: formsOf(secrets), names: map[string]bool{}}
	for _, name := range keepHeaders {
		r.names[http.CanonicalHeaderKey(name)] = true
	}
	r.all = r.names[everyHeader]
	for _, m := range mappers {
		names, all := m.Headers()
		r.all = r.all || all
		for _, name := range names {
			r.names[name] = true
		}
	}
	r.trace = r.names[tracecontext.Parent]
	return r
}

// NamesTrace reports whether a mapper reads the trace context of the sender by its name, or Source.KeepHeaders names it.
func (r *Redactor) NamesTrace() bool { return r.trace }

// everyHeader in Source.KeepHeaders means all.
const everyHeader = "*"

// plainHeaders are kept for every source. They describe a body and its sender, and contain no secret. Headers with plainPrefixes and
// plainSuffixes are kept too, because senders of webhooks name the kind and the number of an event with them.
var (
	plainHeaders = []string{
		"Accept", "Accept-Encoding", "Accept-Language", "Content-Encoding", "Content-Language", "Content-Length", "Content-Type", "Date",
		"Idempotency-Key", tracecontext.Parent, "User-Agent", "X-Correlation-Id", "X-Forwarded-For", "X-Real-Ip", "X-Request-Id",
	}
	plainPrefixes = []string{"Ce-", "Webhook-"}
	plainSuffixes = []string{"-Event", "-Event-Id", "-Event-Type", "-Delivery", "-Topic"}
)

// headers returns the headers that are kept, and the names of the others. Their values are not copied.
func (r *Redactor) headers(all http.Header) (kept http.Header, removed []string) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		values := all[name]
		if !r.keepsValues(name, values) {
			removed = append(removed, name)
			continue
		}
		if slices.ContainsFunc(values, func(v string) bool { return publicText(v) != v }) {
			values = slices.Clone(values)
			for i, v := range values {
				values[i] = publicText(v)
			}
		}
		if kept == nil {
			kept = http.Header{}
		}
		kept[name] = values
	}
	return kept, removed
}

// keepsValues reports whether a header is kept. A header with a secret of the source in a value is not.
func (r *Redactor) keepsValues(name string, values []string) bool {
	return r.keeps(name) && !slices.ContainsFunc(values, func(v string) bool {
		return slices.ContainsFunc(r.secrets, func(secret string) bool { return strings.Contains(v, secret) })
	})
}

// maxDecided bounds the names whose decision is remembered. Senders use few, and the others cost a microsecond each.
const maxDecided = 256

// keeps reports whether a header is kept, by its name in any case.
func (r *Redactor) keeps(name string) bool {
	known := r.decided.Load()
	if known != nil {
		if kept, ok := (*known)[name]; ok {
			return kept
		}
	}
	kept := r.decide(name)
	next := map[string]bool{}
	if known != nil {
		if len(*known) >= maxDecided { // further names must not cost a copy each
			return kept
		}
		next = maps.Clone(*known)
	}
	next[strings.Clone(name)] = kept
	r.decided.CompareAndSwap(known, &next) // a name that loses is decided again
	return kept
}

// decide is keeps without memory. A name that sounds like a secret is not kept, even if a mapping reads it.
func (r *Redactor) decide(name string) bool {
	if IsSecretName(name) {
		return false
	}
	name = http.CanonicalHeaderKey(name)
	return r.all || r.names[name] || slices.Contains(plainHeaders, name) ||
		slices.ContainsFunc(plainPrefixes, func(part string) bool { return strings.HasPrefix(name, part) }) ||
		slices.ContainsFunc(plainSuffixes, func(part string) bool { return strings.HasSuffix(name, part) })
}

// secretWords are parts of the names of headers and parameters whose values are never stored. The credentials of a gateway or client are
// not part of an event.
var secretWords = []string{"auth", "cookie", "token", "secret", "key", "password", "passwd", "signature", "credential", "session", "jwt"}

// secretNames hold a secret without such a part. publicNames have such a part and hold no secret.
var (
	secretNames = []string{"sig", "pwd"}
	publicNames = []string{"idempotency-key"}
)

// IsSecretName reports whether a header or a parameter of the query may hold a secret, by its name in any case.
func IsSecretName(name string) bool {
	name = strings.ToLower(name)
	return slices.Contains(secretNames, name) ||
		!slices.Contains(publicNames, name) && slices.ContainsFunc(secretWords, func(word string) bool { return strings.Contains(name, word) })
}

// Masked takes the place of a secret.
const Masked = "***"

// publicText returns a text without the values of secret parameters, as they stand in a query, in a fragment, or in a list such as "a=1; token=2",
// and without the log-in of a URL. The same holds for a text that is encoded in a value, such as the next page of a log-in.
func publicText(text string) string {
	if strings.IndexByte(text, '=') < 0 && strings.IndexByte(text, '@') < 0 && strings.IndexByte(text, '%') < 0 { // as in most headers
		return text
	}
	var b strings.Builder
	copied := 0 // bytes of text that are in b, or masked there
	for at := 0; at < len(text); {
		end := at
		for end < len(text) && !parameterEnds[text[end]] {
			end++
		}
		if parameter := text[at:end]; publicParameter(parameter) != parameter {
			b.WriteString(text[copied:at])
			b.WriteString(publicParameter(parameter))
			copied = end
		}
		at = end + 1
	}
	if copied == 0 {
		return text
	}
	b.WriteString(text[copied:])
	return b.String()
}

// parameterEnds separate parameters for some readers.
var parameterEnds = [256]bool{'?': true, '#': true, '&': true, ';': true, ',': true, ' ': true, '\t': true, '<': true, '>': true, '"': true, '\'': true}

// publicParameter returns one parameter, or one piece of a text that is none.
func publicParameter(text string) string {
	if _, after, ok := strings.Cut(text, "//"); ok {
		authority, _, _ := strings.Cut(after, "/")
		if at := strings.LastIndexByte(authority, '@'); at >= 0 {
			start := len(text) - len(after)
			text = text[:start] + Masked + text[start+at:]
		}
	}
	name, value, ok := strings.Cut(text, "=")
	if !ok && encodesSecret(text) {
		return Masked
	}
	if value == "" {
		return text
	}
	plainName, err := url.QueryUnescape(name)
	if err != nil || IsSecretName(plainName) {
		return name + "=" + Masked
	}
	if encodesSecret(value) {
		return name + "=" + Masked
	}
	return text
}

// encodesSecret reports whether an encoded text has a secret in it, or may have one that cannot be decoded.
func encodesSecret(text string) bool {
	if !strings.Contains(text, "%") {
		return false
	}
	plain, err := url.QueryUnescape(text)
	if err != nil {
		return IsSecretName(text)
	}
	return plain != text && publicText(plain) != plain
}

// shortestSecret is the length from which a secret of a source is looked for. A shorter one is part of ordinary words.
const shortestSecret = 8

// formsOf returns the secrets that are long enough, as they are and as they stand in a path or query.
func formsOf(secrets []string) (forms []string) {
	for _, secret := range secrets {
		if len(secret) < shortestSecret {
			continue
		}
		for _, form := range []string{secret, url.PathEscape(secret), url.QueryEscape(secret)} {
			if !slices.Contains(forms, form) {
				forms = append(forms, form)
			}
		}
	}
	return forms
}

// withoutSecrets masks secrets of the source in a text.
func (r *Redactor) withoutSecrets(text string) string {
	for _, form := range r.secrets {
		text = strings.ReplaceAll(text, form, Masked)
	}
	return text
}
