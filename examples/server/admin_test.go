package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/catalog"
)

// A checkpoint of a running server can be inspected, and contains every event that was acknowledged before it.
func TestCheckpointOfARunningServer(t *testing.T) {
	data := t.TempDir()
	p := start(t, "FOREBAY_DIR="+data, "FOREBAY_SOURCE=web", "FOREBAY_ADMIN=127.0.0.1:0")
	for range 5 {
		if status, body := p.request("POST", p.url, `{"user":{"id":1},"kind":"click"}`); status != http.StatusOK {
			t.Fatalf("answered %d %s", status, body)
		}
	}
	admin := p.logged(`msg="admin port open" address=(\S+)`)
	var inUse *buffer.InUseError
	if _, err := forebay.Inspect(data, buffer.InspectOptions{}); !errors.As(err, &inUse) {
		t.Fatalf("looking into a directory in use: %v", err)
	}
	status, body := p.request("POST", "http://"+admin+"/checkpoint", "")
	var made struct{ Directory, Staging, Inspect string }
	if err := json.Unmarshal([]byte(body), &made); err != nil || status != http.StatusOK {
		t.Fatalf("answered %d %s: %v", status, body, err)
	}
	in, err := forebay.Inspect(made.Directory, buffer.InspectOptions{Staging: dir.Staging(made.Staging)})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	report, err := in.Verify(t.Context())
	if err != nil || !report.OK() {
		t.Errorf("verify: %+v, %v", report, err)
	}
	for _, sink := range in.Stats().Sinks {
		if sink.Accepted != 5 {
			t.Errorf("the copy has %d rows of %s, want 5", sink.Accepted, sink.ID)
		}
	}
	checkCopiedDefinitions(t, made.Directory)
	if rel, err := filepath.Rel(data, made.Directory); err != nil || strings.HasPrefix(rel, "..") {
		t.Errorf("the copy is in %s", made.Directory)
	}
	if status, _ := p.request("POST", p.base+"/checkpoint", ""); status == http.StatusOK {
		t.Error("the public address takes orders")
	}
	if status, _ := p.request("GET", "http://"+admin+"/checkpoint", ""); status != http.StatusMethodNotAllowed {
		t.Errorf("GET is answered %d", status)
	}
	req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+admin+"/checkpoint", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Origin", "https://example.com")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("a page of another origin is answered %s", resp.Status)
	}
	p.stop()
}

// checkCopiedDefinitions opens the definitions of a checkpoint with a separate engine.
func checkCopiedDefinitions(t *testing.T, copied string) {
	t.Helper()
	eng, err := forebay.Open(t.TempDir(), forebay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	cat, err := catalog.Open(filepath.Join(copied, "catalog"), eng, catalog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer cat.Close()
	source, err := cat.Source("web")
	if def, ok := eng.Source("web"); err != nil || !ok || def.Secret != source.Secret || len(def.Sinks) == 0 {
		t.Errorf("the copy has the source %+v, %v", source, err)
	}
}

// logged waits for a line of the log and returns the match of the pattern's group.
func (p *process) logged(pattern string) string {
	p.t.Helper()
	re := regexp.MustCompile(pattern)
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); runtime.Gosched() {
		if m := re.FindStringSubmatch(p.Logs()); m != nil {
			return m[1]
		}
	}
	p.t.Fatalf("%s is not logged:\n%s", pattern, p.Logs())
	return ""
}
