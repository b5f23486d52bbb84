package main

import (
	"database/sql"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// The records of a person are erased in a running server and in a stopped one, and the SQL that is shown deletes the rows of the table.
func TestErase(t *testing.T) {
	folder := t.TempDir()
	file, db, dir := filepath.Join(folder, "forebay.yaml"), filepath.Join(folder, "events.db"), filepath.Join(folder, "data")
	write(t, file, `
target: sqlite:`+db+`
dir: `+dir+`
min-import-interval: 1s
archive: dir:`+filepath.Join(folder, "archive")+`
sources:
  - id: web
    secret: ${WEB_SECRET}
    archive: true
    onReject: quarantine
    sinks:
      - id: people
        table: people
        columns: [{name: n, type: path, path: n, dataType: int64, required: true}, {name: email, type: path, path: user.email, dataType: string}]
        settings: {upload: {interval: 1s}, import: {interval: 1s}}
`)
	env := map[string]string{"WEB_SECRET": webSecret}
	s := serve(t, secrets(), "-config", file)
	do := func(want int, stdin string, args ...string) string {
		t.Helper()
		status, out, errs := call(t, stdin, env, append([]string{"erase"}, args...)...)
		if status != want || strings.Contains(errs, "ada@") {
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
	for i, user := range []string{"ada", "bob", "ada", "eve"} {
		for _, n := range []string{fmt.Sprintf(`"n":%d,`, i), ""} {
			event := fmt.Sprintf(`{%s"user":{"email":"%s@example.com"}}`, n, user)
			if status, text := s.post("ingest", "/stream/1/web/"+webSecret, event); status != http.StatusOK {
				t.Fatalf("event %s: got %d %s", event, status, text)
			}
		}
	}
	running := []string{"-api", "http://" + s.addr["api"], "-dir", dir}
	dry := do(0, "", append(running, "-dry-run", "-path", "user.email", "-value", "ada@example.com")...)
	has(dry, "quarantine", "web/.archive", "Nothing was changed", `DELETE FROM "people" WHERE "email" = 'ada@example.com';`)
	out := do(0, "ada@example.com\n", append(running, "-path", "user.email", "-value", "-", "-because", "request 4711")...)
	has(out, `DELETE FROM "people" WHERE "email" = 'ada@example.com';`, "The log has this erasure as match=")
	s.waitLog(`reason="request 4711"`, 1)
	has(s.Logs(), "msg=erased")
	if strings.Contains(s.Logs(), "ada@") {
		t.Errorf("the log has the value\n%s", s.Logs())
	}
	again := do(0, "", append(running, "-json", "-text", "ada@example.com")...)
	has(again, `"found": 0`, `"tableId": "people"`)
	if strings.Contains(again, `"erased": 1`) {
		t.Errorf("the second erasure has found something\n%s", again)
	}
	has(do(1, "", append(running, "-text", "ada@example.com", "-sources", "none")...), "sourceNotFound", `"none"`)
	has(do(1, "", "-config", file, "-text", "bob@example.com"), "in use by another engine")
	s.stop()

	has(do(0, "", "-config", file, "-text", "BOB@example.com"), "erased", `instr(lower("email"), 'bob@example.com') > 0`)
	has(do(0, "", "-config", file, "-json", "-dry-run", "-text", "bob@example.com"), `"dryRun": true`, `"found": 0`)

	tables, err := sql.Open("sqlite", db)
	if err != nil {
		t.Fatal(err)
	}
	defer tables.Close()
	for line := range strings.Lines(out) {
		if statement, ok := strings.CutPrefix(line, "DELETE "); ok {
			if _, err := tables.Exec("DELETE " + statement); err != nil {
				t.Errorf("%s: got %v, want no error", line, err)
			}
		}
	}
	var emails string
	if err := tables.QueryRow("SELECT group_concat(email) FROM (SELECT email FROM people ORDER BY email)").Scan(&emails); err != nil || emails != "bob@example.com,eve@example.com" {
		t.Errorf("the table has %s, %v", emails, err)
	}
}
