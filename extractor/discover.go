package extractor

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/forebay/forebay/extractor/internal/tree"
)

// A ProposedTable has columns that the records of samples fit.
type ProposedTable struct {
	// DataType is the data type of the jobs whose records they are, Records the number of records looked at.
	DataType string
	Records  int
	Columns  []ProposedColumn
}

// A ProposedColumn is a field of records with the type that all its values have.
type ProposedColumn struct {
	// Name is unique in the table and consists of letters, digits, '-' and '_'. Path leads to the field in the record, its steps joined by dots.
	Name, Path string
	// Type is a type of package datatype, one of bool, int64, float64, string, timestamp, date, uuid or json.
	Type string
	// Nullable is true when a record does not have the field, or has null there.
	Nullable bool
}

// Discover proposes typed columns for the records of samples, a table for each data type in order. Fields of objects have their own
// columns. Lists, and fields that are objects in some records only, are json. Fields of records whose names have dots or brackets have no
// column, because no path leads to them. All values fit the types. Later values may not.
func Discover(samples []Sample) []ProposedTable {
	var tables []ProposedTable
	byType := make(map[string]*Sample)
	var order []string
	for _, s := range samples {
		all := byType[s.DataType]
		if all == nil {
			all = &Sample{DataType: s.DataType}
			byType[s.DataType] = all
			order = append(order, s.DataType)
		}
		all.Records = append(all.Records, s.Records...)
	}
	for _, name := range order {
		all := byType[name]
		t := ProposedTable{DataType: name, Records: len(all.Records)}
		used := make(map[string]bool)
		for _, f := range all.fields() {
			c := ProposedColumn{Path: f.path, Type: f.kind.dataType(), Nullable: f.present < len(all.Records)}
			if c.Name = safeName(f.path); c.Name == "" {
				c.Name = "column"
			}
			base := c.Name
			for n := 2; used[strings.ToLower(c.Name)]; n++ {
				c.Name = fmt.Sprintf("%s_%d", base, n)
			}
			used[strings.ToLower(c.Name)] = true
			t.Columns = append(t.Columns, c)
		}
		tables = append(tables, t)
	}
	return tables
}

// A field is a place in records that has a column.
type field struct {
	path    string
	steps   []string
	kind    valueKind
	present int // in how many records it has a value
}

func (f *field) in(record tree.Node) (tree.Node, bool) {
	n := record
	for _, step := range f.steps {
		var ok bool
		if n, ok = n.Get(step); !ok || n.Kind() == tree.Null {
			return n, false
		}
	}
	return n, n.Kind() != tree.Null
}

// cellText is the text of a value for people.
func cellText(n tree.Node) string {
	if n.Kind() == tree.String {
		return n.Str()
	}
	return string(n.AppendJSON(nil, tree.Plain))
}

// plainName reports whether a path can have the name of a field as a step.
func plainName(key string) bool { return key != "" && !strings.ContainsAny(key, ".[]") }

// maxFieldDepth is how deep objects are taken apart.
const maxFieldDepth = 8

// fields returns the fields of the records.
func (s *Sample) fields() []*field {
	rows := make([]tree.Node, len(s.Records))
	for i, rec := range s.Records {
		rows[i] = rec.row()
	}
	return fieldsBelow(nil, rows)
}

// fieldsBelow returns the fields of objects at a place of the records.
func fieldsBelow(steps []string, objects []tree.Node) []*field {
	var keys []string
	values := make(map[string][]tree.Node)
	for _, o := range objects {
		for _, m := range o.Members() {
			if _, known := values[m.Key]; !known {
				keys = append(keys, m.Key)
			}
			values[m.Key] = append(values[m.Key], m.Value)
		}
	}
	var out []*field
	for _, key := range keys {
		if !plainName(key) {
			continue // no path leads there
		}
		f := &field{steps: append(slices.Clip(steps), key)}
		f.path = strings.Join(f.steps, ".")
		var below []tree.Node
		for _, v := range values[key] {
			switch v.Kind() {
			case tree.Null:
				continue
			case tree.Object:
				below = append(below, v)
			}
			f.present++
			f.kind = f.kind.with(v)
		}
		plain := func(o tree.Node) bool {
			return o.Len() > 0 && !slices.ContainsFunc(o.Members(), func(m tree.Member) bool { return !plainName(m.Key) })
		}
		if len(below) > 0 && len(below) == f.present && len(f.steps) < maxFieldDepth && !slices.ContainsFunc(below, func(o tree.Node) bool { return !plain(o) }) {
			inner := fieldsBelow(f.steps, below)
			out = append(out, inner...)
			continue
		}
		out = append(out, f)
	}
	return out
}

// valueKind is the common kind of all values of a field.
type valueKind uint8

const (
	kindNone valueKind = iota // no value but null
	kindBool
	kindInt
	kindFloat
	kindString
	kindTimestamp
	kindDate
	kindUUID
	kindJSON
	kindWideInt // integers, also such that no double holds
)

// dataType returns the name of the type in package datatype. What nothing is known of can be anything.
func (k valueKind) dataType() string {
	return [...]string{"json", "bool", "int64", "float64", "string", "timestamp", "date", "uuid", "json", "int64"}[k]
}

// with returns the kind of the values so far and another.
func (k valueKind) with(n tree.Node) valueKind {
	o := kindOf(n)
	switch {
	case k == kindNone || k == o:
		return o
	case k == kindJSON || o == kindJSON:
		return kindJSON
	case k == kindInt && o == kindFloat || k == kindFloat && o == kindInt:
		return kindFloat
	case k == kindInt && o == kindWideInt || k == kindWideInt && o == kindInt:
		return kindWideInt
	}
	return kindString // takes every scalar as it was sent
}

func exactInFloat(n tree.Node) bool {
	const most = 1 << 53
	return n.Int() >= -most && n.Int() <= most
}

func kindOf(n tree.Node) valueKind {
	switch n.Kind() {
	case tree.Bool:
		return kindBool
	case tree.Int:
		if !exactInFloat(n) {
			return kindWideInt
		}
		return kindInt
	case tree.Float:
		if i, ok := n.Integer(); ok && !i.IsInt64() || math.IsInf(n.Real(), 0) {
			return kindString // as sent, because a double has not all its digits
		}
		return kindFloat
	case tree.String:
		return kindOfText(n.Str())
	}
	return kindJSON
}

func kindOfText(s string) valueKind {
	if len(s) == len(time.DateOnly) {
		if _, err := time.Parse(time.DateOnly, s); err == nil && s[:4] != "0000" {
			return kindDate
		}
	}
	if len(s) >= len("2006-01-02T15:04:05Z") && s[10] == 'T' && !strings.Contains(s, ",") && s[:4] != "0000" {
		if at, err := time.Parse(time.RFC3339Nano, s); err == nil && at.UTC().Year() >= 1 && at.UTC().Year() <= 9999 {
			return kindTimestamp
		}
	}
	if isUUID(s) {
		return kindUUID
	}
	return kindString
}

func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		if hyphen := i == 8 || i == 13 || i == 18 || i == 23; hyphen != (s[i] == '-') || !hyphen && !isHex(s[i]) {
			return false
		}
	}
	return true
}
