package clienttest

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/casetest"
	"github.com/forebay/forebay/storageapi"
	"github.com/forebay/forebay/storageapi/drivers"
)

// imports counts the import jobs of the project.
func (w *world) imports(t *testing.T) (n int) {
	t.Helper()
	for job, err := range w.Jobs(t.Context(), storageapi.JobQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		if job.OperationName == "tableImport" {
			n++
		}
	}
	return n
}

// The token of the sink is deleted while the job of an import is waited for. The new token waits for the same job.
func TestTokenIsRevokedDuringImport(t *testing.T) {
	w := newWorld(t)
	dir := drivers.NewTokenDir(t.TempDir())
	target := newTarget(t, w, drivers.TargetOptions{Tokens: dir})
	if err := target.Renew(t.Context(), "web/events", "in.c-web.events"); err != nil {
		t.Fatal(err)
	}
	var note []byte
	revoke := func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/v2/storage/jobs/") && strings.Contains(string(note), `"job":`) {
			w.before.Store(nil)
			kept, err := dir.Get(t.Context(), "web/events")
			if err == nil {
				err = w.DeleteToken(t.Context(), kept.ID)
			}
			if err != nil {
				t.Error(err)
			}
		}
		return false
	}
	w.before.Store(&revoke)
	if err := target.Import(t.Context(), memoryFile("file-1", "\"1\",\"2\"\n", &note)); err != nil {
		t.Fatal(err)
	}
	if w.before.Load() != nil {
		t.Fatal("the token was not revoked")
	}
	if n, got := w.imports(t), w.rows(t, "in.c-web.events"); n != 1 || len(got) != 1 {
		t.Errorf("got %d imports, rows %q, want one of each", n, got)
	}
}

// Two imports of a sink find its token deleted. The second uses the token that the first has made, because making a new token would
// delete the token that the first works with.
func TestTokenIsRenewedOnce(t *testing.T) {
	w := newWorld(t)
	dir := drivers.NewTokenDir(t.TempDir())
	target := newTarget(t, w, drivers.TargetOptions{Tokens: dir})
	if err := target.Renew(t.Context(), "web/events", "in.c-web.events"); err != nil {
		t.Fatal(err)
	}
	revoked, err := dir.Get(t.Context(), "web/events")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.DeleteToken(t.Context(), revoked.ID); err != nil {
		t.Fatal(err)
	}
	var renewed drivers.SinkToken
	first := func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get(storageapi.TokenHeader) != string(revoked.Token) {
			return false
		}
		w.before.Store(nil)
		var note []byte
		err := target.Import(t.Context(), memoryFile("file-1", "\"1\",\"2\"\n", &note))
		if err == nil {
			renewed, err = dir.Get(t.Context(), "web/events")
		}
		if err != nil {
			t.Error(err)
		}
		return false
	}
	w.before.Store(&first)
	var note []byte
	if err := target.Import(t.Context(), memoryFile("file-2", "\"1\",\"2\"\n", &note)); err != nil {
		t.Fatal(err)
	}
	if kept, err := dir.Get(t.Context(), "web/events"); err != nil || renewed.ID == "" || renewed.ID == revoked.ID || kept.ID != renewed.ID {
		t.Errorf("tokens %s, %s, %s, %v, want the second to stay", revoked.ID, renewed.ID, kept.ID, err)
	}
	if got := w.rows(t, "in.c-web.events"); len(got) != 2 {
		t.Errorf("rows %q, want two", got)
	}
}

// A user deletes the bucket, and the rights of the sink's token with it. The target makes both again.
func TestBucketIsDeleted(t *testing.T) {
	w := newWorld(t)
	dir := drivers.NewTokenDir(t.TempDir())
	target := newTarget(t, w, drivers.TargetOptions{Tokens: dir})
	for i, prepare := range []func() error{
		func() error { return nil },
		func() error { return w.DeleteBucket(t.Context(), "in.c-web", true) },
		func() error {
			err := w.DeleteBucket(t.Context(), "in.c-web", true)
			_, cerr := w.CreateBucket(t.Context(), storageapi.BucketCreate{Name: "web"})
			return errors.Join(err, cerr)
		},
	} {
		if err := prepare(); err != nil {
			t.Fatal(err)
		}
		var note []byte
		if err := target.Import(t.Context(), memoryFile(fmt.Sprintf("file-%d", i), "\"1\",\"2\"\n", &note)); err != nil {
			t.Fatalf("got %d: %v, want no error", i, err)
		}
		if got := w.rows(t, "in.c-web.events"); len(got) != 1 {
			t.Errorf("got %d: rows %q, want one", i, got)
		}
	}
	if all, err := storageapi.Collect(w.Tokens(t.Context())); err != nil || len(all) != 2 {
		t.Errorf("got %d tokens, %v, want the token of the client and the token of the sink", len(all), err)
	}
}

// A bucket gets the name that its tables want, on stacks of both kinds, or the reason is said.
func TestBucketNames(t *testing.T) {
	for _, c := range []struct {
		features  []string
		table     string
		permanent bool
	}{
		{nil, "in.c-web.events", false},
		{nil, "in.web.events", true},
		{[]string{storageapi.FeatureNoBucketPrefix}, "in.c-web.events", false},
		{[]string{storageapi.FeatureNoBucketPrefix}, "out.web.events", false},
	} {
		w := newWorld(t, c.features...)
		err := newTarget(t, w, drivers.TargetOptions{}).Ensure(t.Context(), driver.Table{ID: c.table, Columns: datatype.UntypedColumns("a")})
		if driver.IsPermanent(err) != c.permanent || !c.permanent && err != nil {
			t.Errorf("%q, features %q: got %v, want a permanent error: %t", c.table, c.features, err, c.permanent)
		}
		var buckets []string
		for b, err := range w.Buckets(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			buckets = append(buckets, b.ID)
		}
		if want := c.table[:strings.LastIndexByte(c.table, '.')]; !c.permanent && (len(buckets) != 1 || buckets[0] != want) || c.permanent && len(buckets) > 0 {
			t.Errorf("%q, features %q: got buckets %q, want only %q, and none after a permanent error", c.table, c.features, buckets, want)
		}
	}
}

// Bytes that no import can take are a permanent error.
func TestRefusedBytes(t *testing.T) {
	w := newWorld(t)
	staging := newStaging(t, w, nil)
	target := newTarget(t, w, drivers.TargetOptions{Staging: staging})
	var note []byte
	f := memoryFile("file-1", "\"1\",\"2\"\n", &note)
	if err := staging.Put(t.Context(), f.Slices[0], bytesOf("\"1\"\n")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := target.Import(t.Context(), f); !driver.IsPermanent(err) || !storageapi.HasCode(err, "csvImport.loadError") {
			t.Errorf("Import = %v, want a permanent error with its code", err)
		}
	}
	if got := w.rows(t, f.Table.ID); len(got) != 0 {
		t.Errorf("rows %q", got)
	}
}

// A typed column refuses a value. The error has its code and not the value, which may be secret.
func TestRefusedValueIsNotShown(t *testing.T) {
	w := newWorld(t)
	if _, err := w.CreateBucket(t.Context(), storageapi.BucketCreate{Name: "web", Stage: "in"}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.CreateTable(t.Context(), "in.c-web", storageapi.TableCreate{
		Name: "events", Columns: []storageapi.Column{{Name: "a", BaseType: "INTEGER"}, {Name: "b", BaseType: "STRING"}},
	}); err != nil {
		t.Fatal(err)
	}
	target := newTarget(t, w, drivers.TargetOptions{TempDir: t.TempDir()})
	var note []byte
	err := target.Import(t.Context(), memoryFile("f-1", "\"1\",\"x\"\n\"secret\",\"x\"\n", &note))
	failed, ok := errors.AsType[*storageapi.JobError](err)
	if !driver.IsPermanent(err) || !ok || failed.Code() != "csvImport.loadError" || strings.Contains(fmt.Sprintf("%v %+v", err, failed.Job.Error), "secret") {
		t.Errorf("Import = %v, want a permanent error with its code and without the value", err)
	}
	if job, err := w.Job(t.Context(), failed.Job.ID); err != nil || !strings.Contains(job.Error.Message, `column "a"`) {
		t.Errorf("the job has %+v, %v, want its message", job, err)
	}
}

// Each call of a sink's life fails in turn, in each of the ways in which calls fail. What the caller then does is to
// repeat the operation, as the buffer does. In the end every row is in the table once and no slice is left.
func TestEveryCallFails(t *testing.T) {
	answer := func(status int, header ...string) func(w *world, rw http.ResponseWriter, r *http.Request) {
		return func(_ *world, rw http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				rw.Header().Set(header[i], header[i+1])
			}
			rw.WriteHeader(status)
		}
	}
	for name, fault := range map[string]func(w *world, rw http.ResponseWriter, r *http.Request){
		"cut":         func(*world, http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"broken":      answer(500),
		"busy":        answer(429, "Retry-After", "1"),
		"maintenance": answer(503, "Retry-After", "1"),
		"answer lost": func(w *world, _ http.ResponseWriter, r *http.Request) {
			w.server.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		},
	} {
		for way, inPlace := range map[string]bool{"in place": true, "copied": false} {
			t.Run(name+"/"+way, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				for n := int64(1); failCall(t, w, n, inPlace, fault); n += int64(casetest.Step()) {
				}
			})
		}
	}
}

// failCall runs the life of a sink with a fault in the nth call, and reports whether there was one.
func failCall(t *testing.T, w *world, n int64, inPlace bool, fault func(w *world, rw http.ResponseWriter, r *http.Request)) (failed bool) {
	t.Helper()
	id := fmt.Sprintf("file-%d", n)
	dir := drivers.NewTokenDir(t.TempDir())
	staging := newStaging(t, w, dir)
	o := drivers.TargetOptions{Tokens: dir, TempDir: t.TempDir()}
	if inPlace {
		o.Staging = staging
	}
	var note []byte
	f := memoryFile(id, "", &note)
	f.SinkID, f.Table.ID, f.Slices = "web/"+id, "in.c-web."+id, nil
	f.OpenSlice = staging.Open
	for i := range 2 {
		f.Slices = append(f.Slices, driver.Object{ID: fmt.Sprintf("%s-s%d", id, i), FileID: id, SinkID: f.SinkID, Rows: 1, RawBytes: 8})
	}
	var calls atomic.Int64
	var what atomic.Value // of the call that failed
	hook := func(rw http.ResponseWriter, r *http.Request) bool {
		if calls.Add(1) != n {
			return false
		}
		text := r.Method + " " + r.URL.Path
		what.Store(text)
		fault(w, rw, r)
		return true
	}
	w.before.Store(&hook)
	try := func(step string, do func() error) {
		var err error
		for range 4 {
			if err = do(); err == nil {
				return
			}
		}
		t.Errorf("call %d (%v): %s: %v", n, what.Load(), step, err)
	}
	for i, obj := range f.Slices {
		try("Put", func() error { return staging.Put(t.Context(), obj, bytesOf(fmt.Sprintf("\"%d\",\"x\"\n", i))) })
	}
	try("Import", func() error {
		f.Progress = note
		return newTarget(t, w, o).Import(t.Context(), f)
	})
	try("Delete", func() error { return staging.Delete(t.Context(), f.Slices...) })
	try("Drop", func() error { return newTarget(t, w, o).Drop(t.Context(), f.SinkID) })
	w.before.Store(nil)
	if got := w.rows(t, f.Table.ID); len(got) != 2 || got[0][0] != "0" || got[1][0] != "1" {
		t.Errorf("call %d (%v): rows %q", n, what.Load(), got)
	}
	left, err := storageapi.Collect(w.Files(t.Context(), storageapi.FileQuery{Tags: []string{"forebay.fileID=" + id}}))
	if err != nil || len(left) > 0 {
		t.Errorf("call %d (%v): %d files are left, %v", n, what.Load(), len(left), err)
	}
	return calls.Load() >= n
}
