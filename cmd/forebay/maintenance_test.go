package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The commands about quarantines, held files and shadows work on a server whose sources are in a file, without the console, and no definition
// can be changed through its API.
func TestCommandsOnAFile(t *testing.T) {
	folder := t.TempDir()
	file, db, dir := filepath.Join(folder, "forebay.yaml"), filepath.Join(folder, "events.db"), filepath.Join(folder, "data")
	config := func(name, path string) string {
		write(t, filepath.Join(folder, name), `
target: sqlite:`+db+`
dir: `+dir+`
sources:
  - id: web
    secret: ${WEB_SECRET}
    onReject: quarantine
    sinks:
      - {id: numbers, table: numbers, columns: [{name: n, type: path, path: `+path+`, dataType: int64, required: true}]}
`)
		return filepath.Join(folder, name)
	}
	config("forebay.yaml", "n")
	changed := config("changed.yaml", "m")
	s := serve(t, secrets(), "-config", file)
	do := func(want int, stdin string, args ...string) string {
		t.Helper()
		args = append(append(args[:2:2], "-api", "http://"+s.addr["api"], "-dir", dir), args[2:]...)
		status, out, errs := call(t, stdin, map[string]string{"WEB_SECRET": webSecret}, args...)
		if status != want || strings.Contains(out+errs, webSecret) {
			t.Errorf("got %q: status %d, want %d\n%s%s", args, status, want, out, errs)
		}
		return out + errs
	}
	has := func(text string, words ...string) {
		t.Helper()
		for _, word := range words {
			if !strings.Contains(text, word) {
				t.Errorf("no %q in\n%s", word, text)
			}
		}
	}
	send := func(want int, event string) {
		t.Helper()
		if status, text := s.post("ingest", "/stream/1/web/"+webSecret, event); status != want {
			t.Errorf("%s is answered %d %s, want %v", event, status, text, want)
		}
	}
	do(0, "", "shadow", "start", "-config", changed, "-records", "4", "web/numbers")
	for i := range 4 {
		send(http.StatusOK, fmt.Sprintf(`{"m":%d}`, i))
	}
	has(do(0, "", "shadow", "show", "-wait", "web/numbers"), "4 only by the changed columns")
	do(0, "", "shadow", "stop", "web/numbers")
	has(do(1, "", "shadow", "switch", "-config", changed, "web/numbers"), "configuration file")

	var ids []string
	for line := range strings.Lines(do(0, "", "quarantine", "list", "-json", "web/numbers")) {
		var r struct{ RecordID, Reason string }
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.Reason != "missingValue" {
			t.Fatalf("%s: got %v, want no error and r.Reason == \"missingValue\"", line, err)
		}
		ids = append(ids, r.RecordID)
	}
	if len(ids) != 4 {
		t.Fatalf("the quarantine has %v", ids)
	}
	has(do(0, "", "quarantine", "get", "web/numbers", ids[0]), `{"m":0}`, "/stream/1/web/")
	do(1, "", "quarantine", "test", "web/numbers", ids[0])
	has(do(0, `{"n":100}`, "quarantine", "edit", "-body", "-", "web/numbers", ids[0]), `{"n":100}`, "original body")
	do(0, "", "quarantine", "test", "web/numbers", ids[0])
	has(do(0, "", "quarantine", "replay", "web/numbers", ids[0]), "1 rejected records have become rows")
	has(do(0, "", "quarantine", "discard", "-content", `"m":1`, "web/numbers"), "1 rejected records were discarded")
	has(do(1, "", "quarantine", "replay", "-all", "web/numbers"), "2 were rejected again")
	has(do(0, "", "files", "list", "web/numbers"), "FILE")
	has(do(0, "", "files", "list"), "SINK")
	has(do(1, "", "files", "split", "web/numbers", "none"), "fileNotFound")
	has(do(0, "", "damage", "list"), "RECORD")
	has(do(1, "", "damage", "forget", "none"), "damageNotFound")

	// The token is needed, and gives no right to change a definition.
	token, err := os.ReadFile(filepath.Join(dir, "token"))
	if err != nil {
		t.Fatal(err)
	}
	const sink = "/v1/branches/default/sources/web/sinks/numbers"
	if status, text := s.post("api", sink+"/quarantine/discard", `{"all":true}`, "X-StorageApi-Token", "other"); status != http.StatusUnauthorized {
		t.Errorf("another token is answered %d %s", status, text)
	}
	for _, path := range []string{"/v1/branches/default/sources", "/v1/branches/default/sources/web/sinks", "/v1/branches/default/sources/web/rotate-secret"} {
		status, text := s.post("api", path, "{}", "X-StorageApi-Token", strings.TrimSpace(string(token)))
		if status != http.StatusNotFound || !strings.Contains(text, "configuration file") {
			t.Errorf("%s is answered %d %s", path, status, text)
		}
	}

	for _, path := range []string{sink + "/retry", "/v1/branches/default/sources/web/retry"} {
		if status, text := s.post("api", path, "", "X-StorageApi-Token", strings.TrimSpace(string(token))); status != http.StatusOK {
			t.Errorf("POST %s returns %d %s, want 200", path, status, text)
		}
	}

	// After a reload the others fit.
	config("forebay.yaml", "m")
	s.hangUp()
	s.waitLog("configuration reloaded", 1)
	has(do(0, "", "quarantine", "replay", "-all", "web/numbers"), "2 rejected records have become rows")
	s.stop()
	if n := rowsOf(t, db, "numbers"); n != 3 {
		t.Errorf("got %d rows, want 3\n%s", n, s.Logs())
	}
}
