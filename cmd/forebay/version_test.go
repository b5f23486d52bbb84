package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/forebay/forebay"
)

// Every response of every HTTP server names the version of the build, whatever its status. So does the first line of the log.
func TestServersNameTheirVersion(t *testing.T) {
	t.Parallel()
	s := start(t, nil, "serve", "-dir", t.TempDir(), "-source", "web", "-ui", "-admin", "127.0.0.1:0")
	asked := 0
	for name, addr := range s.addr {
		if name == "otlp-grpc" || !strings.Contains(addr, ":") || strings.Contains(addr, "/") {
			continue
		}
		for _, path := range []string{"/", "/health-check", "/readiness-check", "/metrics", "/console/", "/checkpoint", "/v1/logs", "/stream/1/web/wrong"} {
			resp, err := http.Get("http://" + addr + path)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			asked++
			if got, want := resp.Header.Get("Server"), "forebay/"+forebay.Version(); got != want {
				t.Errorf("%s %s: status %d, Server is %q, want %q", name, path, resp.StatusCode, got, want)
			}
		}
	}
	if asked < 24 {
		t.Errorf("asked %d times, want three servers or more in %v", asked, s.addr)
	}
	s.stop()
	first, _, _ := strings.Cut(s.Logs(), "\n")
	if !strings.Contains(first, "version="+forebay.Version()) {
		t.Errorf("the first line of the log does not name the version %s: %s", forebay.Version(), first)
	}
}

// The client of the Stream API sends its version, and forebay version prints it.
func TestClientNamesItsVersion(t *testing.T) {
	t.Parallel()
	var got atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got.Store(r.UserAgent())
		_, _ = io.WriteString(w, `{"damage":[]}`)
	}))
	defer server.Close()
	call(t, "", nil, "damage", "list", "-api", server.URL, "-token", "secret")
	if want := "forebay/" + forebay.Version(); got.Load() != want {
		t.Errorf("User-Agent is %q, want %q", got.Load(), want)
	}
	for _, word := range []string{"version", "-version", "--version"} {
		if status, out, errs := call(t, "", nil, word); status != 0 || errs != "" || !strings.HasPrefix(out, "forebay "+forebay.Version()+", go") {
			t.Errorf("forebay %s: status %d, %q %q", word, status, out, errs)
		}
	}
}
