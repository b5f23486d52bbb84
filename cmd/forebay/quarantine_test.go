package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// A sink of a file keeps the events that it cannot map. The console shows them, and replays them after a reload with other columns.
func TestQuarantineOfAFile(t *testing.T) {
	folder := t.TempDir()
	file, db := filepath.Join(folder, "forebay.yaml"), filepath.Join(folder, "events.db")
	const token = "t0ken-t0ken-t0ken"
	config := func(path string) {
		write(t, file, `
target: sqlite:`+db+`
dir: `+filepath.Join(folder, "data")+`
ui: true
token: `+token+`
sources:
  - id: web
    secret: ${WEB_SECRET}
    onReject: quarantine
    quarantine: {maxRecords: 3}
    sinks:
      - {id: numbers, table: numbers, columns: [{name: n, type: path, path: `+path+`, dataType: int64, required: true}]}
      - {id: strict, table: strict, onReject: refuse, columns: [{name: n, type: path, path: s, dataType: int64, required: true}]}
`)
	}
	config("n")
	s := serve(t, secrets(), "-config", file)
	for i := range 4 {
		want, code := "quarantined", http.StatusUnprocessableEntity // for the sink that refuses
		if i == 3 {
			want, code = "quarantine", http.StatusServiceUnavailable // it is full
		}
		status, text := s.post("ingest", "/stream/1/web/"+webSecret, fmt.Sprintf(`{"m":%d}`, i))
		if status != code || !strings.Contains(text, want) {
			t.Fatalf("event %d is answered %d %s", i, status, text)
		}
	}
	var list struct {
		Records []struct{ Sink, ID, Reason string }
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.addr["api"]+"/console/x/quarantine.list?content=m", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	err = json.NewDecoder(resp.Body).Decode(&list)
	resp.Body.Close()
	if err != nil || len(list.Records) != 3 || list.Records[0].Sink != "web/numbers" || list.Records[0].Reason != "missingValue" {
		t.Fatalf("status %d, %+v, %v", resp.StatusCode, list, err)
	}

	config("m")
	s.hangUp()
	s.waitLog("configuration reloaded", 1)
	for _, r := range list.Records {
		body := fmt.Sprintf(`{"sink":%q,"id":%q}`, r.Sink, r.ID)
		if status, text := s.post("api", "/console/x/quarantine.replay", body, "Authorization", "Bearer "+token); status != http.StatusOK || !strings.Contains(text, `"replayed":1`) {
			t.Errorf("the replay is answered %d %s", status, text)
		}
	}
	s.stop()
	if n := rowsOf(t, db, "numbers"); n != 3 {
		t.Errorf("got %d rows, want 3\n%s", n, s.Logs())
	}
}
