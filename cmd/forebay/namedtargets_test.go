package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// A file names further targets, and a sink chooses one. An event becomes a row of SQLite and a line of a folder.
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
		t.Errorf("the database has %d rows, want 3\n%s", n, s.Logs())
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
		t.Errorf("the lake has %d rows %v, want 3\n%s", lines, err, s.Logs())
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

// A reload moves a sink to another target and back while a client sends. Each confirmed event is in one of the databases, once. A reload that
// changes the targets, or names one that does not exist, changes nothing.
func TestReloadMovesASink(t *testing.T) {
	folder := t.TempDir()
	file, db, lake := filepath.Join(folder, "forebay.yaml"), filepath.Join(folder, "events.db"), filepath.Join(folder, "lake.db")
	config := func(sink, more string) string {
		return `
target: sqlite:` + db + `
targets: {lake: "sqlite:` + lake + `"` + more + `}
dir: ` + filepath.Join(folder, "data") + `
sources:
  - id: web
    secret: ${WEB_SECRET}
    sinks:
      - {id: events, table: events, ` + sink + `columns: [{name: n, type: path, path: n, dataType: string, required: true}]}
`
	}
	write(t, file, config("", ""))
	s := serve(t, secrets(), "-config", file, "-otlp-grpc", "off", "-otlp-http", "off")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var client sync.WaitGroup
	var sent atomic.Int64
	confirmed := make(chan struct{})
	client.Go(func() {
		for ctx.Err() == nil {
			n := sent.Load()
			if status, text := s.post("ingest", "/stream/1/web/"+webSecret, fmt.Sprintf(`{"n":"%d"}`, n)); status != http.StatusOK {
				t.Errorf("event %d: %d %s", n, status, text)
				stop()
				return
			}
			sent.Add(1)
			select {
			case confirmed <- struct{}{}:
			default:
			}
		}
	})
	reload := func(text, want string, times int) {
		t.Helper()
		write(t, file, text)
		s.hangUp()
		s.waitLog(want, times)
		for range 3 { // at least two of them were sent after the reload
			select {
			case <-confirmed:
			case <-ctx.Done():
			}
		}
	}
	for i := range 3 {
		reload(config("target: lake, ", ""), "added=[] changed=[web] removed=[]", 2*i+1)
		reload(config("target: sea, ", ""), `must be one of [\"lake\"] or empty`, i+1)
		reload(config("target: sea, ", ", sea: dir:"+filepath.Join(folder, "sea")), "cannot change while the server runs: targets; restart it", i+1)
		reload(config("", ""), "added=[] changed=[web] removed=[]", 2*i+2)
	}
	stop()
	client.Wait()
	s.stop()
	total := 0
	for _, name := range []string{db, lake} {
		rows := rowsOf(t, name, "events")
		if total += rows; rows == 0 || rows != rowsOf(t, name, "(SELECT DISTINCT n FROM events)") {
			t.Errorf("%s has %d rows, or an event twice", filepath.Base(name), rows)
		}
	}
	if n := int(sent.Load()); total != n {
		t.Errorf("%d events were confirmed, and the databases have %d rows\n%s", n, total, s.Logs())
	}
	if text := s.Logs(); strings.Contains(text, webSecret) {
		t.Error("a secret is logged")
	}
}

// A reload that a table refuses removes the tables that it has created, including those in a named target. Equal names in other targets stay.
func TestRefusedReloadTakesTablesBack(t *testing.T) {
	folder := t.TempDir()
	file, db, lake := filepath.Join(folder, "forebay.yaml"), filepath.Join(folder, "events.db"), filepath.Join(folder, "lake.db")
	config := func(sinks string) string {
		return `
target: sqlite:` + db + `
targets: {lake: "sqlite:` + lake + `"}
dir: ` + filepath.Join(folder, "data") + `
sources: [{id: web, secret: "${WEB_SECRET}", sinks: [
  {id: a, table: kept, columns: [{name: n, type: body}]}` + sinks + `]}]
`
	}
	write(t, file, config(""))
	s := serve(t, secrets(), "-config", file, "-otlp-grpc", "off", "-otlp-http", "off")
	write(t, file, config(`,
  {id: b, table: kept, target: lake, columns: [{name: n, type: body}]},
  {id: c, table: fresh, target: lake, columns: [{name: n, type: body}]},
  {id: d, table: kept, columns: [{name: other, type: body}]}`))
	s.hangUp()
	s.waitLog("configuration not reloaded", 1)
	s.stop()
	const tables = "SELECT name FROM sqlite_master WHERE name IN ('kept', 'fresh')"
	if a, b := textsOf(t, db, tables), textsOf(t, lake, tables); !slices.Equal(a, []string{"kept"}) || len(b) > 0 {
		t.Errorf("the databases have the tables %q and %q, want one table in the first\n%s", a, b, s.Logs())
	}
}
