package platform

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/forebay/forebay/storageapi"
)

// importParams are the parameters of an import, as they stand in its job.
type importParams struct {
	Table  string       `json:"tableId"`
	Source importSource `json:"source"`
	Params importHow    `json:"params"`
	// New is the table to create, if there is none yet.
	New *definition `json:"new,omitempty"`
	// Part is the id of the rows, which is chosen before the job runs.
	Part int64 `json:"part"`
}

type importSource struct {
	Type   string `json:"type"`
	FileID int64  `json:"fileId"`
}

type importHow struct {
	Incremental    bool     `json:"incremental"`
	WithoutHeaders bool     `json:"withoutHeaders"`
	Columns        []string `json:"columns"`
	IgnoredLines   int      `json:"ignoredLinesCount"`
	Delimiter      string   `json:"delimiter"`
	Enclosure      string   `json:"enclosure"`
	EscapedBy      string   `json:"escapedBy"`
	KeepExisting   bool     `json:"keepExisting,omitempty"`
	// Null is the text that stands for no value, which is an empty cell. Nil means none.
	Null *string `json:"treatValueAsNull,omitempty"`
}

func (h importHow) format() csvFormat {
	one := func(s string) byte {
		if s == "" {
			return 0
		}
		return s[0]
	}
	return csvFormat{one(h.Delimiter), one(h.Enclosure), one(h.EscapedBy)}
}

func (f csvFormat) texts() (delimiter, enclosure, escape string) {
	text := func(b byte) string {
		if b == 0 {
			return ""
		}
		return string(rune(b))
	}
	return text(f.delimiter), text(f.quote), text(f.escape)
}

func (s *Server) tableDataRoutes() []route {
	return []route{
		{method: "POST", path: "/tables/{table}/import-async", summary: "Import a file", branch: optionalBranch, body: "dataFileId! " + importBody, status: http.StatusAccepted, result: storageapi.Job{}, run: (*request).importFile},
		{method: "POST", path: "/tables/{table}/import", summary: "Import the bytes of the body and wait; deprecated", branch: optionalBranch, body: "data dataString dataFileId " + importBody, result: importShape{}, run: (*request).importBody},
		{method: "POST", path: "/buckets/{bucket}/tables", summary: "Create a table from the bytes of the body and wait; deprecated", branch: optionalBranch, body: tableBody + " data dataString dataFileId", status: http.StatusCreated, result: storageapi.Table{}, run: (*request).createTableOfBody},
		{method: "GET", path: "/tables/{table}/data-preview", summary: "First rows of a table", branch: optionalBranch, query: selectionQuery + " format", result: text(""), run: (*request).preview},
		{method: "POST", path: "/tables/{table}/export-async", summary: "Export a table to a file", branch: optionalBranch, body: selectionQuery + " format gzip fileType", status: http.StatusAccepted, result: storageapi.Job{}, run: (*request).exportTable},
		{method: "DELETE", path: "/tables/{table}/rows", summary: "Delete rows", branch: optionalBranch, query: selectionQuery + " allowTruncate", status: http.StatusAccepted, result: storageapi.Job{}, run: (*request).deleteRows},
	}
}

// dataFile reads and checks the field dataFileId.
func (c *request) dataFile(in *input) (int64, error) {
	id := in.integer("dataFileId")
	if id == nil {
		in.fail("dataFileId", "This value should not be blank.")
		return 0, nil
	}
	return *id, c.s.store.view(func(tx *txn) error {
		_, err := c.findFile(tx, *id)
		return err
	})
}

func (c *request) importFile() (any, error) {
	t, err := c.writableTable()
	if err != nil {
		return nil, err
	}
	spec, err := c.importSpec(c.input(tableCode), t, c.dataFile)
	if err != nil {
		return nil, err
	}
	return c.startJob(spec)
}

// importSpec reads the parameters of an import into a table. file finds the file after the other fields were read.
func (c *request) importSpec(in *input, t table, file func(in *input) (int64, error)) (spec jobSpec, err error) {
	p := importParams{Table: t.ID, Source: importSource{Type: "file"}}
	h := &p.Params
	h.Incremental, h.WithoutHeaders = in.flagOr("incremental", false), in.flagOr("withoutHeaders", false)
	h.Columns, _ = in.texts("columns")
	if n := in.integer("ignoredLinesCount"); n != nil && *n > 0 {
		h.IgnoredLines, h.WithoutHeaders = int(*n), false
	}
	h.Delimiter, h.Enclosure, h.EscapedBy = readFormat(in).texts()
	h.Null = new(string)
	if nulls, given := in.texts("treatValuesAsNull"); len(nulls) > 1 {
		in.fail("treatValuesAsNull", "want at most one value")
	} else if len(nulls) == 1 {
		h.Null = &nulls[0]
	} else if given {
		h.Null = nil
	}
	switch in.textOr("deduplicationStrategy", "upsert") {
	case "upsert":
	case "insert":
		h.KeepExisting = true
	default:
		in.fail("deduplicationStrategy", "want upsert or insert")
	}
	in.flag("useTimestampFromDataFile")
	if p.Source.FileID, err = file(in); err != nil {
		return spec, err
	}
	if err := c.fault(); err != nil {
		return spec, err
	}
	p.Part = c.newID()
	return c.tableSpec("tableImport", t.ID, p), nil
}

// createTable makes a table of a file, which needs a header.
func (c *request) createTable() (any, error) {
	spec, err := c.createSpec(c.input(tableCode), c.dataFile)
	if err != nil {
		return nil, err
	}
	return c.startJob(spec)
}

// createSpec reads the parameters of a table made of a file. file finds the file after the other fields were read.
func (c *request) createSpec(in *input, file func(in *input) (int64, error)) (spec jobSpec, err error) {
	p := importParams{Source: importSource{Type: "file"}, New: &definition{Bucket: c.r.PathValue("bucket"), Name: in.required("name")}}
	in.name("name", p.New.Name)
	if in.has("primaryKey") {
		if raw := in.fields["primaryKey"]; len(raw) > 0 && raw[0] == '[' {
			in.failCode(primaryKeyCode, "primaryKey", "want a string of names joined by commas")
		} else if text := in.textOr("primaryKey", ""); text != "" {
			for name := range strings.SplitSeq(text, ",") {
				p.New.PrimaryKey = append(p.New.PrimaryKey, strings.TrimSpace(name))
			}
		}
	}
	p.Params.Delimiter, p.Params.Enclosure, p.Params.EscapedBy = readFormat(in).texts()
	if p.Source.FileID, err = file(in); err != nil {
		return spec, err
	}
	if err := c.checkNewTable(p.New.Bucket, p.New.Name); err != nil {
		return spec, err
	}
	p.Table = p.New.Bucket + "." + p.New.Name
	p.Part, p.New.Incarnation = c.newID(), c.newID()
	return c.tableSpec("tableCreate", p.Table, p), nil
}

func (s *Server) openSource(run *jobRun, p importParams) (src *fileRows, err error) {
	f, err := viewed(s.store, func(tx *txn) (storedFile, error) { return run.request().findFile(tx, p.Source.FileID) })
	if err != nil {
		return nil, err
	}
	return s.openFileRows(run.ctx, f, p.Params.format(), p.Params.IgnoredLines)
}

// columnsNotMatch is the failure of an import with missing columns, or with unknown ones that cannot be added.
func columnsNotMatch(t table, got []string) error {
	var missing, unexpected []string
	for _, name := range t.names() {
		if !slices.Contains(got, name) {
			missing = append(missing, name)
		}
	}
	for _, name := range got {
		if t.find(name) < 0 {
			unexpected = append(unexpected, cut(strings.ToValidUTF8(name, "\ufffd"), 80))
		}
	}
	what := "Some columns are missing in the csv file. Missing columns: " + strings.Join(missing, ",") + "."
	if len(missing) == 0 && t.Typed {
		what = fmt.Sprintf("Some columns of the csv file are not in the table, which has types and does not grow. Unexpected columns: %q.", unexpected)
	} else if len(missing) == 0 {
		what = fmt.Sprintf("Some columns of the csv file are not in the table and cannot be added: want 1 to %d letters, digits, dashes and underscores. Unexpected columns: %q.", maxColumnName, unexpected)
	}
	e := refuse(http.StatusBadRequest, "csvImport.columnsNotMatch", "%s Expected columns: %s. Please check if the expected delimiter is used in the csv file.",
		what, strings.Join(t.names(), ","))
	e.results = map[string]any{"missingColumns": notNil(missing), "unexpectedColumns": notNil(unexpected), "expectedColumns": t.names()}
	return e
}

func (s *Server) tableImportJob(run *jobRun, p importParams) (err error) {
	src, err := s.openSource(run, p)
	if err != nil {
		return err
	}
	t, old, release, err := s.parts.acquire(s.store, run.record.Branch, p.Table)
	if err != nil {
		return err
	}
	defer release()

	// Which column does each cell of the file belong to?
	hasHeader := !p.Params.WithoutHeaders && len(p.Params.Columns) == 0
	names := p.Params.Columns
	switch {
	case hasHeader && src.file.Sliced:
		return columnsNotMatch(t, nil)
	case hasHeader:
		if names, err = src.header(); err != nil {
			return err
		}
	case len(names) == 0:
		names = t.names()
	}
	if slices.ContainsFunc(t.names(), func(name string) bool { return !slices.Contains(names, name) }) {
		return columnsNotMatch(t, names)
	}
	var added []column
	ids := make([]int64, len(names))
	for i, name := range names {
		at := t.find(name)
		if at < 0 {
			if t.Typed || !validColumn.MatchString(name) {
				return columnsNotMatch(t, names)
			}
			if err := checkColumnFree(t, name); err != nil {
				return err // it differs from another column in the case of letters alone
			}
			col, err := s.newColumn(storageapi.Column{Name: name})
			if err != nil {
				return err
			}
			added = append(added, col)
			t.Columns = append(t.Columns, col)
			at = len(t.Columns) - 1
		}
		if slices.Contains(ids, t.Columns[at].ID) {
			return refuse(http.StatusBadRequest, "csvImport.duplicateColumns", "The column %q is in the file twice", name)
		}
		ids[i] = t.Columns[at].ID
	}

	load := &loader{s: s, run: run, t: t, src: src, names: names, hasHeader: hasHeader, how: p.Params}
	if !p.Params.Incremental {
		load.replaced = old
	}
	defer func() { load.discard(p.Part, err) }()
	fresh, err := load.write(p.Part, ids, old)
	if err != nil {
		return err
	}
	run.record.Metrics = storageapi.JobMetrics{InCompressed: src.compressed(), InBytes: src.size, InBytesUncompressed: fresh.Bytes}
	err = run.finish(tableLock(t.Branch, t.ID), func(tx *txn) (any, error) {
		now, err := latest(tx, t)
		if err != nil {
			return nil, err
		}
		now.Columns = append(now.Columns, added...)
		load.commit(tx, &now, fresh)
		putTable(tx, now)
		return map[string]any{
			"importedColumns": names, "warnings": []string{}, "transaction": nil, "totalDataSizeBytes": now.Bytes, "importedRowsCount": load.rows,
		}, nil
	})
	if err == nil {
		s.parts.remove(t.Incarnation, load.replaced)
		s.mergeLater(t.Branch, t.ID)
	}
	return err
}

// tableCreateJob makes a table with the columns and rows of a file.
func (s *Server) tableCreateJob(run *jobRun, p importParams) (err error) {
	src, err := s.openSource(run, p)
	if err != nil {
		return err
	}
	if src.file.Sliced {
		return refuse(http.StatusBadRequest, tableCode+".noColumns", "A sliced file has no header")
	}
	names, err := src.header()
	if err != nil {
		return err
	}
	d := *p.New
	in := &input{code: tableCode}
	for i, name := range names {
		names[i] = cleanColumn(name)
		if names[i] == "" || len(names[i]) > maxColumnName || slices.ContainsFunc(names[:i], func(other string) bool { return strings.EqualFold(other, names[i]) }) {
			in.failCode(tableCode+".invalidColumnName", "columns", "%q is no name for a column, or is there twice", cut(name, 80))
		}
	}
	checkColumnCount(in, len(names), "the file has no header")
	checkKeyColumns(in, "primaryKey", d.PrimaryKey, func(name string) bool { return slices.Contains(names, name) })
	if err := in.err(); err != nil {
		return err
	}
	for _, name := range names {
		d.Columns = append(d.Columns, storageapi.Column{Name: name})
	}
	t, err := s.newTable(run.record.Branch, d)
	if err != nil {
		return err
	}
	load := &loader{s: s, run: run, t: t, src: src, names: names, hasHeader: true, how: p.Params}
	defer func() { load.discard(p.Part, err) }()
	fresh, err := load.write(p.Part, t.ids(), nil)
	if err != nil {
		return fmt.Errorf("create table: %w", err)
	}
	c := run.request()
	return run.finish(bucketLock(t.Branch, d.Bucket), func(tx *txn) (any, error) {
		load.commit(tx, &t, fresh)
		if err := insertTable(tx, t); err != nil {
			return nil, err
		}
		return c.fullTable(tx, t), nil
	})
}
