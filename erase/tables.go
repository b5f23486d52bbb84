package erase

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/kept"
)

// tables lists the tables that may have rows of the person.
func (er *Erasure) tables() (list []Table) {
	type key struct{ source, sink, target, table string }
	seen, defined := map[key]bool{}, er.host.Sources()
	add := func(source, sink string, t driver.Table, rules rowRules) {
		k := key{source, sink, t.Target, t.ID}
		if t.ID == "" || seen[k] || !er.wants(source) || sink == kept.ArchiveSink {
			return
		}
		seen[k] = true
		out := Table{Source: source, Sink: sink, Target: t.Target, Table: t.ID}
		er.statement(&out, t, rules, defined)
		list = append(list, out)
	}
	for _, src := range defined {
		for _, s := range src.Sinks {
			columns := make([]datatype.Column, len(s.Columns))
			for i, c := range s.Columns {
				columns[i] = c.InTable()
			}
			add(src.ID, s.ID, driver.Table{ID: s.Table, Columns: columns, Target: s.Target}, er.match.rulesOf(s.Columns))
		}
	}
	for _, s := range er.Buffer.Stats().Sinks { // of removed sinks, and earlier tables
		source, sink, _ := strings.Cut(s.ID, "/")
		add(source, sink, s.Table, rowRules{})
		for _, f := range s.Files {
			add(source, sink, f.Table, rowRules{})
		}
	}
	slices.SortFunc(list, func(a, b Table) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Sink, b.Sink), cmp.Compare(a.Target, b.Target), cmp.Compare(a.Table, b.Table))
	})
	return list
}

// statement writes the SQL of a table.
func (er *Erasure) statement(out *Table, t driver.Table, rules rowRules, defined []Source) {
	target, ok := er.host.Target(t.Target).(driver.SQLTarget)
	if !ok {
		out.Note = "Forebay has no statement for this target. docs/erase.md says how to delete its rows."
		return
	}
	m, sql := er.match, target.SQL(t)
	var text []string // columns in which a text is looked for
	types := map[string]datatype.Type{}
	for _, c := range t.Columns {
		if types[c.Name] = c.Type; rules.hasText(c) {
			text = append(text, c.Name)
		}
	}
	contains := func(columns []string, part string) (some []string) {
		for _, name := range columns {
			for _, text := range spellings(part) {
				some = append(some, sql.Contains(sql.Quote(name), sql.Text(text)))
			}
		}
		return some
	}
	out.Exact = true
	var all [][]string // each of them, one of its conditions
	if m.Path != "" {
		var some []string
		for _, name := range slices.Sorted(maps.Keys(rules.values)) {
			if types[name] == datatype.JSON { // databases do not compare documents with texts
				out.Exact = false
				some = append(some, contains([]string{name}, m.Value)...)
				continue
			}
			for _, value := range rules.values[name] {
				some = append(some, sql.Quote(name)+" = "+sql.Text(value))
			}
		}
		if len(rules.values) == 0 {
			out.Exact = false
			some = contains(orElse(rules.bodies, text), m.Value)
		}
		all = append(all, some)
	}
	if m.Header != "" {
		out.Exact = false
		all = append(all, contains(orElse(rules.headers, text), m.HeaderValue))
	}
	if m.Text != "" {
		out.Exact = false
		all = append(all, contains(text, m.Text))
	}
	var where []string
	for _, some := range all {
		switch len(some) {
		case 0:
			out.Exact, out.Note = false, "No column of the table can contain the path, header or text of the match."
			return
		case 1:
			where = append(where, some[0])
		default:
			where = append(where, "("+strings.Join(some, " OR ")+")")
		}
	}
	out.SQL = "DELETE FROM " + sql.Table + " WHERE " + strings.Join(where, " AND ") + ";"
	if !out.Exact {
		out.Note = "The statement searches in columns with text. Look at the rows with SELECT before you delete them."
	}
	if others := er.others(out, defined); len(others) > 0 {
		out.Exact = false
		out.Note = strings.TrimSpace(out.Note + " The table has rows of other sources too, which the statement does not tell apart: " + strings.Join(others, ", ") + ".")
	}
}

// others returns the sources that use the table of a statement although the search leaves them out.
func (er *Erasure) others(t *Table, defined []Source) (ids []string) {
	for _, src := range defined {
		if !er.wants(src.ID) && slices.ContainsFunc(src.Sinks, func(s Sink) bool { return s.Table == t.Table && s.Target == t.Target }) {
			ids = append(ids, src.ID)
		}
	}
	return ids
}

// spellings returns a text as a column has it that a database has put in lower case. Some databases do so with letters from A to Z only, and a
// column with JSON may have escapes.
func spellings(text string) (list []string) {
	add := func(text string) {
		if !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	for _, s := range []string{strings.ToLower(text), lowerASCII(text), lowerASCII(strings.ToUpper(text))} {
		add(s)
		add(lowerASCII(escapedJSON(s, false)))
		add(lowerASCII(escapedJSON(s, true)))
	}
	return list
}

// lowerASCII puts the letters from A to Z in lower case.
func lowerASCII(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + ('a' - 'A')
		}
		return r
	}, text)
}

// escapedJSON returns a text as JSON has it between quotes, with the escapes that it needs, and on request with escapes of all letters that are not
// ASCII.
func escapedJSON(text string, all bool) string {
	var out strings.Builder
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			out.WriteString(`\` + string(r))
		case r == '\n':
			out.WriteString(`\n`)
		case r == '\r':
			out.WriteString(`\r`)
		case r == '\t':
			out.WriteString(`\t`)
		case r < ' ', all && r >= utf8.RuneSelf && r <= 0xffff:
			fmt.Fprintf(&out, `\u%04x`, r)
		case all && r > 0xffff:
			a, b := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, a, b)
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}

// orElse returns the first of two lists that has something.
func orElse(some, others []string) []string {
	if len(some) > 0 {
		return some
	}
	return others
}
