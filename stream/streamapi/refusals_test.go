package streamapi

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/stream/internal/wire"
)

// Every response with an error status has a body in the shape of errors, whose message is a sentence, and a 405 names the allowed methods. The test
// sends to every path each method, wrong bodies and wrong types of content.
func TestRefusalsHaveBodies(t *testing.T) {
	s := newService(t, serviceOptions{})
	paths := map[string]bool{
		"/": true, "/health-check": true, "/readiness-check": true, "/v1/tasks": true, "/v1/tasks/": true, "//v1": true, "/v2": true, "/v1/": true,
		documentationPath: true, documentationPath + "/": true, documentationPath + "/openapi.json": true, documentationPath + "/nope": true,
	}
	for _, op := range s.api.operations() {
		path := pathOf(&op, "3", "none", "none", "1", "x/y")
		paths[path] = true
		paths[strings.Replace(path, "/none", "/none/", 1)] = true
		paths[strings.Split(path, "?")[0]+"/?wrong=%zz"] = true
	}
	statuses := map[int]int{}
	for path := range paths {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND"} {
			for _, kind := range []string{"application/json", "text/xml", ""} {
				for _, token := range []string{testToken, ""} {
					req := httptest.NewRequest(method, "http://h"+path, strings.NewReader("{"))
					req.Header.Set("Content-Type", kind)
					req.Header.Set(tokenHeader, token)
					w := httptest.NewRecorder()
					s.api.ServeHTTP(w, req)
					statuses[w.Code]++
					checkRefusal(t, method+" "+path, w)
				}
			}
		}
	}
	for _, status := range []int{200, 400, 404, 405} {
		if statuses[status] == 0 {
			t.Errorf("no request got %d: %v", status, statuses)
		}
	}
	w := httptest.NewRecorder()
	wire.Ready(s.eng.Ready, nil).ServeHTTP(w, httptest.NewRequest("POST", "/readiness-check", nil)) // without the mux of the API
	if w.Code != 405 {
		t.Errorf("status %d", w.Code)
	}
	checkRefusal(t, "POST to the readiness check alone", w)

	// A server responds to HEAD without a body, although the handler writes one.
	client := http.Client{Timeout: time.Minute}
	resp, err := client.Head(s.server.URL + "/v2")
	must(t, err)
	text, err := io.ReadAll(resp.Body)
	if _ = resp.Body.Close(); err != nil || resp.StatusCode != 404 || len(text) != 0 {
		t.Errorf("HEAD: %d %q %v", resp.StatusCode, text, err)
	}
}

// checkRefusal fails the test if a recorded response has an error status and no error.
func checkRefusal(t *testing.T, request string, w *httptest.ResponseRecorder) {
	t.Helper()
	if w.Code < 400 {
		return
	}
	a := response{body: map[string]any{}}
	if err := json.Unmarshal(w.Body.Bytes(), &a.body); err != nil {
		t.Errorf("%s: %d, and the body %q is not JSON: %v", request, w.Code, w.Body, err)
		return
	}
	message, _ := a.at("message").(string)
	name, _ := a.at("error").(string)
	if a.at("statusCode") != float64(w.Code) || !strings.HasPrefix(name, "stream.") || len(strings.Fields(message)) < 4 {
		t.Errorf("%s: got %d %s, want a.at(\"statusCode\") == float64(w.Code) and strings.HasPrefix(name, \"stream.\") and len(strings.Fields(message)) >= 4", request, w.Code, w.Body)
	}
	if kind := w.Header().Get("Content-Type"); kind != "application/json" {
		t.Errorf("%s: got %d with Content-Type %q, want \"application/json\"", request, w.Code, kind)
	}
	if allow := w.Header().Get("Allow"); (w.Code == 405) != (allow != "") || w.Code == 405 && !strings.Contains(message, allow) {
		t.Errorf("%s: got %d with Allow %q: %s, want Allow with 405 alone, and named in the message", request, w.Code, allow, message)
	}
}
