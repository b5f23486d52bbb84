package mapping

import (
	"encoding/binary"
	"math/bits"
)

// pathSet is the paths of one mapper as a tree, so that one walk over the tape finds them all and common beginnings are
// followed once. It is immutable after the last add.
type pathSet struct {
	nodes []pathNode
}

// pathNode is one place that a path goes through or ends at. The root is node 0.
type pathNode struct {
	edges []pathEdge
	// table finds the edges of a key: buckets of edge numbers + 1, chained by pathEdge.chain. Its length is a power
	// of two, and zero for few edges, which are tried one by one.
	table []uint16
	byIdx bool // some edge means an element of an array
}

type pathEdge struct {
	step
	hash  uint32
	to    int
	chain uint16
}

// add enters a path and returns the number of its node.
func (s *pathSet) add(p FieldPath) int {
	if s.nodes == nil {
		s.nodes = make([]pathNode, 1)
	}
	at := 0
steps:
	for _, st := range p.steps {
		for _, e := range s.nodes[at].edges {
			if e.step == st {
				at = e.to
				continue steps
			}
		}
		to := len(s.nodes)
		n := &s.nodes[at]
		n.edges = append(n.edges, pathEdge{step: st, hash: keyHash([]byte(st.key)), to: to})
		n.byIdx = n.byIdx || st.index >= 0
		s.nodes = append(s.nodes, pathNode{})
		at = to
	}
	return at
}

// index builds the hash tables after the last add.
func (s *pathSet) index() {
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

// keyHash mixes the ends of a key and its length: keys of one object differ mostly at their ends.
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

// find walks the tape and writes, for each node of the set, the index of its value on the tape plus one, or zero.
// found must have the length of s.nodes. Of several members with the same key the first counts.
func (s *pathSet) find(t *tape, found []uint32) {
	clear(found)
	found[0] = 1
	if len(s.nodes[0].edges) > 0 {
		s.walk(t, 0, 0, found)
	}
}

func (s *pathSet) walk(t *tape, at int, value uint32, found []uint32) {
	n := &s.nodes[at]
	switch v := &t.nodes[value]; v.kind {
	case nodeObject:
		left := len(n.edges)
		var buf [64]byte
		for i := value + 1; i < v.next && left > 0; i = t.nodes[i+1].next {
			k := &t.nodes[i]
			key := t.text[k.start+1 : k.end-1]
			if k.flags&(flagEscaped|flagNonASCII) != 0 {
				key = appendUnquoted(buf[:0], key)
			}
			if n.table == nil {
				for j := range n.edges {
					if e := &n.edges[j]; found[e.to] == 0 && e.key == string(key) {
						left--
						s.enter(t, e.to, i+1, found)
					}
				}
				continue
			}
			h := keyHash(key)
			for j := n.table[h&uint32(len(n.table)-1)]; j != 0; {
				e := &n.edges[j-1]
				if e.hash == h && found[e.to] == 0 && e.key == string(key) {
					left--
					s.enter(t, e.to, i+1, found)
				}
				j = e.chain
			}
		}
	case nodeArray:
		if !n.byIdx {
			return
		}
		left := len(n.edges)
		index := 0
		for i := value + 1; i < v.next && left > 0; i = t.nodes[i].next {
			for j := range n.edges {
				if e := &n.edges[j]; e.index == index {
					left--
					s.enter(t, e.to, i, found)
				}
			}
			index++
		}
	}
}

func (s *pathSet) enter(t *tape, at int, value uint32, found []uint32) {
	found[at] = value + 1
	if len(s.nodes[at].edges) > 0 {
		s.walk(t, at, value, found)
	}
}

// lookup follows one path from a value of the tape. It gives the same as a pathSet with that path. Passed is the number of
// members and elements that were looked at. With last the last of several members with the same key counts, and not the first.
func (t *tape) lookup(value uint32, steps []step, last bool) (at uint32, passed int, ok bool) {
steps:
	for i := range steps {
		st := &steps[i]
		v := &t.nodes[value]
		switch v.kind {
		case nodeObject:
			found := false
			for k := value + 1; k < v.next && (!found || last); k = t.nodes[k+1].next {
				passed++
				if t.keyIs(k, st.key) {
					value, found = k+1, true
				}
			}
			if found {
				continue steps
			}
		case nodeArray:
			if st.index >= 0 {
				at := 0
				for k := value + 1; k < v.next; k = t.nodes[k].next {
					if at == st.index {
						passed += at
						value = k
						continue steps
					}
					at++
				}
				passed += at
			}
		}
		return 0, passed, false
	}
	return value, passed, true
}

// keyIs reports whether the key node i has the decoded text key.
func (t *tape) keyIs(i uint32, key string) bool {
	k := &t.nodes[i]
	content := t.text[k.start+1 : k.end-1]
	if k.flags&(flagEscaped|flagNonASCII) == 0 {
		return string(content) == key
	}
	var buf [64]byte
	return string(appendUnquoted(buf[:0], content)) == key
}

// appendValue appends the JSON text of a value: as it stands in the body, except that white space outside of strings is
// left out and bytes that are not UTF-8 become U+FFFD.
func (t *tape) appendValue(dst []byte, value uint32) []byte {
	n := &t.nodes[value]
	text := t.text[n.start:n.end]
	from := len(dst)
	if n.flags&flagSpaced != 0 {
		dst = appendCompact(dst, text)
	} else {
		dst = append(dst, text...)
	}
	if n.flags&flagNonASCII != 0 {
		dst = repairUTF8(dst, from)
	}
	return dst
}

// appendText appends the decoded text of a string value.
func (t *tape) appendText(dst []byte, value uint32) []byte {
	n := &t.nodes[value]
	content := t.text[n.start+1 : n.end-1]
	if n.flags&(flagEscaped|flagNonASCII) == 0 {
		return append(dst, content...)
	}
	return appendUnquoted(dst, content)
}

// appendCSV appends the whole text with its quotes doubled. It does what the function of that name does in half the time,
// because the tape knows where the quotes are: short pieces are copied as whole words, more than counts.
func (t *tape) appendCSV(dst []byte) []byte {
	const slack = 32
	text := t.text
	dst = grow(dst, len(text)+2*len(t.nodes)+slack)
	out, j, prev := dst[:cap(dst)], len(dst), 0
	for i := range t.nodes {
		n := &t.nodes[i]
		if n.kind != nodeString {
			continue
		}
		start, end := int(n.start), int(n.end)
		if n.flags&flagEscaped != 0 {
			j += copy(out[j:], text[prev:start])
			dst = appendCSV(out[:j], text[start:end])
			dst = grow(dst, len(text)-end+2*(len(t.nodes)-i)+slack)
			out, j, prev = dst[:cap(dst)], len(dst), end
			continue
		}
		if k := start + 1 - prev; k <= 8 && prev+8 <= len(text) {
			copy(out[j:j+8], text[prev:prev+8])
			j += k
		} else {
			j += copy(out[j:], text[prev:start+1])
		}
		out[j] = '"'
		j++
		if k := end - start - 1; k <= 16 && start+17 <= len(text) {
			copy(out[j:j+16], text[start+1:start+17])
			j += k
		} else {
			j += copy(out[j:], text[start+1:end])
		}
		out[j] = '"'
		j++
		prev = end
	}
	return append(out[:j], text[prev:]...)
}
