//go:build !forebay_notemplates

package template

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha3"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/go-jsonnet"
	"github.com/google/go-jsonnet/ast"

	"github.com/forebay/forebay/mapping/internal/tape"
)

func stdStrings() map[string]goFunction {
	return map[string]goFunction{
		"char": {params: []string{"n"}, run: func(m *machine, a []value) value {
			n := m.float(a[0])
			if n < 0 || n > utf8.MaxRune {
				m.fail("invalid unicode codepoint, got %v", n)
			}
			return text(string(rune(n)))
		}},
		"codepoint": {params: []string{"str"}, run: func(m *machine, a []value) value {
			s := m.string(a[0])
			r, n := utf8.DecodeRuneInString(s)
			if n == 0 || n != len(s) {
				m.fail("codepoint takes a string of length 1")
			}
			return number(float64(r))
		}},
		"substr":      {params: []string{"str", "from", "len"}, run: (*machine).stdSubstr},
		"startsWith":  {params: []string{"a", "b"}, texts: 2, run: func(m *machine, a []value) value { return boolean(m.affix(a, strings.HasPrefix)) }},
		"endsWith":    {params: []string{"a", "b"}, texts: 2, run: func(m *machine, a []value) value { return boolean(m.affix(a, strings.HasSuffix)) }},
		"split":       {params: []string{"str", "c"}, texts: 2, run: func(m *machine, a []value) value { return m.split(a[0], a[1], -1) }},
		"splitLimit":  {params: []string{"str", "c", "maxsplits"}, run: func(m *machine, a []value) value { return m.split(a[0], a[1], m.splits(a[2])) }},
		"splitLimitR": {params: []string{"str", "c", "maxsplits"}, run: (*machine).stdSplitLimitR},
		"strReplace": {params: []string{"str", "from", "to"}, run: func(m *machine, a []value) value {
			s, from, to := m.string(a[0]), m.string(a[1]), m.string(a[2])
			if from == "" {
				m.fail("'from' string must not be zero length")
			}
			m.step(len(s) >> 4)
			m.alloc(len(s) + strings.Count(s, from)*max(len(to)-len(from), 0))
			return text(strings.ReplaceAll(s, from, to))
		}},
		"asciiUpper":       {params: []string{"str"}, texts: 1, run: func(m *machine, a []value) value { return m.mapASCII(a[0], 'a', 'z') }},
		"asciiLower":       {params: []string{"str"}, texts: 1, run: func(m *machine, a []value) value { return m.mapASCII(a[0], 'A', 'Z') }},
		"stringChars":      {params: []string{"str"}, texts: 1, run: func(m *machine, a []value) value { return value{kind: kindArray, ref: m.characters(a[0].str)} }},
		"isEmpty":          {params: []string{"str"}, run: func(m *machine, a []value) value { return boolean(m.string(a[0]) == "") }},
		"equalsIgnoreCase": {params: []string{"str1", "str2"}, run: func(m *machine, a []value) value { return boolean(m.affix(a, strings.EqualFold)) }},
		"trim": {params: []string{"str"}, run: func(m *machine, a []value) value {
			s := m.string(a[0])
			short := strings.TrimSpace(s)
			m.step((len(s) - len(short)) / 4)
			return text(short)
		}},
		"findSubstr":          {params: []string{"pat", "str"}, run: (*machine).stdFindSubstr},
		"escapeStringXML":     replacing("str_", `<`, `&lt;`, `>`, `&gt;`, `&`, `&amp;`, `"`, `&quot;`, `'`, `&apos;`),
		"escapeStringDollars": replacing("str_", `$`, `$$`),
		"escapeStringBash": {params: []string{"str_"}, run: func(m *machine, a []value) value {
			return text("'" + m.replace(strings.NewReplacer(`'`, `'"'"'`), a[0]) + "'")
		}},
		"lstripChars": {params: []string{"str", "chars"}, run: func(m *machine, a []value) value { return text(m.strip(a[0], a[1], true, false)) }},
		"rstripChars": {params: []string{"str", "chars"}, run: func(m *machine, a []value) value { return text(m.strip(a[0], a[1], false, true)) }},
		"stripChars":  {params: []string{"str", "chars"}, run: func(m *machine, a []value) value { return text(m.strip(a[0], a[1], true, true)) }},
		"parseInt": {params: []string{"str"}, run: func(m *machine, a []value) value {
			s := m.string(a[0])
			n, err := strconv.ParseInt(s, 10, 64)
			if err != nil {
				m.fail("%.40q is not a base 10 integer", s)
			}
			return number(float64(n))
		}},
		"md5":    hashing(func(b []byte) []byte { h := md5.Sum(b); return h[:] }),
		"sha1":   hashing(func(b []byte) []byte { h := sha1.Sum(b); return h[:] }),
		"sha256": hashing(func(b []byte) []byte { h := sha256.Sum256(b); return h[:] }),
		"sha512": hashing(func(b []byte) []byte { h := sha512.Sum512(b); return h[:] }),
		"sha3":   hashing(func(b []byte) []byte { h := sha3.Sum512(b); return h[:] }),

		"base64": {params: []string{"input"}, run: (*machine).stdBase64},
		"base64Decode": {params: []string{"str"}, run: func(m *machine, a []value) value {
			return text(tape.ValidUTF8(string(m.unbase64(a[0]))))
		}},
		"base64DecodeBytes": {params: []string{"str"}, run: func(m *machine, a []value) value { return m.bytes(m.unbase64(a[0])) }},
		"encodeUTF8":        {params: []string{"str"}, run: func(m *machine, a []value) value { return m.bytes([]byte(m.string(a[0]))) }},
		"decodeUTF8": {params: []string{"arr"}, run: func(m *machine, a []value) value {
			return text(tape.ValidUTF8(string(m.bytesOf(m.array(a[0])))))
		}},
		"parseJson": {params: []string{"str"}, run: func(m *machine, a []value) value { return m.parseJSON(m.string(a[0]), false) }},
		"parseYaml": {params: []string{"str"}, run: (*machine).stdParseYAML},
		"escapeStringJson": {params: []string{"str_"}, run: func(m *machine, a []value) value {
			s := m.toString(a[0])
			m.step(len(s) >> 4)
			m.alloc(2 * len(s))
			return text(tape.AsString(appendQuotedText(nil, s)))
		}},
	}
}

func hashing(f func([]byte) []byte) goFunction {
	return goFunction{params: []string{"s"}, run: func(m *machine, a []value) value {
		s := m.string(a[0])
		m.step(1 + len(s)>>4)
		return text(hex.EncodeToString(f(tape.AsBytes(s))))
	}}
}

func (m *machine) affix(a []value, f func(s, t string) bool) bool {
	s, t := m.string(a[0]), m.string(a[1])
	m.step(len(t) >> 5)
	return f(s, t)
}

func (m *machine) mapASCII(v value, from, to byte) value {
	s := m.string(v)
	m.step(len(s) >> 5)
	m.alloc(len(s))
	start := len(m.buf)
	m.buf = append(m.buf, s...)
	for i, c := range m.buf[start:] {
		if from <= c && c <= to {
			m.buf[start+i] = c ^ 0x20
		}
	}
	return m.made(start)
}

func (m *machine) stdSubstr(a []value) value {
	s, from := m.string(a[0]), m.float(a[1])
	if from != math.Trunc(from) || from < 0 {
		m.fail("substr second parameter should be an integer that is not negative, got %v", from)
	}
	n := m.integer(a[2])
	if n < 0 {
		m.fail("substr third parameter should not be negative, got %d", n)
	}
	if from > float64(len(s)) {
		return text("")
	}
	return text(m.runeSlice(s, int(from), int(from)+n))
}

// splits checks the third argument of splitLimit.
func (m *machine) splits(v value) int {
	n := m.integer(v)
	if n < -1 {
		m.fail("the number of splits should be -1 or not negative, got %d", n)
	}
	return n
}

func (m *machine) separator(v value) string {
	c := m.string(v)
	if c == "" {
		m.fail("the separator should have length 1 or greater")
	}
	return c
}

func (m *machine) split(str, sep value, limit int) value {
	s, c := m.string(str), m.separator(sep)
	m.step(len(s) >> 5)
	if limit >= 0 {
		limit++
	}
	n := strings.Count(s, c) + 1
	if limit >= 0 {
		n = min(n, limit)
	}
	m.alloc(16 * n)
	return m.texts(strings.SplitN(s, c, limit))
}

func (m *machine) stdSplitLimitR(a []value) value {
	s, c, limit := m.string(a[0]), m.separator(a[1]), m.splits(a[2])
	m.step(len(s) >> 5)
	n := strings.Count(s, c)
	if limit >= 0 {
		n = min(n, limit)
	}
	m.alloc(16 * n)
	parts := make([]string, n+1)
	for i := n; i > 0; i-- {
		at := strings.LastIndex(s, c)
		parts[i] = s[at+len(c):]
		s = s[:at]
	}
	parts[0] = s
	return m.texts(parts)
}

// strip removes characters at the ends. As in std.member, chars may be an array, whose elements are compared with the
// characters, and an empty string is no member of anything.
func (m *machine) strip(str, chars value, left, right bool) string {
	s := m.string(str)
	if chars.kind == kindString {
		before := len(s)
		if left {
			s = strings.TrimLeft(s, chars.str)
		}
		if right {
			s = strings.TrimRight(s, chars.str)
		}
		m.step((before - len(s)) / 4)
		m.step((before - len(s)) / 256 * len(chars.str))
		return s
	}
	for left && s != "" {
		_, n := utf8.DecodeRuneInString(s)
		m.step(1)
		if !m.member(chars, text(s[:n])) {
			break
		}
		s = s[n:]
	}
	for right && s != "" {
		_, n := utf8.DecodeLastRuneInString(s)
		m.step(1)
		if !m.member(chars, text(s[len(s)-n:])) {
			break
		}
		s = s[:len(s)-n]
	}
	return s
}

// stdFindSubstr gives the numbers of the characters at which pat begins, including overlaps with itself.
func (m *machine) stdFindSubstr(a []value) value {
	pat, s := m.string(a[0]), m.string(a[1])
	m.step(1 + len(s)/bytesAStep)
	var out []value
	if pat == "" {
		return list(out)
	}
	for at := 0; ; {
		i := strings.Index(s, pat)
		if i < 0 {
			return list(out)
		}
		m.step(1 + len(pat)/bytesAStep)
		m.alloc(96) // an append that doubles its room
		at += utf8.RuneCountInString(s[:i])
		out = append(out, number(float64(at)))
		_, n := utf8.DecodeRuneInString(pat)
		s = s[i+n:]
		at++
	}
}

// replacing is a function that replaces single characters of a text, or of the text of a value.
func replacing(param string, pairs ...string) goFunction {
	r := strings.NewReplacer(pairs...)
	return goFunction{params: []string{param}, run: func(m *machine, a []value) value { return text(m.replace(r, a[0])) }}
}

func (m *machine) replace(r *strings.Replacer, v value) string {
	s := m.toString(v)
	m.step(1 + len(s)/bytesAStep)
	out := r.Replace(s)
	if len(out) > len(s) {
		m.alloc(len(out))
		m.step(len(out) / bytesAStep)
	}
	return out
}

func (m *machine) stdBase64(a []value) value {
	var in []byte
	switch a[0].kind {
	case kindString:
		for _, r := range a[0].str {
			if r > 255 {
				m.fail("base64 encountered a codepoint above 255: %d", r)
			}
		}
		m.step(len(a[0].str) >> 4)
		in = tape.AsBytes(a[0].str)
	case kindArray:
		in = m.bytesOf(m.array(a[0]))
	default:
		m.fail("base64 encodes strings and arrays of bytes, got %s", kindNames[a[0].kind])
	}
	from := len(m.buf)
	m.alloc(base64.StdEncoding.EncodedLen(len(in)))
	m.buf = base64.StdEncoding.AppendEncode(m.buf, in)
	return m.made(from)
}

// bytesOf returns the bytes whose numbers are the elements of an array.
func (m *machine) bytesOf(in []value) []byte {
	m.alloc(len(in))
	out := make([]byte, len(in))
	for i := range in {
		n := m.integer(m.forceAt(&in[i]))
		if n < 0 || n > 255 {
			m.fail("bytes must be integers in range [0, 255], got %d", n)
		}
		out[i] = byte(n)
	}
	return out
}

func (m *machine) unbase64(v value) []byte {
	s := m.string(v)
	if len(s)%4 != 0 {
		m.fail("the string is not base64: wrong length %d", len(s))
	}
	m.step(len(s) >> 4)
	m.alloc(len(s))
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		m.fail("the string is not base64: %v", err)
	}
	return b
}

func (m *machine) bytes(b []byte) value {
	out := m.take(len(b))
	for _, c := range b {
		out = append(out, number(float64(c)))
	}
	return list(out)
}

// maxYAML bounds the text that std.parseYaml takes because its parser cannot be interrupted.
const maxYAML = 64 << 10

func (m *machine) stdParseYAML(a []value) value {
	s := m.string(a[0])
	if len(s) > maxYAML {
		m.exceed("bytes of YAML", maxYAML)
	}
	m.step(len(s))
	m.alloc(16 * len(s))
	var docs []value
	d := jsonnet.NewYAMLToJSONDecoder(strings.NewReader(s))
	for {
		var doc json.RawMessage
		err := d.Decode(&doc)
		if err == io.EOF {
			break
		}
		if err != nil {
			m.fail("failed to parse YAML: %v", err)
		}
		m.step(64) // a document has its own parser
		if len(doc) == 0 {
			doc = json.RawMessage("null") // ~, a comment alone, or nothing after ---
		}
		docs = append(docs, m.parseJSON(string(doc), true))
	}
	switch {
	case len(docs) == 0:
		return null
	case d.IsStream():
		return list(docs)
	}
	return docs[0]
}

// parseJSON makes a value of a JSON text. Its numbers keep their digits unless floats is set.
func (m *machine) parseJSON(s string, floats bool) value {
	m.step(len(s) >> 3)
	t := &tape.Tape{}
	if err := t.Parse(tape.AsBytes(s)); err != nil {
		m.fail("failed to parse JSON: %v", err)
	}
	m.alloc(16 * len(t.Nodes))
	return m.copyDoc(t, 0, floats)
}

// copyDoc makes a value of all of a tape. Of several members with the same name the last counts, as in the reference
// implementation of std.parseJson.
func (m *machine) copyDoc(t *tape.Tape, at uint32, floats bool) value {
	n := &t.Nodes[at]
	m.step(1)
	switch n.Kind {
	case tape.Array:
		m.enter(1)
		var out []value
		for i := at + 1; i < n.Next; i = t.Nodes[i].Next {
			m.alloc(48)
			out = append(out, m.copyDoc(t, i, floats))
		}
		m.leave(1)
		return list(out)
	case tape.Object:
		m.enter(1)
		l := &layer{}
		for i := at + 1; i < n.Next; i = t.Nodes[i+1].Next {
			m.alloc(128)
			name := string(t.AppendText(nil, i))
			f := field{name: name, hide: ast.ObjectFieldInherit, val: m.copyDoc(t, i+1, floats)}
			if !l.add(f) {
				*l.find(name) = f
			}
		}
		m.leave(1)
		return newObject(l)
	case tape.Number:
		if f := m.float(m.fromDoc(t, at)); floats {
			return number(f)
		}
	case tape.String:
		return text(string(t.AppendText(nil, at)))
	}
	return m.fromDoc(t, at)
}
