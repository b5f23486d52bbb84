package flatten

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/forebay/forebay/extractor/internal/tree"
)

// A Layout says by hand which columns a table has. What it does not list is left out.
//
// Rows of a table below hold the primary key of their owner's row. Where the owner has none, a checksum of its row takes
// that place, and the owner has a column with it for each such table, with the table's name, where the layout lists it.
type Layout struct {
	Columns []LayoutColumn
}

// keyed reports whether rows have a primary key; by is how the layout stands in the one above.
func (l *Layout) keyed(by LayoutColumn) bool {
	return by.ParentPrimary && !by.NoParentKey || slices.ContainsFunc(l.Columns, func(c LayoutColumn) bool { return c.PrimaryKey })
}

// LayoutColumn is a column, or a table of the items at a path.
type LayoutColumn struct {
	// Path leads to the value in the item; of a User column it is the name of an extra column.
	Path string
	Kind LayoutKind
	// Destination is the name of the column or table.
	Destination string
	// PrimaryKey makes a column a part of the key.
	PrimaryKey bool
	// ForceType writes lists and objects as JSON text.
	ForceType bool
	// Table is the layout of a table.
	Table *Layout
	// NoParentKey leaves the link column out; ParentKey is its name, empty takes that of the parent and "_pk".
	NoParentKey, ParentPrimary bool
	ParentKey                  string
}

// LayoutKind is the kind of a [LayoutColumn].
type LayoutKind uint8

// The kinds of columns of a layout.
const (
	FromItem LayoutKind = iota
	FromExtra
	ToTable
)

// nameLayout gives names to the tables of a layout.
func (s *Set) nameLayout(key, wanted string, l *Layout) {
	s.layouts[key] = s.names.name(wanted)
	for _, c := range l.Columns {
		if c.Kind == ToTable {
			s.nameLayout(key+"\x00"+c.Path, SafeName(c.Destination), c.Table)
		}
	}
}

// openLayout opens the tables of a layout that are not open yet. parent is the name of the parent's table.
func (s *Set) openLayout(key, parent string, l *Layout) error {
	return s.openLayoutAs(key, l, parent, LayoutColumn{NoParentKey: true})
}

func (s *Set) openLayoutAs(key string, l *Layout, parent string, by LayoutColumn) error {
	if _, ok := s.tables[key]; !ok {
		columns := make(taken)
		t := &Table{Name: s.layouts[key]}
		for _, c := range l.Columns {
			if c.Kind == ToTable && (c.NoParentKey || l.keyed(by)) {
				continue
			}
			column := columns.name(SafeName(c.Destination))
			t.Columns = append(t.Columns, column)
			if c.PrimaryKey {
				t.PrimaryKey = append(t.PrimaryKey, column)
			}
		}
		if !by.NoParentKey {
			column := by.ParentKey
			if column == "" {
				column = parent + "_pk"
			}
			column = columns.name(SafeName(column))
			t.Columns = append(t.Columns, column)
			if by.ParentPrimary {
				t.PrimaryKey = append(t.PrimaryKey, column)
			}
		}
		if err := s.begin(key, t); err != nil {
			return err
		}
	}
	for _, c := range l.Columns {
		if c.Kind == ToTable {
			if err := s.openLayoutAs(key+"\x00"+c.Path, c.Table, s.tables[key].Name, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeLayout writes an item of a data type that has a layout.
func (s *Set) writeLayout(name string, l *Layout, item tree.Node, extra []tree.Member) error {
	if err := s.openLayout(name, "", l); err != nil {
		return err
	}
	return s.layoutRow(name, name, l, LayoutColumn{NoParentKey: true}, rowOf(item, nil), tree.OfObject(extra...), "")
}

// layoutRow writes a row, and those of the tables below. name is the data type, for errors; key that of the table; by how
// the layout stands in the one above, whose row has the link value parent.
func (s *Set) layoutRow(name, key string, l *Layout, by LayoutColumn, item, extra tree.Node, parent string) error {
	var cells, keys []string
	keyed := l.keyed(by)
	own := ""
	if !keyed && slices.ContainsFunc(l.Columns, func(c LayoutColumn) bool { return c.Kind == ToTable && !c.NoParentKey }) {
		own = rowSum(item, extra)
	}
	for _, c := range l.Columns {
		var text string
		switch c.Kind {
		case ToTable:
			if keyed || c.NoParentKey {
				continue
			}
			if n, _ := item.At(c.Path, "."); !n.Empty() {
				text = own
			}
		case FromExtra:
			n, _ := extra.Get(c.Path)
			text = n.Cell()
		default:
			n, _ := item.At(c.Path, ".")
			switch {
			case !n.IsCollection():
				text = n.Cell()
			case c.ForceType:
				text = string(n.AppendJSON(nil, tree.Escaped))
			default:
				return &Error{name, fmt.Sprintf("the value at %q is %s; map it to a table, or set forceType", c.Path, n.Kind().Phrase())}
			}
		}
		cells = append(cells, text)
		if c.PrimaryKey {
			keys = append(keys, text)
		}
	}
	if !by.NoParentKey {
		cells = append(cells, parent)
		if by.ParentPrimary {
			keys = append(keys, parent)
		}
	}
	s.line = appendLine(s.line[:0], cells)
	if _, err := s.tables[key].w.Write(s.line); err != nil {
		return err
	}
	if keyed {
		own = strings.Join(keys, ",")
	}
	for _, c := range l.Columns {
		if c.Kind != ToTable {
			continue
		}
		n, _ := item.At(c.Path, ".")
		if !keyed && n.Empty() {
			continue
		}
		for m := range listOf(n).Each() {
			if err := s.layoutRow(name, key+"\x00"+c.Path, c.Table, c, rowOf(m.Value, nil), extra, own); err != nil {
				return err
			}
		}
	}
	return nil
}

// rowSum is the link value of a row without a primary key: the checksum of the item and of the extra columns.
func rowSum(item, extra tree.Node) string {
	h := md5.New()
	scratch := item.WriteSerialized(h, nil)
	if extra.Len() > 0 {
		h.Write(extra.AppendSerialized(scratch[:0], true))
	}
	return hex.EncodeToString(h.Sum(nil))
}
