package platform

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/forebay/forebay/storageapi"
)

// schemas makes JSON schemas of the Go types of responses. Types with a name are described once and referred to.
type schemas map[string]any

// schema is one schema, in the form of its JSON.
type schema = map[string]any

const schemaPath = "#/components/schemas/"

var scalars = map[reflect.Type]schema{
	reflect.TypeFor[storageapi.Time]():  {"type": "string", "format": "date-time", "nullable": true},
	reflect.TypeFor[queueTime]():        {"type": "string", "format": "date-time", "nullable": true},
	reflect.TypeFor[storageapi.ID]():    {"type": "string"},
	reflect.TypeFor[storageapi.IntID](): {"type": "integer"},
	reflect.TypeFor[json.RawMessage]():  {},
	reflect.TypeFor[text]():             {"type": "string"},
	reflect.TypeFor[any]():              {},
}

func (s schemas) of(t reflect.Type) schema {
	if known, ok := scalars[t]; ok {
		return known
	}
	switch t.Kind() {
	case reflect.Pointer:
		return nullable(s.of(t.Elem()))
	case reflect.Slice, reflect.Array:
		return schema{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		object := schema{"type": "object", "additionalProperties": s.of(t.Elem())}
		if strings.HasPrefix(t.Name(), "Map[") {
			return schema{"oneOf": []any{object, emptyArraySchema()}}
		}
		return object
	case reflect.String:
		return schema{"type": "string"}
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return schema{"type": "number"}
	case reflect.Struct:
		if strings.HasPrefix(t.Name(), "Optional[") {
			return schema{"oneOf": []any{s.of(t.Field(0).Type.Elem()), emptyArraySchema()}}
		}
		return s.object(t)
	}
	return schema{"type": "integer"}
}

// emptyArraySchema is an absent object in responses of the API.
func emptyArraySchema() schema { return schema{"type": "array", "maxItems": 0, "items": schema{}} }

// nullable makes a schema that admits null, which a reference cannot say by itself.
func nullable(of schema) schema {
	if _, reference := of["$ref"]; reference {
		return schema{"allOf": []any{of}, "nullable": true}
	}
	out := schema{"nullable": true}
	for name, value := range of {
		out[name] = value
	}
	return out
}

func (s schemas) object(t reflect.Type) schema {
	name := t.Name()
	reference := schema{"$ref": schemaPath + name}
	if _, known := s[name]; known {
		return reference
	}
	properties := schema{}
	s[name] = schema{"type": "object", "properties": properties}
	s.fields(t, properties)
	return reference
}

// fields adds the members of an object. Members of embedded structs are its own, unless it has one of the same name.
func (s schemas) fields(t reflect.Type, properties schema) {
	for i := range t.NumField() {
		if f := t.Field(i); f.Anonymous {
			s.fields(f.Type, properties)
		}
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || name == "-" || !f.IsExported() {
			continue
		}
		properties[name] = s.of(f.Type)
	}
}
