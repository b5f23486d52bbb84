package buffer

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/celltype"
)

// MaxTableColumns bounds the columns that the definitions of one sink have ever given a table that grows.
const MaxTableColumns = 500

// manyTableColumns is the number of columns from which on a definition is logged as a warning.
const manyTableColumns = 200

// TableProblem is a table that cannot take the rows of a sink as it is.
type TableProblem struct {
	// Source and Sink are ids, Table is the table's.
	Source, Sink, Table string
	// Known is set when the sink had this table with these columns before.
	Known bool
	// Kept is set when the columns that were accepted last for a table with Extend continue in place of the new ones.
	Kept bool
	// Err is a [*driver.SchemaError], a [*ChangeError] or marked by [driver.Permanent].
	Err error
}

// ChangeError says that the table of a sink with Table.Extend cannot follow a definition. The last accepted one stays.
// It is marked by [driver.Permanent].
type ChangeError struct {
	// Sink and Table are ids.
	Sink, Table string
	// Column is the column of the refused definition, Kept the column that the table keeps. Kept has no name when there are too many columns.
	Column, Kept datatype.Column
	// Version is the last version of the columns that has Kept (see SinkStats.Version).
	Version int

	columns int
}

func (e *ChangeError) Error() string {
	if e.Kept.Name == "" {
		return fmt.Sprintf("sink %q: table %q would have %d columns, with the columns of earlier definitions; at most %d are kept: give the sink another table",
			e.Sink, e.Table, e.columns, MaxTableColumns)
	}
	return fmt.Sprintf("sink %q: column %q cannot be %s: table %q keeps it as %s from version %d of its columns; use another name",
		e.Sink, e.Column.Name, typeName(e.Column.Type), e.Table, typeName(e.Kept.Type), e.Version)
}

func typeName(t datatype.Type) string {
	if t == datatype.Untyped {
		return "untyped"
	}
	return string(t)
}

// Accepts returns a [*ChangeError] if Define would refuse c because of the columns that the table has from earlier definitions.
func (b *Buffer) Accepts(c SinkConfig) error {
	def, err := c.definition(b.opts.ImportLimits())
	if err != nil {
		return err
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	if s := b.mu.sinks[c.ID]; s != nil {
		return s.accepts(def)
	}
	return nil
}

// Mapping returns what SinkConfig.Mapping had in the last accepted definition of a sink whose table grows, or nil if there is none.
func (h SinkHandle) Mapping() []byte {
	h.b.mu.RLock()
	defer h.b.mu.RUnlock()
	if s := h.b.mu.sinks[h.id]; s != nil {
		return bytes.Clone(s.rec.Mapping)
	}
	return nil
}

// accepts compares a definition with the columns that the table has from earlier ones. Called with Buffer.mu held.
func (s *sinkState) accepts(def *format.Definition) error {
	old := s.rec.Def
	if old == nil || !def.Table.Extend || !old.Table.Is(def.Table) {
		return nil
	}
	columns := len(def.Table.Columns)
	for _, kept := range s.everHad() {
		i := celltype.Place(def.Table.Columns, kept.Column.Name)
		if i < 0 {
			columns++
			continue
		}
		// A wider type is for the target to judge, because the table may have been altered.
		if c := def.Table.Columns[i]; !c.Type.Holds(kept.Column.Type) {
			return driver.Permanent(&ChangeError{Sink: s.id, Table: def.Table.ID, Column: c, Kept: kept.Column, Version: kept.Last})
		}
	}
	if columns > MaxTableColumns {
		return driver.Permanent(&ChangeError{Sink: s.id, Table: def.Table.ID, columns: columns})
	}
	return nil
}

// everHad returns the columns that the table has from the definitions of the sink, with the last version that had each.
func (s *sinkState) everHad() []format.Retired {
	all := slices.Clone(s.rec.Retired)
	for _, c := range s.rec.Def.Table.Columns {
		all = append(all, format.Retired{Column: c, Last: max(1, s.rec.Version)})
	}
	return all
}

// leaveTable is called before def replaces a definition with Extend. If the sink leaves the table, or the table no longer grows, files that
// wait for it keep finding their columns by name (see file.table).
func (t *txn) leaveTable(s *sinkState, def *format.Definition) {
	old := s.rec.Def
	if old == nil || !old.Table.Extend || def.Table.Extend && def.Table.Is(old.Table) {
		return
	}
	if s.left == nil {
		s.left = map[tableKey]map[*format.Definition]*format.Definition{}
	}
	s.left[keyOf(old.Table)] = map[*format.Definition]*format.Definition{}
	for _, f := range s.files {
		if table := f.table(); !f.done() && table.ID == old.Table.ID && table.Target == old.Table.Target && table.Extend != f.rec.Def.Table.Extend {
			byName := *f.rec.Def
			byName.Table.Extend = true
			f.rec.Def = &byName
			t.touchFile(f)
		}
	}
}

// found returns the definition for rows of a handle. If it is older than a definition with which its table has grown, and the sink has left that
// table, the rows find their columns by name, like the rows that waited. See leaveTable. Called on the committer.
func (s *sinkState) found(def *format.Definition) *format.Definition {
	if s.left == nil { // as nearly always, so the names of the table need not be read for each chunk
		return def
	}
	known := s.left[keyOf(def.Table)]
	if known == nil || def == s.def || def.Table.Extend {
		return def
	}
	if known[def] == nil {
		byName := *def
		byName.Table.Extend = true
		if tableOf(&byName).CheckNames() != nil {
			return def
		}
		known[def] = &byName
	}
	return known[def]
}

// grow counts the version of a definition that was accepted, and notes the columns that it retires. It returns their names.
// Called on the committer, before s.rec.Def is replaced.
func (s *sinkState) grow(def *format.Definition) (retired []string) {
	old := s.rec.Def
	if old == nil || !old.Table.Is(def.Table) {
		s.rec.Version, s.rec.Retired = 0, nil
	}
	if !def.Table.Extend && s.rec.Version == 0 {
		return nil
	}
	if s.rec.Version == 0 && (old == nil || !old.Table.Is(def.Table)) {
		s.rec.Version = 1
		return nil
	}
	if slices.Equal(old.Table.Columns, def.Table.Columns) {
		s.rec.Version = max(1, s.rec.Version)
		return nil
	}
	all := s.everHad()
	s.rec.Retired = slices.DeleteFunc(all, func(r format.Retired) bool { return celltype.Place(def.Table.Columns, r.Column.Name) >= 0 })
	for _, r := range s.rec.Retired {
		if celltype.Place(old.Table.Columns, r.Column.Name) >= 0 {
			retired = append(retired, r.Column.Name)
		}
	}
	s.rec.Version = max(1, s.rec.Version) + 1
	return retired
}

// tableKey identifies a table among the tables of all targets.
type tableKey struct{ target, id string }

func keyOf(t format.Table) tableKey { return tableKey{t.Target, t.ID} }
