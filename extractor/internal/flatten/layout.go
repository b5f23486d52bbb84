package flatten

import (
	"cmp"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"iter"
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

// keyed reports whether the rows of a table have a primary key.
func (t LayoutColumn) keyed() bool {
	return t.ParentPrimary && !t.NoParentKey || slices.ContainsFunc(t.Table.Columns, func(c LayoutColumn) bool { return c.PrimaryKey })
}

// LayoutColumn is a column, or a table of the items at a path.
type LayoutColumn struct {
	// Path leads to the value in the item. For a User column it is the name of an extra column.
	Path string
	Kind LayoutKind
	// Destination is the name of the column or table.
	Destination string
	// PrimaryKey makes a column a part of the key.
	PrimaryKey bool
	// ForceType writes lists and objects as JSON text.
	ForceType bool
	// Table is the layout of a table. Same is true if it is the layout that contains the column, for items inside of items of the same form. The
	// items at every depth then share the table.
	Table *Layout
	Same  bool
	// NoParentKey leaves the link column out; ParentKey is its name, empty means the name of the parent and "_pk".
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

// tables yields the tables of a layout with the keys under which a set knows them.
func (t LayoutColumn) tables(key string) iter.Seq2[string, LayoutColumn] {
	if t.Same { // the key of the table that contains it first
		key = strings.TrimSuffix(key, "\x00"+t.Path)
	}
	return func(yield func(string, LayoutColumn) bool) {
		for _, c := range t.Table.Columns {
			below := key + "\x00" + c.Path
			if t.shares(c) {
				below = key
			}
			if c.Kind == ToTable && !yield(below, c) {
				return
			}
		}
	}
}

// shares reports whether items inside of items are rows of the same table, which holds if they have the same form and destination, and no link.
func (t LayoutColumn) shares(c LayoutColumn) bool {
	return c.Same && c.Destination == t.Destination && c.NoParentKey && t.NoParentKey
}

// nameLayout gives names to a table and to the tables below.
func (s *Set) nameLayout(key string, t LayoutColumn) {
	if s.layouts[key] != "" {
		return
	}
	s.layouts[key] = s.names.name(SafeName(t.Destination))
	for below, c := range t.tables(key) {
		s.nameLayout(below, c)
	}
}

// openLayout opens a table and the tables below if they are not open yet. parent is the name of the parent's table.
func (s *Set) openLayout(key, parent string, t LayoutColumn) error {
	if _, ok := s.tables[key]; ok {
		return nil
	}
	columns := make(taken)
	opened := &Table{Name: s.layouts[key]}
	add := func(name string, primary bool) {
		name = columns.name(SafeName(name))
		opened.Columns = append(opened.Columns, name)
		if primary {
			opened.PrimaryKey = append(opened.PrimaryKey, name)
		}
	}
	for _, c := range t.Table.Columns {
		if c.Kind != ToTable || !c.NoParentKey && !t.keyed() {
			add(c.Destination, c.PrimaryKey)
		}
	}
	if !t.NoParentKey {
		add(cmp.Or(t.ParentKey, parent+"_pk"), t.ParentPrimary)
	}
	if err := s.begin(key, opened); err != nil || t.Same { // the layout around it opens the tables below
		return err
	}
	for below, c := range t.tables(key) {
		if err := s.openLayout(below, s.tables[key].Name, c); err != nil {
			return err
		}
	}
	return nil
}

// layoutRow writes a row, and its rows in the tables below. name is the data type, for errors, key names the table t, and parent is
// the link value of the row above.
func (s *Set) layoutRow(name, key string, t LayoutColumn, item, extra tree.Node, parent string) error {
	var cells, keys []string
	keyed := t.keyed()
	own := ""
	if !keyed && slices.ContainsFunc(t.Table.Columns, func(c LayoutColumn) bool { return c.Kind == ToTable && !c.NoParentKey }) {
		own = rowSum(item, extra)
	}
	for _, c := range t.Table.Columns {
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
			n := valueAt(item, c.Path)
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
	if !t.NoParentKey {
		cells = append(cells, parent)
		if t.ParentPrimary {
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
	for below, c := range t.tables(key) {
		n, _ := item.At(c.Path, ".")
		if !keyed && n.Empty() {
			continue
		}
		for m := range listOf(n).Each() {
			if err := s.layoutRow(name, below, c, m.Value, extra, own); err != nil {
				return err
			}
		}
	}
	return nil
}

// valueAt returns the value at a path of an item. The paths of an item that is a list are positions. Every item that is not an object also has its value
// at [dataColumn], as in tables without a layout.
func valueAt(item tree.Node, path string) tree.Node {
	n, ok := item.At(path, ".")
	if !ok && path == dataColumn && item.Kind() != tree.Object {
		n, _ = rowOf(item, nil).Get(dataColumn)
	}
	return n
}

// rowSum is the link value of a row without a primary key, the checksum of the item and of the extra columns.
func rowSum(item, extra tree.Node) string {
	h := md5.New()
	scratch := item.WriteSerialized(h, nil)
	if extra.Len() > 0 {
		h.Write(extra.AppendSerialized(scratch[:0], true))
	}
	return hex.EncodeToString(h.Sum(nil))
}
