package tree

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/forebay/forebay/driverkit/jsontext"
)

// contextEvery is the number of values after which the context is looked at.
const contextEvery = 4096

// MaxDepth is how deep collections may be nested.
const MaxDepth = 512

// SyntaxError says where a text stops being JSON. It does not quote the text, which may hold secrets.
type SyntaxError struct {
	// Line and Column count from 1, Offset from 0, in bytes.
	Line, Column, Offset int
	Message              string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
}

// Parse reads one JSON value (RFC 8259). A byte order mark in front and bytes that are no UTF-8 are dropped. Of equal
// names in an object the last value counts, at the place of the first. Strings share one copy of the text, which lives
// as long as any of them.
func Parse(data []byte) (Node, error) {
	return ParseText(context.Background(), string(data), math.MaxInt)
}

// ParseText is Parse for a response, which may be large. It ends with the cause of ctx when that ends, because a text of many
// megabytes takes seconds. A list with very many values in it is checked, and kept as text. Its items are read when
// they are asked for. So it takes a few megabytes in addition to the text, except for objects. More than most members in them are
// an error.
func ParseText(ctx context.Context, text string, most int) (Node, error) {
	if text = strings.TrimPrefix(text, "\ufeff"); !utf8.ValidString(text) { // which is many times as fast as ToValidUTF8
		text = strings.ToValidUTF8(text, "")
	}
	p := newParser(ctx, text, keptFrom)
	p.most = most
	n, err := p.value(0)
	if err != nil && ctx.Err() != nil {
		return Node{}, context.Cause(ctx)
	}
	if err == nil {
		p.space()
		if p.at < len(text) {
			err = errors.New("text after the end of the value")
		}
	}
	if err != nil {
		at := min(p.at, len(text))
		before := text[:at]
		return Node{}, &SyntaxError{
			Line: 1 + strings.Count(before, "\n"), Column: at - strings.LastIndexByte(before, '\n'),
			Offset: at, Message: err.Error(),
		}
	}
	return n, nil
}

func newParser(ctx context.Context, text string, step int) parser {
	return parser{ctx: ctx, data: text, textFrom: step, step: step, most: math.MaxInt, asText: none}
}

type parser struct {
	ctx  context.Context
	data string
	at   int
	// values counts the values begun, to look at the context now and then.
	values int
	// open holds the members of the collections that are not closed yet, the innermost last. A closed one is copied
	// out at its exact size.
	open []Member
	// free is memory for members of closed collections, so few of them have a separate allocation.
	free []Member
	// freed is the length that it had at first.
	freed int

	// held counts the members that were made and are not dropped. At textFrom a list is chosen to be kept as text, and at
	// most the text is refused.
	held, textFrom, most int
	step                 int // the first textFrom
	// around are the collections that are not closed yet, by depth.
	around []frame
	// asText is the depth of the list that was chosen, none while there is none. What is in it is checked only, so dry is
	// true, and nothing is made.
	asText int
	dry    bool
}

// A frame is a collection that is not closed yet.
type frame struct {
	kind Kind
	held int // before it began
}

const (
	// keptFrom is the number of members, of 72 bytes each, from which on a list is kept as text. Pages of a thousand
	// records stay below.
	keptFrom = 1 << 16
	none     = math.MaxInt
)

var errTooMany = errors.New("objects with more members than fit the memory that is allowed")

// keep accounts for a member that was made. When there are very many, it chooses the innermost list that holds more
// than half of them.
func (p *parser) keep() {
	p.held++
	if p.held < p.textFrom {
		return
	}
	for depth := len(p.around) - 1; depth >= 0; depth-- {
		if f := p.around[depth]; f.kind == List && p.held-f.held > p.step/2 {
			p.asText, p.textFrom = depth, p.step
			return
		}
	}
	p.textFrom += p.step // objects cannot be kept as text because their names are looked for
}

var errEnd = errors.New("the text ends within a value")

func (p *parser) space() {
	for p.at < len(p.data) {
		switch p.data[p.at] {
		case ' ', '\t', '\n', '\r':
			p.at++
		default:
			return
		}
	}
}

// peek skips space and returns the next byte, 0 at the end.
func (p *parser) peek() byte {
	p.space()
	if p.at < len(p.data) {
		return p.data[p.at]
	}
	return 0
}

func (p *parser) value(depth int) (Node, error) {
	if depth > MaxDepth {
		return Node{}, fmt.Errorf("nested deeper than %d", MaxDepth)
	}
	if p.values++; p.values%contextEvery == 0 && p.ctx.Err() != nil {
		return Node{}, p.ctx.Err()
	}
	switch c := p.peek(); {
	case p.at >= len(p.data):
		return Node{}, errEnd
	case c == '{':
		return p.collection(Object, '}', depth)
	case c == '[':
		return p.collection(List, ']', depth)
	case c == '"':
		s, err := p.text()
		return OfString(s), err
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	}
	for _, w := range [...]struct {
		word string
		node Node
	}{{"true", OfBool(true)}, {"false", OfBool(false)}, {"null", Node{}}} {
		if strings.HasPrefix(p.data[p.at:], w.word) {
			p.at += len(w.word)
			return w.node, nil
		}
	}
	return Node{}, errors.New("a value is expected")
}

// manyMembers is from where names are looked for in a map.
const manyMembers = 16

// names finds names that an object being read may have already. Of up to filtered members nearly all new names are
// recognised by it, and no map is made.
type names struct {
	bits  [4]uint64
	index map[string]int
}

const filtered = 64

// mayHave reports false for a name that is new, and notes it.
func (s *names) mayHave(key string) bool {
	h := uint(len(key))
	if h > 0 {
		h = h*0x9e5 + uint(key[0])*0x35 + uint(key[len(key)/2])*0xb3 + uint(key[len(key)-1])*0x1d
	}
	word, bit := &s.bits[h>>6&3], uint64(1)<<(h&63)
	had := *word&bit != 0
	*word |= bit
	return had
}

func (p *parser) collection(kind Kind, shut byte, depth int) (Node, error) {
	n := Node{kind: kind}
	begin := p.at
	p.at++
	if p.peek() == shut {
		p.at++
		return n, nil
	}
	base := len(p.open)
	p.around = append(p.around, frame{kind, p.held})
	var seen names
	for count := uint64(1); ; count++ {
		if p.asText <= depth && !p.dry { // chosen just now, or a list around it was
			clear(p.open[base:])
			p.open, seen.index, p.dry = p.open[:base], nil, true
		}
		var m Member
		var err error
		if kind == Object {
			if p.peek() != '"' {
				return n, errors.New("a name in quotes is expected")
			}
			if m.Key, err = p.text(); err != nil {
				return n, err
			}
			if p.peek() != ':' {
				return n, errors.New("a colon is expected")
			}
			p.at++
		}
		if m.Value, err = p.value(depth + 1); err != nil {
			return n, err
		}
		switch {
		case p.asText > depth:
			p.add(base, kind, m, &seen)
		case kind == List: // the next item is read without this one
			p.held = p.around[depth].held
		default: // so many are held when the item is read
			p.held++
		}
		if p.held > p.most {
			return n, errTooMany
		}
		switch p.peek() {
		case ',':
			p.at++
		case shut:
			p.at++
			if p.asText == depth {
				p.asText, p.dry, p.held = none, false, p.around[depth].held
				n.num, n.str = count, p.data[begin:p.at]
			} else if p.asText > depth {
				n.kids = p.closed(p.open[base:])
			}
			clear(p.open[base:])
			p.open, p.around = p.open[:base], p.around[:depth]
			return n, nil
		default:
			if p.at >= len(p.data) {
				return n, errEnd
			}
			return n, fmt.Errorf("a comma or %q is expected", shut)
		}
	}
}

const (
	leastFree = 16
	mostFree  = 448 // 32 KB
)

// closed returns a copy of the members of a collection.
func (p *parser) closed(members []Member) []Member {
	n := len(members)
	if n > mostFree/4 {
		return append([]Member(nil), members...)
	}
	if n > len(p.free) {
		p.freed = max(min(2*p.freed, mostFree), leastFree, n)
		p.free = make([]Member, p.freed)
	}
	out := p.free[:n:n]
	p.free = p.free[n:]
	copy(out, members)
	return out
}

// add appends a member to the collection that begins at base, or replaces the member of its name.
func (p *parser) add(base int, kind Kind, m Member, seen *names) {
	if at := indexOf(kind, p.open[base:], m.Key, seen); at >= 0 {
		p.open[base+at].Value = m.Value
		return
	}
	p.open = append(p.open, m)
	p.keep()
}

// indexOf returns the position of a name in an object that is being read, -1 when it is new.
func indexOf(kind Kind, members []Member, key string, seen *names) int {
	if kind == List {
		return -1
	}
	if len(members) < filtered {
		if !seen.mayHave(key) {
			return -1
		}
		for i := range members {
			if members[i].Key == key {
				return i
			}
		}
		return -1
	}
	if seen.index == nil {
		seen.index = make(map[string]int, 4*filtered)
		for i := range members {
			seen.index[members[i].Key] = i
		}
	}
	if i, ok := seen.index[key]; ok {
		return i
	}
	seen.index[key] = len(members)
	return -1
}

func (p *parser) number() (Node, error) {
	begin := p.at
	digits := func() int {
		from := p.at
		for p.at < len(p.data) && p.data[p.at] >= '0' && p.data[p.at] <= '9' {
			p.at++
		}
		return p.at - from
	}
	is := func(set string) bool { return p.at < len(p.data) && strings.IndexByte(set, p.data[p.at]) >= 0 }
	if is("-") {
		p.at++
	}
	first := p.at
	whole := digits()
	if whole == 0 || whole > 1 && p.data[first] == '0' {
		return Node{}, errors.New("malformed number")
	}
	integer := true
	if is(".") {
		integer = false
		p.at++
		if digits() == 0 {
			return Node{}, errors.New("malformed number")
		}
	}
	if is("eE") {
		integer = false
		p.at++
		if is("+-") {
			p.at++
		}
		if digits() == 0 {
			return Node{}, errors.New("malformed number")
		}
	}
	s := p.data[begin:p.at]
	if p.dry {
		return Node{}, nil
	}
	if integer && s != "-0" {
		if i, err := strconv.ParseInt(s, 10, 64); err == nil {
			return OfInt(i), nil
		}
	}
	return ofNumber(s, integer && s != "-0"), nil
}

func (p *parser) text() (string, error) {
	p.at++
	begin := p.at
	p.at = jsontext.End(p.data, p.at)
	switch {
	case p.at == len(p.data):
		return "", errEnd
	case p.data[p.at] == '"':
		p.at++
		return p.data[begin : p.at-1], nil
	case p.data[p.at] == '\\':
		return p.escapedText(begin)
	}
	return "", errControl
}

var errControl = errors.New("control character in a string")

// escapedText continues with text from the first backslash.
func (p *parser) escapedText(begin int) (string, error) {
	var out []byte
	for {
		end := jsontext.End(p.data, p.at)
		if !p.dry {
			out = append(out, p.data[begin:end]...)
		}
		p.at = end
		if end == len(p.data) {
			return "", errEnd
		}
		switch c := p.data[end]; c {
		case '"':
			p.at++
			return string(out), nil
		case '\\':
		default:
			return "", errControl
		}
		if p.at += 2; p.at > len(p.data) {
			p.at = len(p.data)
			return "", errEnd
		}
		c := p.data[p.at-1]
		begin = p.at
		if i := strings.IndexByte(`"\/bfnrt`, c); i >= 0 {
			if !p.dry {
				out = append(out, "\"\\/\b\f\n\r\t"[i])
			}
			continue
		}
		if c != 'u' {
			return "", errors.New("unknown escape in a string")
		}
		r, err := p.unit()
		if err != nil {
			return "", err
		}
		if utf16.IsSurrogate(r) {
			if p.at+2 > len(p.data) || p.data[p.at] != '\\' || p.data[p.at+1] != 'u' {
				return "", errors.New("half of a surrogate pair in a string")
			}
			p.at += 2
			low, err := p.unit()
			if err != nil {
				return "", err
			}
			if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
				return "", errors.New("half of a surrogate pair in a string")
			}
		}
		if begin = p.at; !p.dry {
			out = utf8.AppendRune(out, r)
		}
	}
}

func (p *parser) unit() (rune, error) {
	if p.at+4 > len(p.data) {
		return 0, errEnd
	}
	u, err := strconv.ParseUint(p.data[p.at:p.at+4], 16, 16)
	if err != nil || p.data[p.at] == '+' {
		return 0, errors.New("malformed escape in a string")
	}
	p.at += 4
	return rune(u), nil
}
