package stream_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream"
)

// Every address, encoding and coding in which exporters send takes the records of every signal to the sinks that want
// them.
func TestOTLPRequests(t *testing.T) {
	s := newService(t, nil, telemetry())
	sent := 0
	for _, enc := range []string{protobuf, jsonBody} {
		for signal, data := range exports(t, enc) {
			for _, coding := range []string{"", "gzip", "deflate", "zlib", "zstd", "snappy", "x-snappy-framed", "lz4"} {
				body := compress(t, coding, data)
				for _, path := range []string{
					"/otlp/1/app/" + webSecret + "/v1/" + string(signal), "/otlp/1/app/" + webSecret + "/v1/" + string(signal) + "/",
					"/v1/" + string(signal), "/v1/" + string(signal) + "/",
					"/otlp/1/app/v1/" + string(signal), "/otlp/1/app/" + webSecret, "/otlp/1/app/" + webSecret + "/", "/otlp/1/app",
				} {
					auth := ""
					if !strings.Contains(path, webSecret) {
						auth = "bEARER " + webSecret
					}
					status, header, answer := s.export(path, body, "Content-Type", enc, "Content-Encoding", coding, "Authorization", auth)
					want := ""
					if enc == jsonBody {
						want = "{}"
					}
					if status != 200 || answer != want || header.Get("Content-Type") != enc {
						t.Errorf("%s %s %s: got %d %s %q, want status == 200 and answer == %v and header.Get(\"Content-Type\") == %v", path, enc, coding, status, header.Get("Content-Type"), answer, want, enc)
					}
					sent++
				}
			}
		}
	}
	got := s.tables()
	want := map[string]int{"logs": sent / 3, "metrics": sent / 3, "traces": sent / 3, "all": sent}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("rows %v, want %v", got, want)
	}
	for name := range want {
		for _, row := range s.mem.Rows("in.c-app." + name) {
			if name != "all" && row[0] != name {
				t.Errorf("table %s has the row %q", name, row)
			}
			if strings.Contains(strings.Join(row, ""), webSecret) {
				t.Fatalf("the secret is in a table: %s", row)
			}
		}
	}
}

// The JSON form of protobuf names a field in either way, and no address needs to tell the signal of either.
func TestOTLPFieldNames(t *testing.T) {
	s := newService(t, nil, telemetry())
	for i, path := range []string{"/otlp/1/app/" + webSecret, "/otlp/1/app/" + webSecret + "/v1/logs"} {
		status, _, answer := s.export(path, []byte(`{"resource_logs":[{"scope_logs":[{"log_records":[{"body":{"string_value":"a"},"time_unix_nano":"1"}]}]}]}`), "Content-Type", jsonBody)
		if status != 200 || answer != "{}" || s.tables()["logs"] != i+1 {
			t.Errorf("%s: got %d %s, %v, want status == 200 and answer == \"{}\" and s.tables()[\"logs\"] == %v", path, status, answer, s.tables(), i+1)
		}
	}
}

// What a retry cannot fix is refused with a 4xx, and says why, in the encoding of the request.
func TestOTLPRefusals(t *testing.T) {
	s := newService(t, nil, telemetry(), source("web", mapping.Body("b")),
		forebay.Source{ID: "off", Type: forebay.OTLP, Secret: webSecret, Disabled: true},
		forebay.Source{ID: "one", Type: forebay.OTLP, Secret: "twins"}, forebay.Source{ID: "two", Type: forebay.OTLP, Secret: "twins"},
		forebay.Source{ID: "events", Secret: "events"}, forebay.Source{ID: "paused", Type: forebay.OTLP, Secret: "paused", Disabled: true})
	good := exports(t, protobuf)[forebay.SignalLogs]
	const path = "/otlp/1/app/" + webSecret + "/v1/logs"

	deepProto := []byte{}
	for range 2000 { // AnyValue in ArrayValue in AnyValue ...
		deepProto = field(5, field(1, deepProto))
	}
	deepProto = field(1, field(2, field(2, field(5, deepProto))))
	deepJSON := `{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":` + strings.Repeat(`{"arrayValue":{"values":[`, 300) + "{}" +
		strings.Repeat("]}}", 300) + "}]}]}]}"

	for name, c := range map[string]struct {
		path     string
		body     []byte
		typ      string
		encoding string
		auth     string
		status   int
		message  string
	}{
		"no such path":         {"/otlp/1/app/" + webSecret + "/v2/logs", good, protobuf, "", "", 404, "Telemetry is posted to"},
		"no such signal":       {"/otlp/1/app/" + webSecret + "/v1/traces2", good, protobuf, "", "", 404, "Telemetry is posted to"},
		"profiles":             {"/otlp/1/app/" + webSecret + "/v1development/profiles", good, protobuf, "", "", 404, "Profiles are not taken"},
		"profiles, plain":      {"/v1development/profiles", good, protobuf, "", "Bearer " + webSecret, 404, "Profiles are not taken"},
		"plain, no secret":     {"/v1/logs", good, protobuf, "", "", 401, "No source"},
		"plain, wrong secret":  {"/v1/logs", good, protobuf, "", "Bearer x" + webSecret, 401, "No source"},
		"plain, not OTLP":      {"/v1/logs", good, protobuf, "", "Bearer events", 401, "No source"},
		"plain, secret of two": {"/v1/logs", good, protobuf, "", "Bearer twins", 400, "Several sources"},
		"plain, paused":        {"/v1/logs", good, protobuf, "", "Bearer paused", 503, "disabled"},
		"no source":            {"/otlp/1", good, protobuf, "", "", 404, "Telemetry is posted to"},
		"project":              {"/otlp/x/app/" + webSecret + "/v1/logs", good, protobuf, "", "", 400, "project id"},
		"other project":        {"/otlp/2/app/" + webSecret + "/v1/logs", good, protobuf, "", "", 404, "Unknown source"},
		"wrong secret":         {"/otlp/1/app/" + webSecret + "x/v1/logs", good, protobuf, "", "", 404, "Unknown source"},
		"wrong bearer":         {"/otlp/1/app/v1/logs", good, protobuf, "", "Bearer x" + webSecret, 404, "Unknown source"},
		"other scheme":         {"/otlp/1/app/v1/logs", good, protobuf, "", "Basic " + webSecret, 404, "Unknown source"},
		"no secret":            {"/otlp/1/app/v1/logs", good, protobuf, "", "", 404, "Unknown source"},
		"source of HTTP":       {"/otlp/1/web/" + webSecret + "/v1/logs", good, protobuf, "", "", 404, "Unknown source"},
		"disabled":             {"/otlp/1/off/" + webSecret + "/v1/logs", good, protobuf, "", "", 503, "disabled"},
		"type":                 {path, good, "text/plain", "", "", 415, "Content-Type"},
		"no type":              {path, good, "", "", "", 415, "Content-Type"},
		"coding":               {path, good, protobuf, "br", "", 415, "Content-Encoding"},
		"not snappy":           {path, good, protobuf, "snappy", "", 400, "Content-Encoding"},
		"not lz4":              {path, good, protobuf, "lz4", "", 400, "Content-Encoding"},
		"not gzip":             {path, good, protobuf, "gzip", "", 400, "Content-Encoding"},
		"not protobuf":         {path, []byte("hello"), protobuf, "", "", 400, "not a valid export"},
		"cut":                  {path, good[:len(good)-1], protobuf, "", "", 400, "not a valid export"},
		"not JSON":             {path, []byte(`{"resourceLogs":[{]}`), jsonBody, "", "", 400, "not a valid export"},
		"unknown signal":       {"/otlp/1/app/" + webSecret, field(1, nil), protobuf, "", "", 400, "signal"},
		"unknown signal, JSON": {"/otlp/1/app/" + webSecret, []byte(`{}`), jsonBody, "", "", 400, "signal"},
		"other signal, JSON":   {path, exports(t, jsonBody)[forebay.SignalTraces], jsonBody, "", "", 400, "/v1/traces"},
		"no signal, a guess":   {"/otlp/1/app/" + webSecret, field(1, field(2, field(2, field(1, make([]byte, 16))))), protobuf, "", "", 400, "signal"},
		"member without name":  {path, []byte(`{"":0,"resourceLogs":[{"scopeLogs":[{"logRecords":[{}]}]}]}`), jsonBody, "", "", 400, "no name"},
		"wrong case, JSON":     {"/otlp/1/app/" + webSecret, []byte(`{"RESOURCELOGS":[{"scopeLogs":[{"logRecords":[{}]}]}]}`), jsonBody, "", "", 400, "signal"},
		"two values of JSON":   {path, []byte("{}\n{}"), jsonBody, "", "", 400, "more follows its end"},
		"copies": {
			path, compress(t, "gzip", field(1, append(field(1, field(1, field(1, make([]byte, 1<<20)))), field(2, bytes.Repeat([]byte{2<<3 | 2, 0}, 500))...))),
			protobuf, "gzip", "", 413, "copies of their resources",
		},
		"body too large":    {path, make([]byte, 20<<20+1), protobuf, "", "", 413, "20971520 bytes"},
		"bomb":              {path, compress(t, "gzip", make([]byte, 100<<20)), protobuf, "gzip", "", 413, "67108864 bytes"},
		"zstd bomb":         {path, compress(t, "zstd", make([]byte, 100<<20)), protobuf, "zstd", "", 413, "67108864 bytes"},
		"many tiny records": {path, field(1, field(2, bytes.Repeat([]byte{2<<3 | 2, 0}, 400_000))), protobuf, "", "", 413, "smaller batches"},
		"many tiny records, JSON": {
			path, compress(t, "gzip", []byte(`{"resourceLogs":[{"scopeLogs":[{"logRecords":[{}`+strings.Repeat(",{}", 400_000)+`]}]}]}`)),
			jsonBody, "gzip", "", 413, "smaller batches",
		},
		"deep nesting":       {path, deepProto, protobuf, "", "", 400, "nested"},
		"deep nesting, JSON": {path, []byte(deepJSON), jsonBody, "", "", 400, "nested"},
	} {
		t.Run(name, func(t *testing.T) {
			wantCode := map[int]uint64{400: 3, 401: 16, 404: 5, 413: 3, 415: 3, 503: 14}[c.status]
			status, header, answer := s.export(c.path, c.body, "Content-Type", c.typ, "Content-Encoding", c.encoding, "Authorization", c.auth)
			if got := header.Get("WWW-Authenticate"); (status == 401) != (got == "Bearer") {
				t.Errorf("got %d with WWW-Authenticate %q, want Bearer with 401 alone", status, got)
			}
			message := answer
			if c.typ == protobuf {
				if header.Get("Content-Type") != protobuf {
					t.Errorf("the answer has the type %q", header.Get("Content-Type"))
				}
				var code uint64
				if code, message = readStatus(t, []byte(answer)); code != wantCode {
					t.Errorf("the status has the code %d, want %d", code, wantCode)
				}
			} else {
				var body struct {
					Code    uint64
					Message string
					Error   string
				}
				if err := json.Unmarshal([]byte(answer), &body); err != nil || body.Code != wantCode || !strings.HasPrefix(body.Error, "stream.in.") {
					t.Errorf("got %v: %s, want no error and body.Code == %v and strings.HasPrefix(body.Error, \"stream.in.\")", err, answer, wantCode)
				}
				message = body.Message
			}
			if status != c.status || !strings.Contains(message, c.message) || strings.Contains(answer, webSecret) {
				t.Errorf("got %d %q, want %d with %q", status, message, c.status, c.message)
			}
		})
	}
	if n := s.tables()["all"]; n != 0 {
		t.Errorf("got %d rows of refused requests, want 0", n)
	}
}

// What a Collector and an SDK send by default comes through by default: 8,192 records of 1.2 KB in one batch, and spans with
// their stack traces uncompressed. Events keep their limit of 1 MB.
func TestOTLPDefaultBatches(t *testing.T) {
	s := newService(t, nil, telemetry())
	records := 8192
	if testing.Short() { // the race detector makes records slow. The body stays above a megabyte.
		records = 1024
	}
	bodies := make([]string, records)
	for i := range bodies {
		bodies[i] = fmt.Sprintf("%d %s", i, strings.Repeat("gate ", 240))
	}
	batch := logs(bodies...)
	spans := ptrace.NewTraces()
	list := spans.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
	for range 512 {
		e := list.AppendEmpty().Events().AppendEmpty()
		e.SetName("exception")
		e.Attributes().PutStr("exception.stacktrace", strings.Repeat("at basin.Gate.open(Gate.java:42)\n", 100))
	}
	proto, err := (&plog.ProtoMarshaler{}).MarshalLogs(batch)
	text, err2 := (&plog.JSONMarshaler{}).MarshalLogs(batch)
	trace, err3 := (&ptrace.ProtoMarshaler{}).MarshalTraces(spans)
	if err := errors.Join(err, err2, err3); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		signal, typ, coding string
		data                []byte
	}{
		{"logs", protobuf, "", proto},
		{"logs", protobuf, "gzip", proto},
		{"logs", jsonBody, "", text},
		{"logs", jsonBody, "zstd", text},
		{"traces", protobuf, "", trace},
	} {
		if len(c.data) <= 1<<20 {
			t.Fatal("the batch is small")
		}
		status, _, answer := s.export("/otlp/1/app/"+webSecret+"/v1/"+c.signal, compress(t, c.coding, c.data), "Content-Type", c.typ, "Content-Encoding", c.coding)
		if status != 200 || strings.Contains(answer, "artial") {
			t.Errorf("got %s, %s, %q: %d %q, want status == 200 and !strings.Contains(answer, \"artial\")", c.signal, c.typ, c.coding, status, answer)
		}
	}
	if got := s.tables(); got["logs"] != 4*len(bodies) || got["traces"] != list.Len() || got["all"] != got["logs"]+got["traces"] {
		t.Errorf("rows %v", got)
	}
}

func TestOTLPMethods(t *testing.T) {
	s := newService(t, nil, telemetry())
	for method, want := range map[string]int{http.MethodOptions: 200, http.MethodGet: 405} {
		for _, path := range []string{"/otlp/1/app/v1/logs", "/v1/logs"} {
			req, err := http.NewRequest(method, s.url+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != want || resp.Header.Get("Allow") != "OPTIONS, POST" {
				t.Errorf("%s %s: got %d, Allow %q, want %d, \"OPTIONS, POST\"", method, path, resp.StatusCode, resp.Header.Get("Allow"), want)
			}
			// A browser does not take the wildcard for the header that has the secret.
			if allowed := resp.Header.Get("Access-Control-Allow-Headers"); method == http.MethodOptions && !strings.Contains(allowed, "Authorization") {
				t.Errorf("%s: Access-Control-Allow-Headers is %q", path, allowed)
			}
		}
	}
}

// Records that a sink can never store are counted, with the first reason. The others are stored. When none is left the
// request fails permanently.
func TestOTLPPartialSuccess(t *testing.T) {
	src := telemetry()
	src.Sinks = append(src.Sinks, forebay.Sink{
		ID: "strict", Table: forebay.Table{ID: "in.c-app.strict", Columns: mapping.Columns{mapping.Path("n", "body.n")}},
		AllowedSignals: []forebay.Signal{forebay.SignalLogs},
	})
	s := newService(t, nil, src)
	batch := logs("plain", "", "plain")
	batch.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(1).Body().SetEmptyMap().PutInt("n", 7)
	path := "/otlp/1/app/" + webSecret + "/v1/logs"
	data, err := (&plog.JSONMarshaler{}).MarshalLogs(batch)
	if err != nil {
		t.Fatal(err)
	}
	status, _, answer := s.export(path, data, "Content-Type", jsonBody)
	const want = `{"partialSuccess":{"rejectedLogRecords":"2","errorMessage":"2 of 3 log records were rejected, the first is number 1, ` +
		`by sink \"strict\": column \"n\": path \"body.n\": \"body\" is a string and has no member \"n\"; set a default if it may be missing"}}`
	if status != 200 || answer != want {
		t.Errorf("got %d %s\nwant %s", status, answer, want)
	}
	if n := s.tables(); n["logs"] != 3 || n["all"] != 3 || len(s.mem.Rows("in.c-app.strict")) != 1 {
		t.Errorf("rows %v and %v", n, s.mem.Rows("in.c-app.strict"))
	}
	if data, err = (&plog.JSONMarshaler{}).MarshalLogs(logs("plain")); err != nil {
		t.Fatal(err)
	}
	if status, _, answer = s.export(path, data, "Content-Type", jsonBody); status != 422 || !strings.Contains(answer, "1 of 1 log records") {
		t.Errorf("got %d %s, want status == 422 and strings.Contains(answer, \"1 of 1 log records\")", status, answer)
	}
}

// A signal that no sink takes is a partial success that says how many records were dropped.
func TestOTLPWithoutSink(t *testing.T) {
	src := telemetry()
	src.Sinks = src.Sinks[:1]
	s := newService(t, nil, src)
	status, _, answer := s.export("/otlp/1/app/"+webSecret+"/v1/traces", exports(t, jsonBody)[forebay.SignalTraces], "Content-Type", jsonBody)
	const want = `{"partialSuccess":{"rejectedSpans":"1","errorMessage":"No enabled sink of the source takes traces: 1 spans were dropped."}}`
	if status != 200 || answer != want || s.eng.Stats().Dropped["app"] != 1 {
		t.Errorf("got %d %s, %d dropped, want 200 %s, 1", status, answer, s.eng.Stats().Dropped["app"], want)
	}
}

// Overload is a 503 with Retry-After, whatever is full, and no sink has stored anything. The exporter's retry doubles no row.
func TestOTLPOverload(t *testing.T) {
	s := newService(t, func(o *forebay.Options) { o.Buffer.MaxSinkBytes = 64 << 10 }, telemetry())
	s.mem.Alter("in.c-app.logs", datatype.UntypedColumns("other")...) // holds up the imports of this sink
	rng := rand.New(rand.NewPCG(1, 0))
	taken := 0
	for i := range 50 {
		noise := make([]byte, 8<<10)
		for i := range noise {
			noise[i] = byte(rng.Uint32())
		}
		data, err := (&plog.ProtoMarshaler{}).MarshalLogs(logs(fmt.Sprintf("%x", noise)))
		if err != nil {
			t.Fatal(err)
		}
		status, header, answer := s.export("/otlp/1/app/"+webSecret+"/v1/logs", data, "Content-Type", protobuf)
		switch status {
		case 200:
			taken++
			continue
		case 503:
			if header.Get("Retry-After") == "" || !strings.Contains(answer, "Send the event again later") {
				t.Errorf("Retry-After %q, %q", header.Get("Retry-After"), answer)
			}
		default:
			t.Fatalf("got %d %q, want 200 or 503", status, answer)
		}
		if i == 49 {
			break
		}
	}
	if taken == 0 || taken == 50 {
		t.Fatalf("%d batches were taken", taken)
	}
	if err := s.eng.Flush(t.Context(), "app", "all"); err != nil {
		t.Fatal(err)
	}
	if n := len(s.mem.Rows("in.c-app.all")); n != taken {
		t.Errorf("got %d rows of %d batches, want %v", n, taken, taken)
	}
}

// A batch that could never have room in addition to its own bytes is refused permanently: 503 would be repeated forever.
func TestOTLPSmallMemory(t *testing.T) {
	s := newService(t, nil, telemetry())
	srv := httptest.NewServer(stream.Ingest(s.eng, stream.Options{MaxBodyBytes: 64 << 10, MaxBufferedBytes: 64 << 10}))
	defer srv.Close()
	s.url = srv.URL
	data, err := (&plog.ProtoMarshaler{}).MarshalLogs(logs(make([]string, 100)...))
	if err != nil {
		t.Fatal(err)
	}
	if status, _, answer := s.export("/otlp/1/app/"+webSecret+"/v1/logs", data, "Content-Type", protobuf); status != 413 {
		t.Errorf("got %d %q, want 413", status, answer)
	}
	if data, err = (&plog.ProtoMarshaler{}).MarshalLogs(logs("one")); err != nil {
		t.Fatal(err)
	}
	if status, _, answer := s.export("/otlp/1/app/"+webSecret+"/v1/logs", data, "Content-Type", protobuf); status != 200 {
		t.Errorf("got %d %q, want 200", status, answer)
	}
}

// Columns do not see the headers that are to be hidden, and never the bearer token.
func TestOTLPHiddenHeaders(t *testing.T) {
	for name, hidden := range map[string][]string{"one hidden": {"x-tenant-key"}, "none hidden": nil} {
		t.Run(name, func(t *testing.T) {
			s := newService(t, nil, telemetry())
			srv := httptest.NewServer(stream.Ingest(s.eng, stream.Options{HiddenHeaders: hidden}))
			defer srv.Close()
			s.url = srv.URL
			status, _, answer := s.export("/otlp/1/app/v1/logs", exports(t, protobuf)[forebay.SignalLogs], "Content-Type", protobuf,
				"Authorization", "Bearer "+webSecret, "X-Tenant-Key", "hush", "X-Kind", "test")
			if status != 200 {
				t.Fatalf("got %d %s, want 200", status, answer)
			}
			if s.tables()["all"] != 1 {
				t.Fatal("no row")
			}
			headers := s.mem.Rows("in.c-app.all")[0][1]
			if strings.Contains(headers, "hush") != (hidden == nil) || strings.Contains(headers, "Authorization") ||
				!strings.Contains(headers, `"X-Kind":"test"`) || !strings.Contains(headers, `"Host":"127.0.0.1`) {
				t.Errorf("headers %s", headers)
			}
		})
	}
}

// The records of a request keep their order, and share its time.
func TestOTLPOrder(t *testing.T) {
	src := telemetry()
	src.Sinks = []forebay.Sink{{
		ID:    "logs",
		Table: forebay.Table{ID: "in.c-app.logs", Columns: mapping.Columns{mapping.Path("v", "body"), mapping.Datetime("at")}},
	}}
	s := newService(t, nil, src)
	var bodies []string
	for i := range 500 {
		bodies = append(bodies, fmt.Sprint(i))
	}
	data, err := (&plog.ProtoMarshaler{}).MarshalLogs(logs(bodies...))
	if err != nil {
		t.Fatal(err)
	}
	if status, _, answer := s.export("/otlp/1/app/"+webSecret+"/v1/logs", data, "Content-Type", protobuf); status != 200 {
		t.Fatalf("got %d %s, want 200", status, answer)
	}
	if err := s.eng.Flush(t.Context(), "app"); err != nil {
		t.Fatal(err)
	}
	rows := s.mem.Rows("in.c-app.logs")
	for i, row := range rows {
		if row[0] != fmt.Sprintf("%q", fmt.Sprint(i)) || row[1] != rows[0][1] {
			t.Fatalf("row %d is %v", i, row)
		}
	}
	if len(rows) != len(bodies) {
		t.Errorf("got %d rows, want %v", len(rows), len(bodies))
	}
}
