package drivers_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/storageapi"
	"github.com/forebay/forebay/storageapi/drivers"
	"github.com/forebay/forebay/storageapi/platform"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
	)
}

const token = "master-token-of-the-tests"

// world is a platform behind HTTP, with a hook before each call.
type world struct {
	*storageapi.Client
	// before, if not nil, may answer a call in place of the platform, by returning true.
	before atomic.Pointer[func(w http.ResponseWriter, r *http.Request) bool]
	calls  atomic.Int64
	server *platform.Server
}

func newWorld(t *testing.T, features ...string) *world {
	t.Helper()
	server, err := platform.Open(t.TempDir(), platform.Options{Token: token, Features: features})
	if err != nil {
		t.Fatal(err)
	}
	out := &world{server: server}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out.calls.Add(1)
		if before := out.before.Load(); before != nil && (*before)(w, r) {
			return
		}
		server.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		h.Close()
		if err := server.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	out.Client, err = storageapi.New(storageapi.Options{URL: h.URL, Token: token, HTTP: h.Client(), Retry: storageapi.RetryOptions{Attempts: 1}})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func newStaging(t *testing.T, w *world, tokens drivers.TokenSource) *drivers.Staging {
	t.Helper()
	s, err := drivers.NewStaging(w.Client, drivers.StagingOptions{Tokens: tokens})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newTarget(t *testing.T, w *world, o drivers.TargetOptions) *drivers.Target {
	t.Helper()
	target, err := drivers.NewTarget(w.Client, o)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// rows reads a whole table by an export, as any other reader would.
func (w *world) rows(t *testing.T, table string) [][]string {
	t.Helper()
	id, err := w.ExportTable(t.Context(), table, storageapi.Export{})
	if storageapi.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	file, err := w.Download(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	rc, err := file.OpenSlices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	data, err := io.ReadAll(rc)
	if err != nil {
		t.Fatal(err)
	}
	// The standard reader turns "\r\n" in cells into "\n": hide the carriage returns from it.
	const hidden = "\x00carriage return\x00"
	all, err := csv.NewReader(bytes.NewReader(bytes.ReplaceAll(data, []byte("\r"), []byte(hidden)))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range all {
		for i := range row {
			row[i] = strings.ReplaceAll(row[i], hidden, "\r")
		}
	}
	return all
}

func TestStagingConformance(t *testing.T) {
	buffertest.Staging(t, func(t *testing.T) buffer.Staging { return newStaging(t, newWorld(t), nil) })
}

func TestTargetConformance(t *testing.T) {
	for name, staged := range map[string]bool{"slices from elsewhere": false, "slices in place": true} {
		t.Run(name, func(t *testing.T) {
			var w *world
			var staging *drivers.Staging
			var tokens *drivers.TokenDir
			open := func(t *testing.T) buffer.Target {
				return newTarget(t, w, drivers.TargetOptions{Staging: staging, Tokens: tokens, TempDir: t.TempDir()})
			}
			h := buffertest.TargetHarness{
				TextOnly: true, // the platform takes UTF-8 alone
				Open: func(t *testing.T) buffer.Target {
					w = newWorld(t)
					tokens = drivers.NewTokenDir(t.TempDir())
					if staged {
						staging = newStaging(t, w, tokens)
					}
					return open(t)
				},
				Rows:        func(t *testing.T, table string) [][]string { return w.rows(t, table) },
				Reopen:      open,
				AtLeastOnce: true,
			}
			if staged {
				h.Staging = func(*testing.T) buffer.Staging { return staging }
			}
			buffertest.Target(t, h)
		})
	}
}

// memoryFile is a file of the buffer with one plain slice.
func memoryFile(id, rows string, note *[]byte) *buffer.File {
	obj := buffer.Object{ID: id + "-s", FileID: id, SinkID: "web/events", Rows: int64(strings.Count(rows, "\n")), RawBytes: int64(len(rows))}
	return &buffer.File{
		ID: id, SinkID: obj.SinkID, Table: buffer.Table{ID: "in.c-web.events", Columns: datatype.UntypedColumns("a", "b")}, Slices: []buffer.Object{obj},
		Rows: obj.Rows, RawBytes: obj.RawBytes, Progress: *note,
		OpenSlice: func(context.Context, buffer.Object) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(rows)), nil
		},
		SaveProgress: func(_ context.Context, n []byte) error {
			*note = slices.Clone(n)
			return nil
		},
	}
}

// A table says which sink writes it. A note that cannot be written does not hold up the rows.
func TestTablesNameTheirSink(t *testing.T) {
	w := newWorld(t)
	target := newTarget(t, w, drivers.TargetOptions{TempDir: t.TempDir()})
	for i := range 2 {
		var progress []byte
		if err := target.Import(t.Context(), memoryFile(fmt.Sprint("f-", i), "1,2\n", &progress)); err != nil {
			t.Fatal(err)
		}
	}
	got := make(map[string]string)
	for note, err := range w.TableMetadata(t.Context(), "in.c-web.events") {
		if err != nil {
			t.Fatal(err)
		}
		if note.Provider == "stream" {
			got[note.Key] = note.Value
		}
	}
	want := map[string]string{"KBC.stream.source.id": "web", "KBC.stream.sink.id": "events"}
	if !maps.Equal(got, want) {
		t.Errorf("notes %v, want %v", got, want)
	}
}

// The answer to an import is lost: the next attempt finds the job by its run id, and does not import again.
func TestImportAnswerIsLost(t *testing.T) {
	w := newWorld(t)
	target := newTarget(t, w, drivers.TargetOptions{})
	var note []byte
	lost := func(rw http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/import-async") {
			return false
		}
		w.before.Store(nil)
		var body bytes.Buffer
		body.ReadFrom(r.Body)
		again, _ := http.NewRequestWithContext(r.Context(), r.Method, w.URL()+r.URL.Path, &body)
		again.Header = r.Header.Clone()
		resp, err := http.DefaultClient.Do(again)
		if err != nil || resp.StatusCode != http.StatusAccepted {
			t.Errorf("import: %v %v", resp, err)
		} else {
			resp.Body.Close()
		}
		panic(http.ErrAbortHandler)
	}
	w.before.Store(&lost)
	if err := target.Import(t.Context(), memoryFile("file-1", "\"1\",\"2\"\n", &note)); err == nil {
		t.Fatal("the lost answer was not noticed")
	}
	http.DefaultClient.CloseIdleConnections()
	if err := target.Import(t.Context(), memoryFile("file-1", "\"1\",\"2\"\n", &note)); err != nil {
		t.Fatal(err)
	}
	if got := w.rows(t, "in.c-web.events"); len(got) != 1 {
		t.Errorf("rows %q, want one", got)
	}
	imports := 0
	for job, err := range w.Jobs(t.Context(), storageapi.JobQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		if job.OperationName == "tableImport" {
			imports++
		}
	}
	if imports != 1 {
		t.Errorf("%d imports were made", imports)
	}
}

// A wait that is cut off is not the end of the job: the next attempt waits for the same one.
func TestImportWaitIsCutOff(t *testing.T) {
	w := newWorld(t)
	target := newTarget(t, w, drivers.TargetOptions{})
	var note []byte
	ctx, cancel := context.WithCancel(t.Context())
	cut := func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/v2/storage/jobs/") && bytes.Contains(note, []byte(`"job":`)) {
			cancel()
		}
		return false
	}
	w.before.Store(&cut)
	if err := target.Import(ctx, memoryFile("file-1", "\"1\",\"2\"\n", &note)); !errors.Is(err, context.Canceled) {
		t.Fatalf("Import = %v, want the end of the context", err)
	}
	w.before.Store(nil)
	for range 2 {
		if err := target.Import(t.Context(), memoryFile("file-1", "\"1\",\"2\"\n", &note)); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.rows(t, "in.c-web.events"); len(got) != 1 {
		t.Errorf("rows %q, want one", got)
	}
}

// Each sink has its own token, with no more rights than it needs, and gets another one when that is gone.
func TestSinkTokens(t *testing.T) {
	w := newWorld(t)
	dir := drivers.NewTokenDir(t.TempDir())
	target := newTarget(t, w, drivers.TargetOptions{Tokens: dir})
	var note []byte
	if err := target.Import(t.Context(), memoryFile("file-1", "\"1\",\"2\"\n", &note)); err != nil {
		t.Fatal(err)
	}
	kept, err := dir.Get(t.Context(), "web/events")
	if err != nil {
		t.Fatal(err)
	}
	made, err := w.TokenDetail(t.Context(), kept.ID)
	if err != nil {
		t.Fatal(err)
	}
	if made.Description != "[_internal] Stream Sink web/events" || !made.CanReadAllFileUploads || made.CanManageBuckets ||
		len(made.BucketPermissions) != 1 || made.BucketPermissions["in.c-web"] != "write" {
		t.Errorf("token %+v", made)
	}
	if text := fmt.Sprintf("%v %+v %#v", kept, kept, kept); strings.Contains(text, string(kept.Token)) {
		t.Error("a printed token shows its secret")
	}

	// Somebody deletes the token by hand.
	if err := w.DeleteToken(t.Context(), kept.ID); err != nil {
		t.Fatal(err)
	}
	var second []byte
	if err := target.Import(t.Context(), memoryFile("file-2", "\"3\",\"4\"\n", &second)); err != nil {
		t.Fatal(err)
	}
	next, err := dir.Get(t.Context(), "web/events")
	if err != nil || next.ID == kept.ID {
		t.Errorf("token %v, %v", next.ID, err)
	}
	if err := target.Renew(t.Context(), "web/events", "in.c-web.events"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.TokenDetail(t.Context(), next.ID); !storageapi.IsNotFound(err) {
		t.Errorf("the token before is still there: %v", err)
	}
	if err := target.Drop(t.Context(), "web/events"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := target.Drop(t.Context(), "web/events"); err != nil {
			t.Errorf("Drop again: %v", err)
		}
	}
	all, err := storageapi.Collect(w.Tokens(t.Context()))
	if err != nil || len(all) != 1 {
		t.Errorf("%d tokens are left, %v", len(all), err)
	}
	if got := w.rows(t, "in.c-web.events"); len(got) != 2 {
		t.Errorf("rows %q, want two", got)
	}
}

// madeElsewhere is a TokenSource that is no store.
type madeElsewhere drivers.SinkToken

func (m madeElsewhere) Get(context.Context, string) (drivers.SinkToken, error) {
	return drivers.SinkToken(m), nil
}

// Tokens that are made elsewhere are used while they fit, and never renewed from here.
func TestTokensMadeElsewhere(t *testing.T) {
	w := newWorld(t)
	if _, err := w.CreateBucket(t.Context(), storageapi.BucketCreate{Name: "web"}); err != nil {
		t.Fatal(err)
	}
	made, err := w.CreateToken(t.Context(), storageapi.TokenCreate{BucketPermissions: map[string]string{"in.c-web": "write"}, CanReadAllFileUploads: true})
	if err != nil {
		t.Fatal(err)
	}
	used := make(chan string, 100)
	watch := func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/import-async") {
			used <- r.Header.Get(storageapi.TokenHeader)
		}
		return false
	}
	w.before.Store(&watch)
	for i, c := range []struct {
		token drivers.SinkToken
		want  storageapi.Secret
	}{
		{drivers.SinkToken{ID: made.ID, Token: made.Token, Bucket: "in.c-web"}, made.Token},
		{drivers.SinkToken{ID: made.ID, Token: made.Token, Bucket: "in.c-other"}, token},
		{drivers.SinkToken{ID: "1", Token: "1-1-deleted-long-ago", Bucket: "in.c-web"}, token},
	} {
		var note []byte
		target := newTarget(t, w, drivers.TargetOptions{Tokens: madeElsewhere(c.token)})
		if err := target.Import(t.Context(), memoryFile(fmt.Sprintf("file-%d", i), "\"1\",\"2\"\n", &note)); err != nil {
			t.Fatal(err)
		}
		if got := <-used; got != string(c.want) {
			t.Errorf("%d: another token was used", i)
		}
		staging := newStaging(t, w, madeElsewhere(c.token))
		obj := buffer.Object{ID: fmt.Sprintf("s-%d", i), FileID: fmt.Sprintf("f-%d", i), SinkID: "web/events", Rows: 1}
		if err := staging.Put(t.Context(), obj, bytesOf("\"1\",\"2\"\n")); err != nil {
			t.Error(err)
		}
		if rc, err := staging.Open(t.Context(), obj); err != nil {
			t.Error(err)
		} else {
			rc.Close()
		}
		if err := staging.Delete(t.Context(), obj); err != nil {
			t.Error(err)
		}
		if err := target.Renew(t.Context(), "web/events", "in.c-web.events"); err == nil {
			t.Error("a token could be renewed without a store")
		}
	}
	if all, err := storageapi.Collect(w.Tokens(t.Context())); err != nil || len(all) != 2 {
		t.Errorf("%d tokens, %v, want 2", len(all), err)
	}
}

// After a restart slices go to another file of the project, and are found in both.
func TestStagingAfterRestart(t *testing.T) {
	w := newWorld(t)
	object := func(i int) buffer.Object {
		return buffer.Object{ID: fmt.Sprintf("s-%d", i), FileID: "f", SinkID: "web/events", Rows: 1}
	}
	for i := range 3 {
		s := newStaging(t, w, nil)
		if err := s.Put(t.Context(), object(i), bytesOf(fmt.Sprintf("\"%d\"\n", i))); err != nil {
			t.Fatal(err)
		}
	}
	s := newStaging(t, w, nil)
	read := func(i int) string {
		rc, err := s.Open(t.Context(), object(i))
		if err != nil {
			return err.Error()
		}
		defer rc.Close()
		data, _ := io.ReadAll(rc)
		return string(data)
	}
	for i := range 3 {
		if got := read(i); got != fmt.Sprintf("\"%d\"\n", i) {
			t.Errorf("slice %d is %q", i, got)
		}
	}
	if err := s.Delete(t.Context(), object(0), object(1)); err != nil {
		t.Fatal(err)
	}
	if got := read(2); got != "\"2\"\n" {
		t.Errorf("slice 2 is %q", got)
	}
	if err := s.Delete(t.Context(), object(2)); err != nil {
		t.Fatal(err)
	}
	if files, err := storageapi.Collect(w.Files(t.Context(), storageapi.FileQuery{})); err != nil || len(files) != 0 {
		t.Errorf("%d files are left, %v", len(files), err)
	}
}

type bytesOf string

func (b bytesOf) Open() (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(string(b))), nil
}

func (b bytesOf) WriteTo(w io.Writer) (int64, error) {
	n, err := io.WriteString(w, string(b))
	return int64(n), err
}

// Errors say what class they are of, and never a token.
func TestErrorsAreClassified(t *testing.T) {
	w := newWorld(t)
	target := newTarget(t, w, drivers.TargetOptions{})
	for _, id := range []string{"events", "sys.c-a.b", "in.c-a.b.c", "in.c a.b"} {
		if err := target.Ensure(t.Context(), buffer.Table{ID: id, Columns: datatype.UntypedColumns("a")}); !buffer.IsPermanent(err) {
			t.Errorf("table %q: %v is not permanent", id, err)
		}
	}
	if err := target.Ensure(t.Context(), buffer.Table{ID: "in.c-a.b", Columns: datatype.UntypedColumns("a b")}); !buffer.IsPermanent(err) {
		t.Errorf("column that the platform refuses: %v is not permanent", err)
	}
	wrong, err := drivers.NewTarget(w.WithToken("1-2-secretsecretsecret"), drivers.TargetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	err = wrong.Ensure(t.Context(), buffer.Table{ID: "in.c-a.b", Columns: datatype.UntypedColumns("a")})
	if !buffer.IsPermanent(err) || strings.Contains(err.Error(), "secret") {
		t.Errorf("wrong token: %v", err)
	}
	down := func(rw http.ResponseWriter, _ *http.Request) bool {
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(http.StatusServiceUnavailable)
		json.NewEncoder(rw).Encode(map[string]string{"status": "maintenance", "reason": "planned"})
		return true
	}
	w.before.Store(&down)
	if err := target.Ensure(t.Context(), buffer.Table{ID: "in.c-a.b", Columns: datatype.UntypedColumns("a")}); err == nil || buffer.IsPermanent(err) || !strings.Contains(err.Error(), "planned") {
		t.Errorf("maintenance: %v", err)
	}
}

// Slices of one kind that are in one file of the project are imported where they are, in the order of the file; others
// are copied.
func TestSlicesInPlace(t *testing.T) {
	for name, c := range map[string]struct {
		encodings []buffer.Encoding
		restart   bool
		copied    bool
	}{
		"plain":                 {encodings: []buffer.Encoding{buffer.None, buffer.None}},
		"other order":           {encodings: []buffer.Encoding{buffer.None, buffer.None}},
		"mixed":                 {encodings: []buffer.Encoding{buffer.None, buffer.Gzip}, copied: true},
		"restart between":       {encodings: []buffer.Encoding{buffer.None, buffer.None}, restart: true, copied: true},
		"one slice was revised": {encodings: []buffer.Encoding{buffer.None, buffer.None, buffer.None}, copied: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			staging := newStaging(t, w, nil)
			var note []byte
			f := memoryFile("file-1", "", &note)
			f.Slices = nil
			for i, e := range c.encodings {
				if c.restart && i == 1 {
					staging = newStaging(t, w, nil)
				}
				obj := buffer.Object{ID: fmt.Sprintf("slice-%d", i), FileID: f.ID, SinkID: f.SinkID, Encoding: e, Rows: 1}
				row := fmt.Sprintf("\"%d\",\"x\"\n", i)
				if e == buffer.Gzip {
					row = gzipped(t, row)
				}
				if err := staging.Put(t.Context(), obj, bytesOf(row)); err != nil {
					t.Fatal(err)
				}
				f.Slices = append(f.Slices, obj)
			}
			if name == "other order" {
				slices.Reverse(f.Slices)
			}
			if name == "one slice was revised" {
				f.Slices = f.Slices[1:]
			}
			f.OpenSlice = staging.Open
			before := count(t, w)
			target := newTarget(t, w, drivers.TargetOptions{Staging: staging})
			var prepared atomic.Int64
			watch := func(_ http.ResponseWriter, r *http.Request) bool {
				if strings.HasSuffix(r.URL.Path, "/files/prepare") {
					prepared.Add(1)
				}
				return false
			}
			w.before.Store(&watch)
			if err := target.Import(t.Context(), f); err != nil {
				t.Fatal(err)
			}
			w.before.Store(nil)
			if copied := prepared.Load() > 0; copied != c.copied {
				t.Errorf("copied: %v, want %v", copied, c.copied)
			}
			if after := count(t, w); after != before {
				t.Errorf("%d files, before the import %d", after, before)
			}
			var want []string
			for _, obj := range f.Slices {
				want = append(want, strings.TrimPrefix(obj.ID, "slice-"))
			}
			var got []string
			for _, row := range w.rows(t, f.Table.ID) {
				got = append(got, row[0])
			}
			if !slices.Equal(got, want) {
				t.Errorf("rows %q, want %q", got, want)
			}
		})
	}
}

func count(t *testing.T, w *world) int {
	t.Helper()
	files, err := storageapi.Collect(w.Files(t.Context(), storageapi.FileQuery{}))
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

func gzipped(t *testing.T, s string) string {
	t.Helper()
	var b bytes.Buffer
	zw := gzip.NewWriter(&b)
	io.WriteString(zw, s)
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
