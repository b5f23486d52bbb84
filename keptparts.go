package forebay

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// keptParts say which headers of the records of a source are kept in its quarantines and its archive, and which texts are its secrets.
type keptParts struct {
	secrets []string        // of the source: proxies write the path of a request into headers of their own
	names   map[string]bool // canonical names of headers that its mappings read, or that Source.KeepHeaders names
	all     bool            // a mapping reads all headers, or KeepHeaders has a *
}

// keptPartsOf returns what is kept for a source whose sinks have these mappers.
func keptPartsOf(def *Source, sinks []compiledSink) *keptParts {
	what := &keptParts{secrets: []string{def.Secret, def.OldSecret}, names: map[string]bool{}}
	for _, name := range def.KeepHeaders {
		what.names[http.CanonicalHeaderKey(name)] = true
	}
	what.all = what.names[everyHeader]
	for i := range sinks {
		names, all := sinks[i].mapper.Headers()
		what.all = what.all || all
		for _, name := range names {
			what.names[name] = true
		}
	}
	return what
}

// everyHeader among [Source.KeepHeaders] means all.
const everyHeader = "*"

// plainHeaders are kept for every source: they say what a body is and who has sent it, and hold no secret. So are those with plainPrefixes and
// plainSuffixes, by which senders of webhooks name the kind and the number of an event.
var (
	plainHeaders = []string{
		"Accept", "Accept-Encoding", "Accept-Language", "Content-Encoding", "Content-Language", "Content-Length", "Content-Type", "Date",
		"Idempotency-Key", "Traceparent", "User-Agent", "X-Correlation-Id", "X-Forwarded-For", "X-Real-Ip", "X-Request-Id",
	}
	plainPrefixes = []string{"Ce-", "Webhook-"}
	plainSuffixes = []string{"-Event", "-Event-Id", "-Event-Type", "-Delivery", "-Topic"}
)

// headers returns the headers that are kept, and the names of the others. Their values are not copied.
func (p *keptParts) headers(all http.Header) (kept http.Header, removed []string) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		values := all[name]
		if !p.keeps(name) || slices.ContainsFunc(values, func(v string) bool { return p.withoutSecrets(v) != v }) {
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

// keeps reports whether a header is kept, by its name in any case. A name that sounds like a secret is not, also if a mapping reads it.
func (p *keptParts) keeps(name string) bool {
	if isSecretName(name) {
		return false
	}
	name = http.CanonicalHeaderKey(name)
	return p.all || p.names[name] || slices.Contains(plainHeaders, name) ||
		slices.ContainsFunc(plainPrefixes, func(part string) bool { return strings.HasPrefix(name, part) }) ||
		slices.ContainsFunc(plainSuffixes, func(part string) bool { return strings.HasSuffix(name, part) })
}

// secretWords are parts of the names of headers and parameters whose values are never stored. What a gateway or a client adds for its own
// log-in is not part of an event.
var secretWords = []string{"auth", "cookie", "token", "secret", "key", "password", "passwd", "signature", "credential", "session", "jwt"}

// secretNames hold a secret and have no such part. publicNames have one and hold none.
var (
	secretNames = []string{"sig", "pwd"}
	publicNames = []string{"idempotency-key"}
)

// isSecretName reports whether a header or a parameter of the query may hold a secret, by its name in any case.
func isSecretName(name string) bool {
	name = strings.ToLower(name)
	return slices.Contains(secretNames, name) ||
		!slices.Contains(publicNames, name) && slices.ContainsFunc(secretWords, func(word string) bool { return strings.Contains(name, word) })
}

// masked takes the place of a secret.
const masked = "***"

// publicText returns a text without the values of secret parameters, as they stand in a query, in a fragment, or in a list such as "a=1; token=2",
// and without the log-in of a URL. The same holds for a text that is encoded in a value, such as the next page of a log-in.
func publicText(text string) string {
	if !strings.ContainsAny(text, "=@%") { // no more than most headers cost
		return text
	}
	var b strings.Builder
	for text != "" {
		end := strings.IndexAny(text, parameterEnds)
		if end < 0 {
			end = len(text)
		}
		b.WriteString(publicParameter(text[:end]))
		b.WriteString(text[end:min(end+1, len(text))])
		text = text[min(end+1, len(text)):]
	}
	return b.String()
}

// parameterEnds separate parameters for some readers.
const parameterEnds = "?#&;, \t<>\"'"

// publicParameter returns one parameter, or one piece of a text that is none.
func publicParameter(text string) string {
	if _, after, ok := strings.Cut(text, "//"); ok {
		authority, _, _ := strings.Cut(after, "/")
		if at := strings.LastIndexByte(authority, '@'); at >= 0 {
			start := len(text) - len(after)
			text = text[:start] + masked + text[start+at:]
		}
	}
	name, value, ok := strings.Cut(text, "=")
	if !ok && encodesSecret(text) {
		return masked
	}
	if value == "" {
		return text
	}
	plainName, err := url.QueryUnescape(name)
	if err != nil || isSecretName(plainName) {
		return name + "=" + masked
	}
	if encodesSecret(value) {
		return name + "=" + masked
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
		return isSecretName(text)
	}
	return plain != text && publicText(plain) != plain
}

// shortestSecret is the length from which a secret of a source is looked for: a shorter one is part of ordinary words.
const shortestSecret = 8

// withoutSecrets masks secrets of the source in a text, as they are and as they stand in a path or query.
func (p *keptParts) withoutSecrets(text string) string {
	for _, secret := range p.secrets {
		if len(secret) < shortestSecret {
			continue
		}
		for _, form := range []string{secret, url.PathEscape(secret), url.QueryEscape(secret)} {
			text = strings.ReplaceAll(text, form, masked)
		}
	}
	return text
}
