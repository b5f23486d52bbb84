package main

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The console of a server shows the last rows of a table of each of these targets, with their types and NULL, and a query that has an order.
func TestConsoleShowsRows(t *testing.T) {
	for target, order := range map[string]string{"parquet:lake": "ORDER BY filename DESC, file_row_number DESC LIMIT 20", "sqlite:events.db": "ORDER BY rowid DESC LIMIT 20"} {
		t.Run(target, func(t *testing.T) { consoleShowsRows(t, target, order) })
	}
}

func consoleShowsRows(t *testing.T, target, order string) {
	folder := t.TempDir()
	file := filepath.Join(folder, "forebay.yaml")
	kind, name, _ := strings.Cut(target, ":")
	const token = "t0ken-t0ken-t0ken"
	write(t, file, `
target: `+kind+":"+filepath.Join(folder, name)+`
dir: `+filepath.Join(folder, "data")+`
min-import-interval: 1s
ui: true
token: `+token+`
sources:
  - id: web
    secret: ${WEB_SECRET}
    settings: {upload: {interval: 1s}, import: {interval: 1s}}
    sinks:
      - {id: numbers, table: numbers, columns: [{name: n, type: path, path: n, dataType: "decimal(9,2)"}, {name: text, type: path, path: text, dataType: string}]}
`)
	s := serve(t, secrets(), "-config", file)
	for _, body := range []string{`{"n":1.5,"text":""}`, `{"n":-0.25}`} {
		if status, text := s.post("ingest", "/stream/1/web/"+webSecret, body); status != http.StatusOK {
			t.Fatalf("got %d %s, want %v", status, text, http.StatusOK)
		}
	}
	const want = `"rows":[[{"t":"1.50"},{"t":""}],[{"t":"-0.25"},{"t":null}]]`
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	end := time.After(time.Minute)
	for {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.addr["api"]+"/console/x/tables.open?source=web&sink=numbers", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(got), want) && strings.Contains(string(got), order) {
			break
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("status %d: %s", resp.StatusCode, got)
		}
	}
	s.stop()
}
