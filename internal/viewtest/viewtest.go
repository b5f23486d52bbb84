// Package viewtest runs the views of otlpflat, and the queries of docs/telemetry.md, in a database that a driver has filled.
package viewtest

import (
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
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/otlpflat"
)

// Where says where the tables are: the dialect of the database, and a schema of it or a folder of files.
type Where struct{ Dialect, Schema, Folder string }

// Run sends telemetry through an engine into the target, makes the views in db, which reads the tables of the target, and asks.
// page is the path of docs/telemetry.md, whose queries SQLite does not know.
func Run(t *testing.T, target driver.Target, db *sql.DB, page string, where Where) {
	t.Helper()
	o := otlpflat.ViewOptions{
		Dialect: otlpflat.Dialect(where.Dialect), Schema: where.Schema, Folder: where.Folder, Logs: "logs", Metrics: "metrics", Traces: "traces", ReceivedAt: "Came",
	}
	store(t, target, o)
	statements, err := otlpflat.Views(o)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // they can be replaced
		for _, s := range statements {
			if _, err := db.ExecContext(t.Context(), s); err != nil {
				t.Fatalf("%v\n%s", err, s)
			}
		}
	}
	if o.Dialect == otlpflat.SQLite {
		for _, q := range questionsOfSQLite {
			check(t, db, q.sql, q.want)
		}
		return
	}
	for _, q := range questions {
		check(t, db, q.sql, q.want)
	}
	asked := 0
	for title, query := range documented(t, page) {
		want, ok := answers[title]
		if !ok {
			t.Errorf("%s: %q has no expected answer", page, title)
		}
		check(t, db, query, want)
		asked++
	}
	if asked != len(answers) {
		t.Errorf("%s has %d queries, want %d", page, asked, len(answers))
	}
}

// documented returns the queries of a page, by the heading above.
func documented(t *testing.T, page string) iter.Seq2[string, string] {
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

// check compares an answer: a line for each row, cells between bars, NULL as the word.
func check(t *testing.T, db *sql.DB, query, want string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Errorf("%v\n%s", err, query)
		return
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for rows.Next() {
		cells, to := make([]any, len(columns)), make([]any, len(columns))
		for i := range cells {
			to[i] = &cells[i]
		}
		if err := rows.Scan(to...); err != nil {
			t.Fatal(err)
		}
		var line []string
		for _, c := range cells {
			line = append(line, shown(c))
		}
		lines = append(lines, strings.Join(line, "|"))
	}
	if err := rows.Err(); err != nil {
		t.Errorf("%v\n%s", err, query)
	}
	want = strings.ReplaceAll(strings.TrimSpace(want), "\t", "")
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("%s\ngot\n%s\nwant\n%s", query, got, want)
	}
}

// shown is a cell as both databases write it.
func shown(c any) string {
	switch c := c.(type) {
	case nil:
		return "NULL"
	case []byte:
		return string(c)
	case float64:
		return strconv.FormatFloat(c, 'g', 6, 64)
	case string:
		if at, err := time.Parse("2006-01-02T15:04:05.000000Z", c); err == nil { // SQLite
			return shown(at)
		}
		if whole, zeros, ok := strings.Cut(c, "."); ok && strings.Trim(zeros, "0") == "" { // numeric, which PostgreSQL writes with its scale
			return whole
		}
	case time.Time:
		return fmt.Sprint(c.Unix() - start.Unix()) // seconds since the start
	}
	return fmt.Sprint(c)
}

// start is the time of the first record: recent, as the queries want it, and in the middle of a minute.
var start = time.Now().UTC().Truncate(time.Minute).Add(-2*time.Minute + 20*time.Second)

func at(d time.Duration) pcommon.Timestamp { return pcommon.NewTimestampFromTime(start.Add(d)) }

var (
	trace1 = pcommon.TraceID{0xaa, 15: 1}
	trace2 = pcommon.TraceID{0xaa, 15: 2}
)

// store brings logs, spans and points to the tables.
func store(t *testing.T, target driver.Target, o otlpflat.ViewOptions) {
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
			t.Fatalf("%s: %+v, %v", signal, res, err)
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
	return batch
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

// questions check each view.
var questions = []struct{ sql, want string }{
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
		`Client|1|0|NULL|0
		Server|20|20|20000000|0`,
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

// answers are what the queries of the page give.
var answers = map[string]string{
	"Slowest routes": `shop|/pay|10|19.1
		shop|/cart|10|18.1`,
	"Error rate": `shop|-20|20|5`,
	"All logs of the traces in which something was declined": `aa000000000000000000000000000001|shop|INFO|cart opened
		aa000000000000000000000000000001|shop|INFO|paying
		aa000000000000000000000000000001|shop|INFO|card declined`,
	"Slow spans and their exceptions": `GET|20|Declined`,
	"A percentile of a histogram":     `latency|2`,
	"The increase of a counter": `shop|hits|42
		shop|orders|20`,
}
