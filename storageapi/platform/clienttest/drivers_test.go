package clienttest

import (
	"bytes"
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

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
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

// world is a platform served over HTTP, with a hook before each call.
type world struct {
	*storageapi.Client
	// before, if not nil, may handle a call in place of the platform, by returning true.
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
	// The standard reader turns "\r\n" in cells into "\n", so hide the carriage returns from it.
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
	buffertest.Staging(t, func(t *testing.T) driver.Staging { return newStaging(t, newWorld(t), nil) })
}

func TestTargetConformance(t *testing.T) {
	for name, staged := range map[string]bool{"slices from elsewhere": false, "slices in place": true} {
		if testing.Short() && !staged {
			continue // played without the race detector
		}
		t.Run(name, func(t *testing.T) {
			var w *world
			var staging *drivers.Staging
			var tokens *drivers.TokenDir
			open := func(t *testing.T) driver.Target {
				return newTarget(t, w, drivers.TargetOptions{Staging: staging, Tokens: tokens, TempDir: t.TempDir()})
			}
			h := buffertest.TargetHarness{
				TextOnly: true, // the platform takes UTF-8 alone
				Open: func(t *testing.T) driver.Target {
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
				h.Staging = func(*testing.T) driver.Staging { return staging }
			}
			buffertest.Target(t, h)
		})
	}
}

// memoryFile is a file of the buffer with one plain slice.
func memoryFile(id, rows string, note *[]byte) *driver.File {
	obj := driver.Object{ID: id + "-s", FileID: id, SinkID: "web/events", Rows: int64(strings.Count(rows, "\n")), RawBytes: int64(len(rows))}
	return &driver.File{
		ID: id, SinkID: obj.SinkID, Table: driver.Table{ID: "in.c-web.events", Columns: datatype.UntypedColumns("a", "b")}, Slices: []driver.Object{obj},
		Rows: obj.Rows, RawBytes: obj.RawBytes, Progress: *note,
		OpenSlice: func(context.Context, driver.Object) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(rows)), nil
		},
		SaveProgress: func(_ context.Context, n []byte) error {
			*note = slices.Clone(n)
			return nil
		},
	}
}

// Typed columns are text in the platform, a value as its canonical text, NULL as the empty text, and the word null as it is.
func TestTypedCellsAreText(t *testing.T) {
	w := newWorld(t)
	target := newTarget(t, w, drivers.TargetOptions{TempDir: t.TempDir()})
	var progress []byte
	f := memoryFile("f-1", "\"1\",\n\"2\",\"\"\n\"3\",\"null\"\n", &progress)
	f.Table.Columns = []datatype.Column{{Name: "a", Type: datatype.Int64, Required: true}, {Name: "b", Type: datatype.String}}
	if err := target.Ensure(t.Context(), f.Table); err != nil {
		t.Fatal(err)
	}
	if err := target.Import(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	want := [][]string{{"1", ""}, {"2", ""}, {"3", "null"}}
	if got := w.rows(t, f.Table.ID); !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("rows %q, want %q", got, want)
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

// The response to an import is lost. The next attempt finds the job by its run id, and does not import again.
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
		t.Errorf("%d imports were made, want 1", imports)
	}
}

// A wait that is cut off is not the end of the job. The next attempt waits for the same one.
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
		if err := target.Ensure(t.Context(), driver.Table{ID: id, Columns: datatype.UntypedColumns("a")}); !driver.IsPermanent(err) {
			t.Errorf("table %q: %v is not permanent", id, err)
		}
	}
	if err := target.Ensure(t.Context(), driver.Table{ID: "in.c-a.b", Columns: datatype.UntypedColumns("a b")}); !driver.IsPermanent(err) {
		t.Errorf("column that the platform refuses: %v is not permanent", err)
	}
	wrong, err := drivers.NewTarget(w.WithToken("1-2-secretsecretsecret"), drivers.TargetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	err = wrong.Ensure(t.Context(), driver.Table{ID: "in.c-a.b", Columns: datatype.UntypedColumns("a")})
	if !driver.IsPermanent(err) || strings.Contains(err.Error(), "secret") {
		t.Errorf("wrong token: %v", err)
	}
	down := func(rw http.ResponseWriter, _ *http.Request) bool {
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(http.StatusServiceUnavailable)
		json.NewEncoder(rw).Encode(map[string]string{"status": "maintenance", "reason": "planned"})
		return true
	}
	w.before.Store(&down)
	if err := target.Ensure(t.Context(), driver.Table{ID: "in.c-a.b", Columns: datatype.UntypedColumns("a")}); err == nil || driver.IsPermanent(err) || !strings.Contains(err.Error(), "planned") {
		t.Errorf("maintenance: %v", err)
	}
}
