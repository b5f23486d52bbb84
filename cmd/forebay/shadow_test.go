package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// The columns that a configuration file has for a sink are tried on a server with the Stream API, and switched on.
func TestShadowOfAFile(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "changed.yaml")
	write(t, file, `
sources:
  - id: web
    secret: ${WEB_SECRET}
    sinks:
      - {id: events, table: events, columns: [{name: id, type: uuid, dataType: uuid}, {name: n, type: path, path: m, dataType: int64, required: true}]}
`)
	const token = "t0ken-canary"
	env := map[string]string{"WEB_SECRET": webSecret, "FOREBAY_TOKEN": token}
	s := serve(t, nil, "-dir", filepath.Join(folder, "data"), "-source", "web", "-extend", "-token", token)
	shadow := func(want int, args ...string) string {
		t.Helper()
		status, out, errs := call(t, "", env, append([]string{"shadow", args[0], "-api", "http://" + s.addr["api"]}, args[1:]...)...)
		if status != want || strings.Contains(out+errs, token) || strings.Contains(out+errs, webSecret) {
			t.Errorf("got %q: status %d, want %d\n%s%s", args, status, want, out, errs)
		}
		return out + errs
	}
	shadow(0, "start", "-config", file, "-records", "2", "web/events")
	address := sourceAddress(t, s, token)
	for _, event := range []string{`{"user":{"id":1},"m":1}`, `{"user":{"id":1},"m":"one"}`} {
		if status, text := s.post("ingest", address, event); status != http.StatusOK {
			t.Fatalf("answered %d %s", status, text)
		}
	}
	if out := shadow(0, "show", "-wait", "web/events"); !strings.Contains(out, "1 only by the current columns") || !strings.Contains(out, "changed      1        malformed") {
		t.Errorf("the report is\n%s", out)
	}
	if out := shadow(0, "switch", "-config", file, "web/events"); out != "web/events has the changed columns.\n" {
		t.Errorf("the switch says %s", out)
	}
	if status, text := s.post("ingest", address, `{"user":{"id":1},"m":"one"}`); status != http.StatusUnprocessableEntity || !strings.Contains(text, `column \"n\"`) {
		t.Errorf("an event that the changed columns reject is answered %d %s", status, text)
	}
	s.stop()

	delete(env, "WEB_SECRET")
	if out := shadow(wrongUsage, "start", "-config", file, "web/events"); !strings.Contains(out, "WEB_SECRET") {
		t.Errorf("a file with a mistake: %s", out)
	}
	env["WEB_SECRET"] = webSecret
	if out := shadow(wrongUsage, "start", "-config", file, "web/none"); !strings.Contains(out, `no sink "none"`) {
		t.Errorf("a sink that is not in the file: %s", out)
	}
}
