package platform_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay/storageapi"
)

func TestTokens(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	self := must(w.VerifyToken(ctx))(t)
	if !self.IsMasterToken || self.Owner.ID != 1 || self.Organization == nil || self.Admin == nil || self.Token != "" {
		t.Errorf("master token %+v", self)
	}
	_, err := w.CreateToken(ctx, storageapi.TokenCreate{BucketPermissions: map[string]string{"in.c-x": "write"}})
	expectError(t, err, 400, "storage.tokens.invalidPermissions")
	w.table(ctx, "in.c-x.t", nil, "a")
	_, err = w.CreateToken(ctx, storageapi.TokenCreate{BucketPermissions: map[string]string{"in.c-x": "manage"}})
	expectError(t, err, 400, "storage.tokens.invalidPermissions")

	sink := must(w.CreateToken(ctx, storageapi.TokenCreate{
		Description: "[_internal] Stream Sink web/events", BucketPermissions: map[string]string{"in.c-x": "write"}, CanReadAllFileUploads: true,
	}))(t)
	if sink.Token == "" || sink.IsMasterToken || sink.BucketPermissions["in.c-x"] != "write" || !sink.CanReadAllFileUploads || sink.CreatorToken == nil {
		t.Errorf("created %+v", sink)
	}
	c := w.client(sink.Token)
	if v := must(c.VerifyToken(ctx))(t); v.ID != sink.ID || v.Token != "" {
		t.Errorf("verified %+v", v)
	}
	must(c.Table(ctx, "in.c-x.t"))(t)
	must(c.CreateTable(ctx, "in.c-x", storageapi.TableCreate{Name: "u", Columns: storageapi.TextColumns("a")}))(t)
	_, err = c.CreateBucket(ctx, storageapi.BucketCreate{Name: "y"})
	expectError(t, err, 403, "accessDenied")
	_, err = c.Bucket(ctx, "in.c-y")
	expectError(t, err, 403, "accessDenied")
	for _, err := range c.Configurations(ctx, component) {
		expectError(t, err, 403, "accessDenied")
	}
	if list := must(storageapi.Collect(c.Tokens(ctx)))(t); len(list) != 1 {
		t.Errorf("a token that may not manage tokens sees %d of them", len(list))
	}
	_, err = c.TokenDetail(ctx, self.ID)
	expectError(t, err, 403, "accessDenied")

	fresh := must(c.RefreshToken(ctx, sink.ID))(t)
	if fresh.Token == sink.Token {
		t.Error("the secret is the old one")
	}
	_, err = c.VerifyToken(ctx)
	expectError(t, err, 401, "storage.tokenInvalid")
	c = w.client(fresh.Token)
	text := "other"
	if u := must(w.UpdateToken(ctx, sink.ID, storageapi.TokenUpdate{Description: &text, BucketPermissions: map[string]string{"in.c-x": "read"}}))(t); u.Description != text {
		t.Errorf("updated %+v", u)
	}
	_, err = c.StartImport(ctx, "in.c-x.t", storageapi.Import{FileID: 1})
	expectError(t, err, 403, "accessDenied")

	// Without the right to manage tokens only a minimal one can be made.
	minimal := must(c.CreateToken(ctx, storageapi.TokenCreate{CanManageBuckets: true, ExpiresIn: 60}))(t)
	if minimal.CanManageBuckets || minimal.Expires.IsZero() || minimal.Description != "Created by other" {
		t.Errorf("minimal token %+v", minimal)
	}
	check(t, c.DeleteToken(ctx, sink.ID))
	_, err = c.VerifyToken(ctx)
	expectError(t, err, 401, "storage.tokenInvalid")
	expectError(t, w.DeleteToken(ctx, sink.ID), 404, "storage.tokens.notFound")
	expectError(t, w.DeleteToken(ctx, self.ID), 400, "storage.tokens.validation")
	expectError(t, w.ShareToken(ctx, minimal.ID, "a@example.com", "hello"), 501, "notImplemented")
}

// A token of another stack is one that nobody knows, and no text repeats it.
func TestTokenOfAnotherStack(t *testing.T) {
	here, there := newWorld(t), newWorld(t)
	foreign := must(there.CreateToken(t.Context(), storageapi.TokenCreate{Description: "d"}))(t)
	_, err := here.client(foreign.Token).VerifyToken(t.Context())
	expectError(t, err, 401, "storage.tokenInvalid")
	if !strings.Contains(err.Error(), "Invalid Token") || strings.Contains(err.Error(), string(foreign.Token)) {
		t.Errorf("text %q", err)
	}
	_, err = here.client("").VerifyToken(t.Context())
	expectError(t, err, 401, "")
	if !strings.Contains(err.Error(), "Access token must be set") {
		t.Errorf("text %q", err)
	}
	if !storageapi.IsUnauthorized(err) {
		t.Error("not IsUnauthorized")
	}
}

func TestBuckets(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	b := must(w.CreateBucket(ctx, storageapi.BucketCreate{Name: "main", Description: "d"}))(t)
	if b.ID != "in.c-main" || b.Name != "c-main" || b.DisplayName != "main" || b.Stage != "in" || b.Created.IsZero() {
		t.Errorf("bucket %+v", b)
	}
	_, err := w.CreateBucket(ctx, storageapi.BucketCreate{Name: "main"})
	expectError(t, err, 400, "storage.buckets.alreadyExists")
	if !storageapi.IsAlreadyExists(err) {
		t.Error("not IsAlreadyExists")
	}
	_, err = w.CreateBucket(ctx, storageapi.BucketCreate{Name: "bad name"})
	expectError(t, err, 400, "storage.buckets.validation")
	_, err = w.CreateBucket(ctx, storageapi.BucketCreate{Name: "x", Stage: "sys"})
	expectError(t, err, 400, "storage.buckets.validation")
	_, err = w.Bucket(ctx, "in.c-none")
	expectError(t, err, 404, "storage.buckets.notFound")
	if !strings.Contains(err.Error(), `The bucket "in.c-none" was not found in the project "1"`) {
		t.Errorf("text %q", err)
	}
	if b = must(w.UpdateBucket(ctx, b.ID, "shown"))(t); b.DisplayName != "shown" {
		t.Errorf("updated %+v", b)
	}
	_, err = w.CreateBucket(ctx, storageapi.BucketCreate{Name: "other", DisplayName: "shown"})
	expectError(t, err, 400, "storage.buckets.alreadyExists")

	w.table(ctx, "in.c-main.t", nil, "a")
	if b = must(w.Bucket(ctx, b.ID))(t); len(b.Tables) != 1 || b.Tables[0].ID != "in.c-main.t" {
		t.Errorf("detail %+v", b)
	}
	if list := must(storageapi.Collect(w.Buckets(ctx)))(t); len(list) != 1 {
		t.Errorf("list %+v", list)
	}
	if list := must(storageapi.Collect(w.BucketTables(ctx, b.ID)))(t); len(list) != 1 || !slices.Equal(list[0].Columns, []string{"a"}) {
		t.Errorf("tables %+v", list)
	}
	must(w.SetBucketMetadata(ctx, b.ID, "me", storageapi.KeyValue{Key: "k", Value: "v"}))(t)
	if list := must(storageapi.Collect(w.BucketMetadata(ctx, b.ID)))(t); len(list) != 1 || list[0].Provider != "me" {
		t.Errorf("metadata %+v", list)
	}
	err = w.DeleteBucket(ctx, b.ID, false)
	var job *storageapi.JobError
	if !errors.As(err, &job) || job.Code() != "buckets.deleteNotEmpty" {
		t.Errorf("deletion of a bucket with a table: %v", err)
	}
	check(t, w.DeleteBucket(ctx, b.ID, true))
	_, err = w.Table(ctx, "in.c-main.t")
	expectError(t, err, 404, "storage.tables.notFound")
}

func TestFiles(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	data := strings.Repeat("some bytes\n", 10_000)
	var steps []int64
	f := must(w.Upload(ctx, storageapi.FilePrepare{Name: "a.txt", Tags: []string{"x", "y", "x"}}, storageapi.Source{
		Size: int64(len(data)), Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(data)), nil },
		Progress: func(sent, size int64) { steps = append(steps, sent) },
	}))(t)
	if !slices.Equal(f.Tags, []string{"x", "y"}) || f.SizeBytes != int64(len(data)) || f.MaxAgeDays == nil || *f.MaxAgeDays != 15 {
		t.Errorf("file %+v", f)
	}
	if len(steps) == 0 || !slices.IsSorted(steps) || steps[len(steps)-1] != int64(len(data)) {
		t.Errorf("progress %v", steps)
	}
	if strings.Contains(fmt.Sprintf("%v %+v %#v", f, f, f), "sig=") {
		t.Error("a printed file shows the signature")
	}
	stored := must(w.Download(ctx, f.ID))(t)
	if got := w.read(must(stored.Open(ctx))(t)); got != data {
		t.Errorf("read %d bytes, want %d", len(got), len(data))
	}
	if got := w.read(must(w.FileContent(ctx, f.ID))(t)); got != data {
		t.Errorf("content has %d bytes, want %d", len(got), len(data))
	}
	u := must(url.Parse(string(f.URL)))(t)
	if a := w.raw("GET", u.RequestURI(), "", ""); a.status != 200 || string(a.body) != data {
		t.Errorf("the address of the file answers %d", a.status)
	}
	if a := w.raw("GET", strings.ReplaceAll(u.RequestURI(), "sig=", "sig=x"), "", ""); a.status != 403 {
		t.Errorf("a wrong signature answers %d", a.status)
	}
	if a := w.raw("PUT", u.RequestURI(), "", "other"); a.status != 403 {
		t.Errorf("writing with the right to read answers %d", a.status)
	}

	find := func(q storageapi.FileQuery) (ids []storageapi.IntID) {
		for f, err := range w.Files(ctx, q) {
			check(t, err)
			ids = append(ids, f.ID)
		}
		return ids
	}
	second := w.upload("b.csv", "a\n")
	for q, want := range map[string]struct {
		query storageapi.FileQuery
		ids   []storageapi.IntID
	}{
		"all":    {storageapi.FileQuery{}, []storageapi.IntID{second, f.ID}},
		"tag":    {storageapi.FileQuery{Tags: []string{"y", "z"}}, []storageapi.IntID{f.ID}},
		"name":   {storageapi.FileQuery{Search: "b.c"}, []storageapi.IntID{second}},
		"since":  {storageapi.FileQuery{SinceID: f.ID}, []storageapi.IntID{second}},
		"no tag": {storageapi.FileQuery{Tags: []string{"none"}}, nil},
	} {
		if got := find(want.query); !slices.Equal(got, want.ids) {
			t.Errorf("%s: files %v, want %v", q, got, want.ids)
		}
	}
	check(t, w.AddFileTag(ctx, second, "later"))
	check(t, w.AddFileTag(ctx, second, "later"))
	check(t, w.RemoveFileTag(ctx, f.ID, "x"))
	if got := find(storageapi.FileQuery{Tags: []string{"later", "x"}}); !slices.Equal(got, []storageapi.IntID{second}) {
		t.Errorf("after changes of the tags: %v", got)
	}
	if a := w.raw("GET", "/v2/storage/files?tags=x", "", ""); a.status != 400 {
		t.Errorf("tags that are no list: %d", a.status)
	}

	other := must(w.CreateToken(ctx, storageapi.TokenCreate{Description: "sees its own files"}))(t)
	_, err := w.client(other.Token).File(ctx, f.ID)
	expectError(t, err, 403, "accessDenied")

	// A record without bytes.
	empty := must(w.PrepareFile(ctx, storageapi.FilePrepare{Name: "never"}))(t)
	_, err = must(w.Download(ctx, empty.ID))(t).Open(ctx)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("bytes that were never uploaded: %v", err)
	}
	check(t, w.DeleteFile(ctx, f.ID))
	check(t, w.DeleteFile(ctx, f.ID))
	_, err = w.File(ctx, f.ID)
	expectError(t, err, 404, "storage.files.notFound")
}

// Clients of Azure's store upload in blocks.
func TestUploadInBlocks(t *testing.T) {
	w := newWorld(t)
	f := must(w.PrepareFile(t.Context(), storageapi.FilePrepare{Name: "blocks"}))(t)
	_, rest, _ := strings.Cut(string(f.AzureUpload.Credentials.SASConnectionString), "BlobEndpoint=")
	endpoint, query, _ := strings.Cut(rest, ";SharedAccessSignature=")
	path := strings.TrimPrefix(endpoint, w.http.URL) + "/" + f.AzureUpload.Container + "/" + f.AzureUpload.BlobName + "?" + query
	for _, block := range []string{"QQ==", "Qg=="} {
		if a := w.raw("PUT", path+"&comp=block&blockid="+url.QueryEscape(block), "", "part "+block); a.status != 201 {
			t.Fatalf("block: %d %s", a.status, a.body)
		}
	}
	if a := w.raw("GET", path, "", ""); a.status != 404 || a.header.Get("x-ms-error-code") != "BlobNotFound" {
		t.Errorf("before the list: %d %s", a.status, a.body)
	}
	list := `<?xml version="1.0" encoding="utf-8"?><BlockList><Latest>QQ==</Latest><Uncommitted>Qg==</Uncommitted></BlockList>`
	if a := w.raw("PUT", path+"&comp=blocklist", "application/xml", list); a.status != 201 {
		t.Fatalf("list: %d %s", a.status, a.body)
	}
	if a := w.raw("GET", path, "", "", "x-ms-range", "bytes=5-13"); a.status != 206 || string(a.body) != "QQ==part " {
		t.Errorf("range: %d %q", a.status, a.body)
	}
	if a := w.raw("PUT", path+"&comp=blocklist", "application/xml", strings.ReplaceAll(list, "Qg", "Zg")); a.status != 400 {
		t.Errorf("unknown block: %d", a.status)
	}
	if a := w.raw("DELETE", path, "", ""); a.status != 202 {
		t.Errorf("delete: %d", a.status)
	}
}

func importCSV(w *world, ctx context.Context, table string, in storageapi.Import, name, data string) error {
	in.FileID = w.upload(name, data)
	_, err := w.ImportFile(ctx, table, in)
	return err
}

func TestImport(t *testing.T) {
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
			t.Errorf("%s: %v, want a job that fails with %s", name, err, c.code)
		}
		if got := rows(); got != "\"6\",\"f\"\n" {
			t.Errorf("%s: rows %q", name, got)
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

func TestPrimaryKey(t *testing.T) {
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

func TestColumns(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.table(ctx, "in.c-c.t", nil, "a", "b")
	check(t, importCSV(w, ctx, "in.c-c.t", storageapi.Import{}, "f", "a,b\n1,2\n"))
	check(t, w.DeleteColumn(ctx, "in.c-c.t", "b"))
	check(t, w.AddColumn(ctx, "in.c-c.t", storageapi.Column{Name: "b"}))
	check(t, w.AddColumn(ctx, "in.c-c.t", storageapi.Column{Name: "_čaj ø"}))
	// The cells of a column that was deleted do not come back with its name.
	if got, want := w.preview("in.c-c.t", storageapi.RowQuery{}), "\"a\",\"b\",\"caj_o\"\n\"1\",\"\",\"\"\n"; got != want {
		t.Errorf("rows %q, want %q", got, want)
	}
	expectError(t, w.AddColumn(ctx, "in.c-c.t", storageapi.Column{Name: "B"}), 400, "storage.tables.columnAlreadyExists")
	expectError(t, w.AddColumn(ctx, "in.c-c.t", storageapi.Column{Name: ""}), 400, "storage.tables.invalidColumnName")
	expectError(t, w.DeleteColumn(ctx, "in.c-c.t", "none"), 404, "storage.tables.columnNotExists")
}

func TestTables(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.table(ctx, "in.c-t.t", nil, "a")
	_, err := w.CreateTable(ctx, "in.c-t", storageapi.TableCreate{Name: "t", Columns: storageapi.TextColumns("a")})
	expectError(t, err, 400, "storage.buckets.tableAlreadyExists")
	_, err = w.CreateTable(ctx, "in.c-t", storageapi.TableCreate{Name: "u"})
	expectError(t, err, 400, "storage.tables.validation.noColumns")
	_, err = w.CreateTable(ctx, "in.c-t", storageapi.TableCreate{Name: "u", Columns: storageapi.TextColumns("a b")})
	expectError(t, err, 400, "storage.tables.validation.invalidColumnName")
	_, err = w.CreateTable(ctx, "in.c-t", storageapi.TableCreate{Name: "u", Columns: storageapi.TextColumns("a"), PrimaryKey: []string{"A"}})
	expectError(t, err, 400, "storage.tables.validation.invalidPrimaryKeyColumns")
	_, err = w.CreateTable(ctx, "in.c-none", storageapi.TableCreate{Name: "u", Columns: storageapi.TextColumns("a")})
	expectError(t, err, 404, "storage.buckets.notFound")

	typed := must(w.CreateTable(ctx, "in.c-t", storageapi.TableCreate{
		Name: "typed", PrimaryKey: []string{"id"}, Columns: []storageapi.Column{{Name: "id", BaseType: "INTEGER"}, {Name: "at", BaseType: "TIMESTAMP"}},
	}))(t)
	if !typed.IsTyped || typed.Definition.Value == nil || typed.Definition.Value.Columns[1].BaseType != "TIMESTAMP" || typed.Bucket == nil {
		t.Errorf("typed table %+v", typed)
	}
	var job *storageapi.JobError
	if err := importCSV(w, ctx, typed.ID, storageapi.Import{}, "f", "id,at,more\n1,2,3\n"); !errors.As(err, &job) || job.Code() != "csvImport.columnsNotMatch" {
		t.Errorf("a column more in a typed table: %v", err)
	}

	made := must(w.CreateTableFromFile(ctx, "in.c-t", storageapi.TableFromFile{Name: "made", FileID: w.upload("f", "_id,b b\n1,x\n1,y\n"), PrimaryKey: []string{"id"}}))(t)
	if !slices.Equal(made.Columns, []string{"id", "b_b"}) || made.RowsCount != 1 || !slices.Equal(made.PrimaryKey, []string{"id"}) {
		t.Errorf("table of a file %+v", made)
	}
	for data, code := range map[string]string{"": "storage.tables.validation.noColumns", "a,a\n": "storage.tables.validation.invalidColumnName"} {
		_, err := w.CreateTableFromFile(ctx, "in.c-t", storageapi.TableFromFile{Name: "bad", FileID: w.upload("f", data)})
		if !errors.As(err, &job) || job.Code() != code {
			t.Errorf("table of %q: %v, want %s", data, err, code)
		}
	}
	_, err = w.CreateTableFromFile(ctx, "in.c-t", storageapi.TableFromFile{Name: "bad", FileID: w.upload("f", "a\n"), PrimaryKey: []string{"x"}})
	if !errors.As(err, &job) || job.Code() != "storage.tables.validation.invalidPrimaryKeyColumns" {
		t.Errorf("key that is not in the file: %v", err)
	}

	if u := must(w.UpdateTable(ctx, "in.c-t.t", "shown"))(t); u.DisplayName != "shown" {
		t.Errorf("updated %+v", u)
	}
	_, err = w.UpdateTable(ctx, "in.c-t.made", "shown")
	expectError(t, err, 400, "storage.buckets.tableAlreadyExists")

	all := must(w.SetTableMetadata(ctx, "in.c-t.t", "stream", []storageapi.KeyValue{{Key: "k", Value: "v"}}, storageapi.ColumnNote{ColumnName: "a", Key: "c", Value: "d"}))(t)
	if len(all.Metadata) != 1 || len(all.ColumnsMetadata["a"]) != 1 {
		t.Errorf("metadata %+v", all)
	}
	if d := must(w.Table(ctx, "in.c-t.t"))(t); len(d.Metadata) != 1 || len(d.ColumnMetadata["a"]) != 1 {
		t.Errorf("detail %+v", d)
	}
	if list := must(storageapi.Collect(w.TableMetadata(ctx, "in.c-t.t")))(t); len(list) != 1 || list[0].Provider != "stream" {
		t.Errorf("metadata %+v", list)
	}
	if list := must(storageapi.Collect(w.Tables(ctx)))(t); len(list) != 3 {
		t.Errorf("%d tables, want 3", len(list))
	}
	check(t, w.DeleteTable(ctx, "in.c-t.t", false))
	_, err = w.Table(ctx, "in.c-t.t")
	expectError(t, err, 404, "storage.tables.notFound")
	w.table(ctx, "in.c-t.t", nil, "a")
	if got := w.preview("in.c-t.t", storageapi.RowQuery{}); got != "\"a\"\n" {
		t.Errorf("a new table of the name has %q", got)
	}
}

func TestPreviewAndExport(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.table(ctx, "in.c-p.t", nil, "n", "s")
	check(t, importCSV(w, ctx, "in.c-p.t", storageapi.Import{}, "f", "n,s\n10,a\n9,b\n-1.5,c\nx,d\n"))
	filter := func(operator, dataType string, values ...string) []storageapi.Filter {
		return []storageapi.Filter{{Column: "n", Operator: operator, Values: values, DataType: dataType}}
	}
	for name, c := range map[string]struct {
		q    storageapi.RowQuery
		want string
	}{
		"columns":        {storageapi.RowQuery{Columns: []string{"s"}, Limit: 2}, "a b"},
		"eq":             {storageapi.RowQuery{Columns: []string{"s"}, Filters: filter("eq", "", "9", "x")}, "b d"},
		"ne":             {storageapi.RowQuery{Columns: []string{"s"}, Filters: filter("ne", "", "9", "x")}, "a c"},
		"text":           {storageapi.RowQuery{Columns: []string{"s"}, Filters: filter("gt", "", "10")}, "b d"},
		"numbers":        {storageapi.RowQuery{Columns: []string{"s"}, Filters: filter("gt", "INTEGER", "9")}, "a"},
		"le":             {storageapi.RowQuery{Columns: []string{"s"}, Filters: filter("le", "DOUBLE", "9.0")}, "b c"},
		"sorted numbers": {storageapi.RowQuery{Columns: []string{"s"}, Filters: filter("ne", "", "x"), OrderBy: []storageapi.Order{{Column: "n", DataType: "REAL"}}}, "c b a"},
		"sorted text":    {storageapi.RowQuery{Columns: []string{"s"}, OrderBy: []storageapi.Order{{Column: "s", Order: "DESC"}}, Limit: 3}, "d c b"},
		"long ago":       {storageapi.RowQuery{Columns: []string{"s"}, ChangedUntil: "2020-01-01"}, ""},
		"lately":         {storageapi.RowQuery{Columns: []string{"s"}, ChangedSince: "2020-01-01"}, "a b c d"},
	} {
		lines := strings.Split(strings.TrimSuffix(w.preview("in.c-p.t", c.q), "\n"), "\n")[1:]
		if got := strings.ReplaceAll(strings.Join(lines, " "), `"`, ""); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		id := must(w.ExportTable(ctx, "in.c-p.t", storageapi.Export{RowQuery: c.q}))(t)
		lines = strings.Split(strings.TrimSuffix(w.read(must(w.FileContent(ctx, id))(t)), "\n"), "\n")[1:]
		if got := strings.ReplaceAll(strings.Join(lines, " "), `"`, ""); got != c.want {
			t.Errorf("%s: exported %q, want %q", name, got, c.want)
		}
	}
	cells := must(w.PreviewJSON(ctx, "in.c-p.t", storageapi.RowQuery{Limit: 1}))(t)
	if len(cells.Rows) != 1 || *cells.Rows[0][0].Value != "10" || cells.Rows[0][1].ColumnName != "s" {
		t.Errorf("JSON %+v", cells)
	}
	_, err := w.Preview(ctx, "in.c-p.t", storageapi.RowQuery{Columns: []string{"none"}})
	expectError(t, err, 400, "storage.tables.invalidSelection")
	_, err = w.Preview(ctx, "in.c-p.t", storageapi.RowQuery{Limit: 1001})
	expectError(t, err, 400, "storage.tables.invalidSelection")
	if a := w.raw("GET", "/v2/storage/tables/in.c-p.t/data-preview?limit=0", "", ""); strings.Count(string(a.body), "\n") != 5 {
		t.Errorf("limit 0: %s", a.body)
	}

	// The same export of the same table is the same file.
	one := must(w.ExportTable(ctx, "in.c-p.t", storageapi.Export{Gzip: true}))(t)
	if again := must(w.ExportTable(ctx, "in.c-p.t", storageapi.Export{Gzip: true}))(t); again != one {
		t.Errorf("file %d, then %d", one, again)
	}
	zr := must(gzip.NewReader(must(w.FileContent(ctx, one))(t)))(t)
	if data := must(io.ReadAll(zr))(t); !strings.HasPrefix(string(data), "\"n\",\"s\"\n\"10\",\"a\"\n") {
		t.Errorf("compressed export %q", data)
	}
	check(t, w.DeleteRows(ctx, "in.c-p.t", filter("eq", "", "9")...))
	if changed := must(w.ExportTable(ctx, "in.c-p.t", storageapi.Export{Gzip: true}))(t); changed == one {
		t.Error("an export of another table is the file of the one before")
	}
	if n := must(w.Table(ctx, "in.c-p.t"))(t).RowsCount; n != 3 {
		t.Errorf("%d rows are left, want 3", n)
	}
	check(t, w.DeleteRows(ctx, "in.c-p.t"))
	if got := w.preview("in.c-p.t", storageapi.RowQuery{}); got != "\"n\",\"s\"\n" {
		t.Errorf("emptied table has %q", got)
	}
	if a := w.raw("DELETE", "/v2/storage/tables/in.c-p.t/rows", "", ""); a.status != 400 {
		t.Errorf("emptying without allowTruncate: %d", a.status)
	}
}

func TestJobs(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.table(ctx, "in.c-j.t", nil, "a")
	file := w.upload("f", "a\n1\n")
	job := must(w.WithRunID("77.1").StartImport(ctx, "in.c-j.t", storageapi.Import{FileID: file}))(t)
	if job.OperationName != "tableImport" || job.RunID == nil || *job.RunID != "77.1" || job.TableID == nil || !strings.HasSuffix(job.URL, "/v2/storage/jobs/"+job.ID.String()) {
		t.Errorf("job %+v", job)
	}
	if !strings.Contains(string(job.OperationParams), fmt.Sprintf(`"fileId":%d`, file)) {
		t.Errorf("params %s", job.OperationParams)
	}
	job = must(w.WaitForJob(ctx, job.ID))(t)
	if !job.Finished() || job.EndTime.IsZero() || job.StartTime.IsZero() || job.Metrics.InBytes == 0 {
		t.Errorf("finished job %+v", job)
	}
	_, err := w.Job(ctx, 1)
	expectError(t, err, 404, "storage.jobs.notFound")
	list := must(storageapi.Collect(w.Jobs(ctx, storageapi.JobQuery{Status: []string{"success"}})))(t)
	if len(list) != 2 || list[0].ID != job.ID {
		t.Errorf("jobs %+v", list)
	}
	if list = must(storageapi.Collect(w.Jobs(ctx, storageapi.JobQuery{ExcludedStatus: []string{"success"}})))(t); len(list) != 0 {
		t.Errorf("jobs %+v", list)
	}
}

func TestEvents(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	first := must(w.CreateEvent(ctx, storageapi.EventCreate{Component: "c", Message: "one", RunID: "5", Params: raw(`{"a":1}`)}))(t)
	must(w.CreateEvent(ctx, storageapi.EventCreate{Component: "c", Message: "two", Type: "warn"}))(t)
	list := must(storageapi.Collect(w.Events(ctx, storageapi.EventQuery{})))(t)
	if len(list) != 2 || list[0].Message != "two" || list[1].ID != first {
		t.Errorf("events %+v", list)
	}
	if list = must(storageapi.Collect(w.Events(ctx, storageapi.EventQuery{RunID: "5"})))(t); len(list) != 1 || string(list[0].Params) != `{"a":1}` {
		t.Errorf("events of the run %+v", list)
	}
	_, err := w.CreateEvent(ctx, storageapi.EventCreate{Component: "c", Message: "x", Type: "loud"})
	expectError(t, err, 400, "storage.events.validation")
	one, two := must(w.Ticket(ctx))(t), must(w.Ticket(ctx))(t)
	if two <= one {
		t.Errorf("tickets %d, %d", one, two)
	}
}
