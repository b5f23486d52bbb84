package stream_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream"
)

const webSecret = "correct-horse-battery-staple"

// service is a real engine in memory with a real server.
type service struct {
	t   *testing.T
	eng *forebay.Engine
	mem *buffertest.Memory
	url string // of the server, without a path
}

func newService(t *testing.T, tune func(*forebay.Options), sources ...forebay.Source) *service {
	t.Helper()
	mem := buffertest.NewMemory()
	opts := forebay.Options{Staging: mem, Target: mem, Buffer: localdisk.On(buffer.Tuning{MemTableBytes: 1 << 20}, vfs.NewMem())}
	if tune != nil {
		tune(&opts)
	}
	eng, err := forebay.Open("data", opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := eng.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, s := range sources {
		if err := eng.Define(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	srv := httptest.NewServer(stream.Ingest(eng, stream.Options{}))
	t.Cleanup(srv.Close)
	return &service{t, eng, mem, srv.URL}
}

// post sends a body to a source with its secret and returns the status, the headers and the body of the response.
func (s *service) post(source, contentType, body string) (int, http.Header, string) {
	s.t.Helper()
	resp, err := http.Post(s.url+"/stream/1/"+source+"/"+webSecret, contentType, strings.NewReader(body))
	if err != nil {
		s.t.Error(err)
		return 0, nil, ""
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Error(err)
	}
	return resp.StatusCode, resp.Header, string(b)
}

// rows returns the rows in the table of a sink once everything accepted so far is there.
func (s *service) rows(source string) [][]string {
	s.t.Helper()
	if err := s.eng.Flush(s.t.Context(), source); err != nil {
		s.t.Fatal(err)
	}
	return s.mem.Rows("in.c-" + source + ".rows")
}

func source(id string, columns ...mapping.Column) forebay.Source {
	return forebay.Source{ID: id, Secret: webSecret, Sinks: []forebay.Sink{
		{ID: "rows", Table: forebay.Table{ID: "in.c-" + id + ".rows", Columns: columns}},
	}}
}

func TestEventBecomesRow(t *testing.T) {
	s := newService(t, nil, source("web",
		mapping.IP("ip"), mapping.Path("user", "user.id"),
		mapping.Template("label", `Header("X-Kind") + "/" + Header("Host")`, mapping.RawString()), mapping.Body("body")))
	body := "{\"user\":{\"id\":4.20},\n \"text\":\"a \\\"b\\\", ü\"}"
	req, err := http.NewRequest(http.MethodPost, s.url+"/stream/1/web/"+webSecret, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "in.example.com"
	req.Header.Set("Content-Type", "Application/JSON; charset=utf-8")
	req.Header.Set("x-kind", "test")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Fatalf("answer is %s", resp.Status)
	}
	want := [][]string{{"127.0.0.1", "4.20", "test/in.example.com", body}}
	if got := s.rows("web"); !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("rows are %q, want %q", got, want)
	}
}

// Any bytes are an event for columns that do not look into the body.
func TestUnparsableBodiesAreStoredUnaltered(t *testing.T) {
	s := newService(t, nil, source("web", mapping.Body("body"), mapping.IP("ip"), mapping.Headers("headers")))
	bodies := []string{"", "{", `{"a":1}{"b":2}`, "[1,2]\n[3]\n", "\x1f\x8b\x00\xff", strings.Repeat("x", 1<<20)}
	for _, body := range bodies {
		for _, contentType := range []string{"application/json", "text/plain"} {
			if status, _, answer := s.post("web", contentType, body); status != 200 || answer != "OK" {
				t.Errorf("%.20q as %s: got %d %s, want 200 OK", body, contentType, status, answer)
			}
		}
	}
	rows := s.rows("web")
	if len(rows) != 2*len(bodies) {
		t.Fatalf("got %d rows, want %d", len(rows), 2*len(bodies))
	}
	for i, row := range rows {
		if row[0] != bodies[i/2] || row[1] != "127.0.0.1" || !json.Valid([]byte(row[2])) {
			t.Errorf("row %d is %.60q", i, row)
		}
	}
}

// A sink that looks into the body refuses unreadable bodies. The other sink of the source keeps them.
func TestRejections(t *testing.T) {
	def := source("web", mapping.Body("body"))
	def.Sinks = append(def.Sinks, forebay.Sink{ID: "fields", Table: forebay.Table{
		ID: "in.c-web.fields", Columns: mapping.Columns{mapping.Path("user", "user.id"), mapping.Template("k", `Body("kind")`)},
	}})
	s := newService(t, nil, def)
	tests := []struct {
		contentType, body string
		status            int
		error, message    string
	}{
		{"application/json", `{"user":`, 422, "unprocessableContent", `column "user"`},
		{"application/json", `{"user":{}}`, 422, "unprocessableContent", `column "user"`},
		{"application/json", `{"user":{"id":1}}`, 422, "unprocessableContent", `column "k"`},
		{"text/plain", `{"user":{"id":1}}`, 415, "unsupportedMediaType", `column "user"`},
		{"application/x-www-form-urlencoded", "a=%zz", 400, "badRequest", `column "user"`},
	}
	for _, tt := range tests {
		status, header, answer := s.post("web", tt.contentType, tt.body)
		var body struct {
			StatusCode int
			Error      string
			Sources    []struct {
				SourceID string
				Sinks    []struct {
					SinkID         string
					StatusCode     int
					Error, Message string
				}
			}
		}
		if err := json.Unmarshal([]byte(answer), &body); err != nil {
			t.Fatalf("%s: got %v, want no error", answer, err)
		}
		sinks := body.Sources[0].Sinks
		if status != tt.status || header.Get("Content-Type") != "application/json" || body.Error != "stream.in.writeFailed" ||
			sinks[0].SinkID != "fields" || sinks[0].Error != "stream.in."+tt.error || !strings.Contains(sinks[0].Message, tt.message) ||
			sinks[1].SinkID != "rows" || sinks[1].StatusCode != 200 {
			t.Errorf("%s as %s: got %d\n%s\nwant %d, and the error stream.in.%s at the sink fields alone", tt.body, tt.contentType, status, answer, tt.status, tt.error)
		}
	}
	if got := s.rows("web"); len(got) != len(tests) {
		t.Errorf("the good sink has %d rows, want %d", len(got), len(tests))
	}
	if got := s.mem.Rows("in.c-web.fields"); len(got) != 0 {
		t.Errorf("the refusing sink has rows: %q", got)
	}
}

func TestRowTooLarge(t *testing.T) {
	s := newService(t, func(o *forebay.Options) { o.MaxRowBytes = 1000 }, source("web", mapping.Body("body")))
	status, _, answer := s.post("web", "", strings.Repeat("x", 1000))
	if status != 413 || !strings.Contains(answer, "stream.in.payloadTooLarge") {
		t.Errorf("answer is %d %s", status, answer)
	}
	if status, _, answer := s.post("web", "", strings.Repeat("x", 1<<20+1)); status != 413 || !strings.Contains(answer, "stream.in.bodyTooLarge") {
		t.Errorf("answer is %d %s", status, answer)
	}
	if got := s.rows("web"); len(got) != 0 {
		t.Errorf("rows are %.60q", got)
	}
}

func TestUnsafeSyncIsAccepted(t *testing.T) {
	def := source("web", mapping.Body("body"))
	def.Settings.Sync = forebay.SyncUnsafe
	s := newService(t, nil, def)
	if status, _, answer := s.post("web", "", "x"); status != 202 || answer != "OK" {
		t.Errorf("answer is %d %s", status, answer)
	}
	if got := s.rows("web"); len(got) != 1 {
		t.Errorf("rows are %q", got)
	}
}

// The life of a source, seen from its clients.
func TestDefinitionsChange(t *testing.T) {
	def := source("web", mapping.Body("body"))
	s := newService(t, nil)
	check := func(name string, status int, part string) {
		t.Helper()
		if got, _, answer := s.post("web", "", name); got != status || !strings.Contains(answer, part) {
			t.Errorf("%s: answer is %d %s, want %d with %s", name, got, answer, status, part)
		}
	}
	define := func() {
		t.Helper()
		if err := s.eng.Define(t.Context(), def); err != nil {
			t.Fatal(err)
		}
	}
	check("before", 404, "stream.in.noSourceFound")
	define()
	check("defined", 200, "OK")
	def.Disabled = true
	define()
	check("disabled", 404, "stream.in.disabledSource")
	def.Disabled = false
	def.Secret = "another"
	define()
	check("secret rotated", 404, "stream.in.noSourceFound")
	def.Secret = ""
	define()
	check("without a secret", 404, "stream.in.noSourceFound")
	def.Secret = webSecret
	def.Sinks[0].Disabled = true
	define()
	check("no enabled sink", 200, "OK")
	def.Sinks[0].Disabled = false
	define()
	check("enabled", 200, "OK")
	want := [][]string{{"defined"}, {"enabled"}}
	if got := s.rows("web"); !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("rows are %q, want %q", got, want)
	}
	if err := s.eng.Remove(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	check("removed", 404, "stream.in.noSourceFound")
	if err := s.eng.Close(); err != nil {
		t.Fatal(err)
	}
	check("closed", 404, "stream.in.noSourceFound")
}

func TestClosedEngine(t *testing.T) {
	s := newService(t, nil, source("web", mapping.Body("body")))
	if err := s.eng.Close(); err != nil {
		t.Fatal(err)
	}
	status, header, answer := s.post("web", "", "x")
	if status != 503 || header.Get("Retry-After") != "1" || !strings.Contains(answer, "stream.in.shutdown") {
		t.Errorf("answer is %d %v %s", status, header, answer)
	}
}

// A full disk refuses events until staging accepts rows again. All rows acknowledged before are there.
func TestOverload(t *testing.T) {
	release := make(chan struct{})
	s := newService(t, func(o *forebay.Options) {
		o.Buffer.MaxDiskBytes = 1 << 20
		mem := o.Staging.(*buffertest.Memory)
		mem.Before = func(ctx context.Context, call buffertest.Call) error {
			if call.Op != buffertest.OpPut {
				return nil
			}
			select {
			case <-release:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}, source("web", mapping.Body("body")))
	body := func() string { // gzip cannot make it smaller
		b := make([]byte, 100<<10)
		_, _ = rand.Read(b)
		return string(b)
	}
	var want []string
	for {
		b := body()
		status, header, answer := s.post("web", "", b)
		if status == 200 {
			if want = append(want, b); len(want) > 100 {
				t.Fatal("the disk never gets full")
			}
			continue
		}
		after, err := strconv.Atoi(header.Get("Retry-After"))
		if status != 503 || err != nil || after < 1 || !strings.Contains(answer, "stream.in.overloaded") {
			t.Fatalf("answer is %d %v %s", status, header, answer)
		}
		break
	}
	if len(want) == 0 {
		t.Fatal("not one event was taken")
	}
	close(release)
	rows := s.rows("web")
	for i, row := range rows {
		if i >= len(want) || row[0] != want[i] {
			t.Fatalf("row %d of %d is not the event that was acknowledged", i, len(rows))
		}
	}
	if len(rows) != len(want) {
		t.Errorf("got %d rows, want %d", len(rows), len(want))
	}
	// Room comes back when the imported slices are removed, soon after their rows are in the table.
	for b := body(); ; {
		status, _, answer := s.post("web", "", b)
		if status == 200 {
			break
		}
		if status != 503 || t.Context().Err() != nil {
			t.Fatalf("after the overload: %d %s", status, answer)
		}
	}
}

// While the disk fails clients are sent away, and when it is fixed they are served without a restart.
func TestFailingDisk(t *testing.T) {
	var broken atomic.Bool
	s := newService(t, func(o *forebay.Options) {
		o.Buffer.Retry.Initial = time.Millisecond
		o.Buffer = localdisk.On(o.Buffer, disktest.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if broken.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
				return errors.New("inner text")
			}
			return nil
		})))
	}, source("web", mapping.Body("body")))
	want := map[string]bool{}
	if status, _, answer := s.post("web", "", "before"); status != 200 {
		t.Fatalf("before: %d %s", status, answer)
	}
	want["before"] = true

	broken.Store(true)
	status, header, answer := s.post("web", "", "during")
	if status != 503 || header.Get("Retry-After") != "2" || !strings.Contains(answer, "stream.in.noPipelineReady") ||
		strings.Contains(answer, "inner text") {
		t.Errorf("during: %d %v %s", status, header, answer)
	}

	broken.Store(false)
	for end := time.Now().Add(30 * time.Second); ; {
		status, _, answer := s.post("web", "", "after")
		if status == 200 {
			break
		}
		if status != 503 || time.Now().After(end) {
			t.Fatalf("after: %d %s", status, answer)
		}
	}
	want["after"] = true
	got := map[string]bool{}
	for _, row := range s.rows("web") {
		got[row[0]] = true
	}
	delete(got, "during") // unknown, as the response said
	if !maps.Equal(got, want) {
		t.Errorf("rows are %v, want %v", got, want)
	}
}

// Many clients at once, over shared buffers. Every row must hold its own request and no other's.
func TestConcurrentRequestsDoNotMix(t *testing.T) {
	s := newService(t, nil, source("web", mapping.Path("n", "n"), mapping.Template("h", `Header("X-N")`, mapping.RawString()), mapping.Body("body")))
	const clients, each = 16, 50
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for i := range each {
				n := c*each + i
				// Sizes differ, so that a buffer is used again for less than it held before.
				body := fmt.Sprintf(`{"n":%d,"pad":%q}`, n, bytes.Repeat([]byte{byte('a' + c)}, n*37%9000))
				req, err := http.NewRequest(http.MethodPost, s.url+"/stream/1/web/"+webSecret, strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("X-N", strconv.Itoa(n))
				resp, err := client.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if resp.StatusCode != 200 {
					t.Errorf("answer is %s", resp.Status)
				}
			}
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	for _, row := range s.rows("web") {
		if row[0] != row[1] || !strings.HasPrefix(row[2], `{"n":`+row[0]+`,`) || seen[row[0]] {
			t.Fatalf("mixed or repeated row %.80q", row)
		}
		seen[row[0]] = true
	}
	if len(seen) != clients*each {
		t.Errorf("got %d rows, want %d", len(seen), clients*each)
	}
}

func ExampleIngest() {
	ctx := context.Background()
	mem := buffertest.NewMemory()
	eng, err := forebay.Open("data", forebay.Options{Staging: mem, Target: mem, Buffer: localdisk.On(buffer.Tuning{}, vfs.NewMem())})
	if err != nil {
		panic(err)
	}
	defer eng.Close()
	err = eng.Define(ctx, forebay.Source{ID: "web", Secret: "s3cret", Sinks: []forebay.Sink{{
		ID:    "events",
		Table: forebay.Table{ID: "in.c-web.events", Columns: mapping.Columns{mapping.Path("user", "user.id"), mapping.Body("body")}},
	}}})
	if err != nil {
		panic(err)
	}

	server := httptest.NewServer(stream.Ingest(eng, stream.Options{}))
	defer server.Close()
	url := server.URL + "/stream/1/web/s3cret"
	for _, body := range []string{`{"user":{"id":42}}`, `{"user":{}}`} {
		resp, err := http.Post(url, "application/json", strings.NewReader(body))
		if err != nil {
			panic(err)
		}
		resp.Body.Close()
		fmt.Println(resp.Status)
	}

	if err := eng.Flush(ctx, "web"); err != nil {
		panic(err)
	}
	fmt.Println(mem.Rows("in.c-web.events"))
	// Output:
	// 200 OK
	// 422 Unprocessable Entity
	// [[42 {"user":{"id":42}}]]
}

func ExampleServer() {
	mem := buffertest.NewMemory()
	eng, err := forebay.Open("data", forebay.Options{Staging: mem, Target: mem, Buffer: localdisk.On(buffer.Tuning{}, vfs.NewMem())})
	if err != nil {
		panic(err)
	}
	defer eng.Close()

	srv := stream.Server("127.0.0.1:8080", stream.Ingest(eng, stream.Options{}))
	stop, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := srv.Shutdown(stop); err != nil { // responds to the requests in progress. The engine is closed after it.
		fmt.Println(err)
	}
	fmt.Println(srv.ReadHeaderTimeout)
	// Output: 10s
}
