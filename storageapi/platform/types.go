package platform

import (
	"slices"
	"strings"

	"github.com/forebay/forebay/storageapi"
)

// baseTypes are the types of columns in the words of the API.
var baseTypes = []string{"BOOLEAN", "DATE", "FLOAT", "INTEGER", "NUMERIC", "STRING", "TIMESTAMP"}

// backendTypes are the types in the words of the databases that clients know, by base type. Types of which no value is
// checked are text.
var backendTypes = map[string][]string{
	"BOOLEAN":   {"BOOL"},
	"FLOAT":     {"FLOAT4", "FLOAT8", "FLOAT64", "DOUBLE", "DOUBLE PRECISION", "REAL"},
	"INTEGER":   {"INT", "INT64", "BIGINT", "SMALLINT", "TINYINT", "BYTEINT"},
	"NUMERIC":   {"NUMBER", "DECIMAL", "DEC", "FIXED", "BIGNUMERIC", "BIGDECIMAL"},
	"TIMESTAMP": {"DATETIME", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "TIMESTAMP_TZ"},
	"STRING": {
		"VARCHAR", "CHAR", "CHARACTER", "TEXT", "NVARCHAR", "NCHAR", "BINARY", "VARBINARY", "BYTES", "TIME", "VARIANT", "OBJECT", "ARRAY",
		"JSON", "GEOGRAPHY", "GEOMETRY", "INTERVAL", "STRUCT", "RANGE", "VECTOR",
	},
}

// baseOf returns the base type of a type of a backend, in any case of letters, or "" if there is no such type.
func baseOf(backend string) string {
	upper := strings.ToUpper(strings.TrimSpace(backend))
	if slices.Contains(baseTypes, upper) {
		return upper
	}
	for base, names := range backendTypes {
		if slices.Contains(names, upper) {
			return base
		}
	}
	return ""
}

// base is the base type of a column: the one that was given, or that of its type in the words of the backend. A column of
// neither is text.
func (c column) base() string {
	if c.BaseType != "" {
		return c.BaseType
	}
	if c.Type != nil && c.Type.Type != "" {
		if base := baseOf(c.Type.Type); base != "" {
			return base
		}
	}
	return "STRING"
}

// checkTypes refuses types of a column that are unknown, or contradict each other.
func checkTypes(in *input, col storageapi.Column) {
	name := cut(col.Name, 80)
	if col.BaseType != "" && !slices.Contains(baseTypes, col.BaseType) {
		in.fail("columns", "column %q: basetype %q, want one of %s", name, cut(col.BaseType, 40), strings.Join(baseTypes, ", "))
		return
	}
	d := col.Definition.Value
	if d == nil || d.Type == "" {
		return
	}
	switch base := baseOf(d.Type); {
	case base == "":
		in.fail("columns", "column %q: unknown type %q", name, cut(d.Type, 40))
	case col.BaseType != "" && col.BaseType != base:
		in.fail("columns", "column %q: type %q has the basetype %s, not %s", name, cut(d.Type, 40), base, col.BaseType)
	}
}
