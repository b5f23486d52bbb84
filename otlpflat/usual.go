package otlpflat

// A request is read in place only if it is as exporters send it. Each message has only fields that are read here, and each field once unless it is a
// list. For any other request pdata decides the meaning.

// message has the rules of the fields of a message by their number. A field without a rule is not usual.
type message [17]rule

type rule struct {
	tag byte
	// alone is a mark for each field that may be there only once. The fields of a choice have the same mark. It is 0 for lists.
	alone uint32
	// content says whether a content is usual, or is nil if all contents are.
	content func(s string) bool
}

func (m *message) usual(s string) bool {
	var seen uint32
	for s != "" {
		p, rest, ok := cut(s)
		n := p.tag >> 3
		if !ok || n == 0 || int(n) >= len(m) {
			return false
		}
		r := &m[n]
		if r.tag != p.tag || r.alone&seen != 0 || r.content != nil && !r.content(p.content) {
			return false
		}
		seen |= r.alone
		s = rest
	}
	return true
}

// messageOf makes the rules of a message from the rules of its fields.
func messageOf(rules ...rule) *message {
	m := new(message)
	for _, r := range rules {
		m[r.tag>>3] = r
	}
	return m
}

// once are fields that may be there once each, and have any content.
func once(m *message, tags ...byte) *message {
	for _, tag := range tags {
		m[tag>>3] = rule{tag: tag, alone: 1 << (tag >> 3)}
	}
	return m
}

// oneOf makes fields exclude each other.
func oneOf(m *message, tags ...byte) *message {
	for _, tag := range tags {
		m[tag>>3].alone = 1 << (tags[0] >> 3)
	}
	return m
}

func list(tag byte, content func(string) bool) rule { return rule{tag: tag, content: content} }

func field(tag byte, content func(string) bool) rule { return rule{tag, 1 << (tag >> 3), content} }

// usualRequest has the rules of a request whose records have the given rules.
func usualRequest(record *message) *message {
	scope := once(messageOf(list(tagScopeAttribute, usualAttribute)), tagScopeName, tagScopeVersion, tagScopeDropped)
	records := once(messageOf(field(tagScope, scope.usual), list(tagRecord, record.usual)), tagScopeSchemaURL)
	resource := once(messageOf(list(tagResourceAttribute, usualAttribute)), tagResourceDropped)
	group := once(messageOf(field(tagResource, resource.usual), list(tagScopeRecords, records.usual)), tagResourceSchemaURL)
	return messageOf(list(tagGroup, group.usual))
}

func usualTraceID(s string) bool { return len(s) == 16 || s == "" }

func usualSpanID(s string) bool { return len(s) == 8 || s == "" }

func usualFixed64s(s string) bool { return len(s)%8 == 0 }

func usualVarints(s string) bool {
	for at := 0; at < len(s); {
		if _, at = readVarint(s, at); at == 0 {
			return false
		}
	}
	return true
}

func usualAttribute(s string) bool { return usualPair(s, 0) }

func usualPair(s string, depth int) bool {
	var key, value bool
	for s != "" {
		p, rest, ok := cut(s)
		switch {
		case !ok:
			return false
		case p.tag == tagKey && !key:
			key = true
		case p.tag == tagValue && !value && usualValueAt(p.content, depth):
			value = true
		default:
			return false
		}
		s = rest
	}
	return true
}

// maxDepth bounds the recursion, even for callers that have not bounded the nesting of values.
const maxDepth = 128

func usualValue(s string) bool { return usualValueAt(s, 0) }

func usualValueAt(s string, depth int) bool {
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
				ok = usualValueAt(element.content, depth+1)
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
