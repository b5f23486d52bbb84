package platform

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/forebay/forebay/storageapi"
)

// table is the record of a table. Its rows are in parts.
type table struct {
	Branch      string `json:"branch"`
	ID          string `json:"id"`
	Name        string `json:"name"`
	DisplayName string `json:"displayName"`
	// Incarnation is never given to another table, also not to one of the same id.
	Incarnation int64           `json:"incarnation"`
	Columns     []column        `json:"columns"`
	PrimaryKey  []string        `json:"primaryKey,omitempty"`
	Typed       bool            `json:"typed,omitempty"`
	Created     storageapi.Time `json:"created"`
	LastImport  storageapi.Time `json:"lastImport"`
	LastChange  storageapi.Time `json:"lastChange"`
	Rows        int64           `json:"rows"`
	Bytes       int64           `json:"bytes"`
	// Change grows with each change of columns or rows.
	Change int64 `json:"change"`
}

// column has an id, so that a column that is deleted and made again under its old name does not bring back old cells.
type column struct {
	ID       int64                        `json:"id"`
	Name     string                       `json:"name"`
	BaseType string                       `json:"baseType,omitempty"`
	Type     *storageapi.ColumnDefinition `json:"type,omitempty"`
}

const (
	tableCode      = "storage.tables.validation"
	tableExists    = "storage.buckets.tableAlreadyExists"
	tableNotFound  = "storage.tables.notFound"
	primaryKeyCode = "storage.validation.primaryKey"
	maxColumns     = 4096
	maxColumnName  = 64
)

var validColumn = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// bucketOf is the id of a table's bucket, "" if the id is not that of a table.
func bucketOf(tableID string) string {
	if strings.Count(tableID, ".") != 2 {
		return ""
	}
	return tableID[:strings.LastIndexByte(tableID, '.')]
}

func tableLock(branch, id string) string { return "table " + branch + " " + id }

func tableOwner(branch, id string) string { return "table" + sep + branch + sep + id }

func columnOwner(branch, id, column string) string {
	return "column" + sep + branch + sep + id + sep + column
}

func (t table) names() []string {
	names := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		names[i] = c.Name
	}
	return names
}

func (t table) ids() []int64 {
	ids := make([]int64, len(t.Columns))
	for i, c := range t.Columns {
		ids[i] = c.ID
	}
	return ids
}

// find returns the place of a column, or -1.
func (t table) find(name string) int {
	return slices.IndexFunc(t.Columns, func(c column) bool { return c.Name == name })
}

func getTable(tx *txn, branch, id string) (table, error) {
	var t table
	found, err := tx.get(tableKey(branch, id), &t)
	switch bucketID := bucketOf(id); {
	case err != nil || found:
		return t, err
	case bucketID == "":
		return t, refuse(http.StatusNotFound, tableNotFound, "The table %q was not found: its id is not of the form stage.bucket.table", cut(id, 250))
	default:
		return t, refuse(http.StatusNotFound, tableNotFound, "The table %q was not found in the bucket %q", cut(id, 250), cut(bucketID, 120))
	}
}

// latest reads the record of a table that was read before. Another table that has its id by now is not the one.
func latest(tx *txn, t table) (table, error) {
	now, err := getTable(tx, t.Branch, t.ID)
	if err == nil && now.Incarnation != t.Incarnation {
		err = refuse(http.StatusNotFound, tableNotFound, "The table %q was deleted meanwhile", t.ID)
	}
	return now, err
}

func putTable(tx *txn, t table) error { return tx.put(tableKey(t.Branch, t.ID), t) }

// dropTable deletes the records of a table.
func dropTable(tx *txn, branch string, t table) error {
	for _, prefix := range []string{
		key("part", branch, t.ID, ""), key("metadata", tableOwner(branch, t.ID), ""), key("metadata", "column", branch, t.ID, ""),
		key("export", branch, t.ID, ""),
	} {
		if err := tx.deleteAll(prefix); err != nil {
			return err
		}
	}
	return tx.delete(tableKey(branch, t.ID))
}

func (s *Server) tableRoutes() []route {
	return []route{
		{method: "GET", path: "/tables", summary: "List tables", branch: optionalBranch, run: (*call).listTables},
		{method: "GET", path: "/buckets/{bucket}/tables", summary: "List the tables of a bucket", branch: optionalBranch, run: (*call).listTables},
		{method: "GET", path: "/tables/{table}", summary: "Table detail", branch: optionalBranch, run: (*call).getTable},
		{method: "POST", path: "/buckets/{bucket}/tables-definition", summary: "Create a table from a definition", branch: optionalBranch, run: (*call).defineTable},
		{method: "POST", path: "/buckets/{bucket}/tables-async", summary: "Create a table from a file", branch: optionalBranch, run: (*call).createTable},
		{method: "PUT", path: "/tables/{table}", summary: "Update a table", branch: optionalBranch, run: (*call).updateTable},
		{method: "DELETE", path: "/tables/{table}", summary: "Delete a table", branch: optionalBranch, run: (*call).deleteTable},
		{method: "POST", path: "/tables/{table}/columns", summary: "Add a column", branch: optionalBranch, run: (*call).addColumn},
		{method: "DELETE", path: "/tables/{table}/columns/{column}", summary: "Delete a column", branch: optionalBranch, run: (*call).deleteColumn},
		{method: "POST", path: "/tables/{table}/primary-key", summary: "Create the primary key", branch: optionalBranch, run: (*call).addPrimaryKey},
		{method: "DELETE", path: "/tables/{table}/primary-key", summary: "Delete the primary key", branch: optionalBranch, run: (*call).deletePrimaryKey},
	}
}

// findTable reads a table that the caller may read.
func (c *call) findTable(tx *txn, id string) (table, error) {
	if !c.token.mayRead(bucketOf(id)) {
		return table{}, accessDenied("table %q", cut(id, 250))
	}
	return getTable(tx, c.branch, id)
}

// writableTable reads the table of the path, which the caller may write.
func (c *call) writableTable() (t table, err error) {
	err = c.s.store.view(func(tx *txn) (err error) {
		if t, err = c.findTable(tx, c.r.PathValue("table")); err == nil && !c.token.mayWrite(bucketOf(t.ID)) {
			err = accessDenied("table %q is read-only for this token", t.ID)
		}
		return err
	})
	return t, err
}

// tableSpec says what a job does that changes a table: such jobs run one after the other.
func (c *call) tableSpec(operation, table string, params any) jobSpec {
	return jobSpec{operation: operation, params: params, table: table, lane: tableLock(c.branch, table)}
}

// tableJob is the job of a call that changes a table.
func (c *call) tableJob(operation, table string, params any) (reply, error) {
	return c.startJob(c.tableSpec(operation, table, params))
}

func (c *call) tableAnswer(t table) storageapi.Table {
	out := storageapi.Table{
		URI: c.base() + storagePath + "/tables/" + t.ID, ID: t.ID, Name: t.Name, DisplayName: t.DisplayName, PrimaryKey: notNil(t.PrimaryKey),
		Created: t.Created, LastImportDate: t.LastImport, LastChangeDate: t.LastChange, RowsCount: t.Rows, DataSizeBytes: t.Bytes,
		Columns: t.names(), IsAliasable: true, IsTyped: t.Typed, TableType: "table", Path: t.Name,
	}
	d := storageapi.TableDefinition{PrimaryKeysNames: out.PrimaryKey}
	for _, col := range t.Columns {
		d.Columns = append(d.Columns, t.describe(col))
	}
	out.Definition = storageapi.Some(d)
	return out
}

// describe gives a column its name and, in a table with types, both of its types: in the words of the API, and of the
// backend.
func (t table) describe(col column) storageapi.Column {
	if !t.Typed {
		return storageapi.Column{Name: col.Name}
	}
	var d storageapi.ColumnDefinition
	if col.Type != nil {
		d = *col.Type
	}
	out := storageapi.Column{Name: col.Name, BaseType: col.base()}
	if d.Type == "" {
		d.Type = out.BaseType
	}
	if d.Nullable == nil {
		nullable := !slices.Contains(t.PrimaryKey, col.Name)
		d.Nullable = &nullable
	}
	out.Definition = storageapi.Some(d)
	return out
}

// tableBucket describes the bucket of a table.
func (c *call) tableBucket(tx *txn, t table) (*storageapi.Bucket, error) {
	var b bucket
	if _, err := tx.get(bucketKey(t.Branch, bucketOf(t.ID)), &b); err != nil {
		return nil, err
	}
	answer, _, err := c.bucketAnswer(tx, b)
	return &answer, err
}

// fullTable adds the bucket and the notes.
func (c *call) fullTable(tx *txn, t table) (storageapi.Table, error) {
	out := c.tableAnswer(t)
	var err error
	if out.Bucket, err = c.tableBucket(tx, t); err != nil {
		return out, err
	}
	return out, c.addNotes(tx, t, &out, true, true)
}

func (c *call) getTable() (reply, error) {
	var out storageapi.Table
	err := c.s.store.view(func(tx *txn) error {
		t, err := c.findTable(tx, c.r.PathValue("table"))
		if err == nil {
			out, err = c.fullTable(tx, t)
		}
		return err
	})
	if err != nil {
		return failed(err)
	}
	return ok(out)
}

// listTables answers all tables or those of the bucket of the path, with the parts that were asked for.
func (c *call) listTables() (reply, error) {
	list := []map[string]any{}
	err := c.s.store.view(func(tx *txn) error {
		prefix := key("table", c.branch, "")
		if id := c.r.PathValue("bucket"); id != "" {
			b, err := c.findBucket(tx, id)
			if err != nil {
				return err
			}
			prefix = key("table", c.branch, b.ID+".")
		}
		tables, err := all[table](tx, prefix)
		if err != nil {
			return err
		}
		buckets := make(map[string]*storageapi.Bucket)
		for _, t := range tables {
			if !c.token.mayRead(bucketOf(t.ID)) {
				continue
			}
			item, err := c.listedTable(tx, t, buckets)
			if err != nil {
				return err
			}
			list = append(list, item)
		}
		return nil
	})
	return answered(list, err)
}

// listedTable is a table in a list. Each bucket is described once, in buckets.
func (c *call) listedTable(tx *txn, t table, buckets map[string]*storageapi.Bucket) (map[string]any, error) {
	out := c.tableAnswer(t)
	absent := []string{"definition"}
	if !c.includes("columns") {
		absent = append(absent, "columns")
	}
	if c.includes("buckets") {
		id := bucketOf(t.ID)
		if buckets[id] == nil {
			var err error
			if buckets[id], err = c.tableBucket(tx, t); err != nil {
				return nil, err
			}
		}
		out.Bucket = buckets[id]
	}
	if err := c.addNotes(tx, t, &out, c.includes("metadata"), c.includes("columnMetadata")); err != nil {
		return nil, err
	}
	return without(out, absent...)
}

// definition is what a new table is made of.
type definition struct {
	Bucket      string              `json:"bucketId"`
	Name        string              `json:"name"`
	PrimaryKey  []string            `json:"primaryKeysNames"`
	Columns     []storageapi.Column `json:"columns"`
	Incarnation int64               `json:"incarnation"`
}

func checkTableName(in *input, name string) {
	if name != "" && !validName.MatchString(name) {
		in.fail("name", "want 1 to 96 letters, digits, dashes and underscores")
	}
}

// checkColumn refuses a column of a definition.
func checkColumn(in *input, col storageapi.Column) {
	if !validColumn.MatchString(col.Name) {
		in.failCode(tableCode+".invalidColumnName", "columns", "column %q: want 1 to %d letters, digits, dashes and underscores", cut(col.Name, 80), maxColumnName)
	}
	checkTypes(in, col)
}

// checkKeyColumns refuses a primary key of columns that are not there, or are named twice.
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

func (c *call) defineTable() (reply, error) {
	in, err := c.input()
	if err != nil {
		return failed(err)
	}
	d := definition{Bucket: c.r.PathValue("bucket"), Name: in.required("name")}
	checkTableName(in, d.Name)
	d.PrimaryKey, _ = in.texts("primaryKeysNames")
	in.decode("columns", &d.Columns, "an array of objects with name")
	for _, name := range []string{"timePartitioning", "rangePartitioning", "clustering", "distribution", "index"} {
		if raw := unquoted(in.fields[name]); len(raw) > 0 && string(raw) != "null" && !isEmptyArray(raw) {
			in.fail(name, "the backend %s does not have it: leave it out", backendName)
		}
	}
	if len(d.Columns) == 0 {
		in.failCode(tableCode+".noColumns", "columns", "want at least one column")
	}
	if len(d.Columns) > maxColumns {
		in.failCode(tableCode+".tooManyColumns", "columns", "want at most %d columns", maxColumns)
	}
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
	if err := in.err(tableCode); err != nil {
		return failed(err)
	}
	if err := c.checkNewTable(d.Bucket, d.Name); err != nil {
		return failed(err)
	}
	if d.Incarnation, err = c.s.store.ids.take(); err != nil {
		return failed(err)
	}
	return c.tableJob("tableDefinitionCreate", d.Bucket+"."+d.Name, d)
}

// checkNewTable refuses at once what the job would refuse later.
func (c *call) checkNewTable(bucketID, name string) error {
	return c.s.store.view(func(tx *txn) error {
		if err := c.findWritable(tx, bucketID); err != nil {
			return err
		}
		return checkTableFree(tx, c.branch, bucketID, name, "")
	})
}

// checkTableFree refuses a name or display name that another table of the bucket has.
func checkTableFree(tx *txn, branch, bucketID, name, except string) error {
	tables, err := all[table](tx, key("table", branch, bucketID+"."))
	if err != nil {
		return err
	}
	for _, t := range tables {
		if t.ID != except && (t.Name == name && except == "" || strings.EqualFold(t.DisplayName, name)) {
			return refuse(http.StatusBadRequest, tableExists, "The table %q already exists in the bucket %q", name, bucketID)
		}
	}
	return nil
}

// newTable makes the record of a table.
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
	if found, err := tx.get(bucketKey(t.Branch, id), &bucket{}); err != nil {
		return err
	} else if !found {
		return refuse(http.StatusNotFound, "storage.buckets.notFound", "The bucket %q was not found", id)
	}
	if err := checkTableFree(tx, t.Branch, id, t.Name, ""); err != nil {
		return err
	}
	return putTable(tx, t)
}

func (s *Server) tableDefinitionJob(run *jobRun) error {
	var d definition
	if err := run.decode(&d); err != nil {
		return err
	}
	t, err := s.newTable(run.record.Branch, d)
	if err != nil {
		return err
	}
	c := run.call()
	return run.finish(bucketLock(t.Branch, d.Bucket), func(tx *txn) (any, error) {
		if err := insertTable(tx, t); err != nil {
			return nil, err
		}
		return c.fullTable(tx, t)
	})
}

type tableParams struct {
	Table       string             `json:"tableId"`
	DisplayName *string            `json:"displayName,omitempty"`
	Column      *storageapi.Column `json:"column,omitempty"`
	Columns     []string           `json:"columns,omitempty"`
	Query       json.RawMessage    `json:"query,omitempty"`
}

func (c *call) updateTable() (reply, error) {
	in, err := c.input()
	if err != nil {
		return failed(err)
	}
	p := tableParams{DisplayName: in.text("displayName")}
	if p.DisplayName != nil && (!validName.MatchString(*p.DisplayName) || strings.HasPrefix(*p.DisplayName, "_")) {
		in.fail("displayName", "want 1 to 96 letters, digits, dashes and underscores, of which no underscore is the first")
	}
	if err := in.err(tableCode); err != nil {
		return failed(err)
	}
	t, err := c.writableTable()
	if err != nil {
		return failed(err)
	}
	p.Table = t.ID
	if async, err := c.queryFlag("async"); err != nil {
		return failed(err)
	} else if async {
		return c.tableJob("tableUpdate", t.ID, p)
	}
	var out storageapi.Table
	defer c.s.store.locks.lock(bucketLock(c.branch, bucketOf(t.ID)))()
	err = c.s.store.update(tableLock(c.branch, t.ID), func(tx *txn) error {
		out, err = c.applyTableUpdate(tx, p)
		return err
	})
	if err != nil {
		return failed(err)
	}
	return ok(out)
}

// applyTableUpdate changes a table. It is called with the locks of the bucket, because names are unique in it, and then of
// the table.
func (c *call) applyTableUpdate(tx *txn, p tableParams) (storageapi.Table, error) {
	t, err := getTable(tx, c.branch, p.Table)
	if err != nil {
		return storageapi.Table{}, err
	}
	if p.DisplayName != nil {
		if err := checkTableFree(tx, c.branch, bucketOf(t.ID), *p.DisplayName, t.ID); err != nil {
			return storageapi.Table{}, err
		}
		t.DisplayName = *p.DisplayName
		if err := putTable(tx, t); err != nil {
			return storageapi.Table{}, err
		}
	}
	return c.fullTable(tx, t)
}

func (s *Server) tableUpdateJob(run *jobRun) error {
	var p tableParams
	if err := run.decode(&p); err != nil {
		return err
	}
	c := run.call()
	defer s.store.locks.lock(bucketLock(c.branch, bucketOf(p.Table)))()
	return run.finish(tableLock(c.branch, p.Table), func(tx *txn) (any, error) { return c.applyTableUpdate(tx, p) })
}

func (c *call) deleteTable() (reply, error) {
	if _, err := c.queryFlag("force"); err != nil {
		return failed(err)
	}
	t, err := c.writableTable()
	if err != nil {
		return failed(err)
	}
	if async, err := c.queryFlag("async"); err != nil {
		return failed(err)
	} else if async {
		return c.tableJob("tableDrop", t.ID, tableParams{Table: t.ID})
	}
	err = c.s.store.update(tableLock(c.branch, t.ID), func(tx *txn) error {
		if t, err = getTable(tx, c.branch, t.ID); err != nil {
			return err
		}
		return dropTable(tx, c.branch, t)
	})
	if err != nil {
		return failed(err)
	}
	c.s.parts.dropTables([]table{t})
	return noContent()
}

func (s *Server) tableDropJob(run *jobRun) error {
	var p tableParams
	if err := run.decode(&p); err != nil {
		return err
	}
	var t table
	err := run.finish(tableLock(run.record.Branch, p.Table), func(tx *txn) (_ any, err error) {
		if t, err = getTable(tx, run.record.Branch, p.Table); err != nil {
			return nil, err
		}
		return nil, dropTable(tx, run.record.Branch, t)
	})
	if err == nil {
		s.parts.dropTables([]table{t})
	}
	return err
}
