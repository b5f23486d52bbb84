package otlpflat

import (
	"slices"

	"github.com/forebay/forebay/internal/members"
	"github.com/forebay/forebay/mapping"
)

// group is the part of a document that all signals have, the members that the records of one resource and one scope share. The first record
// that needs its JSON writes it, once.
type group struct {
	w      writer
	record interface{ write() } // the document itself, which writes a record to w

	resource resource
	scope    scope

	hasResource, hasScope bool   // the texts below are ready
	resourceText          []byte // the attributes of the resource
	scopeText             []byte
	sub                   writer // makes the texts
	shared                members.Shared
}

// resource and scope have their written fields.
type resource struct {
	attributes fields
	dropped    uint32
	schema     string
}

type scope struct {
	name, version string
	attributes    fields
	dropped       uint32
	schema        string
}

// The fields of a request, which has groups of records for each resource, and in them for each scope. All signals have the same.
const (
	tagGroup = 1<<3 | content

	tagResource          = 1<<3 | content
	tagScopeRecords      = 2<<3 | content
	tagResourceSchemaURL = 3<<3 | content

	tagResourceAttribute = 1<<3 | content
	tagResourceDropped   = 2<<3 | varint

	tagScope          = 1<<3 | content
	tagRecord         = 2<<3 | content
	tagScopeSchemaURL = 3<<3 | content

	tagScopeName      = 1<<3 | content
	tagScopeVersion   = 2<<3 | content
	tagScopeAttribute = 3<<3 | content
	tagScopeDropped   = 4<<3 | varint
)

// records calls yield with each record of a request, after it has set the resource and the scope of the record.
func (g *group) records(request string, yield func(record string) bool) {
	for request != "" {
		var p part
		if p, request, _ = cut(request); p.tag != tagGroup {
			continue
		}
		g.setResource(readResource(p.content))
		for text := p.content; text != ""; {
			if p, text, _ = cut(text); p.tag != tagScopeRecords {
				continue
			}
			g.setScope(readScope(p.content))
			for text := p.content; text != ""; {
				if p, text, _ = cut(text); p.tag == tagRecord && !yield(p.content) {
					return
				}
			}
		}
	}
}

func readResource(s string) (r resource) {
	r.attributes.tag = tagResourceAttribute
	for s != "" {
		var p part
		switch p, s, _ = cut(s); p.tag {
		case tagResource:
			r.attributes.text = p.content
			for s := p.content; s != ""; {
				if p, s, _ = cut(s); p.tag == tagResourceDropped {
					r.dropped = uint32(p.number)
				}
			}
		case tagResourceSchemaURL:
			r.schema = p.content
		}
	}
	return r
}

func readScope(s string) (r scope) {
	r.attributes.tag = tagScopeAttribute
	for s != "" {
		var p part
		switch p, s, _ = cut(s); p.tag {
		case tagScope:
			r.attributes.text = p.content
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
	return r
}

// sharedMembers are the members of a record that do not change between two calls of setResource or setScope. They are the last ones of each layout,
// in this order.
var sharedMembers = []string{"resource", "scope", "resource_dropped_attributes_count", "resource_schema_url"}

const (
	sharedResource = iota
	sharedScope
	sharedDropped
	sharedSchema
)

// newLayout numbers the members of a type of record. The last time of them is times.
func newLayout(times int, own ...string) *members.Layout {
	return members.NewLayout(slices.Concat(own, sharedMembers), func(number int) (time, shared bool) {
		return number <= times, number > len(own)
	})
}

// Shared is for mappers, which keep cells there.
func (g *group) Shared() *members.Shared { return &g.shared }

// AppendJSON implements [mapping.Document].
func (g *group) AppendJSON(dst []byte) ([]byte, error) {
	g.w.startWrite(dst)
	g.record.write()
	return append(g.w.dst, '}'), nil
}

// AppendField implements [mapping.FieldDocument].
func (g *group) AppendField(dst []byte, path mapping.FieldPath) ([]byte, mapping.FieldKind) {
	g.w.startSeek(dst, path)
	g.record.write()
	return g.w.dst, g.w.kind
}

// setResource is called before setScope, and setScope before the records.
func (g *group) setResource(r resource) { g.resource, g.hasResource = r, false }

func (g *group) setScope(s scope) {
	g.scope, g.hasScope = s, false
	g.shared.Reset()
}

// writeShared writes one of sharedMembers.
func (g *group) writeShared(w *writer, n int) {
	switch n {
	case sharedResource:
		if w.member("resource") {
			if w.seek && w.at < w.steps {
				w.attributes(g.resource.attributes)
			} else {
				w.json(g.resourceJSON())
			}
		}
	case sharedScope:
		if w.member("scope") {
			if w.seek && w.at < w.steps {
				g.writeScope(w)
			} else {
				w.json(g.scopeJSON())
			}
		}
	case sharedDropped:
		w.dropped("resource_dropped_attributes_count", g.resource.dropped)
	case sharedSchema:
		w.optionalText("resource_schema_url", g.resource.schema)
	}
}

func (g *group) writeGroup(w *writer) {
	g.writeShared(w, sharedResource)
	g.writeShared(w, sharedScope)
}

func (g *group) resourceJSON() []byte {
	if !g.hasResource {
		g.hasResource = true
		g.sub.startWrite(g.resourceText[:0])
		g.sub.attributes(g.resource.attributes)
		g.resourceText = g.sub.dst
	}
	return g.resourceText
}

func (g *group) scopeJSON() []byte {
	if !g.hasScope {
		g.hasScope = true
		g.sub.startWrite(g.scopeText[:0])
		g.writeScope(&g.sub)
		g.scopeText = g.sub.dst
	}
	return g.scopeText
}

func (g *group) writeScope(w *writer) {
	c := w.open('{')
	w.memberText("name", g.scope.name)
	w.memberText("version", g.scope.version)
	if !g.scope.attributes.empty() {
		w.memberAttributes("attributes", g.scope.attributes)
	}
	w.dropped("dropped_attributes_count", g.scope.dropped)
	w.optionalText("schema_url", g.scope.schema)
	w.close(c, '}')
}

// writeEnd writes the resource members that end a record, if they are set.
func (g *group) writeEnd(w *writer) {
	g.writeShared(w, sharedDropped)
	g.writeShared(w, sharedSchema)
}
