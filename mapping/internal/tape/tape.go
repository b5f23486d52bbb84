// Package tape scans a JSON text once and finds values in it. The values stand on a flat tape of nodes, and stay text until
// they are read. It also has the paths of fields, and the texts of cells, decoded, repaired, compact, quoted for CSV.
package tape

import (
	"fmt"
	"math"
)

// Kind is the type of a JSON value on the tape.
type Kind uint8

// The kinds. Those below String are short words and digits.
const (
	Null Kind = iota
	False
	True
	Number
	String
	Array
	Object
)

const (
	// Escaped marks a string with at least one backslash.
	Escaped = 1 << iota
	// NonASCII marks a value whose text has a byte above 0x7f, which may be invalid UTF-8.
	NonASCII
	// Spaced marks an array or object whose text has insignificant white space.
	Spaced
)

// Node is one JSON value, or one key of an object. After a container come its elements, or its keys and values in turn, each with
// its subtree.
type Node struct {
	Start, End uint32 // the text of the value, for strings with the quotes
	// Next is the index of the node after the subtree. While Parse has a container open it is the index of its parent, so
	// that the scan needs no stack and nesting costs nothing extra.
	Next  uint32
	Kind  Kind
	Flags uint8
}

// Tape is the result of one pass over a JSON text (RFC 8259, any value as the root, any depth). Numbers and strings stay in the
// text, and nothing is decoded before it is read.
//
// The design that lost is a scan for the wanted paths alone. It is faster for a single mapper, but a record passes one mapper for
// each sink, and templates compute paths at run time.
type Tape struct {
	// Text is the parsed text. Strings that the template package makes point into it.
	Text []byte
	// Nodes are the values in the order of the text. The first is the root.
	Nodes []Node
}

// maxKeptNodes bounds the memory that a pooled record keeps after a body with very many values.
const maxKeptNodes = 1 << 14

// Reset drops the text. It keeps the memory of the nodes, up to a bound.
func (t *Tape) Reset() {
	t.Text = nil
	if cap(t.Nodes) > maxKeptNodes {
		t.Nodes = nil
	}
	t.Nodes = t.Nodes[:0]
}

const unexpectedEnd = "unexpected end"

// SyntaxError says where a body is not JSON.
type SyntaxError struct {
	// Offset is the number of bytes before the fault.
	Offset int64
	// Msg describes the fault.
	Msg string
}

func (e *SyntaxError) Error() string {
	next := "correct it there"
	if e.Msg == unexpectedEnd {
		next = "send the whole JSON value"
	}
	return fmt.Sprintf("the body is not valid JSON: %s at byte %d; %s", e.Msg, e.Offset, next)
}

const noParent = math.MaxUint32

// Parse scans text, which must not change while the tape is used. The error is a [*SyntaxError].
//
// The scan has four states, the labels below. Each lists what may stand at text[i]:
//
//	value    a value, after white space. A text, number or word is put on the tape: after. A bracket is put on the tape as
//	         an open container: closing if it is empty, else key or value.
//	key      a key and a colon: value.
//	after    what follows a value, after white space: a comma leads to key or value, the bracket of the container to closing.
//	         Outside of all containers only the end of the text may follow, and the scan is done.
//	closing  the bracket that ends the innermost container: its node gets its end, its flags and the node after it: after.
//
// In every state nodes[parent] is the innermost open container, noParent outside of all, and the Next of an open container is
// its own parent. A container has white space or bytes above 0x7f inside if their last positions seen, lastSpace and
// lastHigh, are after its start, so nothing is noted on the way out.
//
// The work of a state on the text and the tape is in functions that can be tested alone. The states are labels of one function,
// so that i, parent, lastSpace and lastHigh stay in registers. The design that lost is a function for each state, which takes 17
// % longer. White space is skipped where it stands. Through a function, even an inlined one, a scan takes a tenth longer. To
// measure: go test ./mapping/internal/tape -run '^$' -bench .
func (t *Tape) Parse(text []byte) error {
	t.Text, t.Nodes = text, t.Nodes[:0]
	if uint64(len(text)) >= math.MaxUint32 {
		return &SyntaxError{Msg: "the text is longer than 4 GiB"}
	}
	var (
		nodes     = t.Nodes
		i         = 0
		parent    = uint32(noParent)
		lastSpace = -1 // offsets of the last insignificant space and of the last byte above 0x7f
		lastHigh  = -1
	)

value:
	for i < len(text) && isSpace(text[i]) {
		lastSpace = i
		i++
	}
	if i >= len(text) {
		return fault(text, i, "")
	}
	switch c := text[i]; c {
	case '"':
		end, flags := skipText(text, i+1), uint8(0)
		if end < len(text) && text[end] == '"' {
			end++
		} else if end, flags = scanString(text, end); end < 0 {
			return stringFault(text, i)
		} else if flags&NonASCII != 0 {
			lastHigh = i
		}
		nodes = push(nodes, i, end, String, flags)
		i = end
	case '{', '[':
		nodes = append(nodes, Node{})
		n := &nodes[len(nodes)-1]
		n.Start, n.Next, n.Kind = uint32(i), parent, Array
		parent = uint32(len(nodes) - 1)
		i++
		for i < len(text) && isSpace(text[i]) {
			lastSpace = i
			i++
		}
		if c == '{' {
			n.Kind = Object
		}
		if i < len(text) && text[i] == c+2 { // the closing bracket
			goto closing
		}
		if c == '{' {
			goto key
		}
		goto value
	case 't', 'f', 'n':
		end, kind := scanWord(text, i)
		if end < 0 {
			return fault(text, i, "unknown word")
		}
		nodes = push(nodes, i, end, kind, 0)
		i = end
	default:
		if c != '-' && c-'0' > 9 {
			return fault(text, i, "expected a value")
		}
		end := scanNumber(text, i)
		if end < 0 {
			return fault(text, ^end, "expected a digit")
		}
		nodes = push(nodes, i, end, Number, 0)
		i = end
	}

after:
	for i < len(text) && isSpace(text[i]) {
		// White space after the root is inside no container.
		if parent != noParent {
			lastSpace = i
		}
		i++
	}
	if parent == noParent {
		if i < len(text) {
			return fault(text, i, "data after the value")
		}
		t.Nodes = nodes
		return nil
	}
	if i >= len(text) {
		return fault(text, i, "")
	}
	if nodes[parent].Kind == Array {
		switch text[i] {
		case ',':
			i++
			goto value
		case ']':
			goto closing
		}
		return fault(text, i, "expected ',' or ']'")
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
	return fault(text, i, "expected ',' or '}'")

key:
	if i >= len(text) || text[i] != '"' {
		return fault(text, i, "expected a key")
	}
	{
		end, flags := skipWords(text, i+1), uint8(0)
		if end < len(text) && text[end] == '"' {
			end++
		} else if end, flags = scanString(text, end); end < 0 {
			return stringFault(text, i)
		} else if flags&NonASCII != 0 {
			lastHigh = i
		}
		nodes = push(nodes, i, end, String, flags)
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
		return fault(text, i, "expected ':'")
	}
	i++
	goto value

closing:
	i++
	parent = nodes[parent].close(i, len(nodes), lastSpace, lastHigh)
	goto after
}

// push appends the node of a value that contains no other. It writes field by field because a node that is put together first
// costs more than half of the time of a scan.
func push(nodes []Node, start, end int, kind Kind, flags uint8) []Node {
	nodes = append(nodes, Node{})
	n := &nodes[len(nodes)-1]
	n.Start, n.End, n.Next, n.Kind, n.Flags = uint32(start), uint32(end), uint32(len(nodes)), kind, flags
	return nodes
}

// close ends a container at text[end] and returns its parent. The node after its content has the number next.
func (n *Node) close(end, next, lastSpace, lastHigh int) (parent uint32) {
	n.End = uint32(end)
	if lastSpace > int(n.Start) {
		n.Flags |= Spaced
	}
	if lastHigh > int(n.Start) {
		n.Flags |= NonASCII
	}
	parent, n.Next = n.Next, uint32(next)
	return parent
}

// fault is the error of a text that is not JSON at an offset.
func fault(text []byte, at int, msg string) error {
	if at >= len(text) {
		msg = unexpectedEnd
	}
	return &SyntaxError{Offset: int64(at), Msg: msg}
}
