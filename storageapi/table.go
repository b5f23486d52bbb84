package storageapi

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Table is a table of a bucket.
type Table struct {
	// URI is the address of the table, without a branch.
	URI string `json:"uri"`
	// ID is "<stage>.<bucket>.<name>".
	ID string `json:"id"`
	// Name is the last part of ID, DisplayName is unique in the bucket.
	Name        string `json:"name"`
	DisplayName string `json:"displayName"`
	// PrimaryKey are the columns of the key, in order.
	PrimaryKey []string `json:"primaryKey"`
	// Created, LastImportDate and LastChangeDate are times, zero for what did not happen yet.
	Created        Time `json:"created"`
	LastImportDate Time `json:"lastImportDate"`
	LastChangeDate Time `json:"lastChangeDate"`
	// RowsCount and DataSizeBytes are the size.
	RowsCount     int64 `json:"rowsCount"`
	DataSizeBytes int64 `json:"dataSizeBytes"`
	// Columns are the names in order.
	Columns []string `json:"columns"`
	// IsAlias says that the table shows another table, IsAliasable that another table can show it.
	IsAlias     bool `json:"isAlias"`
	IsAliasable bool `json:"isAliasable"`
	// IsTyped says that columns have types. Otherwise every cell is text.
	IsTyped bool `json:"isTyped"`
	// TableType is "table" unless the backend has others.
	TableType string `json:"tableType"`
	// Path and Transactional are details of some backends.
	Path          string `json:"path"`
	Transactional bool   `json:"transactional"`
	// Bucket is given in the detail of a table, and in a list that includes it.
	Bucket *Bucket `json:"bucket,omitempty"`
	// Metadata and ColumnMetadata are notes.
	Metadata       []Metadata      `json:"metadata,omitzero"`
	ColumnMetadata Map[[]Metadata] `json:"columnMetadata,omitzero"`
	// Definition has the primary key and the columns. In a table without types the columns have names only. Some servers leave it
	// out for such a table, and lists of tables do not have it.
	Definition Optional[TableDefinition] `json:"definition"`
}

// TableDefinition has the types of a table's columns.
type TableDefinition struct {
	// PrimaryKeysNames are the columns of the key.
	PrimaryKeysNames []string `json:"primaryKeysNames"`
	// Columns have types, unless the table has none. Columns of the key may come first.
	Columns []Column `json:"columns"`
}

// Column is a column of a table.
type Column struct {
	// Name has at most 64 letters, digits, dashes and underscores.
	Name string `json:"name"`
	// BaseType is BOOLEAN, DATE, FLOAT, INTEGER, NUMERIC, STRING or TIMESTAMP; "" on all columns makes a table without
	// types.
	BaseType string `json:"basetype,omitempty"`
	// Definition is the type in the words of the backend.
	Definition Optional[ColumnDefinition] `json:"definition,omitzero"`
}

// ColumnDefinition is the type of a column in the words of the backend.
type ColumnDefinition struct {
	// Type and Length are the backend's.
	Type   string `json:"type"`
	Length string `json:"length,omitempty"`
	// Nullable is true by default, except for columns of the key.
	Nullable *bool `json:"nullable,omitempty"`
	// Default is the value of rows that have none.
	Default string `json:"default,omitempty"`
}

// tableInclude asks for columns with a list of tables.
var tableInclude = url.Values{"include": {"columns"}}

// Tables lists the tables that the token may read.
func (c *Client) Tables(ctx context.Context) iter.Seq2[Table, error] {
	return list[Table](ctx, c, request{path: c.scoped("tables"), query: tableInclude})
}

// Table reads a table with its columns.
func (c *Client) Table(ctx context.Context, id string) (*Table, error) {
	return fetch[Table](ctx, c, get(c.scoped("tables", id)))
}

// TableCreate describes a new table.
type TableCreate struct {
	// Name is required.
	Name string `json:"name"`
	// PrimaryKey are the columns of the key.
	PrimaryKey []string `json:"primaryKeysNames"`
	// Columns are required.
	Columns []Column `json:"columns"`
}

// TextColumns are columns without types.
func TextColumns(names ...string) []Column {
	columns := make([]Column, len(names))
	for i, name := range names {
		columns[i] = Column{Name: name}
	}
	return columns
}

// CreateTable makes a table from a definition and waits for it. ctx bounds the wait. A table of the name that is there
// already is a [*JobError] or an [*Error], see [IsAlreadyExists].
func (c *Client) CreateTable(ctx context.Context, bucket string, in TableCreate) (*Table, error) {
	if in.PrimaryKey == nil {
		in.PrimaryKey = []string{}
	}
	return fetchResults[Table](ctx, c, post(c.scoped("buckets", bucket, "tables-definition"), in))
}

// TableFromFile describes a new table whose columns are the header of a CSV file.
type TableFromFile struct {
	// Name is required.
	Name string
	// FileID is the file.
	FileID IntID
	// PrimaryKey are the columns of the key.
	PrimaryKey []string
	// Delimiter and Enclosure are a comma and a double quote by default.
	Delimiter, Enclosure string
}

// CreateTableFromFile makes a table with the columns and rows of a file and waits for it. ctx bounds the wait.
func (c *Client) CreateTableFromFile(ctx context.Context, bucket string, in TableFromFile) (*Table, error) {
	body := struct {
		Name       string `json:"name"`
		FileID     IntID  `json:"dataFileId"`
		PrimaryKey string `json:"primaryKey,omitempty"`
		Delimiter  string `json:"delimiter,omitempty"`
		Enclosure  string `json:"enclosure,omitempty"`
	}{in.Name, in.FileID, strings.Join(in.PrimaryKey, ","), in.Delimiter, in.Enclosure}
	return fetchResults[Table](ctx, c, post(c.scoped("buckets", bucket, "tables-async"), body))
}

// UpdateTable gives a table another display name.
func (c *Client) UpdateTable(ctx context.Context, id, displayName string) (*Table, error) {
	return fetch[Table](ctx, c, put(c.scoped("tables", id), map[string]string{"displayName": displayName}))
}

// DeleteTable deletes a table and waits for that. With force it deletes the tables that show it, too.
func (c *Client) DeleteTable(ctx context.Context, id string, force bool) error {
	return c.deleteByJob(ctx, request{path: c.scoped("tables", id)}, force)
}

// AddColumn adds a column to a table and waits for it.
func (c *Client) AddColumn(ctx context.Context, table string, column Column) error {
	return c.job(ctx, post(c.scoped("tables", table, "columns"), column), nil)
}

// DeleteColumn deletes a column of a table and waits for that.
func (c *Client) DeleteColumn(ctx context.Context, table, column string) error {
	return c.job(ctx, request{method: http.MethodDelete, path: c.scoped("tables", table, "columns", column)}, nil)
}

// SetPrimaryKey makes a key of columns and waits for it. Rows that agree in all of them make it fail.
func (c *Client) SetPrimaryKey(ctx context.Context, table string, columns ...string) error {
	r := post(c.scoped("tables", table, "primary-key"), map[string]any{"columns": columns})
	return c.job(ctx, r, nil)
}

// DropPrimaryKey takes the key away and waits for that. A table without one is a success.
func (c *Client) DropPrimaryKey(ctx context.Context, table string) error {
	return c.job(ctx, request{method: http.MethodDelete, path: c.scoped("tables", table, "primary-key")}, nil)
}

// DeleteRows deletes the rows that match all filters, every row if there is none, and waits for that.
func (c *Client) DeleteRows(ctx context.Context, table string, filters ...Filter) error {
	query := url.Values{}
	addFilters(query, filters)
	if len(filters) == 0 {
		query.Set("allowTruncate", "true")
	}
	return c.job(ctx, request{method: http.MethodDelete, path: c.scoped("tables", table, "rows"), query: query}, nil)
}

// Import says how a file gets into a table.
type Import struct {
	// FileID is the file.
	FileID IntID `json:"dataFileId"`
	// Incremental adds to the rows that are there. Otherwise they are replaced. With a primary key a row of the same
	// key is replaced.
	Incremental bool `json:"incremental"`
	// WithoutHeaders says that the file has no header. Its columns are then Columns, or the table's.
	WithoutHeaders bool     `json:"withoutHeaders,omitempty"`
	Columns        []string `json:"columns,omitempty"`
	// IgnoredLines are skipped at the beginning.
	IgnoredLines int `json:"ignoredLinesCount,omitempty"`
	// Delimiter and Enclosure are a comma and a double quote by default. EscapedBy excludes Enclosure.
	Delimiter string `json:"delimiter,omitempty"`
	Enclosure string `json:"enclosure,omitempty"`
	EscapedBy string `json:"escapedBy,omitempty"`
	// NullValues is text that stands for no value, at most one.
	NullValues []string `json:"treatValuesAsNull,omitempty"`
}

// ImportResult is the result of an import.
type ImportResult struct {
	// ImportedColumns are the columns of the file.
	ImportedColumns []string `json:"importedColumns"`
	// ImportedRowsCount may be absent.
	ImportedRowsCount int64 `json:"importedRowsCount"`
	// TotalDataSizeBytes is the size of the table.
	TotalDataSizeBytes int64 `json:"totalDataSizeBytes"`
	// Warnings are for people.
	Warnings []json.RawMessage `json:"warnings"`
}

// StartImport begins an import and returns its job without waiting. Nothing keeps a second call from importing the same
// file again, so store the job's id.
func (c *Client) StartImport(ctx context.Context, table string, in Import) (*Job, error) {
	return fetch[Job](ctx, c, post(c.scoped("tables", table, "import-async"), in))
}

// ImportFile imports a file into a table and waits for it. ctx bounds the wait.
func (c *Client) ImportFile(ctx context.Context, table string, in Import) (*ImportResult, error) {
	return fetchResults[ImportResult](ctx, c, post(c.scoped("tables", table, "import-async"), in))
}

// Filter selects rows by one column.
type Filter struct {
	// Column is the name.
	Column string `json:"column"`
	// Operator is "eq" or "ne" for any number of values, "gt", "ge", "lt" or "le" for one.
	Operator string `json:"operator"`
	// Values are compared as text unless DataType says otherwise.
	Values []string `json:"values"`
	// DataType is INTEGER, DOUBLE, BIGINT, REAL or DECIMAL for a comparison of numbers.
	DataType string `json:"dataType,omitempty"`
}

// Order sorts rows by one column.
type Order struct {
	// Column is the name.
	Column string `json:"column"`
	// Order is "ASC", the default, or "DESC".
	Order string `json:"order,omitempty"`
	// DataType is INTEGER, DOUBLE, BIGINT, REAL or DECIMAL for an order of numbers.
	DataType string `json:"dataType,omitempty"`
}

// RowQuery selects rows for a preview or an export. The zero value selects all columns and rows, within the limit of
// the call.
type RowQuery struct {
	// Limit is the greatest number of rows. The default of a preview is 100, its maximum 1000.
	Limit int
	// Columns are all by default.
	Columns []string
	// Filters must all match.
	Filters []Filter
	// OrderBy sorts. The first has most weight.
	OrderBy []Order
	// ChangedSince and ChangedUntil select rows by the time of their import, as seconds since 1970, the text of a time, or a
	// distance from now such as "-2 days".
	ChangedSince, ChangedUntil string
}

// addFields adds pairs of a field and a value below a prefix. Those without a value are left out.
func addFields(query url.Values, prefix string, pairs ...string) {
	for pair := range slices.Chunk(pairs, 2) {
		if pair[1] != "" {
			query.Set(prefix+pair[0], pair[1])
		}
	}
}

func addFilters(query url.Values, filters []Filter) {
	for i, f := range filters {
		prefix := "whereFilters[" + strconv.Itoa(i) + "]"
		addFields(query, prefix, "[column]", f.Column, "[operator]", f.Operator, "[dataType]", f.DataType)
		for j, v := range f.Values {
			query.Set(prefix+"[values]["+strconv.Itoa(j)+"]", v)
		}
	}
}

func (q RowQuery) values() url.Values {
	query := params("columns", strings.Join(q.Columns, ","), "changedSince", q.ChangedSince, "changedUntil", q.ChangedUntil)
	if q.Limit > 0 {
		query.Set("limit", strconv.Itoa(q.Limit))
	}
	addFilters(query, q.Filters)
	for i, o := range q.OrderBy {
		addFields(query, "orderBy["+strconv.Itoa(i)+"]", "[column]", o.Column, "[order]", o.Order, "[dataType]", o.DataType)
	}
	return query
}

// Preview returns rows of a table as CSV with a header, every field quoted. The caller closes the reader.
func (c *Client) Preview(ctx context.Context, table string, q RowQuery) (io.ReadCloser, error) {
	r := request{method: http.MethodGet, path: c.scoped("tables", table, "data-preview"), query: q.values(), header: http.Header{"Accept": {"text/csv"}}}
	return c.body(ctx, r)
}

// PreviewRows is a preview in JSON.
type PreviewRows struct {
	// Columns are the names.
	Columns []string `json:"columns"`
	// Rows are in the order of the query.
	Rows [][]PreviewCell `json:"rows"`
}

// PreviewCell is one cell of a preview.
type PreviewCell struct {
	// ColumnName is the column of the cell.
	ColumnName string `json:"columnName"`
	// Value is nil for a cell without a value.
	Value *string `json:"value"`
	// IsTruncated says that Value is only the beginning.
	IsTruncated bool `json:"isTruncated"`
}

// PreviewJSON returns rows of a table cell by cell.
func (c *Client) PreviewJSON(ctx context.Context, table string, q RowQuery) (*PreviewRows, error) {
	query := q.values()
	query.Set("format", "json")
	return fetch[PreviewRows](ctx, c, request{method: http.MethodGet, path: c.scoped("tables", table, "data-preview"), query: query})
}

// Export says how the rows of an export are written.
type Export struct {
	RowQuery
	// Gzip compresses the slices.
	Gzip bool
	// Format is [FormatCSV] by default.
	Format string
}

// Formats of an export.
const (
	FormatCSV  = "rfc"  // comma-separated values without a header
	FormatJSON = "json" // an object for each row, on a separate line
)

// ExportTable writes rows of a table to a sliced file of the project and waits for it. ctx bounds the wait. The slices have
// no header, [StoredFile.OpenSlices] reads them one after the other. The file lives two days. Some servers write files that are
// not sliced, with a header, so look at [File.IsSliced].
func (c *Client) ExportTable(ctx context.Context, table string, in Export) (IntID, error) {
	body := struct {
		Gzip         bool     `json:"gzip"`
		Format       string   `json:"format"`
		Limit        int      `json:"limit,omitempty"`
		Columns      string   `json:"columns,omitempty"`
		Filters      []Filter `json:"whereFilters,omitempty"`
		OrderBy      []Order  `json:"orderBy,omitempty"`
		ChangedSince string   `json:"changedSince,omitempty"`
		ChangedUntil string   `json:"changedUntil,omitempty"`
	}{in.Gzip, cmp.Or(in.Format, FormatCSV), max(in.Limit, 0), strings.Join(in.Columns, ","), in.Filters, in.OrderBy, in.ChangedSince, in.ChangedUntil}
	var out struct {
		File struct {
			ID IntID `json:"id"`
		} `json:"file"`
	}
	r := post(c.scoped("tables", table, "export-async"), body)
	if err := c.job(ctx, r, &out); err != nil {
		return 0, err
	}
	return out.File.ID, nil
}

// TableMetadata are the notes on a table and its columns.
type TableMetadata struct {
	// Metadata are those on the table.
	Metadata []Metadata `json:"metadata"`
	// ColumnsMetadata are those on columns, by name.
	ColumnsMetadata Map[[]Metadata] `json:"columnsMetadata"`
}

// ColumnNote is a note on a column before it has an id.
type ColumnNote struct {
	// ColumnName is the column.
	ColumnName string `json:"columnName"`
	// Key names the note, Value is its text.
	Key   string `json:"key"`
	Value string `json:"value"`
}

// TableMetadata lists the notes on a table.
func (c *Client) TableMetadata(ctx context.Context, table string) iter.Seq2[Metadata, error] {
	return list[Metadata](ctx, c, request{path: c.scoped("tables", table, "metadata")})
}

// SetTableMetadata sets notes on a table and its columns and returns all of them. A note of the same provider and key is
// replaced.
func (c *Client) SetTableMetadata(ctx context.Context, table, provider string, notes []KeyValue, columns ...ColumnNote) (*TableMetadata, error) {
	body := map[string]any{"provider": provider}
	if len(notes) > 0 {
		body["metadata"] = notes
	}
	if len(columns) > 0 {
		body["columnsMetadata"] = map[string]any{"columns": columns}
	}
	return fetch[TableMetadata](ctx, c, request{method: http.MethodPost, path: c.scoped("tables", table, "metadata"), body: body})
}
