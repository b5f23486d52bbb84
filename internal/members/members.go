// Package members is the contract of package mapping with the documents of package otlpflat, in addition to [mapping.FieldDocument], that makes a
// row cheaper. A mapper looks for the name of a member once and not for each record, it gets times as numbers, and the shared fields of one
// resource and scope become cells once.
package members

// Layout are the members of one type of document. It is immutable, and mappers recognise it by its address.
type Layout struct {
	byName map[string]Member
}

// Member is one member of a document.
type Member struct {
	// Number is from 1 on; 0 is a member that is not in the layout, which need not have all.
	Number int
	// Time is set if the document has the member as a number too.
	Time bool
	// Shared is set if the member is the same, or missing, in all documents between two calls of [Shared.Reset].
	Shared bool
}

// NewLayout returns the layout of members with names and the numbers from 1 on.
func NewLayout(names []string, describe func(number int) (time, shared bool)) *Layout {
	l := &Layout{byName: make(map[string]Member, len(names))}
	for i, name := range names {
		m := Member{Number: i + 1}
		m.Time, m.Shared = describe(m.Number)
		l.byName[name] = m
	}
	return l
}

// Named returns a member, the zero value if the layout does not have it.
func (l *Layout) Named(name string) Member { return l.byName[name] }

// Shared keeps the cells that mappers have made of the shared members of the current documents. It belongs to one document, which calls Reset
// when these members change. The zero value is ready to use.
type Shared struct {
	users [maxUsers]Cells
	n     int
}

// The bounds of the cells that a document keeps, regardless of a sender's resources and of the number of sinks. Cells beyond them are made for
// each record.
const (
	maxUsers  = 8
	maxPieces = 8
	maxBytes  = 16 << 10
)

// Reset forgets all cells. Their memory stays for the next ones.
func (s *Shared) Reset() {
	for i := range s.users[:s.n] {
		s.users[i].n = 0
	}
}

// Of returns the cells of a user, which is a pointer to a mapper. It returns nil if there are too many users.
func (s *Shared) Of(user any) *Cells {
	for i := range s.users[:s.n] {
		if c := &s.users[i]; c.user == user {
			return c
		}
	}
	if s.n == maxUsers {
		return nil
	}
	c := &s.users[s.n]
	c.user = user
	s.n++
	return c
}

// Cells are pieces of the rows of one user. A nil Cells keeps none.
type Cells struct {
	user any
	text []byte
	ends [maxPieces]int // of the first n pieces in text
	n    int
}

// Piece returns piece i of the current rows, if it was put.
func (c *Cells) Piece(i int) (text []byte, ok bool) {
	switch {
	case c == nil || i >= c.n:
		return nil, false
	case i == 0:
		return c.text[:c.ends[0]], true
	}
	return c.text[c.ends[i-1]:c.ends[i]], true
}

// Put keeps a copy of piece i. A piece whose predecessors are not there, or that is too large, is not kept.
func (c *Cells) Put(i int, piece []byte) {
	if c == nil || i != c.n || i == maxPieces {
		return
	}
	text := c.text[:0]
	if i > 0 {
		text = c.text[:c.ends[i-1]]
	}
	if len(text)+len(piece) > maxBytes {
		return
	}
	c.text = append(text, piece...)
	c.ends[i] = len(c.text)
	c.n++
}
