package flatten

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/forebay/forebay/extractor/internal/tree"
)

// parentColumn is the last column of a table that was made of a list, with the link value of the owner.
const parentColumn = "JSON_parentId"

// dataColumn holds items that are no objects.
const dataColumn = "data"

// A Set is the tables of one destination. It is not safe for concurrent use.
type Set struct {
	types   map[string]*dataType
	order   []string // of the types
	tables  map[string]*Table
	layouts map[string]string // names of the tables of layouts
	opened  []*Table
	names   taken
	known   []string          // tables of the runs before
	aliases map[string]string // of extra columns that met a column of the data
	open    func(name string) (io.Writer, error)
	line    []byte
	path    []string
}

type dataType struct {
	rows   shape
	extras []string
	layout LayoutColumn // without a Table unless the type has a layout
}

// Table is a table that was opened.
type Table struct {
	// Name is unique in the set.
	Name string
	// Columns are the names of the header.
	Columns []string
	// PrimaryKey are columns, by a [Layout].
	PrimaryKey []string

	w      io.Writer
	extras []string // raw names, for the last columns
}

// NewSet returns an empty set. open is called once for every table, before its header is written.
func NewSet(open func(name string) (io.Writer, error)) *Set {
	return &Set{
		types: make(map[string]*dataType), tables: make(map[string]*Table), layouts: make(map[string]string), names: make(taken),
		aliases: make(map[string]string), open: open,
	}
}

func (s *Set) typeOf(name string) *dataType {
	t, ok := s.types[name]
	if !ok {
		t = new(dataType)
		s.types[name] = t
		s.order = append(s.order, name)
	}
	return t
}

// SetLayout gives a data type a manual layout. Its tables exist without rows too, so they have their names from now on.
func (s *Set) SetLayout(name string, l *Layout) {
	t := s.typeOf(name)
	t.layout = LayoutColumn{Kind: ToTable, Destination: name, Table: l, NoParentKey: true}
	s.nameLayout(name, t.layout)
}

// Restore makes columns and tables known that an earlier set returned from Known. Call it before SetLayout.
func (s *Set) Restore(known tree.Node) error {
	for _, m := range known.Members() {
		rows, err := decodeShape(m.Value, 0)
		if err != nil {
			return err
		}
		rows.eachTable(func(name string) {
			if s.names.has(name) {
				err = fmt.Errorf("two tables have the name %q", name)
			}
			s.names[name] = 0
			s.known = append(s.known, name)
		})
		if err != nil {
			return err
		}
		s.typeOf(m.Key).rows = *rows
	}
	return nil
}

// Unused returns the tables of earlier sets that this one has no rows for. It is for the time after Finish.
func (s *Set) Unused() []string {
	return slices.DeleteFunc(slices.Clone(s.known), func(name string) bool {
		return slices.ContainsFunc(s.opened, func(t *Table) bool { return t.Name == name })
	})
}

// Known returns the columns and the tables of all data types.
func (s *Set) Known() tree.Node {
	var members []tree.Member
	for _, name := range s.order {
		if t := s.types[name]; t.layout.Table == nil {
			members = append(members, tree.Member{Key: name, Value: t.rows.encode()})
		}
	}
	return tree.OfObject(members...)
}

// Learn is the first pass over an item. nested reports that a list in a list will be kept as text. Errors are of type
// *Error.
func (s *Set) Learn(name string, item tree.Node, extra []tree.Member) (nested bool, err error) {
	t := s.typeOf(name)
	if t.layout.Table != nil {
		return false, nil
	}
	for _, m := range extra {
		if !slices.Contains(t.extras, m.Key) {
			t.extras = append(t.extras, m.Key)
		}
	}
	s.path = append(s.path[:0], name)
	if err := t.rows.learnItem(item, s.path, &nested); err != nil {
		return nested, &Error{name, err.Error()}
	}
	return nested, nil
}

// Write is the second pass over an item.
func (s *Set) Write(name string, item tree.Node, extra []tree.Member) error {
	t := s.types[name]
	if t == nil {
		return fmt.Errorf("data type %q was not learned", name)
	}
	if t.layout.Table != nil {
		if err := s.openLayout(name, "", t.layout); err != nil {
			return err
		}
		return s.layoutRow(name, name, t.layout, item, tree.OfObject(extra...), "")
	}
	return s.writeRow(name, name, t.extras, &t.rows, item, extra)
}

// Finish opens the tables that exist without rows, and returns all tables in the order in which they were opened.
func (s *Set) Finish() ([]*Table, error) {
	for _, name := range s.order {
		if l := s.types[name].layout; l.Table != nil {
			if err := s.openLayout(name, "", l); err != nil {
				return nil, err
			}
		}
	}
	return s.opened, nil
}

// rowOf returns an item as an object with its extra columns.
func rowOf(item tree.Node, extra []tree.Member) tree.Node {
	switch item.Kind() {
	case tree.Object:
	case tree.List:
		text := string(item.AppendJSON(nil, tree.Escaped))
		item = tree.OfObject(tree.Member{Key: dataColumn, Value: tree.OfString(text)})
	default:
		item = tree.OfObject(tree.Member{Key: dataColumn, Value: item})
	}
	for _, m := range extra {
		item = item.With(m.Key, m.Value)
	}
	return item
}

// writeRow writes an item of a table. path is the raw path of the table, label the path of its name.
func (s *Set) writeRow(
	path, label string, extras []string, rows *shape, item tree.Node, extra []tree.Member,
) error {
	t, err := s.table(path, label, extras, rows)
	if err != nil || t == nil {
		return err
	}
	aliased := slices.Clone(extra)
	for i, m := range aliased {
		if alias, ok := s.aliases[m.Key]; ok {
			aliased[i].Key = alias
		}
	}
	var w rowWriter
	if rows.kind == object {
		row := rowOf(item, aliased)
		w.fields(row, rows, &link{path: path, row: row}, label)
	} else {
		data, _ := rowOf(item, nil).Get(dataColumn)
		w.cell(data.Cell())
	}
	for _, name := range t.extras {
		at := slices.IndexFunc(extra, func(m tree.Member) bool { return m.Key == name })
		if at < 0 {
			w.cell("")
		} else {
			w.cell(extra[at].Value.Cell())
		}
	}
	s.line = appendLine(s.line[:0], w.cells)
	if _, err := t.w.Write(s.line); err != nil {
		return err
	}
	// The rows of lists come after the row of their owner. Files are independent, so only their own order matters.
	for _, l := range w.lists {
		parent := []tree.Member{{Key: parentColumn, Value: tree.OfString(l.link)}}
		for m := range l.items.Each() {
			if err := s.writeRow(l.path, l.label, []string{parentColumn}, l.shape, m.Value, parent); err != nil {
				return err
			}
		}
	}
	return nil
}

// table returns a table, opened at its first row, or nil when it has no columns.
func (s *Set) table(path, label string, extras []string, rows *shape) (*Table, error) {
	if t, ok := s.tables[path]; ok {
		return t, nil
	}
	columns := make(taken)
	t := &Table{extras: extras}
	if rows.kind == object {
		t.Columns = rows.columns(nil, "", columns)
	} else {
		t.Columns = []string{columns.name(dataColumn)}
	}
	for _, name := range extras {
		if columns.has(SafeName(name)) && s.aliases[name] == "" {
			s.aliases[name] = name + "_u0"
		}
		if alias, ok := s.aliases[name]; ok {
			name = alias
		}
		t.Columns = append(t.Columns, columns.name(SafeName(name)))
	}
	if len(t.Columns) == 0 {
		s.tables[path] = nil
		return nil, nil
	}
	if rows.table == "" {
		rows.table = s.names.name(SafeName(label))
	}
	t.Name = rows.table
	return t, s.begin(path, t)
}

// begin opens a table and writes its header.
func (s *Set) begin(key string, t *Table) error {
	w, err := s.open(t.Name)
	if err != nil {
		return err
	}
	t.w = w
	s.tables[key] = t
	s.opened = append(s.opened, t)
	_, err = w.Write(appendLine(nil, t.Columns))
	return err
}

// columns appends the names of the columns of an object.
func (s *shape) columns(names []string, prefix string, used taken) []string {
	for _, f := range s.fields {
		path := prefix + f.name
		if f.shape.kind == object {
			names = f.shape.columns(names, path+".", used)
		} else {
			names = append(names, used.name(SafeName(path)))
		}
	}
	return names
}

// A link is the object that list columns are linked to. Its value is computed when it is needed.
type link struct {
	path  string
	row   tree.Node
	outer *link
	value *string
}

// text returns the link value, the path, and the checksum of the object and of the objects around it.
func (l *link) text() string {
	if l.value == nil {
		h := md5.New()
		l.row.WriteSerialized(h, make([]byte, 0, 1<<10))
		if l.outer != nil {
			h.Write([]byte(l.outer.text()))
		}
		v := l.path + "_" + hex.EncodeToString(h.Sum(nil))
		l.value = &v
	}
	return *l.value
}

// A rowWriter gathers the cells of one row, and the lists below it.
type rowWriter struct {
	cells []string
	lists []linkedList
}

type linkedList struct {
	path, label string
	shape       *shape
	items       tree.Node
	link        string
}

func (w *rowWriter) cell(text string) { w.cells = append(w.cells, text) }

// fields appends the cells of an object.
func (w *rowWriter) fields(v tree.Node, s *shape, l *link, label string) {
	values := v.Cursor()
	for _, f := range s.fields {
		value := values.Get(f.name)
		switch f.shape.kind {
		case object:
			w.fields(value, f.shape, &link{path: l.path + "." + f.name, row: value, outer: l}, label+"."+f.name)
		case array:
			items := listOf(value)
			if items.Len() == 0 {
				w.cell("")
				continue
			}
			w.cell(l.text())
			w.lists = append(w.lists, linkedList{l.path + "." + f.name, label + "." + f.name, f.shape.items, items, l.text()})
		default:
			w.cell(value.Cell())
		}
	}
}

// listOf returns the items at a place that holds lists. A single value is a list of one, null has none.
func listOf(n tree.Node) tree.Node {
	switch n.Kind() {
	case tree.Null:
		return tree.OfList()
	case tree.List:
		return n
	}
	return tree.OfList(n)
}

// appendLine appends a CSV line, with every cell in quotes and quotes doubled.
func appendLine(dst []byte, cells []string) []byte {
	for i, c := range cells {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), strings.ReplaceAll(c, `"`, `""`)...), '"')
	}
	return append(dst, '\n')
}
