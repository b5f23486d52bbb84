package server

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/forebay/forebay/stream/refusal"
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

// Every refusal of the admin address has a body that describes the problem and what to do, in the shape of the Stream API's errors.
func TestRefusalsOfAdminHaveBodies(t *testing.T) {
	handler := adminHandler(&management{cfg: Config{Dir: t.TempDir()}}, Parts{})
	for _, tt := range []struct {
		request, host, origin string
		status                int
		name, what, next      string
	}{
		{"GET /checkpoint", "localhost", "", 405, "methodNotAllowed", `"/checkpoint" does not allow GET`, "Use POST"},
		{"DELETE /checkpoint", "localhost", "", 405, "methodNotAllowed", `"/checkpoint" does not allow DELETE`, "Use POST"},
		{"POST /checkpoint/", "localhost", "", 404, "notFound", `"/checkpoint/" not found`, "POST /checkpoint"},
		{"GET /", "127.0.0.1:8082", "", 404, "notFound", `"/" not found`, "POST /checkpoint"},
		{"POST /checkpoint?dir=/backup", "localhost", "", 400, "badRequest", "has no parameters", "Repeat the request without parameters"},
		{"POST /checkpoint", "localhost", "https://example.com", 403, "forbidden", "page of a different origin", "such as curl"},
		{"POST /checkpoint", "attacker.example", "", 421, "unknownHost", "does not know the host name", "Use an IP address or localhost"},
	} {
		method, path, _ := strings.Cut(tt.request, " ")
		r := httptest.NewRequest(method, path, strings.NewReader("x"))
		r.Host = tt.host
		if tt.origin != "" {
			r.Header.Set("Origin", tt.origin)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		var got refusal.Error
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != tt.status || got.Status != tt.status || got.Name != tt.name ||
			!strings.Contains(got.Message, tt.what) || !strings.Contains(got.Message, tt.next) || (w.Header().Get("Allow") == "POST") != (tt.status == 405) {
			t.Errorf("%s: got %d %v %s, want %+v", tt.request, w.Code, w.Header(), w.Body, tt)
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
