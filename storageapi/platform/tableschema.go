package platform

import (
	"net/http"
	"slices"
	"strings"

	"github.com/forebay/forebay/storageapi"
)

// changeTable finishes a job by a change of its table's record.
func (r *jobRun) changeTable(id string, change func(tx *txn, t *table) error) error {
	c := r.request()
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
		putTable(tx, t)
		return c.fullTable(tx, t), nil
	})
}

func (c *request) addColumn() (any, error) {
	in := c.input(tableCode)
	col := storageapi.Column{Name: cleanColumn(in.textOr("name", "")), BaseType: in.textOr("basetype", "")}
	in.decode("definition", &col.Definition, "an object")
	if col.Name == "" || len(col.Name) > maxColumnName {
		in.failCode("storage.tables.invalidColumnName", "name", "want 1 to %d letters, digits, dashes and underscores", maxColumnName)
	} else {
		checkColumn(in, col)
	}
	t, err := c.writableTable()
	if err != nil {
		return nil, err
	}
	if err := checkColumnFree(t, col.Name); err != nil {
		return nil, err
	}
	if !t.Typed && (col.BaseType != "" || col.Definition.Value != nil) {
		return nil, refuse(http.StatusBadRequest, tableCode, "The table %q has no types: add the column by its name alone", t.ID)
	}
	return c.tableJob("tableColumnAdd", t.ID, tableParams{Table: t.ID, Column: &col})
}

func checkColumnFree(t table, name string) error {
	if slices.ContainsFunc(t.Columns, func(c column) bool { return strings.EqualFold(c.Name, name) }) {
		return refuse(http.StatusBadRequest, "storage.tables.columnAlreadyExists", "The table %q already has a column %q", t.ID, name)
	}
	return nil
}

func (s *Server) columnAddJob(run *jobRun, p tableParams) error {
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

func (c *request) deleteColumn() (any, error) {
	t, err := c.writableTable()
	if err != nil {
		return nil, err
	}
	name := c.r.PathValue("column")
	if err := checkColumnDelete(t, name); err != nil {
		return nil, err
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

func (s *Server) columnDeleteJob(run *jobRun, p tableParams) error {
	return run.changeTable(p.Table, func(tx *txn, t *table) error {
		name := p.Columns[0]
		if err := checkColumnDelete(*t, name); err != nil {
			return err
		}
		t.Columns = slices.DeleteFunc(t.Columns, func(c column) bool { return c.Name == name })
		tx.deleteAll(key("metadata", columnOwner(t.Branch, t.ID, name), ""))
		return nil
	})
}

func (c *request) addPrimaryKey() (any, error) {
	in := c.input(primaryKeyCode)
	columns, _ := in.texts("columns")
	in.flag("skipDuplicatesCheck")
	if len(columns) == 0 {
		in.fail("columns", "want at least one column")
	}
	t, err := c.writableTable()
	if err != nil {
		return nil, err
	}
	if err := checkKey(t, columns); err != nil {
		return nil, err
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

// keyOf appends an injective encoding of the key's values.
func keyOf(dst []byte, cells [][]byte, key []int) []byte {
	for _, at := range key {
		dst = append(dst, byte(len(cells[at])), byte(len(cells[at])>>8), byte(len(cells[at])>>16), byte(len(cells[at])>>24))
		dst = append(dst, cells[at]...)
	}
	return dst
}

// placesOf are the places of names in a list, -1 for one that is not there.
func placesOf(names, list []string) []int {
	places := make([]int, len(names))
	for i, name := range names {
		places[i] = slices.Index(list, name)
	}
	return places
}

// keyPlaces are the places of the key's columns among the table's.
func (t table) keyPlaces() []int { return placesOf(t.PrimaryKey, t.names()) }

func (s *Server) primaryKeyAddJob(run *jobRun, p tableParams) error {
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

func (c *request) deletePrimaryKey() (any, error) {
	t, err := c.writableTable()
	if err != nil {
		return nil, err
	}
	return c.tableJob("tablePrimaryKeyDelete", t.ID, tableParams{Table: t.ID})
}

func (s *Server) primaryKeyDeleteJob(run *jobRun, p tableParams) error {
	return run.changeTable(p.Table, func(_ *txn, t *table) error {
		t.PrimaryKey = nil
		return nil
	})
}

// cleanColumn turns a name of a header into a valid name of a column. It removes accents, replaces other characters by
// underscores, and drops leading underscores.
func cleanColumn(name string) string {
	var b strings.Builder
	for _, r := range name {
		plain, accented := unaccented[r]
		switch {
		case r < 128 && validColumn.MatchString(string(r)):
			b.WriteRune(r)
		case accented:
			b.WriteRune(plain)
		default:
			b.WriteByte('_')
		}
	}
	return strings.TrimLeft(b.String(), "_")
}

// unaccented maps Latin letters with accents to plain ones.
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
