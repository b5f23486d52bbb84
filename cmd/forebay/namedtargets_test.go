package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file names further targets, and a sink chooses one: an event becomes a row of SQLite and a line of a folder.
func TestNamedTargets(t *testing.T) {
	folder := t.TempDir()
	file, db, lake := filepath.Join(folder, "forebay.yaml"), filepath.Join(folder, "events.db"), filepath.Join(folder, "lake")
	write(t, file, `
target: sqlite:`+db+`
targets: {lake: "dir:`+lake+`"}
dir: `+filepath.Join(folder, "data")+`
sources:
  - id: web
    secret: ${WEB_SECRET}
    sinks:
      - {id: events, table: events, columns: [{name: body, type: body}]}
      - {id: copies, table: events, target: lake, columns: [{name: id, type: uuid}, {name: body, type: body}]}
`)
	s := serve(t, secrets(), "-config", file, "-otlp-grpc", "off", "-otlp-http", "off")
	for range 3 {
		if status, text := s.post("ingest", "/stream/1/web/"+webSecret, `{"a":1}`); status != http.StatusOK {
			t.Fatalf("got %d %s", status, text)
		}
	}
	s.stop()
	if n := rowsOf(t, db, "events"); n != 3 {
		t.Errorf("the database has %d rows, want 3\n%s", n, &s.logs)
	}
	lines := 0
	files, err := filepath.Glob(filepath.Join(lake, "events", "*.csv"))
	for _, f := range files {
		text, e := os.ReadFile(f)
		if err = e; err != nil {
			break
		}
		lines += strings.Count(string(text), `{""a"":1}`)
	}
	if err != nil || lines != 3 {
		t.Errorf("the lake has %d rows %v, want 3\n%s", lines, err, &s.logs)
	}
}

// Each mistake in named targets is reported with its position, and no message shows a secret.
func TestMistakesOfNamedTargets(t *testing.T) {
	source := "\nsources: [{id: web, secret: 0123456789abcdef, sinks: [{id: a, table: t, target: sea, columns: [{name: b, type: body}]}]}]"
	for _, tt := range []struct{ text, want string }{
		{"targets: {lake: nowhere}", `1:17: target "lake" must begin with its kind`},
		{`targets: {lake: "sqlit:x.db"}`, `1:17: target "lake" has the kind "sqlit", which does not exist`},
		{"targets: {The Lake: dir:x}", `1:10: the name of a target in Targets: "The Lake": only a-z`},
		{"targets: [x]", "1:10: targets must have keys with values"},
		{"targets: {lake: dir:x}" + source, `2:81: target: "sea", must be one of ["lake"] or empty`},
		{"targets: {lake: 'postgres://me:hunter2@%zz/x'}", `1:17: target "lake"`},
	} {
		status, _, stderr := checkFile(t, tt.text, nil)
		if status == 0 || !strings.Contains(stderr, tt.want) || strings.Contains(stderr, "hunter2") {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.text, stderr, tt.want)
		}
	}
}
