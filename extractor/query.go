package extractor

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/forebay/forebay/extractor/internal/function"
	"github.com/forebay/forebay/extractor/internal/tree"
)

// A pair is one parameter of a query or form, decoded.
type pair struct {
	name, value string
}

// parseQuery splits the text of a query. What cannot be decoded stays as it is.
func parseQuery(raw string) []pair {
	var pairs []pair
	for part := range strings.SplitSeq(raw, "&") {
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		pairs = append(pairs, pair{unescape(name), unescape(value)})
	}
	return pairs
}

func unescape(s string) string {
	if out, err := url.QueryUnescape(s); err == nil {
		return out
	}
	return s
}

// formatPairs writes pairs with one of the encodings.
func formatPairs(pairs []pair, encode func(string) string) string {
	var b strings.Builder
	for i, p := range pairs {
		if i > 0 {
			b.WriteByte('&')
		}
		b.WriteString(encode(p.name))
		b.WriteByte('=')
		b.WriteString(encode(p.value))
	}
	return b.String()
}

// encodeQuery encodes all but letters, digits and "-_.~". A space is "%20".
func encodeQuery(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

// pairsOf flattens parameters. Members of lists and objects get their names in brackets, null and empty collections
// are left out.
func pairsOf(params tree.Node) []pair {
	var pairs []pair
	for _, m := range params.Named().Members() {
		pairs = appendPairs(pairs, m.Key, m.Value)
	}
	return pairs
}

func appendPairs(pairs []pair, name string, n tree.Node) []pair {
	switch n.Kind() {
	case tree.Null:
		return pairs
	case tree.List, tree.Object:
		for i, m := range n.Members() {
			key := m.Key
			if n.Kind() == tree.List {
				key = strconv.Itoa(i)
			}
			pairs = appendPairs(pairs, name+"["+key+"]", m.Value)
		}
		return pairs
	case tree.Bool:
		if !n.Bool() {
			return append(pairs, pair{name, "0"})
		}
	}
	return append(pairs, pair{name, n.Text()})
}

// mergeQuery lays parameters over the query of an endpoint and returns the text. Without parameters the query stays
// as it was written. Otherwise equal names get the new value in their place, and other parameters follow.
func mergeQuery(raw string, params tree.Node) string {
	if params.Len() == 0 {
		return raw
	}
	over := params.Named().Members()
	byName := make(map[string][]pair, len(over))
	parameter := make(map[string]string) // by full name. The parameter of a[b] is a
	for _, m := range over {
		byName[m.Key] = appendPairs(nil, m.Key, m.Value)
		for _, p := range byName[m.Key] {
			parameter[p.name] = m.Key
		}
	}
	for _, m := range over {
		parameter[m.Key] = m.Key
	}
	var pairs []pair
	for _, p := range parseQuery(raw) {
		name, replaced := parameter[p.name]
		if !replaced {
			pairs = append(pairs, p)
			continue
		}
		pairs = append(pairs, byName[name]...)
		delete(byName, name) // written
	}
	for _, m := range over {
		pairs = append(pairs, byName[m.Key]...)
	}
	pairs = slices.DeleteFunc(pairs, func(p pair) bool {
		name, _, _ := strings.Cut(p.name, "[")
		return name == "" || name == "0"
	})
	return formatPairs(pairs, function.EncodeForm)
}

// signQuery adds the parameters of a login to a query. A name that both have is sent twice at the end, where name[0] has the
// request's value, name[1] the login's.
func signQuery(raw string, login []pair) string {
	inLogin := make(map[string]bool, len(login))
	for _, p := range login {
		inLogin[p.name] = true
	}
	requested := make(map[string][]string)
	var pairs []pair
	for _, p := range parseQuery(raw) {
		if inLogin[p.name] {
			requested[p.name] = append(requested[p.name], p.value)
		} else {
			pairs = append(pairs, p)
		}
	}
	for _, p := range login {
		if len(requested[p.name]) == 0 {
			pairs = append(pairs, p)
		}
	}
	for _, p := range login {
		for i, value := range requested[p.name] {
			pairs = append(pairs, pair{p.name + "[" + strconv.Itoa(i) + "]", value})
		}
		if n := len(requested[p.name]); n > 0 {
			pairs = append(pairs, pair{p.name + "[" + strconv.Itoa(n) + "]", p.value})
		}
	}
	return formatPairs(pairs, encodeQuery)
}

// withoutParams removes the parameters of the given names from a query. The rest of its text stays as it is.
func withoutParams(raw string, drop []pair) string {
	parts := strings.Split(raw, "&")
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool {
		name, _, _ := strings.Cut(part, "=")
		return slices.ContainsFunc(drop, func(p pair) bool { return part != "" && p.name == unescape(name) })
	}), "&")
}

// Bytes that stand for themselves in a path and in a query, in addition to letters, digits and "-_.~".
const (
	pathBytes  = "!$&'()*+,;=:@/"
	queryBytes = pathBytes + "?"
)

// normalize encodes the bytes that may not stand in a part of a URL, and keeps encoded bytes.
func normalize(s, allowed string) string {
	const upper = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		switch {
		case c < 0x80 && alphanumeric(c) || strings.IndexByte("-_.~", c) >= 0 || strings.IndexByte(allowed, c) >= 0,
			c == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			b.WriteByte(c)
		default:
			b.WriteString("%" + upper[c>>4:c>>4+1] + upper[c&15:c&15+1])
		}
	}
	return b.String()
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }

// normalizeURL encodes the bytes that may not stand in a URL reference, and drops the fragment.
func normalizeURL(raw string) string {
	raw, _, _ = strings.Cut(raw, "#")
	rest, query, hasQuery := strings.Cut(raw, "?")
	authority := ""
	if at := strings.Index(rest, "//"); at == 0 || at > 0 && rest[at-1] == ':' && !strings.Contains(rest[:at], "/") {
		end := at + 2 + strings.IndexByte(rest[at+2:]+"/", '/')
		authority, rest = rest[:end], rest[end:]
	}
	out := authority + normalize(rest, pathBytes)
	if hasQuery {
		out += "?" + normalize(query, queryBytes)
	}
	return out
}
