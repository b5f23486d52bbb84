package tree

import (
	"io"
	"strconv"
)

// AppendSerialized appends the typed text over which the service computes link values and ids, every value with its
// type and length. Objects of data are written as objects. Objects of a configuration (arrays) are written as arrays with names.
func (n Node) AppendSerialized(dst []byte, arrays bool) []byte {
	return n.appendSerialized(dst, arrays, nil)
}

// WriteSerialized writes the typed text of data, a part at a time. It uses the memory of scratch and returns it for the
// next call. w must not fail.
func (n Node) WriteSerialized(w io.Writer, scratch []byte) []byte {
	scratch = n.appendSerialized(scratch[:0], false, w)
	_, _ = w.Write(scratch)
	return scratch
}

func (n Node) appendSerialized(dst []byte, arrays bool, w io.Writer) []byte {
	switch n.kind {
	case Null:
		return append(dst, "N;"...)
	case Bool:
		return append(dst, 'b', ':', '0'+byte(n.num), ';')
	case Int:
		return append(strconv.AppendInt(append(dst, "i:"...), n.Int(), 10), ';')
	case Float:
		if n.str != "" { // different numbers must not become one
			return append(append(append(dst, "d:"...), n.str...), ';')
		}
		return append(appendFloatText(append(dst, "d:"...), n.Float(), 17, 17, 'E'), ';')
	case String:
		return appendSerializedText(dst, n.str)
	}
	if n.kind == Object && !arrays {
		dst = append(dst, `O:8:"stdClass":`...)
	} else {
		dst = append(dst, "a:"...)
	}
	dst = append(strconv.AppendInt(dst, int64(n.Len()), 10), ":{"...)
	for i := range n.kids { // without Each, which would allocate for every node
		m := &n.kids[i]
		switch {
		case n.kind == List:
			dst = append(strconv.AppendInt(append(dst, "i:"...), int64(i), 10), ';')
		case arrays && integerName(m.Key):
			dst = append(append(append(dst, "i:"...), m.Key...), ';')
		default:
			dst = appendSerializedText(dst, m.Key)
		}
		dst = spill(w, m.Value.appendSerialized(dst, arrays, w))
	}
	if n.asText() {
		dst = n.appendSerializedItems(dst, arrays, w)
	}
	return append(dst, '}')
}

// integerName reports whether an array holds a name as an integer, decimal, without plus sign and leading zeros.
func integerName(s string) bool {
	i, err := strconv.ParseInt(s, 10, 64)
	return err == nil && strconv.FormatInt(i, 10) == s
}

func appendSerializedText(dst []byte, s string) []byte {
	dst = strconv.AppendInt(append(dst, "s:"...), int64(len(s)), 10)
	dst = append(append(dst, `:"`...), s...)
	return append(dst, `";`...)
}

// appendSerializedItems appends the items of a list that is kept as text.
func (n Node) appendSerializedItems(dst []byte, arrays bool, w io.Writer) []byte {
	i := int64(0)
	for m := range n.Each() {
		dst = append(strconv.AppendInt(append(dst, "i:"...), i, 10), ';')
		dst = spill(w, m.Value.appendSerialized(dst, arrays, w))
		i++
	}
	return dst
}
