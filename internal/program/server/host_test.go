package server

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

// A page can make its own name point to this machine (DNS rebinding). A server on a loopback address refuses requests that name such a host,
// before they have an effect.
func TestUnknownHosts(t *testing.T) {
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "figures") })
	for name, handler := range map[string]http.Handler{
		"POST /none":   adminHandler(new(management), Parts{}),
		"GET /metrics": withMetrics(metrics, http.NotFoundHandler(), "events.example"),
	} {
		srv := httptest.NewServer(handler)
		defer srv.Close()
		for host, refused := range map[string]bool{
			"": false, "localhost:8082": false, "attacker.example": true, "attacker.example:8082": true,
			"events.example": name == "POST /none",
		} {
			method, path, _ := strings.Cut(name, " ")
			req, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = host
			resp, err := srv.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if got := resp.StatusCode == http.StatusMisdirectedRequest; got != refused {
				t.Errorf("%s with Host %q = %d, want refused with 421: %t", name, host, resp.StatusCode, refused)
			}
		}
	}
}

// An order with a parameter is refused before it has an effect, because the parameter would be ignored.
func TestCheckpointWithParameter(t *testing.T) {
	dir := t.TempDir()
	srv := httptest.NewServer(adminHandler(&management{cfg: Config{Dir: dir}}, Parts{}))
	defer srv.Close()
	resp, err := srv.Client().Post(srv.URL+"/checkpoint?dir=/backup", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	if entries, _ := os.ReadDir(dir); resp.StatusCode != http.StatusBadRequest || len(entries) > 0 {
		t.Errorf("POST /checkpoint?dir=/backup: %d %s, and the folder has %v; want 400 and nothing", resp.StatusCode, text, entries)
	}
}
