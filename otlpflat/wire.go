package otlpflat

import (
	"encoding/base64"
	"iter"
	"math"

	"github.com/forebay/forebay/internal/jsontext"
	"github.com/forebay/forebay/mapping"
)

// EncodedLogs returns the records of an encoded ExportLogsServiceRequest, as [Logs] returns them for the request decoded by pdata, and their
// number. It reads them from one copy of the request, which takes a fraction of the time and no memory for each record.
//
// ok is false for a request that pdata refuses, and for one with anything that exporters do not usually send: a field that pdata does not know, or one
// that is set twice. Such a request is for pdata, which is the judge of what it means.
func EncodedLogs(request []byte) (docs iter.Seq[mapping.FieldDocument], records int, ok bool) {
	text := string(request)
	if records, ok = usualRequest(text); !ok {
		return nil, 0, false
	}
	return func(yield func(mapping.FieldDocument) bool) {
		d := new(logDocument)
		d.record = d
		for text := text; text != ""; {
			var p part
			p, text, _ = cut(text)
			d.setResource(wireResource(p.content))
			for text := p.content; text != ""; {
				p, text, _ = cut(text)
				if p.tag != tagScopeLogs {
					continue
				}
				d.setScope(wireScope(p.content))
				for text := p.content; text != ""; {
					p, text, _ = cut(text)
					if p.tag != tagLogRecord {
						continue
					}
					d.log.read(p.content)
					if !yield(d) {
						return
					}
				}
			}
		}
	}, records, true
}

// A tag is the number of a field and its wire type, in one byte.
const (
	varint  = 0
	fixed64 = 1
	content = 2
	fixed32 = 5

	tagResourceLogs = 1<<3 | content

	tagResource          = 1<<3 | content
	tagScopeLogs         = 2<<3 | content
	tagResourceSchemaURL = 3<<3 | content

	tagResourceAttribute = 1<<3 | content
	tagResourceDropped   = 2<<3 | varint

	tagScope          = 1<<3 | content
	tagLogRecord      = 2<<3 | content
	tagScopeSchemaURL = 3<<3 | content

	tagScopeName      = 1<<3 | content
	tagScopeVersion   = 2<<3 | content
	tagScopeAttribute = 3<<3 | content
	tagScopeDropped   = 4<<3 | varint

	tagTime           = 1<<3 | fixed64
	tagSeverityNumber = 2<<3 | varint
	tagSeverityText   = 3<<3 | content
	tagBody           = 5<<3 | content
	tagAttribute      = 6<<3 | content
	tagDropped        = 7<<3 | varint
	tagFlags          = 8<<3 | fixed32
	tagTraceID        = 9<<3 | content
	tagSpanID         = 10<<3 | content
	tagObserved       = 11<<3 | fixed64
	tagEventName      = 12<<3 | content

	tagKey   = 1<<3 | content
	tagValue = 2<<3 | content

	tagString  = 1<<3 | content
	tagBool    = 2<<3 | varint
	tagInt     = 3<<3 | varint
	tagDouble  = 4<<3 | fixed64
	tagArray   = 5<<3 | content
	tagMap     = 6<<3 | content
	tagBytes   = 7<<3 | content
	tagElement = 1<<3 | content // of an array or a map
)

// part is a field of a message: its tag, and its number or content.
type part struct {
	tag     byte
	number  uint64
	content string
}

// cut takes the first field off a message. ok is false if there is no field with a tag of one byte and one of the four wire types.
func cut(s string) (p part, rest string, ok bool) {
	if len(s) < 2 {
		return part{}, "", false
	}
	p.tag = s[0]
	if p.tag >= 0x80 {
		return part{}, "", false
	}
	switch p.tag & 7 {
	case varint:
		n := 0
		if p.number, n = readVarint(s, 1); n == 0 {
			return part{}, "", false
		}
		return p, s[n:], true
	case content:
		size, n := uint64(s[1]), 2
		if size >= 0x80 {
			if size, n = readVarint(s, 1); n == 0 {
				return part{}, "", false
			}
		}
		if size > uint64(len(s)-n) {
			return part{}, "", false
		}
		end := n + int(size)
		p.content = s[n:end]
		return p, s[end:], true
	case fixed64:
		if len(s) < 9 {
			return part{}, "", false
		}
		p.number = uint64(s[1]) | uint64(s[2])<<8 | uint64(s[3])<<16 | uint64(s[4])<<24 | uint64(s[5])<<32 | uint64(s[6])<<40 | uint64(s[7])<<48 | uint64(s[8])<<56
		return p, s[9:], true
	case fixed32:
		if len(s) < 5 {
			return part{}, "", false
		}
		p.number = uint64(s[1]) | uint64(s[2])<<8 | uint64(s[3])<<16 | uint64(s[4])<<24
		return p, s[5:], true
	}
	return part{}, "", false
}

// readVarint reads the number at i and returns its end, 0 if there is none. As in pdata, bits beyond 64 are lost.
func readVarint(s string, i int) (v uint64, end int) {
	for shift := uint(0); shift < 64 && i < len(s); shift += 7 {
		b := s[i]
		i++
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return v, i
		}
	}
	return 0, 0
}

// The following say whether a message has only fields that are read here, and each at most once unless it is a list.

// usual reports whether a message is. allowed says of one field whether it is read here, and whether it is one of a list.
func usual(s string, allowed func(p part) (ok, list bool)) bool {
	var seen uint16
	for s != "" {
		p, rest, ok := cut(s)
		if !ok {
			return false
		}
		ok, list := allowed(p)
		bit := uint16(1) << (p.tag >> 3)
		if !ok || !list && seen&bit != 0 {
			return false
		}
		seen |= bit
		s = rest
	}
	return true
}

func usualRequest(s string) (records int, ok bool) {
	ok = usual(s, func(p part) (ok, list bool) {
		if p.tag != tagResourceLogs {
			return false, false
		}
		n, ok := usualGroup(p.content)
		records += n
		return ok, true
	})
	return records, ok
}

func usualGroup(s string) (records int, ok bool) {
	ok = usual(s, func(p part) (ok, list bool) {
		switch p.tag {
		case tagResource:
			return usual(p.content, usualInResource), false
		case tagScopeLogs:
			n, ok := usualScopeLogs(p.content)
			records += n
			return ok, true
		}
		return p.tag == tagResourceSchemaURL, false
	})
	return records, ok
}

func usualInResource(p part) (ok, list bool) {
	if p.tag == tagResourceAttribute {
		return usualPair(p.content, 0), true
	}
	return p.tag == tagResourceDropped, false
}

func usualScopeLogs(s string) (records int, ok bool) {
	ok = usual(s, func(p part) (ok, list bool) {
		switch p.tag {
		case tagScope:
			return usual(p.content, usualInScope), false
		case tagLogRecord:
			records++
			return usual(p.content, usualInRecord), true
		}
		return p.tag == tagScopeSchemaURL, false
	})
	return records, ok
}

func usualInScope(p part) (ok, list bool) {
	switch p.tag {
	case tagScopeAttribute:
		return usualPair(p.content, 0), true
	case tagScopeName, tagScopeVersion, tagScopeDropped:
		return true, false
	}
	return false, false
}

func usualInRecord(p part) (ok, list bool) {
	switch p.tag {
	case tagAttribute:
		return usualPair(p.content, 0), true
	case tagBody:
		return usualValue(p.content, 0), false
	case tagTraceID:
		return len(p.content) == 16 || p.content == "", false
	case tagSpanID:
		return len(p.content) == 8 || p.content == "", false
	case tagTime, tagSeverityNumber, tagSeverityText, tagDropped, tagFlags, tagObserved, tagEventName:
		return true, false
	}
	return false, false
}

func usualPair(s string, depth int) bool {
	return usual(s, func(p part) (ok, list bool) {
		return p.tag == tagKey || p.tag == tagValue && usualValue(p.content, depth), false
	})
}

// maxDepth bounds the recursion, also for callers that have not bounded the nesting of values.
const maxDepth = 128

func usualValue(s string, depth int) bool {
	if s == "" {
		return true
	}
	p, rest, ok := cut(s)
	if !ok || rest != "" || depth > maxDepth {
		return false
	}
	switch p.tag {
	case tagString, tagBool, tagInt, tagDouble, tagBytes:
		return true
	case tagArray, tagMap:
		for s := p.content; s != ""; {
			var element part
			if element, s, ok = cut(s); !ok || element.tag != tagElement {
				return false
			}
			if p.tag == tagArray {
				ok = usualValue(element.content, depth+1)
			} else {
				ok = usualPair(element.content, depth+1)
			}
			if !ok {
				return false
			}
		}
		return true
	}
	return false
}

// The following read messages that are as usual.

func wireResource(s string) (r resource) {
	for s != "" {
		var p part
		switch p, s, _ = cut(s); p.tag {
		case tagResource:
			r.attributes = attributes{wire: p.content, tag: tagResourceAttribute}
			for s := p.content; s != ""; {
				if p, s, _ = cut(s); p.tag == tagResourceDropped {
					r.dropped = uint32(p.number)
				}
			}
		case tagResourceSchemaURL:
			r.schema = p.content
		}
	}
	r.attributes.tag = tagResourceAttribute
	return r
}

func wireScope(s string) (r scope) {
	for s != "" {
		var p part
		switch p, s, _ = cut(s); p.tag {
		case tagScope:
			r.attributes.wire = p.content
			for s := p.content; s != ""; {
				switch p, s, _ = cut(s); p.tag {
				case tagScopeName:
					r.name = p.content
				case tagScopeVersion:
					r.version = p.content
				case tagScopeDropped:
					r.dropped = uint32(p.number)
				}
			}
		case tagScopeSchemaURL:
			r.schema = p.content
		}
	}
	r.attributes.tag = tagScopeAttribute
	return r
}

func (r *logRecord) read(s string) {
	*r = logRecord{attributes: attributes{tag: tagAttribute}, body: value{isWire: true}}
	for s != "" {
		p, rest, _ := cut(s)
		switch p.tag {
		case tagTime:
			r.time = p.number
		case tagObserved:
			r.observed = p.number
		case tagSeverityNumber:
			r.severityNumber = int32(p.number)
		case tagSeverityText:
			r.severityText = p.content
		case tagBody:
			r.body.wire = p.content
		case tagAttribute:
			if r.attributes.wire == "" {
				r.attributes.wire = s // until the end, with other fields between
			}
		case tagDropped:
			r.dropped = uint32(p.number)
		case tagFlags:
			r.flags = uint32(p.number)
		case tagTraceID:
			copy(r.trace[:], p.content)
		case tagSpanID:
			copy(r.span[:], p.content)
		case tagEventName:
			r.eventName = p.content
		}
		s = rest
	}
}

// wirePair reads a key and its value.
func wirePair(s string) (m pair) {
	for s != "" {
		var p part
		if p, s, _ = cut(s); p.tag == tagKey {
			m.key = p.content
		} else {
			m.value = p.content
		}
	}
	return m
}

// wireCount counts the fields with a tag.
func wireCount(s string, tag byte) (n int) {
	for s != "" {
		var p part
		if p, s, _ = cut(s); p.tag == tag {
			n++
		}
	}
	return n
}

// wireValue is value for an encoded value.
func (w *writer) wireValue(s string) {
	if s == "" {
		w.null()
		return
	}
	p, _, _ := cut(s)
	switch p.tag {
	case tagString:
		w.text(p.content)
	case tagBool:
		w.bool(p.number != 0)
	case tagInt:
		w.int(int64(p.number))
	case tagDouble:
		w.float(math.Float64frombits(p.number))
	case tagMap:
		w.wireAttributes(p.content, tagElement)
	case tagArray:
		w.wireArray(p.content)
	case tagBytes:
		w.wireBytes(p.content)
	}
}

// pair is an encoded member of a map.
type pair struct{ key, value string }

// wireAttributes is attributes for the fields with a tag. The pairs of the maps that are being written are in w.pairs, those of inner ones behind.
func (w *writer) wireAttributes(s string, tag byte) {
	c := w.open('{')
	if w.seek {
		if v, ok := wireFind(s, tag, w.want); ok {
			w.wireValue(v)
		}
		w.close(c, '}')
		return
	}
	from := len(w.pairs)
	for s != "" {
		var p part
		if p, s, _ = cut(s); p.tag == tag {
			w.pairs = append(w.pairs, wirePair(p.content))
		}
	}
	to := len(w.pairs)
	w.keys = w.keys[:0]
	for i := from; i < to; i++ {
		w.keys = append(w.keys, w.pairs[i].key)
	}
	repeats := w.repeatedKeys()
	comma := false
	for i := from; i < to; i++ {
		if repeats != nil && repeats[i-from] {
			continue
		}
		if comma {
			w.dst = append(w.dst, ',')
		}
		comma = true
		p := w.pairs[i]
		w.dst = jsontext.AppendString(w.dst, p.key, false)
		w.dst = append(w.dst, ':')
		w.wireValue(p.value)
	}
	w.pairs = w.pairs[:from]
	w.close(c, '}')
}

// wireFind is find for the fields with a tag.
func wireFind(s string, tag byte, want string) (found string, ok bool) {
	for s != "" {
		var p part
		if p, s, _ = cut(s); p.tag == tag {
			if m := wirePair(p.content); isKey(m.key, want) {
				found, ok = m.value, true
			}
		}
	}
	return found, ok
}

func (w *writer) wireArray(s string) {
	c := w.open('[')
	from, to := w.elements(wireCount(s, tagElement))
	for i := 0; s != "" && i < to; i++ {
		var p part
		if p, s, _ = cut(s); i < from {
			continue
		}
		if !w.seek && i > 0 {
			w.dst = append(w.dst, ',')
		}
		w.wireValue(p.content)
	}
	w.close(c, ']')
}

func (w *writer) wireBytes(s string) {
	if !w.beginPlain() {
		return
	}
	var chunk [768]byte
	for s != "" {
		n := copy(chunk[:], s)
		w.dst, s = base64.StdEncoding.AppendEncode(w.dst, chunk[:n]), s[n:]
	}
	w.endPlain()
}
