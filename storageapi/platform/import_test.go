package platform_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"mime/multipart"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/forebay/forebay/storageapi"
)

func importCSV(w *world, ctx context.Context, table string, in storageapi.Import, name, data string) error {
	in.FileID = w.upload(name, data)
	_, err := w.ImportFile(ctx, table, in)
	return err
}

func TestImport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	w.table(ctx, "in.c-i.t", nil, "a", "b")
	rows := func() string {
		return strings.TrimPrefix(w.preview("in.c-i.t", storageapi.RowQuery{}), "\"a\",\"b\"\n")
	}

	check(t, importCSV(w, ctx, "in.c-i.t", storageapi.Import{}, "f", "b,a\r\n\"x\"\"y\r\nz\",1\r\n,2"))
	if got, want := rows(), "\"1\",\"x\"\"y\r\nz\"\n\"2\",\"\"\n"; got != want {
		t.Errorf("rows %q, want %q", got, want)
	}
	check(t, importCSV(w, ctx, "in.c-i.t", storageapi.Import{Incremental: true, WithoutHeaders: true}, "f", "3,c\n"))
	check(t, importCSV(w, ctx, "in.c-i.t", storageapi.Import{Incremental: true, WithoutHeaders: true, Columns: []string{"b", "a"}}, "f", "d,4\n"))
	check(t, importCSV(w, ctx, "in.c-i.t", storageapi.Import{Incremental: true, Delimiter: ";", Enclosure: "'", IgnoredLines: 1}, "f", "skipped\na;b\n'5';e\n"))
	if got := rows(); !strings.HasSuffix(got, "\"3\",\"c\"\n\"4\",\"d\"\n\"5\",\"e\"\n") {
		t.Errorf("rows %q", got)
	}
	table := must(w.Table(ctx, "in.c-i.t"))(t)
	if table.RowsCount != 5 || table.LastImportDate.IsZero() || table.DataSizeBytes == 0 {
		t.Errorf("table %+v", table)
	}

	var zipped strings.Builder
	zw := gzip.NewWriter(&zipped)
	io.WriteString(zw, "a,b\n6,f\n")
	check(t, zw.Close())
	check(t, importCSV(w, ctx, "in.c-i.t", storageapi.Import{}, "f.gz", zipped.String()))
	if got := rows(); got != "\"6\",\"f\"\n" {
		t.Errorf("rows after a full load %q", got)
	}

	// What cannot be imported leaves the table as it was.
	for name, c := range map[string]struct {
		in   storageapi.Import
		file string
		data string
		code string
	}{
		"column missing":    {storageapi.Import{}, "f", "a\n1\n", "csvImport.columnsNotMatch"},
		"other case":        {storageapi.Import{}, "f", "A,b\n1,2\n", "csvImport.columnsNotMatch"},
		"empty file":        {storageapi.Import{}, "f", "", "csvImport.columnsNotMatch"},
		"ragged":            {storageapi.Import{}, "f", "a,b\n1,2\n3\n", "csvImport.loadError"},
		"open quote":        {storageapi.Import{}, "f", "a,b\n\"1,2\n", "csvImport.loadError"},
		"text after a cell": {storageapi.Import{}, "f", "a,b\n\"1\"x,2\n", "csvImport.loadError"},
		"no gzip":           {storageapi.Import{}, "f.gz", "a,b\n1,2\n", "csvImport.loadError"},
		"cut gzip":          {storageapi.Import{}, "f.gz", zipped.String()[:zipped.Len()-3], "csvImport.loadError"},
		"twice":             {storageapi.Import{}, "f", "a,b,b\n1,2,3\n", "csvImport.duplicateColumns"},
	} {
		err := importCSV(w, ctx, "in.c-i.t", c.in, c.file, c.data)
		var job *storageapi.JobError
		if !errors.As(err, &job) || job.Code() != c.code || job.Job.Error.ExceptionID == "" {
			t.Errorf("%s: got %v, want a job that fails with %s", name, err, c.code)
		}
		if got := rows(); got != "\"6\",\"f\"\n" {
			t.Errorf("%s: rows %q, want \"\\\"6\\\",\\\"f\\\"\\n\"", name, got)
		}
	}
	f := must(w.PrepareFile(ctx, storageapi.FilePrepare{Name: "never"}))(t)
	_, err := w.ImportFile(ctx, "in.c-i.t", storageapi.Import{FileID: f.ID})
	var job *storageapi.JobError
	if !errors.As(err, &job) || job.Code() != "storage.fileNotUploaded" {
		t.Errorf("file without bytes: %v", err)
	}
	_, err = w.StartImport(ctx, "in.c-i.t", storageapi.Import{FileID: 1})
	expectError(t, err, 404, "storage.files.notFound")
	_, err = w.StartImport(ctx, "in.c-i.t", storageapi.Import{FileID: f.ID, Delimiter: "ab"})
	expectError(t, err, 400, "invalidCsv")

	// A column more in a table without types.
	check(t, importCSV(w, ctx, "in.c-i.t", storageapi.Import{Incremental: true}, "f", "c,a,b\nnew,7,g\n"))
	if got := must(w.Table(ctx, "in.c-i.t"))(t).Columns; !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("columns %v", got)
	}
	if got, want := w.preview("in.c-i.t", storageapi.RowQuery{}), "\"a\",\"b\",\"c\"\n\"6\",\"f\",\"\"\n\"7\",\"g\",\"new\"\n"; got != want {
		t.Errorf("rows %q, want %q", got, want)
	}
}

func TestSlicedFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	w.table(ctx, "in.c-s.t", nil, "a", "b")
	f := must(w.UploadSliced(ctx, storageapi.FilePrepare{Name: "sliced"}))(t)
	for name, data := range map[string]string{"one": "1,x\n2,y\n", "dir/two": "3,z\n", "unnamed": "9,9\n"} {
		check(t, f.Put(ctx, name, storageapi.BytesSource([]byte(data))))
	}
	err := func() error {
		_, err := w.ImportFile(ctx, "in.c-s.t", storageapi.Import{FileID: f.ID(), WithoutHeaders: true})
		return err
	}()
	var job *storageapi.JobError
	if !errors.As(err, &job) || job.Code() != "storage.fileNotUploaded" {
		t.Errorf("import without a manifest: %v", err)
	}
	check(t, f.Commit(ctx, "one", "dir/two"))
	if names := must(must(w.Download(ctx, f.ID()))(t).Slices(ctx))(t); !slices.Equal(names, []string{"one", "dir/two"}) {
		t.Errorf("slices %q", names)
	}
	result := must(w.ImportFile(ctx, "in.c-s.t", storageapi.Import{FileID: f.ID(), Columns: []string{"a", "b"}, WithoutHeaders: true, Incremental: true}))(t)
	if result.ImportedRowsCount != 3 || !slices.Equal(result.ImportedColumns, []string{"a", "b"}) {
		t.Errorf("result %+v", result)
	}
	if got, want := w.preview("in.c-s.t", storageapi.RowQuery{}), "\"a\",\"b\"\n\"1\",\"x\"\n\"2\",\"y\"\n\"3\",\"z\"\n"; got != want {
		t.Errorf("rows %q, want %q", got, want)
	}
	_, err = w.ImportFile(ctx, "in.c-s.t", storageapi.Import{FileID: f.ID()})
	if !errors.As(err, &job) || job.Code() != "csvImport.columnsNotMatch" {
		t.Errorf("sliced file without columns: %v", err)
	}
	if err := f.Put(ctx, "manifest", storageapi.BytesSource(nil)); err == nil {
		t.Error("a slice could be named manifest")
	}
}

// A manifest that is no JSON, or that names a slice that is not in its file, is the sender's mistake.
func TestWrongManifest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	w.table(ctx, "in.c-m.t", nil, "a")
	for _, manifest := range []string{`{`, `{"entries":[{"url":"azure://elsewhere.example/x/1manifest"}]}`} {
		f := must(w.PrepareFile(ctx, storageapi.FilePrepare{Name: "m", IsSliced: true}))(t)
		if a := w.raw("PUT", uploadPath(w, f, "manifest"), "", manifest); a.status != 201 {
			t.Fatalf("manifest: %d %s", a.status, a.body)
		}
		_, err := w.ImportFile(ctx, "in.c-m.t", storageapi.Import{FileID: f.ID, Columns: []string{"a"}, WithoutHeaders: true})
		var job *storageapi.JobError
		if !errors.As(err, &job) || job.Code() != "storage.files.invalidManifest" {
			t.Errorf("manifest %s: %v", manifest, err)
		}
	}
}

func TestPrimaryKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	w.table(ctx, "in.c-k.t", []string{"id"}, "id", "v")
	load := func(incremental bool, data string) {
		t.Helper()
		check(t, importCSV(w, ctx, "in.c-k.t", storageapi.Import{Incremental: incremental}, "f", "id,v\n"+data))
	}
	sorted := storageapi.RowQuery{OrderBy: []storageapi.Order{{Column: "id"}}}
	expect := func(want string) {
		t.Helper()
		if got := w.preview("in.c-k.t", sorted); got != "\"id\",\"v\"\n"+want {
			t.Errorf("rows %q, want %q", got, want)
		}
		if n := int64(strings.Count(want, "\n")); must(w.Table(ctx, "in.c-k.t"))(t).RowsCount != n {
			t.Errorf("RowsCount is not %d", n)
		}
	}
	load(false, "1,a\n2,b\n1,c\n")
	expect("\"1\",\"c\"\n\"2\",\"b\"\n")
	load(true, "2,d\n3,e\n")
	expect("\"1\",\"c\"\n\"2\",\"d\"\n\"3\",\"e\"\n")
	load(false, "9,z\n")
	expect("\"9\",\"z\"\n")

	check(t, w.DropPrimaryKey(ctx, "in.c-k.t"))
	check(t, w.DropPrimaryKey(ctx, "in.c-k.t"))
	load(true, "9,y\n")
	err := w.SetPrimaryKey(ctx, "in.c-k.t", "id")
	var job *storageapi.JobError
	if !errors.As(err, &job) || job.Code() != "storage.tables.primaryKeyDuplicateValues" {
		t.Errorf("key over rows that agree: %v", err)
	}
	check(t, w.SetPrimaryKey(ctx, "in.c-k.t", "id", "v"))
	expectError(t, w.SetPrimaryKey(ctx, "in.c-k.t", "v"), 400, "storage.validation.primaryKey")
	expectError(t, w.DeleteColumn(ctx, "in.c-k.t", "v"), 400, "storage.tables.cannotDeletePrimaryKeyColumn")
}

// Files of all the forms that programs write.
func TestFormsOfFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	w.table(ctx, "in.c-i.t", nil, "a", "b")
	zip := func(members ...string) string {
		var b strings.Builder
		for _, m := range members {
			zw := gzip.NewWriter(&b)
			io.WriteString(zw, m)
			check(t, zw.Close())
		}
		return b.String()
	}
	for name, c := range map[string]struct {
		in   storageapi.Import
		file string
		data string
		want string
	}{
		"byte order mark":        {storageapi.Import{}, "f", "\ufeff\"a\",b\n1,2\n", "\"1\",\"2\"\n"},
		"mark, header ignored":   {storageapi.Import{IgnoredLines: 1, Columns: []string{"a", "b"}}, "f", "\ufeffx,y\n1,2\n", "\"1\",\"2\"\n"},
		"long line ignored":      {storageapi.Import{IgnoredLines: 2}, "f", strings.Repeat("x", 200_000) + "\n\na,b\n1,2\n", "\"1\",\"2\"\n"},
		"more lines than exist":  {storageapi.Import{IgnoredLines: math.MaxInt32, Columns: []string{"a", "b"}}, "f", "1,2\n", ""},
		"members of gzip":        {storageapi.Import{}, "f.csv.gz", zip("a,b\n1,", "2\n", "", "3,4"), "\"1\",\"2\"\n\"3\",\"4\"\n"},
		"escaped":                {storageapi.Import{EscapedBy: "\\"}, "f", "a,b\nx\\,y,\\\\\n", "\"x,y\",\"\\\"\n"},
		"tabs, no enclosure":     {storageapi.Import{Delimiter: "\t"}, "f", "a\tb\n\"1\t\"\t2\n", "\"1\t\",\"2\"\n"},
		"header alone":           {storageapi.Import{}, "f", "a,b", ""},
		"nothing, with columns":  {storageapi.Import{Columns: []string{"a", "b"}}, "f", "", ""},
		"nothing at all in gzip": {storageapi.Import{WithoutHeaders: true}, "f.gz", "", ""},
		"blank lines":            {storageapi.Import{}, "f", "\n\r\na,b\n\n1,2\r\n\r\n", "\"1\",\"2\"\n"},
	} {
		check(t, importCSV(w, ctx, "in.c-i.t", storageapi.Import{}, "f", "a,b\nold,row\n"))
		if err := importCSV(w, ctx, "in.c-i.t", c.in, c.file, c.data); err != nil {
			t.Errorf("%s: got %v, want no error", name, err)
		}
		if got := w.preview("in.c-i.t", storageapi.RowQuery{}); got != "\"a\",\"b\"\n"+c.want {
			t.Errorf("%s: rows %q, want %q", name, got, c.want)
		}
	}
	var job *storageapi.JobError
	err := importCSV(w, ctx, "in.c-i.t", storageapi.Import{}, "f", "a,b,A\n1,2,3\n")
	if !errors.As(err, &job) || job.Code() != "storage.tables.columnAlreadyExists" {
		t.Errorf("a column that differs in case alone: %v", err)
	}
}

// An import that is refused leaves no files, and neither does a table that is not made.
func TestRefusedImportLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	w.table(ctx, "in.c-i.t", []string{"a"}, "a", "b")
	check(t, importCSV(w, ctx, "in.c-i.t", storageapi.Import{}, "f", "a,b\n1,2\n"))
	before := filesBelow(t, w.dir+"/tables")
	for range 3 {
		if importCSV(w, ctx, "in.c-i.t", storageapi.Import{Incremental: true}, "f", "a,b\n1,2\n3\n") == nil {
			t.Error("a ragged file was imported")
		}
		if _, err := w.CreateTableFromFile(ctx, "in.c-i", storageapi.TableFromFile{Name: "made", FileID: w.upload("f", "a,b\n1\n")}); err == nil {
			t.Error("a table was made of a ragged file")
		}
	}
	if after := filesBelow(t, w.dir+"/tables"); !slices.Equal(after, before) {
		t.Errorf("files %q, before %q", after, before)
	}
	check(t, w.DeleteBucket(ctx, "in.c-i", true))
	check(t, w.server.Close())                                 // the files go after the job has ended, which is waited for
	if left := filesBelow(t, w.dir+"/tables"); len(left) > 1 { // the folder itself
		t.Errorf("files %q are left of a bucket that is gone", left)
	}
}

func filesBelow(t *testing.T, dir string) (list []string) {
	t.Helper()
	check(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		list = append(list, path)
		return err
	}))
	return list
}

// Imports into one table at once come one after the other, each as a whole.
func TestImportsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	w.table(ctx, "in.c-i.t", []string{"id"}, "id", "by")
	w.table(ctx, "in.c-i.plain", nil, "id", "by")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			var rows strings.Builder
			rows.WriteString("id,by\n")
			for id := range 50 {
				fmt.Fprintf(&rows, "%d,%d\n", id, i)
			}
			f, err := w.Upload(ctx, storageapi.FilePrepare{Name: "f"}, storageapi.BytesSource([]byte(rows.String())))
			for _, table := range []string{"in.c-i.t", "in.c-i.plain"} {
				if err == nil {
					_, err = w.ImportFile(ctx, table, storageapi.Import{FileID: f.ID, Incremental: true})
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	by := make(map[string]int)
	for _, row := range must(w.PreviewJSON(ctx, "in.c-i.t", storageapi.RowQuery{Limit: 1000}))(t).Rows {
		by[*row[1].Value]++
	}
	if len(by) != 1 || must(w.Table(ctx, "in.c-i.t"))(t).RowsCount != 50 {
		t.Errorf("with a key the rows are %v, want all 50 of the last import", by)
	}
	if n := must(w.Table(ctx, "in.c-i.plain"))(t).RowsCount; n != 400 {
		t.Errorf("without a key there are %d rows, want 400", n)
	}
}

// Old clients send the CSV in the body of the import itself.
func TestImportOfBody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	must(w.CreateBucket(ctx, storageapi.BucketCreate{Name: "b"}))(t)
	multi := func(fields map[string]string, file, data string) (kind, body string) {
		var b strings.Builder
		m := multipart.NewWriter(&b)
		for name, value := range fields {
			check(t, m.WriteField(name, value))
		}
		if file != "" {
			part := must(m.CreateFormFile("data", file))(t)
			io.WriteString(part, data)
		}
		check(t, m.Close())
		return m.FormDataContentType(), b.String()
	}
	const tables, table = "/v2/storage/buckets/in.c-b/tables", "/v2/storage/branch/default/tables/in.c-b.t"
	kind, body := multi(map[string]string{"name": "t", "primaryKey": "id"}, "f.csv", "id,v\n1,a\n2,b\n")
	a := w.raw("POST", tables, kind, body)
	if made := a.decode(t); a.status != 201 || made["id"] != "in.c-b.t" || made["rowsCount"] != 2.0 || made["bucket"] == nil {
		t.Fatalf("create: %d %s", a.status, a.body)
	}
	kind, body = multi(map[string]string{"incremental": "1", "delimiter": ";", "columns[0]": "v", "columns[1]": "id"}, "f.csv", "c;2\nd;3\n")
	if a = w.raw("POST", table+"/import", kind, body); a.status != 200 || a.decode(t)["importedColumns"] == nil {
		t.Fatalf("import: %d %s", a.status, a.body)
	}
	if got, want := w.preview("in.c-b.t", storageapi.RowQuery{OrderBy: []storageapi.Order{{Column: "id"}}}), "\"id\",\"v\"\n\"1\",\"a\"\n\"2\",\"c\"\n\"3\",\"d\"\n"; got != want {
		t.Errorf("rows %q, want %q", got, want)
	}
	var zipped strings.Builder
	zw := gzip.NewWriter(&zipped)
	io.WriteString(zw, "id,v\n9,z\n")
	check(t, zw.Close())
	kind, body = multi(nil, "f.csv.gz", zipped.String())
	if a = w.raw("POST", table+"/import", kind, body); a.status != 200 {
		t.Errorf("gzip: %d %s", a.status, a.body)
	}
	if a = w.raw("POST", table+"/import", formType, url.Values{"dataString": {"id,v\n7,y\n"}, "incremental": {"1"}}.Encode()); a.status != 200 {
		t.Errorf("text: %d %s", a.status, a.body)
	}
	if a = w.raw("POST", table+"/import", jsonType, fmt.Sprintf(`{"dataFileId":%d,"incremental":true}`, w.upload("f", "id,v\n8,x\n"))); a.status != 200 {
		t.Errorf("file: %d %s", a.status, a.body)
	}
	if n := must(w.Table(ctx, "in.c-b.t"))(t).RowsCount; n != 3 {
		t.Errorf("got %d rows, want 3", n)
	}

	reader := must(w.CreateToken(ctx, storageapi.TokenCreate{BucketPermissions: map[string]string{"in.c-b": "read"}}))(t)
	ragged, raggedBody := multi(nil, "f", "id,v\n1\n")
	empty, emptyBody := multi(map[string]string{"name": "u"}, "f", "")
	twice, twiceBody := multi(map[string]string{"data": "id,v\n1,2\n"}, "f", "id,v\n")
	for name, c := range map[string]struct {
		path, kind, body string
		status           int
		code             string
		header           []string
	}{
		"ragged":        {table + "/import", ragged, raggedBody, 400, "csvImport.loadError", nil},
		"no bytes":      {table + "/import", formType, "incremental=1", 400, "storage.tables.validation", nil},
		"bad option":    {table + "/import", formType, "data=a&delimiter=xx", 400, "invalidCsv", nil},
		"cut off":       {table + "/import", ragged, raggedBody[:len(raggedBody)-8], 400, "validation.body", nil},
		"no boundary":   {table + "/import", "multipart/form-data", raggedBody, 400, "validation.body", nil},
		"two files":     {table + "/import", twice, twiceBody, 400, "validation.body", nil},
		"only reading":  {table + "/import", ragged, raggedBody, 403, "accessDenied", []string{storageapi.TokenHeader, string(reader.Token)}},
		"no table":      {"/v2/storage/tables/in.c-b.none/import", ragged, raggedBody, 404, "storage.tables.notFound", nil},
		"no header":     {tables, empty, emptyBody, 400, "storage.tables.validation.noColumns", nil},
		"no name":       {tables, ragged, raggedBody, 400, "storage.tables.validation", nil},
		"no right":      {tables, empty, emptyBody, 403, "accessDenied", []string{storageapi.TokenHeader, string(reader.Token)}},
		"no bucket":     {"/v2/storage/buckets/in.c-none/tables", empty, emptyBody, 404, "storage.buckets.notFound", nil},
		"name is taken": {tables, formType, "name=t&data=a", 400, "storage.buckets.tableAlreadyExists", nil},
	} {
		a := w.raw("POST", c.path, c.kind, c.body, c.header...)
		if a.status != c.status || !strings.Contains(string(a.body), `"code":"`+c.code+`"`) {
			t.Errorf("%s: got %d %s, want %d %s", name, a.status, a.body, c.status, c.code)
		}
	}
	if files := must(storageapi.Collect(w.Files(ctx, storageapi.FileQuery{})))(t); len(files) != 1 {
		t.Errorf("%d files are left, want the one that was uploaded before", len(files))
	}
	if left := filesBelow(t, w.dir+"/files"); len(left) != 3 {
		t.Errorf("files %q are left", left)
	}
}
