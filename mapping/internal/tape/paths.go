package tape

import (
	"encoding/binary"
	"math/bits"
)

// Paths are the paths of one mapper as a tree. One walk over the tape finds them all, and follows common prefixes once. It is
// immutable after Index.
type Paths struct {
	nodes []pathNode
}

// pathNode is one place that a path goes through or ends at. The root is node 0.
type pathNode struct {
	edges []pathEdge
	// table finds the edges of a key. It has buckets of edge numbers + 1, chained by pathEdge.chain. Its length is a power
	// of two, and zero for few edges, which are tried one by one.
	table []uint16
	byIdx bool // some edge means an element of an array
}

type pathEdge struct {
	Step
	hash  uint32
	to    int
	chain uint16
}

// Add enters a path and returns the number of its node.
func (s *Paths) Add(p Path) int {
	if s.nodes == nil {
		s.nodes = make([]pathNode, 1)
	}
	at := 0
steps:
	for _, st := range p.Steps {
		for _, e := range s.nodes[at].edges {
			if e.Step == st {
				at = e.to
				continue steps
			}
		}
		to := len(s.nodes)
		n := &s.nodes[at]
		n.edges = append(n.edges, pathEdge{Step: st, hash: keyHash([]byte(st.Key)), to: to})
		n.byIdx = n.byIdx || st.Index >= 0
		s.nodes = append(s.nodes, pathNode{})
		at = to
	}
	return at
}

// Index builds the hash tables after the last Add.
func (s *Paths) Index() {
	for i := range s.nodes {
		n := &s.nodes[i]
		if len(n.edges) <= 3 {
			continue
		}
		size := 1 << bits.Len(uint(2*len(n.edges)))
		n.table = make([]uint16, size)
		for k := range n.edges {
			e := &n.edges[k]
			slot := &n.table[e.hash&uint32(size-1)]
			e.chain, *slot = *slot, uint16(k+1)
		}
	}
}

// keyHash mixes the ends of a key and its length because keys of one object differ mostly at their ends.
func keyHash(key []byte) uint32 {
	var a, b uint64
	switch n := len(key); {
	case n >= 8:
		a = binary.LittleEndian.Uint64(key)
		b = binary.LittleEndian.Uint64(key[n-8:])
	case n >= 4:
		a = uint64(binary.LittleEndian.Uint32(key))
		b = uint64(binary.LittleEndian.Uint32(key[n-4:]))
	case n > 0:
		a = uint64(key[0]) | uint64(key[n/2])<<8
		b = uint64(key[n-1])
	}
	h := (a ^ bits.RotateLeft64(b, 31) ^ uint64(len(key))<<56) * 0x9e3779b97f4a7c15
	return uint32(h >> 32)
}

// Len returns the number of nodes: 0 without paths.
func (s *Paths) Len() int { return len(s.nodes) }

// Find walks the tape. It returns, in the memory of found, for each node of s the index of its value on the tape plus one,
// or zero when the body has no such value. Of several members with the same key the first counts.
func (s *Paths) Find(t *Tape, found []uint32) []uint32 {
	found = append(found[:0], make([]uint32, len(s.nodes))...)
	found[0] = 1
	if len(s.nodes[0].edges) > 0 {
		s.walk(t, 0, 0, found)
	}
	return found
}

func (s *Paths) walk(t *Tape, at int, value uint32, found []uint32) {
	n := &s.nodes[at]
	switch v := &t.Nodes[value]; v.Kind {
	case Object:
		left := len(n.edges)
		var buf [64]byte
		for i := value + 1; i < v.Next && left > 0; i = t.Nodes[i+1].Next {
			k := &t.Nodes[i]
			key := t.Text[k.Start+1 : k.End-1]
			if k.Flags&(Escaped|NonASCII) != 0 {
				key = AppendUnquoted(buf[:0], key)
			}
			if n.table == nil {
				for j := range n.edges {
					if e := &n.edges[j]; found[e.to] == 0 && e.Key == string(key) {
						left--
						s.enter(t, e.to, i+1, found)
					}
				}
				continue
			}
			h := keyHash(key)
			for j := n.table[h&uint32(len(n.table)-1)]; j != 0; {
				e := &n.edges[j-1]
				if e.hash == h && found[e.to] == 0 && e.Key == string(key) {
					left--
					s.enter(t, e.to, i+1, found)
				}
				j = e.chain
			}
		}
	case Array:
		if !n.byIdx {
			return
		}
		left := len(n.edges)
		index := 0
		for i := value + 1; i < v.Next && left > 0; i = t.Nodes[i].Next {
			for j := range n.edges {
				if e := &n.edges[j]; e.Index == index {
					left--
					s.enter(t, e.to, i, found)
				}
			}
			index++
		}
	}
}

func (s *Paths) enter(t *Tape, at int, value uint32, found []uint32) {
	found[at] = value + 1
	if len(s.nodes[at].edges) > 0 {
		s.walk(t, at, value, found)
	}
}
