package mapping

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"

	"github.com/forebay/forebay/internal/jsontext"
)

// nodeKind is the type of a JSON value on the tape.
type nodeKind uint8

const (
	nodeNull nodeKind = iota
	nodeFalse
	nodeTrue
	nodeNumber
	nodeString
	nodeArray
	nodeObject
)

const (
	// flagEscaped marks a string with at least one backslash.
	flagEscaped = 1 << iota
	// flagNonASCII marks a value whose text has a byte above 0x7f, which may be invalid UTF-8.
	flagNonASCII
	// flagSpaced marks an array or object whose text has insignificant white space.
	flagSpaced
)

// node is one JSON value, or one key of an object. A container is followed by its content: elements, or keys and
// values in turn, each with its own subtree.
type node struct {
	start, end uint32 // the text of the value, for strings with the quotes
	// next is the index of the node after the subtree. While a container is open it is the index of its parent, so
	// that the scan needs no stack and any depth of nesting costs nothing extra.
	next  uint32
	kind  nodeKind
	flags uint8
}

// set writes field by field: a node that is put together first costs more than half of the time of a scan.
func (n *node) set(start, end, next int, kind nodeKind, flags uint8) {
	n.start, n.end, n.next, n.kind, n.flags = uint32(start), uint32(end), uint32(next), kind, flags
}

// tape is the result of one pass over a JSON text (RFC 8259, any value as the root, any depth). The first node is the
// root. Numbers and strings stay in the text: nothing is decoded before somebody asks for it.
//
// The design that lost: a scan that looks only for the wanted paths. It is faster for a single mapper, but a record
// goes through one mapper per sink, and templates ask for paths that are known only when they run.
type tape struct {
	text  []byte
	nodes []node
}

// maxKeptNodes bounds the memory that a pooled record keeps after a body with very many values.
const maxKeptNodes = 1 << 14

func (t *tape) reset() {
	t.text = nil
	if cap(t.nodes) > maxKeptNodes {
		t.nodes = nil
	}
	t.nodes = t.nodes[:0]
}

// SyntaxError says where a body is not JSON.
type SyntaxError struct {
	// Offset is the number of bytes before the fault.
	Offset int64
	// Msg says what is wrong.
	Msg string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("the body is not valid JSON: %s at byte %d", e.Msg, e.Offset)
}

const noParent = math.MaxUint32

// parse scans text, which must not change while the tape is used.
//
// It is a machine with four states, the labels below. Each says what it expects at text[i]:
//
//	value    a value, after white space. A text, number or word is put on the tape: after. A bracket is put on the tape as
//	         an open container: closing if it is empty, else key or value.
//	key      a key and a colon: value.
//	after    what follows a value, after white space: a comma leads to key or value, the bracket of the container to closing.
//	         Outside of all containers only the end of the text may follow, and the scan is done.
//	closing  the bracket that ends the innermost container: its node gets its end, its flags and the node after it: after.
//
// What holds in every state: nodes[parent] is the innermost open container, noParent outside of all. The next of an open
// container is its own parent, until closing makes it the node after its content. A container has white space or bytes above
// 0x7f inside if the last ones seen, lastSpace and lastHigh, are behind its start: so nothing has to be noted on the way out.
// All of this lives in local variables: that is why the states are labels of one function. What is long or rare, escapes,
// numbers, words and faults, is in functions of its own.
func (t *tape) parse(text []byte) error {
	t.text = text
	t.nodes = t.nodes[:0]
	nodes := t.nodes
	fail := func(at int, msg string) error {
		if at >= len(text) {
			msg = "unexpected end"
		}
		return &SyntaxError{Offset: int64(at), Msg: msg}
	}
	if uint64(len(text)) >= math.MaxUint32 {
		return fail(0, "the text is longer than 4 GiB")
	}

	var (
		i         = 0
		parent    = uint32(noParent)
		lastSpace = -1 // offsets of the last insignificant space and of the last byte above 0x7f
		lastHigh  = -1
		c         byte
		at        int
	)

value:
	for i < len(text) && isSpace(text[i]) {
		lastSpace = i
		i++
	}
	if i >= len(text) {
		return fail(i, "")
	}
	switch c = text[i]; c {
	case '"':
		at = i + 1
		for len(text)-at >= 8 {
			if m := jsontext.Special(binary.LittleEndian.Uint64(text[at:])); m != 0 {
				at += bits.TrailingZeros64(m) >> 3
				break
			}
			if at += 8; at-i > 24 {
				at = skipPlain(text, at)
			}
		}
		if at < len(text) && text[at] == '"' {
			at++
			nodes = append(nodes, node{})
			nodes[len(nodes)-1].set(i, at, len(nodes), nodeString, 0)
			i = at
			break
		}
		end, flags := scanString(text, at-1) // what was passed is plain
		if end < 0 {
			return fail(stringFault(text, i))
		}
		if flags&flagNonASCII != 0 {
			lastHigh = i
		}
		nodes = append(nodes, node{})
		nodes[len(nodes)-1].set(i, end, len(nodes), nodeString, flags)
		i = end
	case '{', '[':
		kind := nodeObject
		if c == '[' {
			kind = nodeArray
		}
		nodes = append(nodes, node{})
		nodes[len(nodes)-1].set(i, 0, int(parent), kind, 0)
		parent = uint32(len(nodes) - 1)
		i++
		for i < len(text) && isSpace(text[i]) {
			lastSpace = i
			i++
		}
		if i < len(text) && text[i] == c+2 { // the closing bracket
			goto closing
		}
		if kind == nodeObject {
			goto key
		}
		goto value
	case 't', 'f', 'n':
		end, kind := scanWord(text, i)
		if end < 0 {
			return fail(i, "unknown word")
		}
		nodes = append(nodes, node{})
		nodes[len(nodes)-1].set(i, end, len(nodes), kind, 0)
		i = end
	default:
		if c != '-' && c-'0' > 9 {
			return fail(i, "expected a value")
		}
		end := scanNumber(text, i)
		if end < 0 {
			return fail(^end, "expected a digit")
		}
		nodes = append(nodes, node{})
		nodes[len(nodes)-1].set(i, end, len(nodes), nodeNumber, 0)
		i = end
	}

after:
	for i < len(text) && isSpace(text[i]) {
		// White space behind the root is inside of nothing.
		if parent != noParent {
			lastSpace = i
		}
		i++
	}
	if parent == noParent {
		if i < len(text) {
			return fail(i, "data after the value")
		}
		t.nodes = nodes
		return nil
	}
	if i >= len(text) {
		return fail(i, "")
	}
	if nodes[parent].kind == nodeArray {
		switch text[i] {
		case ',':
			i++
			goto value
		case ']':
			goto closing
		}
		return fail(i, "expected ',' or ']'")
	}
	switch text[i] {
	case ',':
		if i++; i < len(text) && text[i] == '"' {
			goto key
		}
		for i < len(text) && isSpace(text[i]) {
			lastSpace = i
			i++
		}
		goto key
	case '}':
		goto closing
	}
	return fail(i, "expected ',' or '}'")

key:
	if i >= len(text) || text[i] != '"' {
		return fail(i, "expected a key")
	}
	// Most keys have neither escapes nor bytes above 0x7f: they are scanned here, without a call.
	at = i + 1
	for len(text)-at >= 8 {
		if m := jsontext.Special(binary.LittleEndian.Uint64(text[at:])); m != 0 {
			at += bits.TrailingZeros64(m) >> 3
			break
		}
		at += 8
	}
	if at < len(text) && text[at] == '"' {
		at++
		nodes = append(nodes, node{})
		nodes[len(nodes)-1].set(i, at, len(nodes), nodeString, 0)
		i = at
	} else {
		end, flags := scanString(text, at-1) // what was passed is plain
		if end < 0 {
			return fail(stringFault(text, i))
		}
		if flags&flagNonASCII != 0 {
			lastHigh = i
		}
		nodes = append(nodes, node{})
		nodes[len(nodes)-1].set(i, end, len(nodes), nodeString, flags)
		i = end
	}
	if i < len(text) && text[i] == ':' {
		i++
		goto value
	}
	for i < len(text) && isSpace(text[i]) {
		lastSpace = i
		i++
	}
	if i >= len(text) || text[i] != ':' {
		return fail(i, "expected ':'")
	}
	i++
	goto value

closing:
	i++
	{
		n := &nodes[parent]
		n.end = uint32(i)
		if lastSpace > int(n.start) {
			n.flags |= flagSpaced
		}
		if lastHigh > int(n.start) {
			n.flags |= flagNonASCII
		}
		parent, n.next = n.next, uint32(len(nodes))
	}
	goto after
}

// scanWord returns the end and the kind of the word that begins at text[i]; a negative end means that JSON has no such word.
func scanWord(text []byte, i int) (end int, kind nodeKind) {
	rest := text[i:]
	switch {
	case len(rest) >= 4 && string(rest[:4]) == "true":
		return i + 4, nodeTrue
	case len(rest) >= 5 && string(rest[:5]) == "false":
		return i + 5, nodeFalse
	case len(rest) >= 4 && string(rest[:4]) == "null":
		return i + 4, nodeNull
	}
	return -1, nodeNull
}

func isSpace(c byte) bool { return c <= ' ' && (c == ' ' || c == '\n' || c == '\r' || c == '\t') }

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// skipPlain moves at over as many bytes of a long string as can be passed four words at a time.
func skipPlain(text []byte, at int) int {
	for len(text)-at >= 32 {
		b := text[at : at+32]
		if (jsontext.SpecialBits(binary.LittleEndian.Uint64(b))|jsontext.SpecialBits(binary.LittleEndian.Uint64(b[8:]))|
			jsontext.SpecialBits(binary.LittleEndian.Uint64(b[16:]))|jsontext.SpecialBits(binary.LittleEndian.Uint64(b[24:])))&highs != 0 {
			break
		}
		at += 32
	}
	return at
}

// scanString returns the end of the string that begins at text[i], which is a quote; a negative end means that it is
// malformed, see stringFault.
//
// After the first byte above 0x7f such bytes are no longer special, so that text in other scripts is fast too.
func scanString(text []byte, i int) (end int, flags uint8) {
	i++
	high := uint64(highs)
	for {
		for len(text)-i >= 8 {
			w := binary.LittleEndian.Uint64(text[i:])
			m := jsontext.Special(w)
			if high == 0 {
				m = jsontext.Special(w&^highs) &^ w
			}
			if m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
			i += 8
		}
		if i >= len(text) {
			return -1, 0
		}
		switch c := text[i]; {
		case c == '"':
			return i + 1, flags
		case c == '\\':
			flags |= flagEscaped
			n := escapeLen(text[i:])
			if n == 0 {
				return -1, 0
			}
			i += n
		case c < 0x20:
			return -1, 0
		case c >= 0x80:
			flags |= flagNonASCII
			high = 0
			i++
		default:
			i++
		}
	}
}

// escapeLen returns the length of the escape at the start of s, which is a backslash, or 0.
func escapeLen(s []byte) int {
	if len(s) < 2 {
		return 0
	}
	switch s[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(s) >= 6 && hexDigit(s[2])|hexDigit(s[3])|hexDigit(s[4])|hexDigit(s[5]) >= 0 {
			return 6
		}
	}
	return 0
}

// stringFault finds what is wrong with the malformed string at text[i].
func stringFault(text []byte, i int) (at int, msg string) {
	for i++; i < len(text); i++ {
		switch c := text[i]; {
		case c < 0x20:
			return i, "control character in a string"
		case c == '\\':
			n := escapeLen(text[i:])
			if n == 0 {
				return i, "invalid escape"
			}
			i += n - 1
		}
	}
	return i, "unexpected end"
}

func hexDigit(c byte) int {
	switch {
	case c-'0' <= 9:
		return int(c - '0')
	case c-'a' <= 5:
		return int(c-'a') + 10
	case c-'A' <= 5:
		return int(c-'A') + 10
	}
	return -1
}

// scanNumber returns the end of the number that begins at text[i], which is '-' or a digit. A negative end means that a
// digit is missing at ^end.
func scanNumber(text []byte, i int) (end int) {
	if text[i] == '-' {
		i++
	}
	switch {
	case i >= len(text) || text[i]-'0' > 9:
		return ^i
	case text[i] == '0':
		i++
	default:
		for i < len(text) && text[i]-'0' <= 9 {
			i++
		}
	}
	if i < len(text) && text[i] == '.' {
		i++
		if i >= len(text) || text[i]-'0' > 9 {
			return ^i
		}
		for i < len(text) && text[i]-'0' <= 9 {
			i++
		}
	}
	if i < len(text) && text[i]|0x20 == 'e' {
		i++
		if i < len(text) && (text[i] == '+' || text[i] == '-') {
			i++
		}
		if i >= len(text) || text[i]-'0' > 9 {
			return ^i
		}
		for i < len(text) && text[i]-'0' <= 9 {
			i++
		}
	}
	return i
}
