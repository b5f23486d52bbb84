package streamapi

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/internal/callkey"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/stream"
)

// TestOverlapOfSecrets rotates the secret of a source with and without an overlap, and sends with all secrets through a
// restart.
func TestOverlapOfSecrets(t *testing.T) {
	s := newService(t, serviceOptions{})
	s.done("POST", b+"/sources", webSource)
	s.done("POST", b+"/sources", `{"type":"otlp","name":"App"}`)
	address := func(a response) string { return a.at("http.url").(string) }
	rotate := func(query string) response {
		t.Helper()
		return s.want(200, "", testToken, "POST", b+"/sources/web/rotate-secret"+query, "")
	}
	want := func(what string, status int, addresses ...string) {
		t.Helper()
		for i, at := range addresses {
			if got := s.send(at, "{}"); got != status {
				t.Errorf("%s: status %d at address %d, want %d", what, got, i, status)
			}
		}
	}
	first := address(s.get(b + "/sources/web"))
	rotated := rotate("?overlap=90m")
	second := address(rotated)
	until, err := time.Parse(time.RFC3339, rotated.at("oldSecretUntil").(string))
	if left := time.Until(until); err != nil || left < 89*time.Minute || left > 90*time.Minute {
		t.Errorf("oldSecretUntil is %s: %v", until, err)
	}
	if strings.Contains(rotated.text, first[strings.LastIndexByte(first, '/')+1:]) {
		t.Errorf("the answer has the old secret: %s", rotated.text)
	}
	want("after an overlapping rotation", 200, first, second)

	s.stop()
	s.start()
	moved := func(old string) string { return s.ingest.URL + old[strings.Index(old, "/stream/"):] }
	first, second = moved(first), moved(second)
	if got := s.get(b + "/sources/web").at("oldSecretUntil"); got != rotated.at("oldSecretUntil") {
		t.Errorf("after a restart oldSecretUntil is %v", got)
	}
	want("after a restart", 200, first, second)
	s.done("PUT", b+"/sources/web/versions/1/rollback", "")
	want("after a rollback", 200, first, second)
	third := rotate("")
	if third.at("oldSecretUntil") != nil {
		t.Errorf("a rotation without overlap answers %s", third.text)
	}
	want("after a rotation without overlap", 404, first, second)
	want("the newest", 200, address(third))

	fourth := address(rotate("?overlap=168h"))
	s.done("DELETE", b+"/sources/web", "")
	s.done("PUT", b+"/sources/web/undelete", "")
	want("undeleted, the old one", 404, address(third))
	want("undeleted, the newest", 200, fourth)

	for query, name := range map[string]string{
		"?overlap=": "invalidFieldType", "?overlap=1d": "invalidFieldType", "?overlap=5": "invalidFieldType", "?overlap=NaNh": "invalidFieldType",
		"?overlap=-1s": "invalidRange", "?overlap=168h0m0.000000001s": "invalidRange", "?overlap=9999999h": "invalidFieldType",
	} {
		a := s.want(400, "stream.api."+name, testToken, "POST", b+"/sources/web/rotate-secret"+query, "")
		if message := a.body["message"].(string); !strings.HasPrefix(message, "overlap is ") {
			t.Errorf("%s: got %s, want strings.HasPrefix(message, \"overlap is \")", query, message)
		}
	}
	want("after refused rotations", 200, fourth)
}

// TestEndOfOverlap checks that the old secret ends with its time, for events and for telemetry.
func TestEndOfOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng, err := forebay.Open(t.TempDir(), forebay.Options{})
		must(t, err)
		defer eng.Close()
		cat, err := catalog.Open(filepath.Join(t.TempDir(), "catalog"), eng, catalog.Options{})
		must(t, err)
		defer cat.Close()
		ingest := stream.Ingest(eng, stream.Options{})
		by := catalog.By{Type: "user"}
		for id, kind := range map[string]forebay.SourceType{"web": forebay.HTTP, "app": forebay.OTLP} {
			task, err := cat.CreateSource(by, catalog.SourceSpec{Name: id, Type: kind})
			if err == nil {
				_, err = task.Wait(t.Context())
			}
			must(t, err)
		}
		var paths [2][]string // with the old secrets and with the new ones
		note := func(i int, s catalog.Source) {
			paths[i] = append(paths[i], map[string]string{"web": "/stream/1/web/", "app": "/otlp/1/app/"}[s.ID]+s.Secret)
		}
		for _, id := range []string{"web", "app"} {
			source, _ := cat.Source(id)
			note(0, source)
			if source, err = cat.RotateSecret(t.Context(), by, id, time.Hour); err != nil {
				t.Fatal(err)
			}
			note(1, source)
		}
		want := func(old, current int) {
			t.Helper()
			for i, status := range []int{old, current} {
				for _, path := range paths[i] {
					r := httptest.NewRequest("POST", path, http.NoBody)
					r.Header.Set("Content-Type", "application/x-protobuf")
					w := httptest.NewRecorder()
					if ingest.ServeHTTP(w, r); w.Code != status {
						t.Errorf("got %.14s: status %d, want %d", path, w.Code, status)
					}
				}
			}
		}
		want(200, 200)
		time.Sleep(time.Hour - time.Second)
		want(200, 200)
		time.Sleep(time.Second)
		want(404, 200)
	})
}

// TestKeyOutlivesRotation sends a request with its key again after the secret was rotated with an overlap. It is not
// stored twice.
func TestKeyOutlivesRotation(t *testing.T) {
	s := newService(t, serviceOptions{})
	s.done("POST", b+"/sources", webSource)
	old := s.get(b + "/sources/web").at("http.url").(string)
	send := func(url string) {
		t.Helper()
		req, err := http.NewRequest("POST", url, strings.NewReader("{}"))
		must(t, err)
		req.Header.Set(callkey.Header, "k")
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Errorf("status %d", resp.StatusCode)
		}
	}
	rows := func() any {
		return s.get(b + "/sources/web/sinks/events/statistics/total").at("total.recordsCount")
	}
	send(old)
	s.want(200, "", testToken, "POST", b+"/sources/web/rotate-secret?overlap=1h", "")
	send(old)
	if n := rows(); n != 1.0 {
		t.Errorf("got %v rows, want 1", n)
	}
}
