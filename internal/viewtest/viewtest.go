// Package viewtest runs the views of otlpflat, and the queries of the pages about them, in a database that a driver has filled.
package viewtest

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/cputime"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/otlpflat"
)

// CPU returns the CPU that this process has used, which contains that of the databases in it.
func CPU() time.Duration { return cputime.Process() }

// Where says where the tables are, with the dialect of the database, and a schema of it or a folder of files.
type Where struct{ Dialect, Schema, Folder string }

// Database runs SQL.
type Database interface {
	// Exec runs a statement.
	Exec(ctx context.Context, statement string) error
	// Query returns all rows. NULL is nil.
	Query(ctx context.Context, query string) (rows [][]any, err error)
}

// SQL is a database of database/sql.
type SQL struct{ DB *sql.DB }

// Exec implements [Database].
func (d SQL) Exec(ctx context.Context, statement string) error {
	_, err := d.DB.ExecContext(ctx, statement)
	return err
}

// Query implements [Database].
func (d SQL) Query(ctx context.Context, query string) (all [][]any, err error) {
	rows, err := d.DB.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		cells, to := make([]any, len(columns)), make([]any, len(columns))
		for i := range cells {
			to[i] = &cells[i]
		}
		if err := rows.Scan(to...); err != nil {
			return nil, err
		}
		all = append(all, cells)
	}
	return all, rows.Err()
}

// The pages with queries: for every database, and for DuckDB and PostgreSQL only.
const (
	queries   = "../../examples/otlp/README.md"
	telemetry = "../../docs/telemetry.md"
)

// Run makes tables and views, and queries their rows.
func Run(t *testing.T, target driver.Target, db Database, where Where) {
	t.Helper()
	Make(t, target, db, where)
	Ask(t, db, where.Dialect)
}

// Ask runs all queries of the pages on the views of the telemetry that [Store] sends, and queries that check each view.
func Ask(t *testing.T, db Database, dialect string) {
	t.Helper()
	replace, unset := replacements(t, dialect), "NULL"
	if dialect == "clickhouse" {
		unset = ""
	}
	checkAll(t, db, queries, answersOfQueries(unset), replace)
	switch otlpflat.Dialect(dialect) {
	case otlpflat.SQLite:
		checkQuestions(t, db, questionsOfSQLite)
	case otlpflat.MySQL:
		checkQuestions(t, db, questionsOfMySQL)
	case otlpflat.ClickHouse:
		checkQuestions(t, db, questionsOfClickHouse)
	default:
		checkQuestions(t, db, questions)
		checkAll(t, db, telemetry, results, replace)
	}
}

// options returns the options of the views.
func (w Where) options() otlpflat.ViewOptions {
	return otlpflat.ViewOptions{
		Dialect: otlpflat.Dialect(w.Dialect), Schema: w.Schema, Folder: w.Folder, Logs: "logs", Metrics: "metrics", Traces: "traces", ReceivedAt: "Came",
	}
}

// Statements returns the statements that make the views.
func Statements(tb testing.TB, where Where) []string {
	tb.Helper()
	statements, err := otlpflat.Views(where.options())
	if err != nil {
		tb.Fatal(err)
	}
	return statements
}

// Make sends telemetry through an engine into the target, and makes the views in db, which reads the tables of the target.
func Make(tb testing.TB, target driver.Target, db Database, where Where) {
	tb.Helper()
	Store(tb, target, where.options())
	for range 2 { // they can be replaced
		for _, s := range Statements(tb, where) {
			if err := db.Exec(tb.Context(), s); err != nil {
				tb.Fatalf("got %v, want no error\n%s", err, s)
			}
		}
	}
}

// Query returns a query of the page of queries, by its heading, as the dialect needs it.
func Query(tb testing.TB, dialect, title string) string {
	tb.Helper()
	for heading, query := range documented(tb, queries) {
		if heading == title {
			return replacements(tb, dialect)(query)
		}
	}
	tb.Fatalf("the page has no query %q", title)
	return ""
}

func checkQuestions(t *testing.T, db Database, questions []question) {
	t.Helper()
	for _, q := range questions {
		check(t, db, q.sql, q.want)
	}
}

// checkAll checks all queries of a page.
func checkAll(t *testing.T, db Database, page string, answers map[string]string, replace func(string) string) {
	t.Helper()
	asked := 0
	for title, query := range documented(t, page) {
		want, ok := answers[title]
		if !ok {
			t.Errorf("%s: %q has no expected answer", page, title)
		}
		check(t, db, replace(query), want)
		asked++
	}
	if asked != len(answers) {
		t.Errorf("%s has %d queries, want %d", page, asked, len(answers))
	}
}

// documented returns the queries of a page, by the heading above.
func documented(t testing.TB, page string) iter.Seq2[string, string] {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return func(yield func(string, string) bool) {
		for _, m := range regexp.MustCompile("(?s)### ([^\n]+)\n[^#]*?```sql\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
			if !yield(m[1], m[2]) {
				return
			}
		}
	}
}

// replacements returns the function that writes a query for a database as the table of the page says.
func replacements(t testing.TB, dialect string) func(string) string {
	t.Helper()
	text, err := os.ReadFile(queries)
	if err != nil {
		t.Fatal(err)
	}
	expressions := func(name string) []string {
		m := regexp.MustCompile("(?m)^\\| [^|`]*" + name + "[^|`]*\\| `([^`]+)` \\| `([^`]+)` \\| `([^`]+)` \\|$").FindStringSubmatch(string(text))
		if m == nil {
			t.Fatalf("the table of replacements lacks %s", name)
		}
		return m[1:]
	}
	from := expressions("PostgreSQL")
	to := expressions(map[string]string{"duckdb": "DuckDB", "postgresql": "PostgreSQL", "sqlite": "SQLite", "mysql": "MariaDB", "clickhouse": "ClickHouse"}[dialect])
	attribute := regexp.MustCompile(strings.NewReplacer("SpanAttributes", `(\w+)`, "http.route", `([^']+)`, "(", `\(`, ")", `\)`, ">", ">").Replace(from[0]))
	named := strings.NewReplacer("$", "$$", "SpanAttributes", "${1}", "http.route", "${2}").Replace(to[0])
	return func(query string) string {
		return strings.NewReplacer(from[1], to[1], from[2], to[2]).Replace(attribute.ReplaceAllString(query, named))
	}
}

// check compares a result, which is a line for each row, cells between bars, NULL as the word.
func check(t *testing.T, db Database, query, want string) {
	t.Helper()
	rows, err := db.Query(t.Context(), query)
	if err != nil {
		t.Errorf("got %v, want no error\n%s", err, query)
		return
	}
	var lines []string
	for _, cells := range rows {
		var line []string
		for _, c := range cells {
			line = append(line, shown(c))
		}
		lines = append(lines, labels.ReplaceAllString(strings.Join(line, "|"), "{$1}"))
	}
	want = strings.ReplaceAll(strings.TrimSpace(want), "\t", "")
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("%s\ngot\n%s\nwant\n%s", query, got, want)
	}
}

// timeLayouts are how databases write times without a type for them.
var timeLayouts = []string{"2006-01-02T15:04:05.000000Z", "2006-01-02 15:04:05.000000", "2006-01-02 15:04:05.000000000", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04"}

var (
	decimal = regexp.MustCompile(`^-?\d+\.\d+$`)
	// labels are the attributes of a log as JSON, or as the map of ClickHouse.
	labels = regexp.MustCompile(`(?:map\[|\{"?)(?:http\.response\.status_code"?: ?(\d+))?[}\]]`)
)

// shown is a cell as all databases write it.
func shown(c any) string {
	switch c := c.(type) {
	case nil:
		return "NULL"
	case []byte:
		return shown(string(c))
	case float64:
		if math.Abs(c) >= 1e9 && math.Abs(c) < 1e15 { // milliseconds
			return strconv.FormatFloat(c, 'f', 0, 64)
		}
		return strconv.FormatFloat(c, 'g', 6, 64)
	case string:
		for _, layout := range timeLayouts {
			if at, err := time.Parse(layout, c); err == nil {
				return shown(at)
			}
		}
		if whole, zeros, ok := strings.Cut(c, "."); ok && strings.Trim(zeros, "0") == "" { // numeric, which PostgreSQL writes with its scale
			return whole
		}
		if decimal.MatchString(c) {
			f, _ := strconv.ParseFloat(c, 64)
			return shown(f)
		}
	case time.Time:
		return fmt.Sprint(c.Unix() - start.Unix()) // seconds since the start
	}
	return fmt.Sprint(c)
}

// start is the time of the first record. It is recent, as the queries want it, and in the middle of a minute.
var start = time.Now().UTC().Truncate(time.Minute).Add(-2*time.Minute + 20*time.Second)

func at(d time.Duration) pcommon.Timestamp { return pcommon.NewTimestampFromTime(start.Add(d)) }

var (
	trace1 = pcommon.TraceID{0xaa, 15: 1}
	trace2 = pcommon.TraceID{0xaa, 15: 2}
)

// Store brings logs, spans and points to the tables.
func Store(t testing.TB, target driver.Target, o otlpflat.ViewOptions) {
	t.Helper()
	engine, err := forebay.Open(t.TempDir(), forebay.Options{Target: target})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	}()
	source := forebay.Source{ID: "otel", Type: forebay.OTLP, Secret: "sixteen-characters"}
	for _, s := range []struct {
		signal  forebay.Signal
		table   string
		columns mapping.Columns
	}{
		{forebay.SignalLogs, o.Logs, append(otlpflat.LogsTable(), mapping.Datetime(o.ReceivedAt, mapping.DataType(datatype.Timestamp)))},
		{forebay.SignalMetrics, o.Metrics, otlpflat.MetricsTable()},
		{forebay.SignalTraces, o.Traces, otlpflat.TracesTable()},
	} {
		source.Sinks = append(source.Sinks, forebay.Sink{
			ID: string(s.signal), AllowedSignals: []forebay.Signal{s.signal}, Table: forebay.Table{ID: s.table, Columns: s.columns},
		})
	}
	if err := engine.Define(t.Context(), source); err != nil {
		t.Fatal(err)
	}
	for signal, docs := range map[forebay.Signal]iter.Seq[mapping.FieldDocument]{
		forebay.SignalLogs: otlpflat.Logs(logs()), forebay.SignalMetrics: otlpflat.Metrics(metrics()), forebay.SignalTraces: otlpflat.Traces(traces()),
	} {
		batch := forebay.Batch{Signal: signal, Records: func(yield func(*mapping.Record) bool) {
			for doc := range docs {
				if !yield(&mapping.Record{Document: doc, Received: start}) {
					return
				}
			}
		}}
		if res, err := engine.IngestAtomic(t.Context(), source.ID, batch); err != nil || res.Rejected > 0 {
			t.Fatalf("%s: got %+v, %v, want no rejected record, no error", signal, res, err)
		}
	}
	if err := engine.Flush(t.Context(), source.ID); err != nil {
		t.Fatal(err)
	}
}

func logs() plog.Logs {
	batch := plog.NewLogs()
	rl := batch.ResourceLogs().AppendEmpty()
	rl.Resource().Attributes().PutStr("service.name", "shop")
	rl.Resource().Attributes().PutStr("host.name", "a-1")
	sl := rl.ScopeLogs().AppendEmpty()
	sl.Scope().SetName("http")
	for i, text := range []string{"cart opened", "paying", "card declined", "goods packed"} {
		r := sl.LogRecords().AppendEmpty()
		r.SetTimestamp(at(time.Duration(i)*time.Millisecond + time.Nanosecond))
		r.SetSeverityNumber(plog.SeverityNumberInfo)
		r.SetSeverityText("INFO")
		r.Body().SetStr(text)
		r.SetTraceID(trace1)
		if i == 3 {
			r.SetTraceID(trace2)
		}
		r.Attributes().PutInt("http.response.status_code", int64(200+i))
	}
	sl.LogRecords().AppendEmpty().Body().SetStr("came without a time")
	r := sl.LogRecords().AppendEmpty()
	r.SetObservedTimestamp(at(time.Second + 7*time.Nanosecond))
	r.Body().SetEmptyMap().PutStr("msg", "it's \"quoted\"")
	r.SetEventName("audit")
	return batch
}

func traces() ptrace.Traces {
	batch := ptrace.NewTraces()
	rs := batch.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr("service.name", "shop")
	ss := rs.ScopeSpans().AppendEmpty()
	for i := range 20 {
		s := ss.Spans().AppendEmpty()
		s.SetTraceID(trace1)
		s.SetSpanID(pcommon.SpanID{7: byte(i + 1)})
		s.SetName("GET")
		s.SetKind(ptrace.SpanKindServer)
		s.SetStartTimestamp(at(0))
		route := "/cart"
		if i%2 == 1 {
			route = "/pay"
		}
		s.SetEndTimestamp(at(time.Duration(i+1) * time.Millisecond))
		s.Attributes().PutStr("http.route", route)
		if i == 19 {
			s.Status().SetCode(ptrace.StatusCodeError)
			e := s.Events().AppendEmpty()
			e.SetName("exception")
			e.SetTimestamp(at(3*time.Second + 999_999_999*time.Nanosecond))
			e.Attributes().PutStr("exception.type", "Declined")
			s.Events().AppendEmpty().SetName("no time")
			whole := s.Events().AppendEmpty()
			whole.SetName("whole second")
			whole.SetTimestamp(at(0))
			late := s.Events().AppendEmpty()
			late.SetName("year 2500")
			late.SetTimestamp(pcommon.NewTimestampFromTime(time.Date(2500, 1, 1, 0, 0, 0, 0, time.UTC)))
			last := s.Events().AppendEmpty()
			last.SetName("year 2262, last")
			last.SetTimestamp(math.MaxInt64)
			beyond := s.Events().AppendEmpty()
			beyond.SetName("year 2262, beyond")
			beyond.SetTimestamp(math.MaxInt64 + 1)
			l := s.Links().AppendEmpty()
			l.SetTraceID(trace2)
		}
	}
	s := ss.Spans().AppendEmpty() // has not ended
	s.SetStartTimestamp(at(0))
	s.SetKind(ptrace.SpanKindClient)
	transfer(batch)
	return batch
}

// transfer adds a trace of two services. The parent of its last span is missing.
func transfer(batch ptrace.Traces) {
	for i, call := range []struct {
		service, name string
		kind          ptrace.SpanKind
		parent        byte
		took          time.Duration
	}{
		{"shop", "POST /pay", ptrace.SpanKindClient, 0, 9 * time.Millisecond},
		{"bank", "POST /transfer", ptrace.SpanKindServer, 100, 7 * time.Millisecond},
		{"bank", "INSERT", ptrace.SpanKindInternal, 101, 2 * time.Millisecond},
		{"bank", "late", ptrace.SpanKindInternal, 1, time.Millisecond},
	} {
		rs := batch.ResourceSpans().AppendEmpty()
		rs.Resource().Attributes().PutStr("service.name", call.service)
		s := rs.ScopeSpans().AppendEmpty().Spans().AppendEmpty()
		s.SetTraceID(trace2)
		s.SetSpanID(pcommon.SpanID{7: byte(100 + i)})
		if call.parent > 0 {
			s.SetParentSpanID(pcommon.SpanID{7: call.parent})
		}
		s.SetName(call.name)
		s.SetKind(call.kind)
		began := time.Duration(10+i) * time.Millisecond
		s.SetStartTimestamp(at(began))
		s.SetEndTimestamp(at(began + call.took))
		if call.kind == ptrace.SpanKindServer {
			s.Attributes().PutStr("http.route", "/transfer")
			s.Attributes().PutDouble("big", 1e20) // beyond 64 bits as an integer
			s.Status().SetCode(ptrace.StatusCodeError)
			s.Status().SetMessage("no money")
		}
	}
}

func metrics() pmetric.Metrics {
	batch := pmetric.NewMetrics()
	rm := batch.ResourceMetrics().AppendEmpty()
	rm.Resource().Attributes().PutStr("service.name", "shop")
	all := rm.ScopeMetrics().AppendEmpty().Metrics()
	add := func(name string) pmetric.Metric {
		m := all.AppendEmpty()
		m.SetName(name)
		return m
	}
	gauge := add("load").SetEmptyGauge()
	gauge.DataPoints().AppendEmpty().SetDoubleValue(0.5)
	sum := add("orders").SetEmptySum()
	sum.SetIsMonotonic(true)
	sum.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	for i := range 3 {
		p := sum.DataPoints().AppendEmpty()
		p.SetTimestamp(at(time.Duration(i) * time.Second))
		p.SetIntValue(int64(100 + 10*i))
		if i == 2 {
			e := p.Exemplars().AppendEmpty()
			e.SetTimestamp(at(0))
			e.SetIntValue(7)
			e.SetTraceID(trace1)
			e.FilteredAttributes().PutStr("user", "u1")
		}
	}
	counters(batch)
	histogram := add("latency").SetEmptyHistogram()
	histogram.SetAggregationTemporality(pmetric.AggregationTemporalityDelta)
	for range 2 {
		p := histogram.DataPoints().AppendEmpty()
		p.SetTimestamp(at(0))
		p.SetCount(10)
		p.SetSum(7.5)
		p.BucketCounts().FromRaw([]uint64{4, 5, 1})
		p.ExplicitBounds().FromRaw([]float64{0.5, 2})
	}
	histogram.DataPoints().AppendEmpty().SetCount(3) // without buckets
	exponential := add("size").SetEmptyExponentialHistogram()
	exponential.SetAggregationTemporality(pmetric.AggregationTemporalityDelta)
	p := exponential.DataPoints().AppendEmpty()
	p.SetCount(1<<63 - 1)
	p.SetScale(-1) // each bucket is four times as wide as the one before
	p.SetZeroCount(2)
	p.SetZeroThreshold(0.25)
	p.Positive().SetOffset(-1)
	p.Positive().BucketCounts().FromRaw([]uint64{3, 1<<64 - 1})
	p.Negative().SetOffset(511)
	p.Negative().BucketCounts().FromRaw([]uint64{1})
	p = exponential.DataPoints().AppendEmpty() // no zero bound has a sign
	p.SetZeroCount(5)
	p.SetScale(-4)
	p.Negative().SetOffset(-100)
	p.Negative().BucketCounts().FromRaw([]uint64{7})
	summary := add("rpc").SetEmptySummary().DataPoints().AppendEmpty()
	summary.SetCount(5)
	q := summary.QuantileValues().AppendEmpty()
	q.SetQuantile(0.5)
	q.SetValue(12.5)
	return batch
}

// question is a query and its result.
type question struct{ sql, want string }

// questions check each view.
var questions = []question{
	{
		`SELECT Timestamp, TimeUnixNano % 1000 AS n, TraceId, SeverityText, SeverityNumber, ServiceName, Body, ResourceAttributes ->> 'host.name' AS host,
			LogAttributes ->> 'http.response.status_code' AS status, EventName, ScopeName, ScopeAttributes FROM otel_logs ORDER BY Timestamp, Body`,
		`0|0|NULL|NULL|NULL|shop|came without a time|a-1|NULL|NULL|http|NULL
		0|1|aa000000000000000000000000000001|INFO|9|shop|cart opened|a-1|200|NULL|http|NULL
		0|1|aa000000000000000000000000000001|INFO|9|shop|paying|a-1|201|NULL|http|NULL
		0|1|aa000000000000000000000000000001|INFO|9|shop|card declined|a-1|202|NULL|http|NULL
		0|1|aa000000000000000000000000000002|INFO|9|shop|goods packed|a-1|203|NULL|http|NULL
		1|7|NULL|NULL|NULL|shop|{"msg":"it's \"quoted\""}|a-1|NULL|audit|http|NULL`,
	},
	{`SELECT count(*) AS n, min(ReceivedAt) AS received FROM otel_logs`, `6|0`},
	{
		`SELECT SpanKind, count(*) AS n, count(Duration) AS ended, max(Duration) AS longest, min(Timestamp) AS first FROM otel_traces GROUP BY SpanKind ORDER BY 1`,
		`Client|2|1|9000000|0
		Internal|2|2|2000000|0
		Server|21|21|20000000|0`,
	},
	{
		`SELECT EventTimestamp, EventTimeUnixNano % 60000000000 AS n, EventName, EventAttributes ->> 'exception.type' AS type, SpanId, SpanName
			FROM otel_span_events WHERE NOT starts_with(EventName, 'year') ORDER BY EventName`,
		`3|23999999999|exception|Declined|0000000000000014|GET
		NULL|NULL|no time|NULL|0000000000000014|GET
		0|20000000000|whole second|NULL|0000000000000014|GET`,
	},
	{`SELECT EventTimestamp > now() AS late, EventTimeUnixNano FROM otel_span_events WHERE EventName = 'year 2500'`, `true|NULL`},
	{
		`SELECT EventName, EventTimeUnixNano FROM otel_span_events WHERE starts_with(EventName, 'year 2262') ORDER BY EventName DESC`,
		`year 2262, last|9223372036854775807
		year 2262, beyond|NULL`,
	},
	{`SELECT count(*) AS n FROM otel_span_events WHERE (EventAttributes ->> 'exception.type') = 'Declined' AND EventName > ''`, `1`},
	{
		`SELECT Body, TimeUnixNano - lag(TimeUnixNano) OVER (ORDER BY TimeUnixNano) AS ns FROM otel_logs ORDER BY TimeUnixNano DESC LIMIT 1`,
		`{"msg":"it's \"quoted\""}|997000006`,
	},
	{
		`SELECT TraceId, LinkedTraceId, LinkedSpanId FROM otel_span_links`,
		`aa000000000000000000000000000001|aa000000000000000000000000000002|NULL`,
	},
	{`SELECT ServiceName, MetricName, Value, TimeUnix FROM otel_metrics_gauge`, `shop|load|0.5|0`},
	{`SELECT max(Value) AS v, count(*) AS n, max(TimeUnixNano) - min(TimeUnixNano) AS ns FROM otel_metrics_sum WHERE IsMonotonic AND MetricName = 'orders'`, `120|3|2000000000`},
	{
		`SELECT Count, Sum, BucketCounts[2] AS second, ExplicitBounds[2] AS bound, AggregationTemporality FROM otel_metrics_histogram ORDER BY Count DESC`,
		`10|7.5|5|2|Delta
		10|7.5|5|2|Delta
		3|NULL|NULL|NULL|Delta`,
	},
	{
		`SELECT Count, Scale, ZeroCount, PositiveOffset, PositiveBucketCounts[2] AS second, NegativeBucketCounts[1] AS one
			FROM otel_metrics_exponential_histogram ORDER BY Scale DESC`,
		`9223372036854775807|-1|2|-1|18446744073709551615|1
		0|-4|5|0|NULL|7`,
	},
	{`SELECT MetricName, Count, Quantile, Value FROM (SELECT s.Count, q.* FROM otel_metrics_summary s JOIN otel_metrics_quantiles q USING (MetricName)) x`, `rpc|5|0.5|12.5`},
	{
		`SELECT MetricName, LowerBound, UpperBound, sum(BucketCount) AS n FROM otel_metrics_buckets
			GROUP BY MetricName, LowerBound, UpperBound ORDER BY MetricName, LowerBound`,
		`latency|-Inf|0.5|8
		latency|0.5|2|10
		latency|2|+Inf|2
		size|-Inf|-4.49423e+307|1
		size|-0.25|0.25|2
		size|0|0|12
		size|0.25|1|3
		size|1|4|18446744073709551615`,
	},
}

// results has the results of the queries on the page about telemetry, in DuckDB and PostgreSQL.
var results = map[string]string{
	"All logs of traces with a declined payment": `aa000000000000000000000000000001|shop|INFO|cart opened
		aa000000000000000000000000000001|shop|INFO|paying
		aa000000000000000000000000000001|shop|INFO|card declined`,
	"Slow spans and their exceptions": `GET|20|Declined`,
	"A percentile of a histogram":     `latency|2`,
	"The increase of a counter": `shop|hits|42
		shop|orders|20`,
}

// answersOfQueries returns the results of the queries on the page of queries in each database. Unset texts are empty in ClickHouse.
func answersOfQueries(unset string) map[string]string {
	milli := func(after int64) string { return strconv.FormatInt(start.UnixMilli()+after, 10) }
	const trace = "aa000000000000000000000000000002"
	span := func(id, parent, rest string, after int64) string {
		return strings.Join([]string{trace, id, parent, strings.Replace(rest, "START", milli(after), 1)}, "|") + "\n"
	}
	return map[string]string{
		"One trace as a tree": `0|shop|POST /pay|9|Unset
			1|bank|POST /transfer|7|Error
			2|bank|INSERT|2|Unset
			0|bank|late|1|Unset`,
		"Service map":            `shop|bank|1|1|7`,
		"Logs with an attribute": `shop|INFO|card declined|aa000000000000000000000000000001`,
		"Slowest routes": `shop|/pay|10|20
			shop|/cart|10|19
			bank|/transfer|1|7`,
		"Error rate": `bank|-20|1|100
			shop|-20|20|5`,
		"Grafana's logs panel": `1|{"msg":"it's \"quoted\""}|` + unset + `|{}
			0|goods packed|INFO|{203}
			0|card declined|INFO|{202}
			0|paying|INFO|{201}
			0|cart opened|INFO|{200}
			0|came without a time|` + unset + `|{}`,
		"Grafana's traces panel": span("0000000000000064", unset, "POST /pay|shop|START|9|Client|"+unset, 10) +
			span("0000000000000065", "0000000000000064", "POST /transfer|bank|START|7|Server|no money", 11) +
			span("0000000000000066", "0000000000000065", "INSERT|bank|START|2|Internal|"+unset, 12) +
			span("0000000000000067", "0000000000000001", "late|bank|START|1|Internal|"+unset, 13),
	}
}
