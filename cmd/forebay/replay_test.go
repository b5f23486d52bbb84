package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// A source of a file keeps its raw records, and replay maps them into a sink that the file did not have. The run and its repetition store each once.
func TestReplayOfAFile(t *testing.T) {
	folder := t.TempDir()
	file, db := filepath.Join(folder, "forebay.yaml"), filepath.Join(folder, "events.db")
	config := func(more string) {
		write(t, file, `
target: sqlite:`+db+`
dir: `+filepath.Join(folder, "data")+`
archive: dir:`+filepath.Join(folder, "archive")+`
sources:
  - id: web
    secret: ${WEB_SECRET}
    archive: true
    sinks:
      - {id: events, table: events, columns: [{name: body, type: body}]}
`+more)
	}
	config("")
	s := serve(t, secrets(), "-config", file)
	const events = 7
	for i := range events {
		if status, text := s.post("ingest", "/stream/1/web/"+webSecret, fmt.Sprintf(`{"n":%d}`, i)); status != http.StatusOK {
			t.Fatalf("answered %d %s", status, text)
		}
	}
	env := map[string]string{"WEB_SECRET": webSecret}
	if status, _, errs := call(t, "", env, "replay", "start", "-config", file, "-run", "first", "web/events"); status != failed || !strings.Contains(errs, "is in use") {
		t.Errorf("beside a server the status is %d\n%s", status, errs)
	}
	s.stop()
	config(`      - {id: numbers, table: numbers, columns: [{name: n, type: path, path: n, dataType: int64, required: true}]}
`)
	for range 2 {
		status, out, errs := call(t, "", env, "replay", "start", "-config", file, "-run", "first", "web/numbers")
		if status != 0 || out != "7 archived records were read, 7 have become rows.\n" {
			t.Fatalf("status %d\n%s%s", status, out, errs)
		}
		if n := rowsOf(t, db, "numbers"); n != events {
			t.Fatalf("got %d rows, want %d", n, events)
		}
	}
	if n := rowsOf(t, db, "events"); n != events {
		t.Errorf("the other sink has %d rows, want %d", n, events)
	}
	if status, out, errs := call(t, "", env, "replay", "start", "-config", file, "-run", "first", "-to", "2020-01-01T00:00:00Z", "web/numbers"); status != failed || !strings.Contains(errs, "other options") {
		t.Errorf("another range: status %d\n%s%s", status, out, errs)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"list", "-config", file, "web/numbers"}, "the action is start"},
		{[]string{"start", "-config", file, "web/numbers"}, "-run NAME"},
		{[]string{"start", "-config", file, "-run", "x"}, "SOURCE/SINK"},
		{[]string{"start", "-config", file, "-run", "x", "web"}, "SOURCE/SINK"},
		{[]string{"start", "-config", file, "-run", "x", "web/none"}, `no sink "none"`},
		{[]string{"start", "-config", file, "-run", "x", "-from", "today", "web/numbers"}, "-from is"},
		{[]string{"start", "-config", file + ".none", "-run", "x", "web/numbers"}, "no such file"},
	} {
		if status, out, errs := call(t, "", env, append([]string{"replay"}, tt.args...)...); status != wrongUsage || !strings.Contains(errs, tt.want) {
			t.Errorf("got %q: status %d, want %q\n%s%s", tt.args, status, tt.want, out, errs)
		}
	}
}

// With a source that keeps raw records the file says where.
func TestArchivePlaces(t *testing.T) {
	file := filepath.Join(t.TempDir(), "forebay.yaml")
	write(t, file, `
sources:
  - {id: web, secret: web-secret-web-secret, archive: true, sinks: [{id: events, table: events, columns: [{name: body, type: body}]}]}
`)
	if status, _, errs := call(t, "", nil, "check", "-config", file); status != wrongUsage || !strings.Contains(errs, file+":3:") || !strings.Contains(errs, "archive") {
		t.Errorf("status %d\n%s", status, errs)
	}
	for _, tt := range []struct {
		want string
		args []string
	}{
		{"", []string{"-archive", "dir:" + t.TempDir()}},
		{"", []string{"-archive", "s3://bucket/raw", "-archive-keep-for", "720h"}},
		{"-archive has the kind", []string{"-archive", "s4:hunter2"}},
		{"must not be negative", []string{"-archive", "dir:x", "-archive-keep-for", "-1h"}},
	} {
		status, out, errs := call(t, "", nil, append([]string{"check", "-config", file}, tt.args...)...)
		if status == 0 != (tt.want == "") || !strings.Contains(errs, tt.want) || strings.Contains(out+errs, "hunter2") {
			t.Errorf("%q: got status %d\n%s%s\nwant %q, and no secret", tt.args, status, out, errs, tt.want)
		}
	}
	if status, _, errs := call(t, "", nil, "serve", "-archive-keep-for", "1h"); status != wrongUsage || !strings.Contains(errs, "-archive where") {
		t.Errorf("a retention without an archive: status %d\n%s", status, errs)
	}
}
