package clickhouse

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/internal/viewtest"
)

var unqualified = regexp.MustCompile(`((?:FROM|JOIN) )(otel_)`)

// asker runs SQL in a database of the server, for package viewtest.
type asker struct{ database string }

func (a asker) Exec(ctx context.Context, statement string) error {
	_, err := a.Query(ctx, statement)
	return err
}

func (a asker) Query(_ context.Context, query string) (all [][]any, err error) {
	// The connections of the server have no database.
	rows, err := server.Query(unqualified.ReplaceAllString(query, "${1}"+a.database+".${2}"))
	for _, row := range rows {
		cells := make([]any, len(row))
		for i, cell := range row {
			if cell != nil {
				cells[i] = *cell
			}
		}
		all = append(all, cells)
	}
	return all, err
}

// telemetry makes the tables as the command forebay does, and the views.
func telemetry(tb testing.TB) asker {
	target := open(tb, Options{OrderBy: []string{"ServiceName", "MetricName", "Timestamp", "TimeUnix"}})
	db := asker{target.client.database}
	viewtest.Make(tb, target, db, viewtest.Where{Dialect: "clickhouse", Schema: db.database})
	return db
}

func (a asker) query(tb testing.TB, query string) (rows [][]any) {
	tb.Helper()
	rows, err := a.Query(tb.Context(), query)
	if err != nil {
		tb.Fatalf("got %v, want no error\n%s", err, query)
	}
	return rows
}

// The views of telemetry, and the queries of the page about them, work in ClickHouse.
func TestTelemetryViews(t *testing.T) {
	target := open(t, Options{OrderBy: []string{"ServiceName", "MetricName", "Timestamp", "TimeUnix"}})
	viewtest.Run(t, target, asker{target.client.database}, viewtest.Where{Dialect: "clickhouse", Schema: target.client.database})
}

// The query that Grafana's data source for ClickHouse makes of a trace id, and the first one that ClickStack makes of a search.
func TestTelemetryDashboards(t *testing.T) {
	db := telemetry(t)
	tags := func(column string) string {
		return `arrayMap(key -> map('key', key, 'value', "` + column + `"[key]), mapKeys("` + column + `"))`
	}
	rows := db.query(t, `WITH 'aa000000000000000000000000000001' AS trace_id,
			(SELECT min(Start) FROM otel_traces_trace_id_ts WHERE TraceId = trace_id) AS trace_start,
			(SELECT max(End) + 1 FROM otel_traces_trace_id_ts WHERE TraceId = trace_id) AS trace_end
		SELECT "TraceId" AS traceID, "SpanId" AS spanID, "ParentSpanId" AS parentSpanID, "ServiceName" AS serviceName, "SpanName" AS operationName,
			multiply(toUnixTimestamp64Nano("Timestamp"), 0.000001) AS startTime, multiply("Duration", 0.000001) AS duration,
			`+tags("SpanAttributes")+` AS tags, `+tags("ResourceAttributes")+` AS serviceTags, if("StatusCode" IN ('Error', 'STATUS_CODE_ERROR'), 2, 0) AS statusCode,
			arrayMap((name, timestamp, attributes) -> tuple(name, toString(toUnixTimestamp64Milli(timestamp)),
				arrayMap(key -> map('key', key, 'value', attributes[key]), mapKeys(attributes)))::Tuple(name String, timestamp String, fields Array(Map(String, String))),
				"Events.Name", "Events.Timestamp", "Events.Attributes") AS logs,
			arrayMap((traceID, spanID, attributes) -> tuple(traceID, spanID, arrayMap(key -> map('key', key, 'value', attributes[key]), mapKeys(attributes)))
				::Tuple(traceID String, spanID String, tags Array(Map(String, String))), "Links.TraceId", "Links.SpanId", "Links.Attributes") AS references
		FROM otel_traces WHERE traceID = trace_id AND "Timestamp" >= trace_start AND "Timestamp" <= trace_end ORDER BY duration DESC LIMIT 1000`)
	if len(rows) != 20 || rows[0][3] != "shop" || rows[0][6] != "20" || !strings.Contains(rows[0][10].(string), "Declined") {
		t.Errorf("got %d rows, first %q, want the 20 spans of the trace", len(rows), rows)
	}
	rows = db.query(t, `SELECT Timestamp, ServiceName, SeverityText, Body, TimestampTime FROM otel_logs
		WHERE TimestampTime >= fromUnixTimestamp64Milli(toUnixTimestamp64Milli(now64(3)) - 3600000) AND hasToken(lower(Body), 'declined') AND ResourceAttributes['host.name'] = 'a-1'
		ORDER BY TimestampTime DESC LIMIT 200`)
	if len(rows) != 1 || rows[0][3] != "card declined" {
		t.Errorf("got %q, want one log", rows)
	}
}

// A table of the exporter in the same database keeps its rows.
func TestTelemetryTableOfExporter(t *testing.T) {
	database := server.Database(t)
	db := asker{database}
	db.query(t, "CREATE TABLE "+database+".logs (TraceId Nullable(String), TimeUnixNano Nullable(Int64), ResourceAttributes Nullable(String), "+
		"ScopeAttributes Nullable(String), LogAttributes Nullable(String)) ENGINE = MergeTree ORDER BY ()")
	db.query(t, "CREATE TABLE "+database+".otel_logs (Body String) ENGINE = MergeTree ORDER BY ()")
	db.query(t, "INSERT INTO "+database+".otel_logs VALUES ('kept')")
	var err error
	for _, s := range viewtest.Statements(t, viewtest.Where{Dialect: "clickhouse", Schema: database}) {
		if err = db.Exec(t.Context(), s); err != nil {
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), "is not a View") {
		t.Errorf("got %v, want an error about the table", err)
	}
	if rows := db.query(t, "SELECT Body FROM "+database+".otel_logs"); len(rows) != 1 {
		t.Errorf("the table has %q, want its row", rows)
	}
}

// fill adds spans and logs of one day, of ten services and ten spans for each trace, in imports of 100,000 rows.
func (a asker) fill(tb testing.TB, rows int) {
	tb.Helper()
	const each = 100_000
	for from := 0; from < rows; from += each {
		day := fmt.Sprintf("toUnixTimestamp64Nano(now64(9)) - intDiv(86400000000000, %d) * (%d - number)", rows, rows)
		service := "concat('service-', toString(cityHash64(number, 1) % 10))"
		resource := `concat('{"service.name":"', ` + service + `, '","host.name":"host-', toString(number % 50), '","k8s.namespace.name":"production"}')`
		numbers := fmt.Sprintf(" FROM numbers(%d, %d)", from, each)
		a.query(tb, "INSERT INTO "+a.database+".traces (Timestamp, TimeUnixNano, Duration, TraceId, SpanId, ParentSpanId, SpanName, SpanKind, ServiceName, ResourceAttributes, SpanAttributes, "+
			"StatusCode, Events, Links, _forebay_file) SELECT fromUnixTimestamp64Nano(n), n, 1000000 + cityHash64(number) % 100000000, lower(hex(MD5(toString(intDiv(number, 1000) * 100 + number % 100)))), "+
			"lower(hex(cityHash64(number))), if(intDiv(number, 100) % 10 = 0, NULL, lower(hex(cityHash64(number - 100)))), concat('GET /', toString(number % 20)), 'Server', "+service+", "+resource+
			`, concat('{"http.route":"/', toString(number % 20), '","http.response.status_code":', toString(200 + number % 3), ',"url.path":"/cart/', toString(number), '"}'), 'Unset', '[]', '[]', 'f' `+
			"FROM (SELECT number, "+day+" AS n"+numbers+")")
		a.query(tb, "INSERT INTO "+a.database+".logs (Timestamp, TimeUnixNano, TraceId, SeverityText, SeverityNumber, ServiceName, Body, ResourceAttributes, LogAttributes, _forebay_file) "+
			"SELECT fromUnixTimestamp64Nano(n), n, lower(hex(MD5(toString(intDiv(number, 10))))), 'INFO', 9, "+service+", concat('request ', toString(cityHash64(number)), ' took ', toString(number % 977), ' ms'), "+
			resource+`, concat('{"http.response.status_code":', toString(200 + number % 300), ',"user.id":"', toString(number % 100003), '"}'), 'f' FROM (SELECT number, `+day+" AS n"+numbers+")")
	}
}

const filledTrace = "lower(hex(MD5('4242')))"

// The queries of a trace and of a service's last hour skip most rows, which are in three parts of 13 granules.
func TestTelemetryIndexes(t *testing.T) {
	db := telemetry(t)
	db.fill(t, 300_000)
	for query, want := range map[string]int{
		"SELECT SpanName FROM otel_traces WHERE TraceId = " + filledTrace:                                        60_000,
		"SELECT Start FROM otel_traces_trace_id_ts WHERE TraceId = " + filledTrace:                               60_000,
		"SELECT Body FROM otel_logs WHERE ServiceName = 'service-3' AND Timestamp > now() - INTERVAL 1 HOUR":     25_000,
		"SELECT Body FROM otel_logs WHERE ServiceName = 'service-3' AND TimestampTime > now() - INTERVAL 1 HOUR": 25_000,
	} {
		rows := db.query(t, "EXPLAIN ESTIMATE "+query)
		if len(rows) != 1 {
			t.Errorf("%s: got %q, want one table", query, rows)
			continue
		}
		if read, err := strconv.Atoi(rows[0][3].(string)); err != nil || read > want {
			t.Errorf("%s reads %s of 300,000 rows, want at most %d", query, rows[0][3], want)
		}
	}
}

// BenchmarkTelemetryQueries asks for one trace, and for the logs of a service in the last hour, among 2,000,000 spans and as many logs.
func BenchmarkTelemetryQueries(b *testing.B) {
	db := telemetry(b)
	db.fill(b, 2_000_000)
	for name, query := range map[string]string{
		"trace":      "SELECT * FROM otel_traces WHERE TraceId = " + filledTrace,
		"trace tree": strings.ReplaceAll(viewtest.Query(b, "clickhouse", "One trace as a tree"), "'aa000000000000000000000000000002'", filledTrace),
		"logs":       strings.ReplaceAll(viewtest.Query(b, "clickhouse", "Grafana's logs panel"), "'shop'", "'service-3'"),
		"attribute":  strings.ReplaceAll(viewtest.Query(b, "clickhouse", "Logs with an attribute"), "'202'", "'477'"),
		"routes":     viewtest.Query(b, "clickhouse", "Slowest routes"),
		"errors":     viewtest.Query(b, "clickhouse", "Error rate"),
		"map":        viewtest.Query(b, "clickhouse", "Service map"),
	} {
		b.Run(name, func(b *testing.B) {
			rows, best, cpu := 0, time.Hour, server.CPU()
			for b.Loop() {
				began := time.Now()
				rows = len(db.query(b, query))
				best = min(best, time.Since(began))
			}
			b.ReportMetric(float64(rows), "rows")
			b.ReportMetric(float64(best.Milliseconds()), "ms/best")
			b.ReportMetric(float64((server.CPU()-cpu).Milliseconds())/float64(b.N), "cpu-ms/op")
		})
	}
	for _, row := range db.query(b, "SELECT table, sum(rows), count(), sum(data_compressed_bytes) FROM system.parts WHERE active AND database = "+literal(db.database)+" GROUP BY 1 ORDER BY 1") {
		b.Logf("table, rows, parts, bytes: %q", row)
	}
}
