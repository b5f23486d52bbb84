package fastserver

import (
	"bytes"
	"encoding/binary"
	"strings"
)

// maxHead is the greatest request line with headers of a plain request.
const maxHead = 8 << 10

// verdict is the result of a parse.
type verdict uint8

const (
	// incomplete means that nothing is wrong so far, and the end of the headers has not come.
	incomplete verdict = iota
	// plain means that the head is complete, and a plain one.
	plain
	// other means that net/http handles this request, valid or not.
	other
)

// span is a range of the parsed bytes.
type span struct{ from, to int32 }

func (s span) of(text string) string { return text[s.from:s.to] }

// field is a header line. The name is canonical.
type field struct{ name, value span }

// head is the head of a plain request.
type head struct {
	size           int // bytes, the empty line included
	method, target span
	host           span
	fields         []field // without Host
	length         int64   // of the body
	// simple is set if the path of the target, which ends at query, is its own unescaped form. Without a query, query is the
	// length of the target.
	simple bool
	query  int
	// close is set if the client wants no further request on this connection.
	close bool
	// pragma is set if there is a field of this name.
	pragma bool
}

// parse reads a head from the start of b. It writes the canonical form of names into b, which does not change their meaning
// for net/http. It leaves every decision to net/http. Whatever is unusual, doubtful or wrong is "other".
func (h *head) parse(b []byte) verdict {
	*h = head{fields: h.fields[:0], host: span{-1, -1}}
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		return incomplete
	}
	if end == 0 || b[end-1] != '\r' || !h.parseRequestLine(b[:end-1]) {
		return other
	}
	var lengths, connections int
	for at := end + 1; ; at = end + 1 {
		n := bytes.IndexByte(b[at:], '\n')
		if n < 0 {
			return incomplete
		}
		end = at + n
		if n == 0 || b[end-1] != '\r' {
			return other
		}
		if n == 1 {
			h.size = end + 1
			if h.host.from < 0 {
				return other
			}
			return plain
		}
		f, ok := parseField(b, at, end-1)
		if !ok {
			return other
		}
		value := b[f.value.from:f.value.to]
		switch string(b[f.name.from:f.name.to]) {
		case "Host":
			if h.host.from >= 0 || len(value) == 0 || !all(value, hostByte) {
				return other
			}
			h.host = f.value
			continue
		case "Content-Length":
			if lengths++; lengths > 1 {
				return other
			}
			if h.length, ok = parseLength(value); !ok {
				return other
			}
		case "Connection":
			if connections++; connections > 1 {
				return other
			}
			switch {
			case isWord(value, "close"):
				h.close = true
			case !isWord(value, "keep-alive"):
				return other
			}
		case "Pragma":
			h.pragma = true
		case "Transfer-Encoding", "Trailer", "Expect", "Upgrade", "Http2-Settings":
			return other
		}
		h.fields = append(h.fields, f)
	}
}

func (h *head) parseRequestLine(line []byte) bool {
	n := bytes.IndexByte(line, ' ')
	if n < 0 {
		return false
	}
	switch string(line[:n]) {
	case "POST", "GET", "OPTIONS", "PUT", "PATCH", "DELETE":
	default:
		return false
	}
	const version = " HTTP/1.1"
	to := len(line) - len(version)
	if to <= n+1 || string(line[to:]) != version {
		return false
	}
	h.method, h.target = span{0, int32(n)}, span{int32(n + 1), int32(to)}
	target := line[n+1 : to]
	if target[0] != '/' {
		return false
	}
	h.simple, h.query = true, len(target)
	for i, c := range target {
		switch {
		case bytesOf[c]&pathByte != 0:
		case c == '?' && h.query == len(target):
			h.query = i
			if i == len(target)-1 { // an empty query is a separate case
				h.simple = false
			}
		case c <= ' ' || c >= 0x7f:
			return false
		case h.query == len(target):
			h.simple = false
		}
	}
	return true
}

// parseField reads the line from at to end.
func parseField(b []byte, at, end int) (field, bool) {
	i := at
	for class := firstByte; i < end; i++ {
		c := b[i]
		if c == ':' {
			break
		}
		t := canonical[class][c]
		if t == 0 {
			return field{}, false
		}
		b[i] = t
		class = laterByte
		if t == '-' {
			class = firstByte
		}
	}
	if i == at || i == end {
		return field{}, false
	}
	from, to := i+1, end
	for from < to && (b[from] == ' ' || b[from] == '\t') {
		from++
	}
	for to > from && (b[to-1] == ' ' || b[to-1] == '\t') {
		to--
	}
	if !validValue(b[from:to]) {
		return field{}, false
	}
	return field{span{int32(at), int32(i)}, span{int32(from), int32(to)}}, true
}

// validValue reports whether v has no control characters but tabs.
func validValue(v []byte) bool {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for len(v) >= 8 {
		x := binary.LittleEndian.Uint64(v)
		del := x ^ 0x7f*ones
		// A byte below 0x20, or one that is 0x7f. The first one that is found is certain.
		if ((x-0x20*ones)&^x|(del-ones)&^del)&tops != 0 && !all(v[:8], valueByte) {
			return false
		}
		v = v[8:]
	}
	return all(v, valueByte)
}

// parseLength reads up to 18 digits and nothing else. net/http refuses longer lengths.
func parseLength(v []byte) (n int64, ok bool) {
	if len(v) == 0 || len(v) > 18 {
		return 0, false
	}
	for _, c := range v {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

// isWord compares without regard to the case of ASCII letters. Other letters that fold to one have another length.
func isWord(v []byte, word string) bool {
	return len(v) == len(word) && bytes.EqualFold(v, []byte(word))
}

// The classes of bytes.
const (
	// pathByte stands for itself in a path, escaped or not.
	pathByte = 1 << iota
	hostByte
	valueByte
	tokenByte
)

func all[T []byte | string](v T, class byte) bool {
	for i := range len(v) {
		if bytesOf[v[i]]&class == 0 {
			return false
		}
	}
	return true
}

// bytesOf has the classes of each byte. canonical has the form of each byte of a name in the canonical form of the name, by
// its place in the name; 0 if it cannot be in one.
var bytesOf, canonical = makeTables()

const (
	firstByte = iota // of a name, or after a "-" in it
	laterByte
)

func makeTables() (classes [256]byte, names [2][256]byte) {
	for i := range classes {
		c := byte(i)
		lower, upper := 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z'
		also := func(class byte, punctuation string) {
			if lower || upper || '0' <= c && c <= '9' || strings.IndexByte(punctuation, c) >= 0 {
				classes[i] |= class
			}
		}
		also(pathByte, "-_.~$&+,/:;=@")
		also(hostByte, "-_.:[]")
		also(tokenByte, "!#$%&'*+-.^_`|~")
		if c == '\t' || c >= ' ' && c != 0x7f {
			classes[i] |= valueByte
		}
		if classes[i]&tokenByte == 0 {
			continue
		}
		names[firstByte][i], names[laterByte][i] = c, c
		if lower {
			names[firstByte][i] -= 'a' - 'A'
		}
		if upper {
			names[laterByte][i] += 'a' - 'A'
		}
	}
	return classes, names
}
