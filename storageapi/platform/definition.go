package platform

import (
	"net/http"
	"slices"
	"strings"

	"github.com/forebay/forebay/storageapi"
)

// definition describes a new table.
type definition struct {
	Bucket      string              `json:"bucketId"`
	Name        string              `json:"name"`
	PrimaryKey  []string            `json:"primaryKeysNames"`
	Columns     []storageapi.Column `json:"columns"`
	Incarnation int64               `json:"incarnation"`
}

// checkColumn refuses a column of a definition.
func checkColumn(in *input, col storageapi.Column) {
	if !validColumn.MatchString(col.Name) {
		in.failCode(tableCode+".invalidColumnName", "columns", "column %q: want 1 to %d letters, digits, dashes and underscores", cut(col.Name, 80), maxColumnName)
	}
	checkTypes(in, col)
}

// checkColumnCount refuses a table without columns, or with too many.
func checkColumnCount(in *input, n int, none string) {
	if n == 0 {
		in.failCode(tableCode+".noColumns", "columns", "%s", none)
	}
	if n > maxColumns {
		in.failCode(tableCode+".tooManyColumns", "columns", "want at most %d columns", maxColumns)
	}
}

// checkKeyColumns refuses a primary key with unknown or repeated columns.
func checkKeyColumns(in *input, field string, names []string, has func(name string) bool) {
	for i, name := range names {
		switch {
		case !has(name):
			in.failCode(tableCode+".invalidPrimaryKeyColumns", field, "there is no column %q", cut(name, 80))
		case slices.Contains(names[:i], name):
			in.failCode(tableCode+".invalidPrimaryKeyColumns", field, "the column %q is there twice", cut(name, 80))
		}
	}
}

func (c *request) defineTable() (any, error) {
	in := c.input(tableCode)
	d := definition{Bucket: c.r.PathValue("bucket"), Name: in.required("name")}
	in.name("name", d.Name)
	d.PrimaryKey, _ = in.texts("primaryKeysNames")
	in.decode("columns", &d.Columns, "an array of objects with name")
	for _, name := range []string{"timePartitioning", "rangePartitioning", "clustering", "distribution", "index"} {
		if raw := unquoted(in.fields[name]); len(raw) > 0 && string(raw) != "null" && !isEmptyArray(raw) {
			in.fail(name, "the backend %s does not have it: leave it out", backendName)
		}
	}
	checkColumnCount(in, len(d.Columns), "want at least one column")
	seen := make(map[string]bool)
	for _, col := range d.Columns {
		checkColumn(in, col)
		if lower := strings.ToLower(col.Name); seen[lower] {
			in.failCode(tableCode+".invalidColumnName", "columns", "column %q is there twice", cut(col.Name, 80))
		} else {
			seen[lower] = true
		}
	}
	checkKeyColumns(in, "primaryKeysNames", d.PrimaryKey, func(name string) bool {
		return slices.ContainsFunc(d.Columns, func(col storageapi.Column) bool { return col.Name == name })
	})
	if err := c.checkNewTable(d.Bucket, d.Name); err != nil {
		return nil, err
	}
	d.Incarnation = c.newID()
	return c.tableJob("tableDefinitionCreate", d.Bucket+"."+d.Name, d)
}

// checkNewTable refuses before the job a table that the job would refuse.
func (c *request) checkNewTable(bucketID, name string) error {
	return c.view(func(tx *txn) error {
		if err := c.findWritable(tx, bucketID); err != nil {
			return err
		}
		return checkTableFree(tx, c.branch, bucketID, name, "")
	})
}

// checkTableFree refuses a name or display name that another table of the bucket has.
func checkTableFree(tx *txn, branch, bucketID, name, except string) error {
	taken := func(t table) bool {
		return t.ID != except && (t.Name == name && except == "" || strings.EqualFold(t.DisplayName, name))
	}
	return refuseIf(tx, key("table", branch, bucketID+"."), taken, func(table) error {
		return refuse(http.StatusBadRequest, tableExists, "The table %q already exists in the bucket %q", name, bucketID)
	})
}

func (s *Server) newTable(branch string, d definition) (table, error) {
	t := table{
		Branch: branch, ID: d.Bucket + "." + d.Name, Name: d.Name, DisplayName: d.Name, Incarnation: d.Incarnation, PrimaryKey: d.PrimaryKey,
		Created: now(), LastChange: now(), Change: 1,
	}
	for _, col := range d.Columns {
		added, err := s.newColumn(col)
		if err != nil {
			return t, err
		}
		t.Typed = t.Typed || added.BaseType != "" || added.Type != nil
		t.Columns = append(t.Columns, added)
	}
	return t, nil
}

func (s *Server) newColumn(col storageapi.Column) (column, error) {
	id, err := s.store.ids.take()
	return column{ID: id, Name: col.Name, BaseType: col.BaseType, Type: col.Definition.Value}, err
}

// insertTable stores a new table in a bucket that still exists.
func insertTable(tx *txn, t table) error {
	id := bucketOf(t.ID)
	if _, err := find[bucket](tx, bucketKey(t.Branch, id), refuse(http.StatusNotFound, bucketNotFound, "The bucket %q was not found", id)); err != nil {
		return err
	}
	if err := checkTableFree(tx, t.Branch, id, t.Name, ""); err != nil {
		return err
	}
	putTable(tx, t)
	return nil
}

func (s *Server) tableDefinitionJob(run *jobRun, d definition) error {
	t, err := s.newTable(run.record.Branch, d)
	if err != nil {
		return err
	}
	c := run.request()
	return run.finish(bucketLock(t.Branch, d.Bucket), func(tx *txn) (any, error) {
		if err := insertTable(tx, t); err != nil {
			return nil, err
		}
		return c.fullTable(tx, t), nil
	})
}
