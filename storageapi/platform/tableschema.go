package platform

import (
	"net/http"
	"slices"
	"strings"

	"github.com/forebay/forebay/storageapi"
)

// changeTable finishes a job by a change of its table's record.
func (r *jobRun) changeTable(id string, change func(tx *txn, t *table) error) error {
	c := r.call()
	return r.finish(tableLock(c.branch, id), func(tx *txn) (any, error) {
		t, err := getTable(tx, c.branch, id)
		if err != nil {
			return nil, err
		}
		if err := change(tx, &t); err != nil {
			return nil, err
		}
		t.LastChange = now()
		t.Change++
		if err := putTable(tx, t); err != nil {
			return nil, err
		}
		return c.fullTable(tx, t)
	})
}

func (c *call) addColumn() (reply, error) {
	in, err := c.input()
	if err != nil {
		return failed(err)
	}
	col := storageapi.Column{Name: in.textOr("name", ""), BaseType: in.textOr("basetype", "")}
	in.decode("definition", &col.Definition, "an object")
	if col.Name = cleanColumn(col.Name); col.Name == "" || len(col.Name) > maxColumnName {
		in.failCode("storage.tables.invalidColumnName", "name", "want 1 to %d letters, digits, dashes and underscores", maxColumnName)
	} else {
		checkColumn(in, col)
	}
	if err := in.err(tableCode); err != nil {
		return failed(err)
	}
	t, err := c.writableTable()
	if err != nil {
		return failed(err)
	}
	if err := checkColumnFree(t, col.Name); err != nil {
		return failed(err)
	}
	if !t.Typed && (col.BaseType != "" || col.Definition.Value != nil) {
		return failed(refuse(http.StatusBadRequest, tableCode, "The table %q has no types: add the column by its name alone", t.ID))
	}
	return c.tableJob("tableColumnAdd", t.ID, tableParams{Table: t.ID, Column: &col})
}

func checkColumnFree(t table, name string) error {
	if slices.ContainsFunc(t.Columns, func(c column) bool { return strings.EqualFold(c.Name, name) }) {
		return refuse(http.StatusBadRequest, "storage.tables.columnAlreadyExists", "The table %q already has a column %q", t.ID, name)
	}
	return nil
}

func (s *Server) columnAddJob(run *jobRun) error {
	var p tableParams
	if err := run.decode(&p); err != nil {
		return err
	}
	col, err := s.newColumn(*p.Column)
	if err != nil {
		return err
	}
	return run.changeTable(p.Table, func(_ *txn, t *table) error {
		if err := checkColumnFree(*t, col.Name); err != nil {
			return err
		}
		t.Columns = append(t.Columns, col)
		return nil
	})
}

func (c *call) deleteColumn() (reply, error) {
	t, err := c.writableTable()
	if err != nil {
		return failed(err)
	}
	name := c.r.PathValue("column")
	if err := checkColumnDelete(t, name); err != nil {
		return failed(err)
	}
	return c.tableJob("tableColumnDelete", t.ID, tableParams{Table: t.ID, Columns: []string{name}})
}

func checkColumnDelete(t table, name string) error {
	switch {
	case t.find(name) < 0:
		return refuse(http.StatusNotFound, "storage.tables.columnNotExists", "The table %q has no column %q", t.ID, cut(name, 80))
	case slices.Contains(t.PrimaryKey, name):
		return refuse(http.StatusBadRequest, "storage.tables.cannotDeletePrimaryKeyColumn", "The column %q is a part of the primary key", name)
	case len(t.Columns) == 1:
		return refuse(http.StatusBadRequest, tableCode, "The last column of a table cannot be deleted")
	}
	return nil
}

func (s *Server) columnDeleteJob(run *jobRun) error {
	var p tableParams
	if err := run.decode(&p); err != nil {
		return err
	}
	return run.changeTable(p.Table, func(tx *txn, t *table) error {
		name := p.Columns[0]
		if err := checkColumnDelete(*t, name); err != nil {
			return err
		}
		t.Columns = slices.DeleteFunc(t.Columns, func(c column) bool { return c.Name == name })
		return tx.deleteAll(key("metadata", columnOwner(t.Branch, t.ID, name), ""))
	})
}

func (c *call) addPrimaryKey() (reply, error) {
	in, err := c.input()
	if err != nil {
		return failed(err)
	}
	columns, _ := in.texts("columns")
	in.flag("skipDuplicatesCheck")
	if len(columns) == 0 {
		in.failCode(primaryKeyCode, "columns", "want at least one column")
	}
	if err := in.err(primaryKeyCode); err != nil {
		return failed(err)
	}
	t, err := c.writableTable()
	if err != nil {
		return failed(err)
	}
	if err := checkKey(t, columns); err != nil {
		return failed(err)
	}
	return c.tableJob("tablePrimaryKeyAdd", t.ID, tableParams{Table: t.ID, Columns: columns})
}

func checkKey(t table, columns []string) error {
	if len(t.PrimaryKey) > 0 {
		return refuse(http.StatusBadRequest, primaryKeyCode, "The table %q has a primary key: delete it first", t.ID)
	}
	for i, name := range columns {
		if t.find(name) < 0 {
			return refuse(http.StatusBadRequest, primaryKeyCode, "The table %q has no column %q", t.ID, cut(name, 80))
		}
		if slices.Contains(columns[:i], name) {
			return refuse(http.StatusBadRequest, primaryKeyCode, "The column %q is in the key twice", cut(name, 80))
		}
	}
	return nil
}

// keyOf appends the values of the key's columns in a form in which no two keys are the same.
func keyOf(dst []byte, cells [][]byte, key []int) []byte {
	for _, at := range key {
		dst = append(dst, byte(len(cells[at])), byte(len(cells[at])>>8), byte(len(cells[at])>>16), byte(len(cells[at])>>24))
		dst = append(dst, cells[at]...)
	}
	return dst
}

// keyPlaces are the places of the key's columns among the table's.
func (t table) keyPlaces() []int {
	places := make([]int, len(t.PrimaryKey))
	for i, name := range t.PrimaryKey {
		places[i] = t.find(name)
	}
	return places
}

func (s *Server) primaryKeyAddJob(run *jobRun) error {
	var p tableParams
	if err := run.decode(&p); err != nil {
		return err
	}
	t, list, release, err := s.parts.acquire(s.store, run.record.Branch, p.Table)
	if err != nil {
		return err
	}
	defer release()
	if err := checkKey(t, p.Columns); err != nil {
		return err
	}
	t.PrimaryKey = p.Columns
	places := t.keyPlaces()
	seen := make(map[string]bool)
	var k []byte
	for _, pt := range list {
		proj := project(t.ids(), pt)
		err := s.parts.read(t.Incarnation, pt, func(cells [][]byte) error {
			k = keyOf(k[:0], proj.row(cells), places)
			if seen[string(k)] {
				return refuse(http.StatusBadRequest, "storage.tables.primaryKeyDuplicateValues", "Rows of the table %q have the same values in %s", t.ID, strings.Join(p.Columns, ", "))
			}
			seen[string(k)] = true
			return run.ctx.Err()
		})
		if err != nil {
			return err
		}
	}
	return run.changeTable(p.Table, func(_ *txn, latest *table) error {
		if latest.Incarnation != t.Incarnation {
			return refuse(http.StatusNotFound, tableNotFound, "The table %q was deleted meanwhile", p.Table)
		}
		latest.PrimaryKey = p.Columns
		return nil
	})
}

func (c *call) deletePrimaryKey() (reply, error) {
	t, err := c.writableTable()
	if err != nil {
		return failed(err)
	}
	return c.tableJob("tablePrimaryKeyDelete", t.ID, tableParams{Table: t.ID})
}

func (s *Server) primaryKeyDeleteJob(run *jobRun) error {
	var p tableParams
	if err := run.decode(&p); err != nil {
		return err
	}
	return run.changeTable(p.Table, func(_ *txn, t *table) error {
		t.PrimaryKey = nil
		return nil
	})
}

// cleanColumn makes a name of the header of a file one that a column can have: accents are removed, other characters
// become underscores, and underscores in front are dropped.
func cleanColumn(name string) string {
	var b strings.Builder
	for _, r := range name {
		switch {
		case r < 128 && validColumn.MatchString(string(r)):
			b.WriteRune(r)
		default:
			if plain, ok := unaccented[r]; ok {
				b.WriteRune(plain)
			} else {
				b.WriteByte('_')
			}
		}
	}
	return strings.TrimLeft(b.String(), "_")
}

// unaccented are the Latin letters that occur in headers, with what is left without the accent.
var unaccented = accents(
	"AÀÁÂÃÄÅĀĂĄ", "CÇĆČ", "DĎĐ", "EÈÉÊËĒĖĘĚ", "GĞ", "IÌÍÎÏĪĮİ", "LŁĹĽ", "NÑŃŇ", "OÒÓÔÕÖØŌŐ", "RŔŘ", "SŚŞŠȘ", "TŤŢȚ", "UÙÚÛÜŪŮŰŲ", "YÝŸ", "ZŹŻŽ",
	"aàáâãäåāăą", "cçćč", "dďđ", "eèéêëēėęě", "gğ", "iìíîïīįı", "lłĺľ", "nñńň", "oòóôõöøōő", "rŕř", "sśşšș", "tťţț", "uùúûüūůűų", "yýÿ", "zźżž",
)

func accents(groups ...string) map[rune]rune {
	out := make(map[rune]rune)
	for _, g := range groups {
		plain := rune(g[0])
		for _, r := range g[1:] {
			out[r] = plain
		}
	}
	return out
}

// tableNotes reads the notes on a table and its columns.
func (c *call) tableNotes(tx *txn, t table) (storageapi.TableMetadata, error) {
	out := storageapi.TableMetadata{ColumnsMetadata: storageapi.Map[[]storageapi.Metadata]{}}
	var err error
	if out.Metadata, err = notes(tx, tableOwner(t.Branch, t.ID)); err != nil {
		return out, err
	}
	for _, col := range t.Columns {
		list, err := notes(tx, columnOwner(t.Branch, t.ID, col.Name))
		if err != nil {
			return out, err
		}
		if len(list) > 0 {
			out.ColumnsMetadata[col.Name] = list
		}
	}
	return out, nil
}

// addNotes adds those notes to the description of a table that are wanted.
func (c *call) addNotes(tx *txn, t table, out *storageapi.Table, own, columns bool) error {
	if !own && !columns {
		return nil
	}
	all, err := c.tableNotes(tx, t)
	if own {
		out.Metadata = all.Metadata
	}
	if columns {
		out.ColumnMetadata = all.ColumnsMetadata
	}
	return err
}

func (s *Server) tableMetadataRoutes() []route {
	return []route{
		{method: "GET", path: "/tables/{table}/metadata", summary: "List the metadata of a table", branch: optionalBranch, run: (*call).listTableMetadata},
		{method: "POST", path: "/tables/{table}/metadata", summary: "Set metadata of a table and its columns", branch: optionalBranch, run: (*call).setTableMetadata},
		{method: "DELETE", path: "/tables/{table}/metadata/{metadata}", summary: "Delete metadata of a table", branch: optionalBranch, run: (*call).deleteTableMetadata},
	}
}

func (c *call) listTableMetadata() (reply, error) {
	var list []storageapi.Metadata
	err := c.s.store.view(func(tx *txn) error {
		t, err := c.findTable(tx, c.r.PathValue("table"))
		if err != nil {
			return err
		}
		list, err = notes(tx, tableOwner(t.Branch, t.ID))
		return err
	})
	if err != nil {
		return failed(err)
	}
	return ok(list)
}

func (c *call) setTableMetadata() (reply, error) {
	in, err := c.input()
	if err != nil {
		return failed(err)
	}
	added, provider := readNotes(in, "")
	var groups map[string][]storageapi.ColumnNote
	in.decode("columnsMetadata", &groups, "an object of arrays of objects with columnName, key and value")
	if err := in.err(metadataCode); err != nil {
		return failed(err)
	}
	t, err := c.writableTable()
	if err != nil {
		return failed(err)
	}
	var out storageapi.TableMetadata
	err = c.s.store.update(tableLock(c.branch, t.ID), func(tx *txn) error {
		if t, err = getTable(tx, c.branch, t.ID); err != nil {
			return err
		}
		if err := c.s.putNotes(tx, tableOwner(t.Branch, t.ID), provider, added); err != nil {
			return err
		}
		for _, group := range groups {
			for _, n := range group {
				if t.find(n.ColumnName) < 0 || !validID(n.Key) {
					return refuse(http.StatusBadRequest, metadataCode, "Column %q, key %q: no such column or a bad key", cut(n.ColumnName, 80), cut(n.Key, 80))
				}
				if err := c.s.putNotes(tx, columnOwner(t.Branch, t.ID, n.ColumnName), provider, []storageapi.KeyValue{{Key: n.Key, Value: n.Value}}); err != nil {
					return err
				}
			}
		}
		out, err = c.tableNotes(tx, t)
		return err
	})
	if err != nil {
		return failed(err)
	}
	return created(out)
}

func (c *call) deleteTableMetadata() (reply, error) {
	t, err := c.writableTable()
	if err != nil {
		return failed(err)
	}
	err = c.s.store.update(tableLock(c.branch, t.ID), func(tx *txn) error {
		return deleteNote(tx, tableOwner(t.Branch, t.ID), c.r.PathValue("metadata"))
	})
	if err != nil {
		return failed(err)
	}
	return noContent()
}
