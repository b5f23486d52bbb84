package main

import (
	"database/sql"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A dry run in a stopped server imports no row that waits, makes no table, and stores no raw record in the archive. It finds the rows.
func TestEraseDryRunOfAStoppedServer(t *testing.T) {
	folder := t.TempDir()
	file, db, archive := filepath.Join(folder, "forebay.yaml"), filepath.Join(folder, "events.db"), filepath.Join(folder, "archive")
	config := func(interval, more string) {
		write(t, file, `
target: sqlite:`+db+`
dir: `+filepath.Join(folder, "data")+`
min-import-interval: 1s
archive: dir:`+archive+`
sources:
  - id: web
    secret: ${WEB_SECRET}
    archive: true
    sinks:
      - id: people
        table: people
        columns: [{name: n, type: path, path: n, dataType: int64, required: true}, {name: email, type: path, path: user.email, dataType: string}]
        settings: {upload: {interval: `+interval+`}, import: {interval: `+interval+`}}
`+more)
	}
	config("30m", "")
	s := serve(t, secrets(), "-config", file)
	for _, user := range []string{"ada", "bob"} {
		if status, text := s.post("ingest", "/stream/1/web/"+webSecret, `{"n":1,"user":{"email":"`+user+`@example.com"}}`); status != http.StatusOK {
			t.Fatalf("%s: got %d %s, want %v", user, status, text, http.StatusOK)
		}
	}
	s.Kill() // a server that stops imports waiting rows
	config("1s", `
      - id: more
        table: more
        columns: [{name: n, type: path, path: n, dataType: int64, required: true}]
`)
	env := map[string]string{"WEB_SECRET": webSecret}
	for range 2 {
		status, out, errs := call(t, "", env, "erase", "-config", file, "-dry-run", "-path", "user.email", "-value", "ada@example.com")
		if status != 0 || !strings.Contains(out, `DELETE FROM "people" WHERE "email" = 'ada@example.com';`) {
			t.Fatalf("status %d\n%s%s", status, out, errs)
		}
		for _, line := range []string{"web/people", "web/.archive"} {
			if !strings.Contains(strings.Join(strings.Fields(out), " "), "waiting "+line+" 2 1 0 1") {
				t.Errorf("got %s: want 2 searched, 1 found and 1 left\n%s", line, out)
			}
		}
	}
	tables, err := sql.Open("sqlite", db)
	if err != nil {
		t.Fatal(err)
	}
	defer tables.Close()
	var rows, made int
	if err := tables.QueryRow("SELECT (SELECT count(*) FROM sqlite_master WHERE name = 'people' AND EXISTS (SELECT * FROM people)), (SELECT count(*) FROM sqlite_master WHERE name = 'more')").Scan(&rows, &made); err != nil || rows != 0 || made != 0 {
		t.Errorf("the table has %d rows and there are %d more tables, want none; %v", rows, made, err)
	}
	if entries, err := os.ReadDir(filepath.Join(archive, "web")); err == nil && len(entries) > 0 {
		t.Errorf("the archive has %v", entries)
	}
}
