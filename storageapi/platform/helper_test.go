package platform_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/forebay/forebay/storageapi"
	"github.com/forebay/forebay/storageapi/platform"
)

func TestMain(m *testing.M) {
	if isChild() {
		runChild()
		return
	}
	goleak.VerifyTestMain(m,
		// Idle connections of the default transport.
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
	)
}

const masterToken = "master-token-of-the-tests"

// world is a server over real HTTP, and its client.
type world struct {
	*storageapi.Client
	t      *testing.T
	dir    string
	opts   platform.Options
	server *platform.Server
	http   *httptest.Server
}

// switchable lets the address of the server outlive a restart.
type switchable struct {
	mu sync.RWMutex
	h  http.Handler
}

func (s *switchable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.h.ServeHTTP(w, r)
}

func newWorld(t *testing.T, change ...func(o *platform.Options)) *world {
	t.Helper()
	o := platform.Options{
		Token: masterToken, AnyComponent: true, Logger: slog.New(slog.NewTextHandler(testLog{t}, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	for _, c := range change {
		c(&o)
	}
	w := &world{t: t, dir: t.TempDir(), opts: o}
	w.open()
	h := &switchable{h: w.server}
	w.http = httptest.NewServer(h)
	t.Cleanup(func() {
		w.http.Close()
		if err := w.server.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	w.Client = w.client(masterToken)
	return w
}

func (w *world) open() {
	w.t.Helper()
	s, err := platform.Open(w.dir, w.opts)
	if err != nil {
		w.t.Fatalf("Open: %v", err)
	}
	w.server = s
}

// restart closes the server and opens it again on the same directory, under the same address.
func (w *world) restart() {
	w.t.Helper()
	h := w.http.Config.Handler.(*switchable)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := w.server.Close(); err != nil {
		w.t.Fatalf("Close: %v", err)
	}
	w.open()
	h.h = w.server
}

func (w *world) client(token storageapi.Secret) *storageapi.Client {
	w.t.Helper()
	c, err := storageapi.New(storageapi.Options{URL: w.http.URL, Token: token, HTTP: w.http.Client()})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Logf("%s", bytes.TrimSpace(p))
	return len(p), nil
}

// response is a raw response of the server.
type response struct {
	status int
	header http.Header
	body   []byte
}

// raw makes a call as a user without our client would.
func (w *world) raw(method, path, contentType, body string, header ...string) response {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.http.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	req.Header.Set(storageapi.TokenHeader, masterToken)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return w.do(req)
}

// do sends a request as it is.
func (w *world) do(req *http.Request) response {
	w.t.Helper()
	resp, err := w.http.Client().Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return response{resp.StatusCode, resp.Header, data}
}

func (a response) decode(t *testing.T) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal(a.body, &out); err != nil {
		t.Fatalf("%s: got %v, want no error", a.body, err)
	}
	return out
}

const (
	formType = "application/x-www-form-urlencoded"
	jsonType = "application/json"
)

// must returns the value of a call that cannot fail here.
func must[V any](v V, err error) func(t *testing.T) V {
	return func(t *testing.T) V {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func raw(s string) json.RawMessage { return json.RawMessage(s) }

func expectJSON(t *testing.T, what string, got json.RawMessage, want string) {
	t.Helper()
	if string(got) != want {
		t.Errorf("%s is %s, want %s", what, got, want)
	}
}

// expectError wants a response with a status and a code.
func expectError(t *testing.T, err error, status int, code string) {
	t.Helper()
	var e *storageapi.Error
	if !asError(err, &e) || e.Status != status || e.Code != code {
		t.Errorf("error %v, want status %d and code %q", err, status, code)
		return
	}
	if e.ExceptionID == "" || e.Message == "" {
		t.Errorf("error %v has no exception id or no message", err)
	}
}

// upload makes a file of the project.
func (w *world) upload(name, data string) storageapi.IntID {
	w.t.Helper()
	f, err := w.Upload(w.t.Context(), storageapi.FilePrepare{Name: name}, storageapi.BytesSource([]byte(data)))
	if err != nil {
		w.t.Fatal(err)
	}
	return f.ID
}

// preview reads a table as CSV.
func (w *world) preview(table string, q storageapi.RowQuery) string {
	w.t.Helper()
	rc, err := w.Preview(w.t.Context(), table, q)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.read(rc)
}

func (w *world) read(rc io.ReadCloser) string {
	w.t.Helper()
	defer rc.Close()
	data, err := io.ReadAll(rc)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(data)
}

// table makes a bucket, if need be, and a table of text columns.
func (w *world) table(ctx context.Context, id string, key []string, columns ...string) {
	w.t.Helper()
	parts := strings.SplitN(id, ".", 3)
	_, err := w.CreateBucket(ctx, storageapi.BucketCreate{Stage: parts[0], Name: strings.TrimPrefix(parts[1], "c-")})
	if err != nil && !storageapi.IsAlreadyExists(err) {
		w.t.Fatal(err)
	}
	_, err = w.CreateTable(ctx, parts[0]+"."+parts[1], storageapi.TableCreate{Name: parts[2], PrimaryKey: key, Columns: storageapi.TextColumns(columns...)})
	check(w.t, err)
}

// slices reads all slices of a file, one after the other.
func (w *world) slices(id storageapi.IntID) string {
	w.t.Helper()
	f, err := w.Download(w.t.Context(), id)
	check(w.t, err)
	rc, err := f.OpenSlices(w.t.Context())
	check(w.t, err)
	return w.read(rc)
}
