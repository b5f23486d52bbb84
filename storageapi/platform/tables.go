package platform

import (
	"cmp"
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
	// Incarnation is unique, even among tables that had the same id.
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

// column has an id, so that a new column with the name of a deleted one does not show the old cells.
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

// bucketOf returns the bucket of a table id, or "" if it is not a table id.
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
	absent := refuse(http.StatusNotFound, tableNotFound, "The table %q was not found: its id is not of the form stage.bucket.table", cut(id, 250))
	if bucketID := bucketOf(id); bucketID != "" {
		absent = refuse(http.StatusNotFound, tableNotFound, "The table %q was not found in the bucket %q", cut(id, 250), cut(bucketID, 120))
	}
	return find[table](tx, tableKey(branch, id), absent)
}

// latest reads the record of a table again. It fails if the table was replaced by one with the same id.
func latest(tx *txn, t table) (table, error) {
	now, err := getTable(tx, t.Branch, t.ID)
	if err == nil && now.Incarnation != t.Incarnation {
		err = refuse(http.StatusNotFound, tableNotFound, "The table %q was deleted meanwhile", t.ID)
	}
	return now, err
}

func putTable(tx *txn, t table) { tx.put(tableKey(t.Branch, t.ID), t) }

// dropTable deletes the records of a table.
func dropTable(tx *txn, branch string, t table) {
	tx.deleteAll(
		key("part", branch, t.ID, ""), key("metadata", tableOwner(branch, t.ID), ""), key("metadata", "column", branch, t.ID, ""),
		key("export", branch, t.ID, ""),
	)
	tx.delete(tableKey(branch, t.ID))
}

func (s *Server) tableRoutes() []route {
	return []route{
		{method: "GET", path: "/tables", summary: "List tables", branch: optionalBranch, query: "include", result: []storageapi.Table{}, read: (*request).listTables},
		{method: "GET", path: "/buckets/{bucket}/tables", summary: "List the tables of a bucket", branch: optionalBranch, query: "include", result: []storageapi.Table{}, read: (*request).listTables},
		{method: "GET", path: "/tables/{table}", summary: "Table detail", branch: optionalBranch, result: storageapi.Table{}, read: (*request).getTable},
		{method: "POST", path: "/buckets/{bucket}/tables-definition", summary: "Create a table from a definition", branch: optionalBranch, body: "name! primaryKeysNames columns! timestampType *", status: http.StatusAccepted, result: storageapi.Job{}, run: (*request).defineTable},
		{method: "POST", path: "/buckets/{bucket}/tables-async", summary: "Create a table from a file", branch: optionalBranch, body: tableBody + " dataFileId!", status: http.StatusAccepted, result: storageapi.Job{}, run: (*request).createTable},
		{method: "PUT", path: "/tables/{table}", summary: "Update a table", branch: optionalBranch, query: "async", body: "displayName", result: storageapi.Table{}, async: true, run: (*request).updateTable},
		{method: "DELETE", path: "/tables/{table}", summary: "Delete a table", branch: optionalBranch, query: "force async", async: true, run: (*request).deleteTable},
		{method: "POST", path: "/tables/{table}/columns", summary: "Add a column", branch: optionalBranch, body: "name! basetype definition", status: http.StatusAccepted, result: storageapi.Job{}, run: (*request).addColumn},
		{method: "DELETE", path: "/tables/{table}/columns/{column}", summary: "Delete a column", branch: optionalBranch, query: "force", status: http.StatusAccepted, result: storageapi.Job{}, run: (*request).deleteColumn},
		{method: "POST", path: "/tables/{table}/primary-key", summary: "Create the primary key", branch: optionalBranch, body: "columns! skipDuplicatesCheck", status: http.StatusAccepted, result: storageapi.Job{}, run: (*request).addPrimaryKey},
		{method: "DELETE", path: "/tables/{table}/primary-key", summary: "Delete the primary key", branch: optionalBranch, status: http.StatusAccepted, result: storageapi.Job{}, run: (*request).deletePrimaryKey},
	}
}

// findTable reads a table that the caller may read.
func (c *request) findTable(tx *txn, id string) (table, error) {
	if !c.token.mayRead(bucketOf(id)) {
		return table{}, accessDenied("table %q", cut(id, 250))
	}
	return getTable(tx, c.branch, id)
}

// pathTable reads the table of the path, which the caller may read, or write.
func (c *request) pathTable(tx *txn, write bool) (table, error) {
	t, err := c.findTable(tx, c.r.PathValue("table"))
	if err == nil && write && !c.token.mayWrite(bucketOf(t.ID)) {
		err = accessDenied("table %q is read-only for this token", t.ID)
	}
	return t, err
}

// writableTable is pathTable for a call that makes its change as a job.
func (c *request) writableTable() (table, error) {
	return seen(c, func(tx *txn) (table, error) { return c.pathTable(tx, true) })
}

// tableSpec describes a job that changes a table. Such jobs run one after the other.
func (c *request) tableSpec(operation, table string, params any) jobSpec {
	return jobSpec{operation: operation, params: params, table: table, key: tableLock(c.branch, table)}
}

func (c *request) tableJob(operation, table string, params any) (any, error) {
	return c.startJob(c.tableSpec(operation, table, params))
}

func (c *request) tableAnswer(t table) storageapi.Table {
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

// describe returns a column with its name and, in a typed table, its type in the terms of the API and of the backend.
func (t table) describe(col column) storageapi.Column {
	if !t.Typed {
		return storageapi.Column{Name: col.Name}
	}
	var d storageapi.ColumnDefinition
	if col.Type != nil {
		d = *col.Type
	}
	out := storageapi.Column{Name: col.Name, BaseType: col.base()}
	d.Type = cmp.Or(d.Type, out.BaseType)
	if d.Nullable == nil {
		nullable := !slices.Contains(t.PrimaryKey, col.Name)
		d.Nullable = &nullable
	}
	out.Definition = storageapi.Some(d)
	return out
}

func (c *request) tableBucket(tx *txn, t table) *storageapi.Bucket {
	var b bucket
	tx.get(bucketKey(t.Branch, bucketOf(t.ID)), &b)
	answer, _ := c.bucketAnswer(tx, b)
	return &answer
}

// fullTable adds the bucket and the notes.
func (c *request) fullTable(tx *txn, t table) storageapi.Table {
	out := c.tableAnswer(t)
	out.Bucket = c.tableBucket(tx, t)
	c.addNotes(tx, t, &out, true, true)
	return out
}

func (c *request) getTable(tx *txn) (any, error) {
	t, err := c.pathTable(tx, false)
	if err != nil {
		return nil, err
	}
	return c.fullTable(tx, t), nil
}

// listTables returns all tables, or the tables of the bucket in the path, with the requested parts.
func (c *request) listTables(tx *txn) (any, error) {
	prefix := key("table", c.branch, "")
	if id := c.r.PathValue("bucket"); id != "" {
		b, err := c.findBucket(tx, id)
		if err != nil {
			return nil, err
		}
		prefix = key("table", c.branch, b.ID+".")
	}
	list := []map[string]any{}
	buckets := make(map[string]*storageapi.Bucket)
	for t := range each[table](tx, prefix, false) {
		if c.token.mayRead(bucketOf(t.ID)) {
			list = append(list, c.listedTable(tx, t, buckets))
		}
	}
	return list, nil
}

// listedTable is a table in a list. Each bucket is described once, in buckets.
func (c *request) listedTable(tx *txn, t table, buckets map[string]*storageapi.Bucket) map[string]any {
	out := c.tableAnswer(t)
	absent := []string{"definition"}
	if !c.includes("columns") {
		absent = append(absent, "columns")
	}
	if c.includes("buckets") {
		id := bucketOf(t.ID)
		if buckets[id] == nil {
			buckets[id] = c.tableBucket(tx, t)
		}
		out.Bucket = buckets[id]
	}
	c.addNotes(tx, t, &out, c.includes("metadata"), c.includes("columnMetadata"))
	return tx.without(out, absent...)
}

type tableParams struct {
	Table       string             `json:"tableId"`
	DisplayName *string            `json:"displayName,omitempty"`
	Column      *storageapi.Column `json:"column,omitempty"`
	Columns     []string           `json:"columns,omitempty"`
}

func (c *request) updateTable() (any, error) {
	in := c.input(tableCode)
	p := tableParams{DisplayName: in.text("displayName")}
	if p.DisplayName != nil && (!validName.MatchString(*p.DisplayName) || strings.HasPrefix(*p.DisplayName, "_")) {
		in.fail("displayName", "want 1 to 96 letters, digits, dashes and underscores, of which no underscore is the first")
	}
	t, err := c.writableTable()
	if err != nil {
		return nil, err
	}
	p.Table = t.ID
	return c.perform(c.tableSpec("tableUpdate", t.ID, p))
}

// tableUpdateJob locks the bucket, because names are unique in it, and then the table.
func (s *Server) tableUpdateJob(run *jobRun, p tableParams) error {
	c := run.request()
	defer s.store.locks.Hold(bucketLock(c.branch, bucketOf(p.Table)))()
	return run.finish(tableLock(c.branch, p.Table), func(tx *txn) (any, error) {
		t, err := getTable(tx, c.branch, p.Table)
		if err != nil {
			return nil, err
		}
		if p.DisplayName != nil {
			if err := checkTableFree(tx, c.branch, bucketOf(t.ID), *p.DisplayName, t.ID); err != nil {
				return nil, err
			}
			t.DisplayName = *p.DisplayName
			putTable(tx, t)
		}
		return c.fullTable(tx, t), nil
	})
}

func (c *request) deleteTable() (any, error) {
	c.queryFlag("force")
	t, err := c.writableTable()
	if err != nil {
		return nil, err
	}
	return c.perform(c.tableSpec("tableDrop", t.ID, tableParams{Table: t.ID}))
}

func (s *Server) tableDropJob(run *jobRun, p tableParams) error {
	var t table
	err := run.finish(tableLock(run.record.Branch, p.Table), func(tx *txn) (_ any, err error) {
		if t, err = getTable(tx, run.record.Branch, p.Table); err != nil {
			return nil, err
		}
		dropTable(tx, run.record.Branch, t)
		return nil, nil
	})
	if err == nil {
		s.parts.dropTables([]table{t})
	}
	return err
}
