package streamapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/stream"
)

// failingStore is a store whose disk can be away.
type failingStore struct {
	catalog.Store
	away atomic.Bool
}

func (f *failingStore) failure() error {
	if !f.away.Load() {
		return nil
	}
	return &catalog.FailedError{Dir: "/secret/dir", Err: errors.New("inner text")}
}

func (f *failingStore) Get(key string) ([]byte, error) {
	if err := f.failure(); err != nil {
		return nil, err
	}
	return f.Store.Get(key)
}

func (f *failingStore) Scan(prefix string, visit func(string, []byte) error) error {
	if err := f.failure(); err != nil {
		return err
	}
	return f.Store.Scan(prefix, visit)
}

func (f *failingStore) Commit(records map[string][]byte) error {
	if err := f.failure(); err != nil {
		return fmt.Errorf("%w: %w", catalog.ErrNotCommitted, err)
	}
	return f.Store.Commit(records)
}

func newFailingStore(t *testing.T) *failingStore {
	t.Helper()
	s, err := catalog.OpenStore(t.TempDir(), slog.New(slog.DiscardHandler))
	must(t, err)
	return &failingStore{Store: s}
}

// TestStoreOutage takes the disk of the definitions away. Requests that memory can serve succeed, all others must be repeated.
func TestStoreOutage(t *testing.T) {
	store := newFailingStore(t)
	s := newService(t, serviceOptions{catalog: catalog.Options{Store: store}})
	s.done("POST", b+"/sources", webSource)
	store.away.Store(true)
	for _, r := range []struct{ method, path, body string }{
		{"POST", "/sources", `{"type":"http","name":"Second"}`},
		{"PATCH", "/sources/web", `{"name":"Second"}`},
		{"POST", "/sources/web/rotate-secret", ""},
		{"GET", "/sources/web/versions", ""},
		{"GET", "/sources/web/versions/1", ""},
		{"PUT", "/sources/web/sinks/events/versions/1/rollback", ""},
		{"DELETE", "/sources/web?cascade=true", ""},
	} {
		a := s.want(503, "stream.api.unavailable", testToken, r.method, b+r.path, r.body)
		if a.header.Get("Retry-After") != "5" || strings.Contains(a.text, "secret") || strings.Contains(a.text, "inner") {
			t.Errorf("%s %s: got Retry-After %q, %s, want 5 and no secret or inner cause", r.method, r.path, a.header.Get("Retry-After"), a.text)
		}
	}
	s.get(b + "/sources/web")
	s.get(b + "/aggregation/sources")
	store.away.Store(false)
	s.done("PATCH", b+"/sources/web", `{"name":"Second"}`)
}

// TestFencedNode asks a node whose engine has stopped permanently, because another node owns its rows.
func TestFencedNode(t *testing.T) {
	e := answerTo(fmt.Errorf("define: %w", &buffer.FencedError{Instance: "a", Err: buffer.ErrFenced}))
	if e.Status != 503 || e.Name != unavailableName || e.RetryAfter != unavailableAfter {
		t.Errorf("answer %+v", e)
	}
}

// TestReady breaks the disks below a service one after the other.
func TestReady(t *testing.T) {
	store := newFailingStore(t)
	var broken atomic.Bool
	disk := disktest.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if broken.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			return errors.New("inner text")
		}
		return nil
	}))
	opts := serviceOptions{catalog: catalog.Options{Store: store}, engine: forebay.Options{
		Target: buffertest.NewMemory(), Buffer: localdisk.On(buffer.Tuning{Retry: buffer.Retry{Initial: time.Millisecond}}, disk),
	}}
	s := newService(t, opts)
	s.done("POST", b+"/sources", webSource)
	url := s.get(b + "/sources/web").at("http.url").(string)
	check := func(status int, local, definitions string) {
		t.Helper()
		a := s.do("", "GET", "/readiness-check", "")
		if a.status != status || a.at("ready") != (status == 200) || a.at("localLevel") != local || a.at("catalog") != definitions ||
			(a.header.Get("Retry-After") == "") != (status == 200) {
			t.Errorf("status %d, Retry-After %q: %s", a.status, a.header.Get("Retry-After"), a.text)
		}
	}
	check(200, "ok", "ok")
	store.away.Store(true)
	check(503, "ok", "unavailable")
	if a := s.do("", "GET", "/health-check", ""); a.status != 200 {
		t.Errorf("the health check says %d: a restart would mend nothing", a.status)
	}
	store.away.Store(false)
	broken.Store(true)
	if status := s.send(url, "{}"); status != 503 {
		t.Errorf("event: status %d", status)
	}
	check(503, "unavailable", "ok")
	broken.Store(false)
	for deadline := time.Now().Add(30 * time.Second); s.send(url, "{}") != 200; {
		if time.Now().After(deadline) {
			t.Fatal("the local level is not opened again")
		}
	}
	check(200, "ok", "ok")
	if a := s.do("", "POST", "/readiness-check", ""); a.status != 405 {
		t.Errorf("POST: status %d", a.status)
	}
	w := httptest.NewRecorder()
	stream.Ready(s.eng).ServeHTTP(w, httptest.NewRequest("GET", "/readiness-check", nil))
	if w.Code != 200 || strings.Contains(w.Body.String(), "catalog") {
		t.Errorf("without a catalog: %d %s", w.Code, w.Body)
	}
}

// TestIdleSinkHasNoFile checks that a file is opened by its first row, and not for a sink that waits for one.
func TestIdleSinkHasNoFile(t *testing.T) {
	mem := buffertest.NewMemory()
	s := newService(t, serviceOptions{engine: forebay.Options{Target: mem, Staging: mem}})
	s.done("POST", b+"/sources", webSource)
	s.done("PUT", b+"/sources/web/sinks/events/disable", "")
	s.done("PATCH", b+"/sources/web/sinks/events", `{"description":"changed while disabled"}`)
	s.done("PUT", b+"/sources/web/sinks/events/enable", "")
	if files, _ := s.get(b + "/sources/web/sinks/events/statistics/files").at("files").([]any); len(files) != 0 || len(mem.Objects()) != 0 {
		t.Errorf("an idle sink has the files %v and the objects %v", files, mem.Objects())
	}
	s.send(s.get(b+"/sources/web").at("http.url").(string), "{}")
	if files, _ := s.get(b + "/sources/web/sinks/events/statistics/files").at("files").([]any); len(files) != 1 {
		t.Errorf("after an event there are the files %v", files)
	}
}

// TestFailuresAreShown checks the entries of the list of files for a failed upload and a failed import, that they are tried
// again soon, and that SinkHandle.Retry does it at once.
func TestFailuresAreShown(t *testing.T) {
	for _, op := range []buffertest.Op{buffertest.OpPut, buffertest.OpImport} {
		t.Run(fmt.Sprint(op), func(t *testing.T) {
			mem := buffertest.NewMemory()
			var away atomic.Bool
			away.Store(true)
			mem.Before = func(_ context.Context, c buffertest.Call) error {
				if c.Op == op && away.Load() {
					return errors.New("the store is closed for today")
				}
				return nil
			}
			s := newService(t, serviceOptions{engine: forebay.Options{Target: mem, Staging: mem}})
			s.done("POST", b+"/sources", webSource)
			s.send(s.get(b+"/sources/web").at("http.url").(string), "{}")
			s.done("PUT", b+"/sources/web/sinks/events/disable", "") // what waits is moved at once
			var files response
			for deadline := time.Now().Add(20 * time.Second); ; {
				if files = s.get(b + "/sources/web/sinks/events/statistics/files?failedFiles=true"); files.at("files.0") != nil {
					break
				}
				if time.Now().After(deadline) {
					t.Fatal("no failure is listed")
				}
			}
			after, err := time.Parse(time.RFC3339, fmt.Sprint(files.at("files.0.retryAfter")))
			if err != nil || time.Until(after) > 3*time.Second || !strings.Contains(fmt.Sprint(files.at("files.0.retryReason")), "closed for today") {
				t.Errorf("got %v: %s, want the reason \"closed for today\" and a retry within 3 s", err, files.text)
			}
			away.Store(false)
			must(t, errors.Join(s.eng.Sink("web", "events").Retry(t.Context()), s.eng.Flush(t.Context(), "web")))
			if files := s.get(b + "/sources/web/sinks/events/statistics/files"); files.at("files.0.state") != "imported" || files.at("files.0.retryAttempt") != nil {
				t.Errorf("mended: %s", files.text)
			}
		})
	}
}
