package console_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/console"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping"
)

const readsRecords = "records-records-records"

var threeTokens = append(slices.Clone(tokens), console.Token{Name: "rena", Secret: readsRecords, Rights: console.Numbers | console.Records})

// send posts JSON, or gets without a body.
func send(t *testing.T, h http.Handler, target, token string, body any, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	method := "GET"
	var text []byte
	if body != nil {
		method = "POST"
		var err error
		if text, err = json.Marshal(body); err != nil {
			t.Fatal(err)
		}
	}
	r := httptest.NewRequest(method, target, bytes.NewReader(text))
	r.Host = "127.0.0.1:8080"
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// answer decodes a response that must have a status.
func answer[T any](t *testing.T, w *httptest.ResponseRecorder, status int) (v T) {
	t.Helper()
	if w.Code != status {
		t.Fatalf("status %d, want %d: %s", w.Code, status, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("got %v: %s, want no error", err, w.Body)
	}
	return v
}

// obj is a JSON object.
type obj = map[string]any

type placed struct {
	Column    int
	Field     string
	Line, Col int
	Text      string
}

type triedRow struct {
	Problems []placed
	Cells    []struct {
		Name, Type, Kind, Value string
		Required, Null, Cut     bool
		Bytes                   int
		Why                     *placed
	}
	CSV              string
	CSVBytes         int
	Rejected, Reason string
	Text             string
	Error, Event     string
}

type openedSink struct {
	Columns          []obj
	Text, Table      string
	Version          int
	Picks            []struct{ ID, Column, Message string }
	NoSave, NoShadow string
}

// openTables returns an engine with one sink "web/events" and its tables.
func openTables(t *testing.T, sink forebay.Sink) (*forebay.Engine, *dir.TableDir) {
	t.Helper()
	folder := t.TempDir()
	tables := dir.Tables(filepath.Join(folder, "tables"))
	eng, err := forebay.Open(folder, forebay.Options{Target: tables})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	sink.ID, sink.Table.ID = "events", "web.events"
	if err := eng.Define(t.Context(), forebay.Source{ID: "web", Sinks: []forebay.Sink{sink}}); err != nil {
		t.Fatal(err)
	}
	return eng, tables
}

func consoleOf(t *testing.T, eng *forebay.Engine, opts console.Options) *console.Console {
	t.Helper()
	opts.Tokens = threeTokens
	c, err := console.New(eng, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestPlaygroundRights(t *testing.T) {
	c := newConsole(t, console.Options{Tokens: threeTokens, Public: console.Numbers})
	needs := map[string]bool{ // whether Changes is needed too
		"try.columns": false, "try.run": false, "try.diff": false, "try.shadow": true, "try.stop": true, "try.save": true,
	}
	for name, changes := range needs {
		body := obj{"source": "web", "sink": "events"}
		status := func(token string, headers ...string) int { return send(t, c, "/x/"+name, token, body, headers...).Code }
		if s := status(""); s != 401 {
			t.Errorf("%s without a token: status %d, want 401", name, s)
		}
		if s := status(reader); s != 403 {
			t.Errorf("%s with the right to numbers: status %d, want 403", name, s)
		}
		if s := status(readsRecords); (s == 403) != changes {
			t.Errorf("%s with the right to records: got status %d, want 403: %t", name, s, changes)
		}
		if s := status(operator); s == 401 || s == 403 || s == 404 && name != "try.stop" {
			t.Errorf("%s with all rights: got status %d, want no refusal", name, s)
		}
		for _, foreign := range [][]string{{"Origin", "https://evil.example"}, {"Sec-Fetch-Site", "cross-site"}} {
			if s := status(operator, foreign...); s != 403 {
				t.Errorf("%s with %v: status %d, want 403", name, foreign, s)
			}
		}
		if w := ask(t, c, "GET", "/"+name, "Authorization", "Bearer "+operator); w.Code != 405 {
			t.Errorf("GET %s: status %d", name, w.Code)
		}
	}
	for _, name := range []string{"try.sinks", "try.open?source=web&sink=events", "try.event?source=web&sink=events&id=x", "try.report?source=web&sink=events"} {
		if s := send(t, c, "/"+name, reader, nil).Code; s != 403 {
			t.Errorf("%s with the right to numbers: status %d, want 403", name, s)
		}
		if s := send(t, c, "/"+name, readsRecords, nil, "Sec-Fetch-Site", "cross-site").Code; s != 403 {
			t.Errorf("%s from another site: status %d, want 403", name, s)
		}
	}
	if w := send(t, c, "/snapshot", reader, nil); strings.Contains(w.Body.String(), "Playground") {
		t.Error("who may not see records has a link to the playground")
	}
	if w := send(t, c, "/snapshot", readsRecords, nil); !strings.Contains(w.Body.String(), "Playground") {
		t.Error("the link to the playground is missing")
	}
}

// The row of the playground is the row that the table gets of the same event.
func TestPlaygroundRowIsThatOfTheTable(t *testing.T) {
	columns := mapping.Columns{
		mapping.Path("id", "id", mapping.DataType(datatype.Int64), mapping.Required()),
		mapping.Path("price", "price", mapping.DataType(datatype.Decimal(10, 2))),
		mapping.Path("note", "note", mapping.DataType(datatype.String)),
		mapping.Path("empty", "empty", mapping.DataType(datatype.String)),
		mapping.Path("raw", "raw"),
		mapping.Template("label", "Body('kind') + \"!\\n\" + Header('X-Env')", mapping.RawString()),
		mapping.Body("body"), mapping.Headers("headers"), mapping.IP("ip"), mapping.Datetime("at", mapping.DataType(datatype.Timestamp)),
	}
	eng, tables := openTables(t, forebay.Sink{Table: forebay.Table{Columns: columns}})
	c := consoleOf(t, eng, console.Options{})
	opened := answer[openedSink](t, send(t, c, "/try.open?source=web&sink=events", readsRecords, nil), 200)
	body := `{"id": 9007199254740993, "price": 7.5, "empty": "", "raw": {"a": [1.50, "\u00e9\""]}, "kind": "` + "\u202e" + `<b>"}`
	event := obj{
		"headers": "Content-Type: application/json\nx-env: prod\r\nX-Env: two\n", "body": body, "ip": "192.0.2.7", "received": "2026-11-23T12:00:00.5Z",
	}
	row := answer[triedRow](t, send(t, c, "/try.run", readsRecords, obj{"source": "web", "sink": "events", "columns": opened.Columns, "event": event}), 200)
	if row.Rejected != "" || len(row.Problems) > 0 {
		t.Fatalf("got %+v, want row.Rejected == \"\" and len(row.Problems) <= 0", row)
	}
	rec := mapping.JSON([]byte(body))
	rec.Header = http.Header{"Content-Type": {"application/json"}, "X-Env": {"prod", "two"}}
	rec.ClientIP = netip.MustParseAddr("192.0.2.7")
	rec.Received = time.Date(2026, 11, 23, 12, 0, 0, 5e8, time.UTC)
	m, err := eng.Sink("web", "events").Compile(forebay.Table{Columns: columns})
	if err != nil {
		t.Fatal(err)
	}
	want, err := m.AppendRow(nil, rec)
	if err != nil {
		t.Fatal(err)
	}
	if row.CSV != string(want) || row.CSVBytes != len(want) {
		t.Errorf("CSV of %d bytes\n%swant %d\n%s", row.CSVBytes, row.CSV, len(want), want)
	}
	rec.Release()
	if _, err := eng.Ingest(t.Context(), "web", rec); err != nil {
		t.Fatal(err)
	}
	if err := eng.Flush(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	for cells, err := range tables.Cells("web.events") {
		if err != nil {
			t.Fatal(err)
		}
		for i, cell := range cells {
			got := row.Cells[i]
			if got.Null != (cell == nil) || got.Value != string(cell) || got.Bytes != len(cell) || got.Name != columns[i].Name {
				t.Errorf("column %s: %+v, the table has %q (NULL %v)", columns[i].Name, got, cell, cell == nil)
			}
		}
	}
	if got := row.Cells[0]; got.Type != "int64" || !got.Required || got.Kind != "path" || row.Cells[4].Type != "untyped" {
		t.Errorf("types: %+v, %+v", got, row.Cells[4])
	}
	if st := eng.Stats().Sinks[0]; st.Accepted != 1 {
		t.Errorf("the playground has stored rows: %d accepted", st.Accepted)
	}
}

func TestPlaygroundErrorsAtTheirPlace(t *testing.T) {
	eng, _ := openTables(t, forebay.Sink{Table: forebay.Table{Columns: mapping.Columns{mapping.Body("body")}}})
	c := consoleOf(t, eng, console.Options{})
	run := func(event obj, columns ...obj) triedRow {
		t.Helper()
		return answer[triedRow](t, send(t, c, "/try.run", readsRecords, obj{"source": "web", "sink": "events", "columns": columns, "event": event}), 200)
	}
	event := obj{"headers": "Content-Type: application/json", "body": `{"a":"<script>"}`}
	for _, tc := range []struct {
		name   string
		column obj
		want   placed
	}{
		{"a template that is cut off", obj{"type": "template", "name": "x", "template": "local a = 'é';\n  'é' + )"}, placed{0, "template.content", 2, 9, ""}},
		{"a path", obj{"type": "path", "name": "x", "path": "a[b"}, placed{0, "path", 1, 0, ""}},
		{"a data type", obj{"type": "path", "name": "x", "dataType": "decimal(99,1)"}, placed{0, "dataType", 0, 0, ""}},
		{"a default that is no JSON", obj{"type": "path", "name": "x", "path": "a", "default": "{"}, placed{0, "defaultValue", 0, 0, ""}},
		{"a kind", obj{"type": "<svg onload=x>", "name": "x"}, placed{0, "type", 0, 0, ""}},
		{"an option of another type", obj{"type": "path", "name": "x", "path": "a", "dataType": "string", "required": true, "round": true}, placed{0, "round", 0, 0, ""}},
	} {
		got := run(event, tc.column)
		if len(got.Problems) != 1 || len(got.Cells) > 0 {
			t.Errorf("%s: got %+v, want len(got.Problems) == 1 and len(got.Cells) <= 0", tc.name, got)
			continue
		}
		p := got.Problems[0]
		if p.Column != tc.want.Column || p.Field != tc.want.Field || p.Text == "" || tc.want.Line > 0 && (p.Line != tc.want.Line || tc.want.Col > 0 && p.Col != tc.want.Col) {
			t.Errorf("%s: got %+v, want %+v", tc.name, p, tc.want)
		}
	}
	if got := run(event); len(got.Problems) != 1 || got.Problems[0].Column != -1 {
		t.Errorf("no columns: %+v", got)
	}

	got := run(event, obj{"type": "body", "name": "b"}, obj{"type": "template", "name": "x", "template": "local a = Body('a');\n\n  a * 2"}, obj{"type": "path", "name": "y", "path": "missing"})
	if why := got.Cells[1].Why; why == nil || why.Line != 3 || why.Col != 3 || why.Column != 1 {
		t.Errorf("a template that fails: %+v", why)
	}
	if got.Reason != "templateFailed" || !strings.Contains(got.Rejected, `column "x": 3:3`) || got.CSV != "" {
		t.Errorf("rejected because of %s: %s", got.Reason, got.Rejected)
	}
	if why := got.Cells[2].Why; why == nil || got.Cells[0].Why != nil || got.Cells[0].Value != `{"a":"<script>"}` {
		t.Errorf("the other columns: %+v", got.Cells)
	}
	got = run(event, obj{"type": "path", "name": "x", "path": "a", "dataType": "int64", "required": true})
	if got.Reason != "malformed" && got.Reason != "wrongKind" {
		t.Errorf("a text in an int64: %+v", got)
	}

	for field, bad := range map[string]obj{
		"headers": {"headers": "a: b\nno colon"}, "ip": {"ip": "nowhere"}, "received": {"received": "yesterday"}, "format": {"format": "xml"},
	} {
		w := send(t, c, "/try.run", readsRecords, obj{"source": "web", "sink": "events", "columns": []obj{{"type": "body", "name": "b"}}, "event": bad})
		if got := answer[triedRow](t, w, 422); got.Event != field || got.Error == "" {
			t.Errorf("%s: got %+v, want got.Event == %v and got.Error != \"\"", field, got, field)
		}
	}

	text := "[\n {\"type\": \"body\", \"name\": \"é\"},\n  }"
	e := answer[struct{ Problems []placed }](t, send(t, c, "/try.columns", readsRecords, obj{"text": text}), 422)
	if len(e.Problems) != 1 || e.Problems[0].Line != 3 || e.Problems[0].Col != 3 {
		t.Errorf("JSON with an error: %+v", e)
	}
}

func TestPlaygroundLimits(t *testing.T) {
	eng, _ := openTables(t, forebay.Sink{Table: forebay.Table{Columns: mapping.Columns{mapping.Body("body")}}})
	c := consoleOf(t, eng, console.Options{})
	run := func(body string, columns ...obj) *httptest.ResponseRecorder {
		return send(t, c, "/try.run", readsRecords, obj{"source": "web", "sink": "events", "columns": columns, "event": obj{"body": body}})
	}
	column := obj{"type": "body", "name": "b"}
	large := strings.Repeat("é", 1<<19)
	got := answer[triedRow](t, run(large, column), 200)
	if cell := got.Cells[0]; !cell.Cut || len(cell.Value) > 64<<10 || cell.Bytes != 1<<20 || strings.Trim(cell.Value, "é") != "" {
		t.Errorf("a cell of 1 MiB: cut %v, %d of %d bytes", cell.Cut, len(cell.Value), cell.Bytes)
	}
	if w := run(large+"x", column); w.Code != 413 {
		t.Errorf("an event above the bound: status %d", w.Code)
	}
	if w := run(strings.Repeat("x", 3<<20), column); w.Code != 413 {
		t.Errorf("a request above the bound: status %d", w.Code)
	}
	if got := answer[triedRow](t, run(large, column, obj{"type": "body", "name": "again"}), 200); got.Reason != "rowTooLarge" || got.CSV != "" {
		t.Errorf("a row above the bound: %s %s", got.Reason, got.Rejected)
	}
	got = answer[triedRow](t, run("{}", obj{"type": "template", "name": "x", "template": "local f(n) = f(n + 1); f(0)"}), 200)
	if got.Reason != "budgetExceeded" {
		t.Errorf("a program without end: %+v", got)
	}
	giveBack := console.TakeTrySlots(c)
	console.SetTryTime(c, time.Millisecond)
	if w := run("{}", column); w.Code != 429 {
		t.Errorf("while others use all places: status %d", w.Code)
	}
	giveBack()
	console.SetTryTime(c, -1)
	if w := run("{}", column); w.Code != 422 && w.Code != 429 || w.Code == 422 && !strings.Contains(w.Body.String(), "stopped before column") {
		t.Errorf("past the time limit: status %d: %s", w.Code, w.Body)
	}
}

// Secret values are in no response. The size of the row counts them.
func TestPlaygroundSecrets(t *testing.T) {
	eng, _ := openTables(t, forebay.Sink{Table: forebay.Table{Columns: mapping.Columns{mapping.Body("body")}}})
	c := consoleOf(t, eng, console.Options{})
	w := send(t, c, "/try.run", readsRecords, obj{
		"source": "web", "sink": "events", "event": obj{"format": "json", "body": `{"card":"4111\"1111"}`},
		"columns": []obj{{"type": "path", "name": "card", "path": "card", "secret": true}, {"type": "path", "name": "n", "path": "card", "dataType": "int64", "secret": true}},
	})
	got := answer[triedRow](t, w, 200)
	if strings.Contains(w.Body.String(), "4111") || got.Cells[0].Value != "***" || got.Cells[0].Bytes != -1 || got.Cells[1].Why == nil {
		t.Errorf("got %s, want *** without a size, and the reason of the second cell", w.Body)
	}
	got = answer[triedRow](t, send(t, c, "/try.run", readsRecords, obj{
		"source": "web", "sink": "events", "event": obj{"format": "json", "body": `{"card":"41\"11"}`},
		"columns": []obj{{"type": "path", "name": "card", "path": "card", "rawString": true, "secret": true}},
	}), 200)
	if got.CSV != "\"***\"\n" || got.CSVBytes != len("\"41\"\"11\"\n") {
		t.Errorf("CSV %q, %d bytes", got.CSV, got.CSVBytes)
	}
}

// An event of the quarantine comes back as it was. What strangers have written is marked in sentences and whole in values.
func TestPlaygroundTakesRejectedEvents(t *testing.T) {
	eng, _ := openTables(t, forebay.Sink{
		OnReject: forebay.Quarantine, Table: forebay.Table{Columns: mapping.Columns{mapping.Template("x", "error 'no ' + Body('why') + Header('X-Evil')")}},
	})
	c := consoleOf(t, eng, console.Options{})
	body := "{\"why\":\"\\u202e<img src=x onerror=alert(1)>\",\"n\":9007199254740993,\"n\":1.10}\x00"
	body = strings.TrimSuffix(body, "\x00")
	for i := range 25 {
		rec := mapping.JSON([]byte(body))
		rec.Header = http.Header{"X-Evil": {"<script>", "two"}}
		rec.Host, rec.ClientIP, rec.Received = "example.com", netip.MustParseAddr("192.0.2.7"), time.Date(2026, 11, 23, 12, 0, i, 0, time.UTC)
		rec.Request = mapping.RequestLine{Method: "POST", Path: "/in", Query: "a=<b>"}
		if _, err := eng.Ingest(t.Context(), "web", rec); err != nil {
			t.Fatal(err)
		}
	}
	w := send(t, c, "/try.open?source=web&sink=events", readsRecords, nil)
	opened := answer[openedSink](t, w, 200)
	if len(opened.Picks) != 20 || opened.Picks[0].Column != "x" || strings.Contains(w.Body.String(), "\u202e") || !strings.Contains(opened.Picks[0].Message, "‹U+202E›") {
		t.Fatalf("got %d events %+v, want 20, the names without control characters", len(opened.Picks), opened.Picks)
	}
	e := answer[struct{ Headers, Body, IP, Received, Format, Request string }](t, send(t, c, "/try.event?source=web&sink=events&id="+opened.Picks[0].ID, readsRecords, nil), 200)
	if e.Body != body || e.Headers != "Host: example.com\nX-Evil: <script>\nX-Evil: two\n" || e.IP != "192.0.2.7" || e.Received != "2026-11-23T12:00:24Z" || e.Format != "json" || e.Request != "POST /in?a=<b>" {
		t.Errorf("got %+v, want the event as it came", e)
	}
	row := answer[triedRow](t, send(t, c, "/try.run", readsRecords, obj{
		"source": "web", "sink": "events", "columns": []obj{{"type": "body", "name": "b"}, {"type": "headers", "name": "h"}},
		"event": obj{"headers": e.Headers, "body": e.Body, "ip": e.IP, "received": e.Received, "format": e.Format},
	}), 200)
	if row.Cells[0].Value != body || row.Cells[1].Value != `{"Host":"example.com","X-Evil":"<script>, two"}` {
		t.Errorf("got %+v, want row.Cells[0].Value == %v and row.Cells[1].Value == `{\"Host\":\"example.com\",\"X-Evil\":\"<script>, two\"}`", row.Cells, body)
	}
	if w := send(t, c, "/try.event?source=web&sink=events&id=gone", readsRecords, nil); w.Code != 404 {
		t.Errorf("an unknown record: status %d: %s", w.Code, w.Body)
	}
	if w := send(t, c, "/try.open?source=web&sink=%E2%80%AE", readsRecords, nil); w.Code != 404 || strings.Contains(w.Body.String(), "\u202e") {
		t.Errorf("an unknown sink: status %d: %s", w.Code, w.Body)
	}
}

// The playground begins with an event that the columns take, whatever their kinds and types.
func TestExampleOfColumns(t *testing.T) {
	for name, columns := range map[string]mapping.Columns{
		"no path": {mapping.UUID("id"), mapping.Body("body")},
		"types": {
			mapping.Path("a", "order.id", mapping.DataType(datatype.Int64)), mapping.Path("b", "order.items[1].price", mapping.DataType("decimal(10,2)")),
			mapping.Path("c", "order.items[0].at", mapping.DataType(datatype.Timestamp)), mapping.Path("d", "on", mapping.DataType(datatype.Bool)),
			mapping.Path("e", "day", mapping.DataType(datatype.Date)), mapping.Path("f", "uid", mapping.DataType(datatype.UUID)), mapping.Path("g", "more", mapping.DataType(datatype.JSON)),
			mapping.Path("h", "raw", mapping.DataType(datatype.Bytes)), mapping.Path("i", "name", mapping.RawString()), mapping.Path("j", "rate", mapping.DataType(datatype.Float64)),
		},
		"one inside another": {mapping.Path("a", "order"), mapping.Path("b", "order.id")},
	} {
		eng, _ := openTables(t, forebay.Sink{Table: forebay.Table{Columns: columns}})
		c := consoleOf(t, eng, console.Options{})
		got := answer[struct{ Example string }](t, send(t, c, "/try.open?source=web&sink=events", readsRecords, nil), 200)
		if _, err := eng.Ingest(t.Context(), "web", mapping.JSON([]byte(got.Example))); err != nil && name != "one inside another" || !json.Valid([]byte(got.Example)) {
			t.Errorf("%s: the example is rejected: %v\n%s", name, err, got.Example)
		}
	}
}
