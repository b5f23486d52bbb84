package console_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/console"
	"github.com/forebay/forebay/mapping"
)

// act sends a change of a user, by default of a user who may make it.
func act(t *testing.T, c *console.Console, target, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest("POST", target, strings.NewReader(body))
	r.Host = "127.0.0.1:8080"
	if len(headers) == 0 {
		headers = []string{"Authorization", "Bearer " + operator}
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	return w
}

// shows waits until a snapshot has a text.
func shows(t *testing.T, c *console.Console, query, want string) string {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		body := ask(t, c, "GET", "/snapshot?"+query, "Authorization", "Bearer "+operator).Body.String()
		if strings.Contains(body, want) {
			return body
		}
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatalf("%q is not in %s", want, body)
		}
	}
}

const ordersPage = "page=sink&source=web&sink=orders"

func TestSinkPage(t *testing.T) {
	c := newConsole(t, console.Options{Tokens: tokens})
	body := shows(t, c, ordersPage, `"id":"web/orders"`)
	for _, want := range []string{
		`"found":true`, `3 accepted = 0 in table + 3 waiting + 0 expired + 0 discarded + 0 damaged + 0 refused by the target (difference 0)`,
		`"Upload after"`, `"30 s, 5.00 MiB or 10,000 rows"`, `"when the row is on disk"`, `["`, `,"writing","3",`, `3,""]]`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %s: %s", want, body)
		}
	}
	if body := shows(t, c, "page=sink&source=web&sink=<b>\u202e", `"id"`); !strings.Contains(body, `"found":false`) || strings.Contains(body, "\u202e") {
		t.Errorf("a sink that is not there: %s", body)
	}
}

// fileOf returns the id of the first file of web/orders.
func fileOf(t *testing.T, eng *forebay.Engine) string {
	t.Helper()
	for _, s := range eng.Stats().Sinks {
		if s.Sink == "orders" && len(s.Files) > 0 {
			return s.Files[0].ID
		}
	}
	t.Fatal("web/orders has no file")
	return ""
}

// What cannot be done is refused, and changes nothing.
func TestActsAreRefused(t *testing.T) {
	eng := newEngine(t)
	c, err := console.New(eng, console.Options{Tokens: tokens})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	file := fileOf(t, eng)
	for _, tc := range []struct {
		name, target, body string
		headers            []string
		status             int
	}{
		{"Flush without the right", "/sink.flush", `{"Source":"web","Sink":"orders"}`, []string{"Authorization", "Bearer " + reader}, 403},
		{"Retry without the right", "/sink.retry", `{"Source":"web","Sink":"orders"}`, []string{"Authorization", "Bearer " + reader}, 403},
		{"Discard without the right", "/sink.discard", `{"Source":"web","Sink":"orders","File":"` + file + `","Rows":3}`, []string{"Authorization", "Bearer " + reader}, 403},
		{"Discard without a token", "/sink.discard", `{}`, []string{"X", "y"}, 401},
		{"Discard from another origin", "/sink.discard", `{}`, []string{"Authorization", "Bearer " + operator, "Origin", "https://evil.example"}, 403},
		{"no JSON", "/sink.flush", `source=web`, nil, 400},
		{"an unknown member", "/sink.flush", `{"Source":"web","Sink":"orders","Force":true}`, nil, 400},
		{"Flush of no sink", "/sink.flush", `{"Source":"web","Sink":"other"}`, nil, 404},
		{"Retry of no sink", "/sink.retry", `{"Source":"web","Sink":"other"}`, nil, 404},
		{"Retry of no file", "/sink.retry", `{"Source":"web","Sink":"orders","File":"other"}`, nil, 404},
		{"Split without the right", "/sink.split", `{"Source":"web","Sink":"orders","File":"` + file + `"}`, []string{"Authorization", "Bearer " + reader}, 403},
		{"Quarantine without the right", "/sink.quarantine", `{"Source":"web","Sink":"orders","File":"` + file + `"}`, []string{"Authorization", "Bearer " + reader}, 403},
		{"Split of no file", "/sink.split", `{"Source":"web","Sink":"orders","File":"other"}`, nil, 404},
		{"Split without a quarantine", "/sink.split", `{"Source":"web","Sink":"orders","File":"` + file + `"}`, nil, 409},
		{"Quarantine of no sink", "/sink.quarantine", `{"Source":"web","Sink":"other","File":"` + file + `"}`, nil, 404},
		{"Quarantine without a quarantine", "/sink.quarantine", `{"Source":"web","Sink":"orders","File":"` + file + `"}`, nil, 409},
		{"Discard of no sink", "/sink.discard", `{"Source":"web","Sink":"other","File":"` + file + `","Rows":3}`, nil, 404},
		{"Discard of no file", "/sink.discard", `{"Source":"web","Sink":"orders","File":"other","Rows":3}`, nil, 404},
		{"Discard of more rows than were confirmed", "/sink.discard", `{"Source":"web","Sink":"orders","File":"` + file + `","Rows":2}`, nil, 409},
	} {
		if w := act(t, c, tc.target, tc.body, tc.headers...); w.Code != tc.status {
			t.Errorf("%s: status %d, want %d: %s", tc.name, w.Code, tc.status, w.Body)
		}
	}
	for _, s := range eng.Stats().Sinks {
		if s.Local.Rows+s.Staging.Rows != 3 {
			t.Errorf("%s: %d rows wait, want 3", s.ID, s.Local.Rows+s.Staging.Rows)
		}
	}
}

// Flush and Discard are tasks, which are listed for users who may make changes, and logged with their user.
func TestActsOfSinks(t *testing.T) {
	eng := newEngine(t)
	var log bytes.Buffer
	c, err := console.New(eng, console.Options{Tokens: tokens, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if w := act(t, c, "/sink.discard", `{"Source":"web","Sink":"orders","File":"`+fileOf(t, eng)+`","Rows":3}`); w.Code != 200 {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	shows(t, c, ordersPage, `"title":"Discard 3 rows of web/orders","user":"otto","state":"done"`)
	if w := act(t, c, "/sink.flush", `{"Source":"web","Sink":"events"}`); w.Code != 200 {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	shows(t, c, ordersPage, `"title":"Flush web/events","user":"otto","state":"done","progress":"all rows are in the table"`)
	if w := act(t, c, "/sink.retry", `{"Source":"web","Sink":"events"}`); w.Code != 200 {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	for _, s := range eng.Stats().Sinks {
		want := map[string][2]int64{"events": {3, 0}, "orders": {0, 3}}[s.Sink]
		if s.Target.Rows != want[0] || s.Discarded.Rows != want[1] {
			t.Errorf("%s: got %d rows in the table, %d discarded, want %d", s.ID, s.Target.Rows, s.Discarded.Rows, want)
		}
	}
	if body := ask(t, c, "GET", "/snapshot?"+ordersPage, "Authorization", "Bearer "+reader).Body.String(); strings.Contains(body, "otto") {
		t.Errorf("tasks are shown without the right: %s", body)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`msg="console change" source=web sink=orders file=`, "rows=3 user=otto", "action=sink.discard", `msg="console change" source=web sink=events user=otto`, "action=sink.flush"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %s: %s", want, &log)
		}
	}
}

// The page of a sink has the query of its table, for users who may see records.
func TestQueryOfASink(t *testing.T) {
	eng, _ := openTables(t, forebay.Sink{Table: forebay.Table{Columns: mapping.Columns{mapping.Path("n", "n")}}})
	c := consoleOf(t, eng, console.Options{})
	type query struct{ Language, Query string }
	got := answer[query](t, send(t, c, "/sink.query?source=web&sink=events", readsRecords, nil), 200)
	if table := answer[query](t, send(t, c, "/tables.open?source=web&sink=events", readsRecords, nil), 200); got != table || got.Language != "DuckDB" || !strings.Contains(got.Query, "read_csv('") {
		t.Errorf("%+v, the page of tables has %+v", got, table)
	}
	for target, want := range map[string]int{"/sink.query?source=web&sink=other": 404, "/sink.query": 404} {
		if w := send(t, c, target, readsRecords, nil); w.Code != want {
			t.Errorf("%s: status %d: %s, want %v", target, w.Code, w.Body, want)
		}
	}
	if w := send(t, c, "/sink.query?source=web&sink=events", reader, nil); w.Code != 403 {
		t.Errorf("without the right: status %d", w.Code)
	}
	memory, _, _ := newTrace(t)
	if got := answer[query](t, send(t, consoleOf(t, memory, console.Options{}), "/sink.query?source=web&sink=events", readsRecords, nil), 200); got != (query{}) {
		t.Errorf("a target without a query: %+v", got)
	}
}

// A sink without room says since when it refuses.
func TestRefusingSince(t *testing.T) {
	target := buffertest.NewMemory()
	target.Before = func(_ context.Context, call buffertest.Call) error {
		if call.Op == buffertest.OpPut {
			return errors.New("staging is down")
		}
		return nil
	}
	eng, err := forebay.Open(t.TempDir(), forebay.Options{Staging: target, Target: target, Buffer: buffer.Tuning{MaxSinkBytes: 1 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	if err := eng.Define(t.Context(), forebay.Source{ID: "web", Sinks: []forebay.Sink{{
		ID: "orders", Table: forebay.Table{ID: "web.orders", Columns: mapping.Columns{mapping.UUID("id"), mapping.Path("x", "x")}},
	}}}); err != nil {
		t.Fatal(err)
	}
	noise := make([]byte, 512<<10)
	_, _ = rand.Read(noise)
	body := []byte(`{"x":"` + hex.EncodeToString(noise) + `"}`)
	for over := (*buffer.OverloadError)(nil); over == nil; {
		_, err := eng.Ingest(t.Context(), "web", mapping.JSON(body))
		if err != nil && !errors.As(err, &over) {
			t.Fatal(err)
		}
	}
	c, err := console.New(eng, console.Options{Tokens: tokens})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	at := eng.Stats().Sinks[0].RefusingSince
	if at.IsZero() || time.Since(at) < 0 {
		t.Fatalf("since %s", at)
	}
	shows(t, c, ordersPage, fmt.Sprintf(`"Refusing new records since ",%d,": `, at.UnixMilli()))
}
