package otlpflat

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping"
)

// Dialect is the SQL of a database.
type Dialect string

// The databases that [Views] knows.
const (
	DuckDB     Dialect = "duckdb"
	PostgreSQL Dialect = "postgresql"
	SQLite     Dialect = "sqlite"
	MySQL      Dialect = "mysql" // and MariaDB
	ClickHouse Dialect = "clickhouse"
)

var dialects = []Dialect{DuckDB, PostgreSQL, SQLite, MySQL, ClickHouse}

// ViewOptions say where the tables are that [Views] reads.
type ViewOptions struct {
	// Dialect is required.
	Dialect Dialect
	// Logs, Metrics and Traces are the names of tables with the columns of [LogsTable], [MetricsTable] and [TracesTable], and perhaps more
	// columns. The views of an empty name are left out.
	Logs, Metrics, Traces string
	// Schema has the tables, and gets the views. Default: the schema of the connection.
	Schema string
	// Folder, in DuckDB, has a folder of Parquet files for each table, as drivers/parquet writes them. DuckDB makes a view only of a folder
	// that has a file, which the driver's option EmptyPart keeps there. Default: the tables are in the database.
	Folder string
	// From, in DuckDB, returns the part of a FROM clause that reads the table of a name, such as read_csv('…') or iceberg_scan('…'). The views cast its
	// columns to their types, because a CSV file contains only text, and Iceberg has no JSON. Default: the table, or the files in Folder.
	From func(table string) string
	// ReceivedAt, if not empty, is a column of type timestamp of the table of logs, with the time at which a record arrived. The view of logs then
	// has it.
	ReceivedAt string
	// Prefix begins the names of the views. Default: otel_
	Prefix string
}

// Validate returns everything that is wrong with the options.
func (o ViewOptions) Validate() error {
	var problems []error
	if !slices.Contains(dialects, o.Dialect) {
		problems = append(problems, fmt.Errorf("otlpflat: Dialect is %q, must be one of %q", o.Dialect, dialects))
	}
	if o.Folder != "" && o.Dialect != DuckDB {
		problems = append(problems, fmt.Errorf("otlpflat: Folder: %s reads no Parquet files", o.Dialect))
	}
	if o.Folder != "" && o.Schema != "" {
		problems = append(problems, errors.New("otlpflat: Folder and Schema exclude each other: files have no schema"))
	}
	if o.From != nil && (o.Folder != "" || o.Dialect != DuckDB) {
		problems = append(problems, errors.New("otlpflat: From is for DuckDB, without Folder"))
	}
	if o.Logs == "" && o.Metrics == "" && o.Traces == "" {
		problems = append(problems, errors.New("otlpflat: Logs, Metrics and Traces are empty: name at least one table"))
	}
	return errors.Join(problems...)
}

// Views returns statements that create or replace views, one statement each, without semicolons. The views are:
//
//	otel_logs                            the columns of LogsTable, and ReceivedAt if it is set; SeverityNumber is NULL where it is 0
//	otel_traces                          the columns of TracesTable
//	otel_span_events, otel_span_links    a row for each event and link of a span, with EventTimestamp and EventTimeUnixNano
//	otel_metrics_gauge, otel_metrics_sum, otel_metrics_histogram, otel_metrics_exponential_histogram, otel_metrics_summary
//	                                     the points of one kind, with the columns of that kind; counts and bounds of buckets are SQL arrays
//	otel_metrics_buckets                 a row for each bucket of both kinds of histograms, with LowerBound, UpperBound and BucketCount
//	otel_metrics_quantiles               a row for each quantile of a summary
//
// Their columns can be written without quotes. In PostgreSQL the names of the views' columns are lower case, as it reads names without
// quotes. So one query serves DuckDB, PostgreSQL and SQLite. A value of a JSON column is ResourceAttributes ->> 'host.name' in all three. In
// a comparison this expression needs parentheses, because the operators of DuckDB bind more strongly than ->>.
//
// SQLite has neither arrays nor times. Counts and bounds of buckets are JSON arrays there, times are texts as in the tables, and a count above
// 2^63-1 is the nearest float. MySQL has no arrays either, and an infinite bound of a bucket is NULL.
//
// In ClickHouse, the views have the columns of the exporter's tables with their types, and a few more columns. What is not set is empty, 0 or 1970.
// There is one more view, otel_traces_trace_id_ts, with the first and last time of each trace. Before the views, a statement adds to each
// table maps of attributes and skipping indexes, whose names begin with otel_. For fast queries, the ordering key of the tables is ServiceName and the time.
//
// A view of SQLite or ClickHouse has two statements, of which the first drops the view. A statement fails if a table has the name of a view.
func Views(o ViewOptions) ([]string, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Prefix == "" {
		o.Prefix = "otel_"
	}
	v := views{ViewOptions: o}
	switch o.Dialect {
	case ClickHouse:
		v.clickhouse()
		return v.statements, nil
	case MySQL:
		v.mysql()
		return v.statements, nil
	}
	if o.Logs != "" {
		v.logs()
	}
	if o.Traces != "" {
		v.traces()
	}
	if o.Metrics != "" {
		v.metrics()
	}
	return v.statements, nil
}

type views struct {
	ViewOptions
	statements []string
}

func (v *views) create(name, query string) {
	view := v.quote(v.Prefix + name)
	if v.Schema != "" {
		view = v.quote(v.Schema) + "." + view
	}
	// CREATE OR REPLACE VIEW of ClickHouse replaces a table of that name, with its rows, and SQLite does not know it. DROP VIEW refuses a table.
	if v.Dialect == SQLite || v.Dialect == ClickHouse {
		v.statements = append(v.statements, "DROP VIEW IF EXISTS "+view, "CREATE VIEW "+view+" AS\n"+query)
		return
	}
	v.statements = append(v.statements, "CREATE OR REPLACE VIEW "+view+" AS\n"+query)
}

// from is a table in a FROM.
func (v *views) from(table string) string {
	switch {
	case v.From != nil:
		return v.cast(table)
	case v.Folder != "":
		return "read_parquet('" + strings.ReplaceAll(v.Folder+"/"+table+"/**/*.parquet", "'", "''") + "', union_by_name = true) AS t"
	case v.Schema != "":
		return v.quote(v.Schema) + "." + v.quote(table) + " AS t"
	}
	return v.quote(table) + " AS t"
}

// cast returns a FROM clause that casts the columns of From to the types of the table. DuckDB omits a cast that changes nothing.
func (v *views) cast(table string) string {
	columns := MetricsTable()
	switch table {
	case v.Logs:
		columns = LogsTable()
		if v.ReceivedAt != "" {
			columns = append(columns, mapping.Datetime(v.ReceivedAt, mapping.DataType(datatype.Timestamp)))
		}
	case v.Traces:
		columns = TracesTable()
	}
	types := map[datatype.Type]string{datatype.Bool: "BOOLEAN", datatype.Int64: "BIGINT", datatype.Float64: "DOUBLE", datatype.Timestamp: "TIMESTAMPTZ", datatype.JSON: "JSON"}
	var casts []string
	for _, c := range columns {
		name := v.quote(c.Name)
		if typ := types[c.DataType]; typ != "" {
			name = "CAST(" + name + " AS " + typ + ") AS " + name
		}
		casts = append(casts, name)
	}
	return "(SELECT " + strings.Join(casts, ", ") + "\n  FROM " + v.From(table) + ") AS t"
}

// quote returns a name as SQL.
func (v *views) quote(name string) string {
	switch v.Dialect {
	case ClickHouse:
		return "`" + strings.NewReplacer("\\", "\\\\", "`", "\\`").Replace(name) + "`"
	case MySQL:
		return "`" + strings.ReplaceAll(name, "`", "``") + "`"
	}
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}

// names are the columns of a table.
func names(cols mapping.Columns) (all []string) {
	for _, c := range cols {
		all = append(all, c.Name)
	}
	return all
}

// renamed is a list of columns, each with its name without quotes.
func (v *views) renamed(columns []string) string {
	var all []string
	for _, c := range columns {
		all = append(all, "t."+v.quote(c)+" AS "+c)
	}
	return strings.Join(all, ", ")
}

// documents turns a JSON array into rows of x, whose column is element.
func (v *views) documents(column string) string {
	switch v.Dialect {
	case DuckDB:
		return fmt.Sprintf(`unnest(CAST(t."%s" AS JSON[])) AS x(e)`, column)
	case SQLite:
		return fmt.Sprintf(`json_each(t."%s") AS x`, column)
	}
	return fmt.Sprintf(`json_array_elements(CAST(t."%s" AS json)) AS x(e)`, column)
}

func (v *views) element() string {
	if v.Dialect == SQLite {
		return "x.value"
	}
	return "x.e"
}

// array is a JSON array of numbers as an SQL array, if the database has them.
func (v *views) array(column, duckType, pgType string) string {
	switch v.Dialect {
	case DuckDB:
		return fmt.Sprintf(`CAST(t."%s" AS %s[])`, column, duckType)
	case SQLite, MySQL:
		return "t." + v.quote(column)
	}
	return fmt.Sprintf(`ARRAY(SELECT CAST(u.v AS %s) FROM json_array_elements_text(CAST(t."%s" AS json)) WITH ORDINALITY AS u(v, n) ORDER BY u.n)`, pgType, column)
}

// counts is an array of counts, of which each may need 64 bits without a sign.
func (v *views) counts(column string) string { return v.array(column, "UBIGINT", "numeric") }

func (v *views) bounds(column string) string { return v.array(column, "DOUBLE", "float8") }

// places turns the array h.c into rows of g(i), from 1 to its length.
func (v *views) places() string {
	if v.Dialect == DuckDB {
		return "unnest(range(1, len(h.c) + 1)) AS g(i)"
	}
	return "generate_series(1, cardinality(h.c)) AS g(i)"
}

func (v *views) logs() {
	columns := slices.DeleteFunc(names(LogsTable()), func(c string) bool { return c == "SeverityNumber" })
	received := ""
	if v.ReceivedAt != "" {
		received = ", t." + v.quote(v.ReceivedAt) + " AS ReceivedAt"
	}
	v.create("logs", "SELECT "+v.renamed(columns)+",\n  nullif(t."+v.quote("SeverityNumber")+", 0) AS SeverityNumber"+received+"\nFROM "+v.from(v.Logs))
}

func (v *views) traces() {
	v.create("traces", "SELECT "+v.renamed(names(TracesTable()))+"\nFROM "+v.from(v.Traces))
	span := v.renamed([]string{"Timestamp", "TraceId", "SpanId", "ServiceName", "SpanName"})
	e := v.element()
	at := "(" + e + " ->> 'timestamp')"
	v.create("span_events", "SELECT "+span+", "+v.moment(at)+" AS EventTimestamp,\n  "+v.nanos(at)+" AS EventTimeUnixNano, "+e+" ->> 'name' AS EventName,\n  "+
		e+" -> 'attributes' AS EventAttributes\nFROM "+v.from(v.Traces)+", "+v.documents("Events"))
	v.create("span_links", "SELECT "+span+", nullif("+e+" ->> 'trace_id', '') AS LinkedTraceId, nullif("+e+" ->> 'span_id', '') AS LinkedSpanId,\n  nullif("+
		e+" ->> 'trace_state', '') AS LinkedTraceState, "+e+" -> 'attributes' AS LinkAttributes\nFROM "+v.from(v.Traces)+", "+v.documents("Links"))
}

// moment is the time of a text of package otlpflat, without the digits below a microsecond as in a column; PostgreSQL would round them. The
// empty text is NULL.
func (v *views) moment(text string) string {
	if v.Dialect == SQLite { // a text as in a column
		return "CASE WHEN " + text + " > '' THEN substr(substr(" + text + ", 1, 19) || '.' || replace(substr(" + text + ", 21), 'Z', '') || '000000', 1, 26) || 'Z' END"
	}
	return "CAST(nullif(substr(replace(" + text + ", 'Z', ''), 1, 26), '') || 'Z' AS timestamptz)"
}

// nanos is the same time in nanoseconds since 1970; NULL if an int64 cannot hold it.
func (v *views) nanos(text string) string {
	seconds := "CAST(extract(epoch FROM CAST(substr(" + text + ", 1, 19) || 'Z' AS timestamptz)) AS bigint)"
	fraction := "CAST(rpad(replace(substr(" + text + ", 21), 'Z', ''), 9, '0') AS bigint)"
	if v.Dialect == SQLite {
		seconds = "unixepoch(substr(" + text + ", 1, 19))"
		fraction = "CAST(substr(replace(substr(" + text + ", 21), 'Z', '') || '000000000', 1, 9) AS INTEGER)"
	}
	fits := seconds + " < 9223372036 OR " + seconds + " = 9223372036 AND " + fraction + " <= 854775807"
	return "CASE WHEN " + text + " > '' THEN CASE WHEN " + fits + " THEN " + seconds + " * 1000000000 + " + fraction + " END END"
}

// pointColumns are the columns that points of all kinds have.
var pointColumns = []string{
	"ServiceName", "MetricName", "MetricDescription", "MetricUnit", "Attributes", "TimeUnix", "TimeUnixNano", "StartTimeUnix", "StartTimeUnixNano", "Flags",
	"ResourceSchemaUrl", "ResourceAttributes", "ScopeSchemaUrl", "ScopeName", "ScopeVersion", "ScopeAttributes",
}

// kinds makes a view for the points of each kind.
func (v *views) kinds() {
	point := v.renamed(pointColumns)
	kind := func(kind, own string) {
		v.create("metrics_"+kind, "SELECT "+point+", "+own+"\nFROM "+v.from(v.Metrics)+" WHERE t."+v.quote("MetricType")+" = '"+kind+"'")
	}
	kind("gauge", v.renamed([]string{"Value", "Exemplars"}))
	kind("sum", v.renamed([]string{"Value", "AggregationTemporality", "IsMonotonic", "Exemplars"}))
	distribution := v.renamed([]string{"Count", "Sum", "Min", "Max", "AggregationTemporality", "Exemplars"})
	kind("histogram", distribution+",\n  "+v.counts("BucketCounts")+" AS BucketCounts, "+v.bounds("ExplicitBounds")+" AS ExplicitBounds")
	kind("exponential_histogram", distribution+", "+v.renamed([]string{"Scale", "ZeroCount", "ZeroThreshold", "PositiveOffset", "NegativeOffset"})+
		",\n  "+v.counts("PositiveBucketCounts")+" AS PositiveBucketCounts, "+v.counts("NegativeBucketCounts")+" AS NegativeBucketCounts")
	kind("summary", v.renamed([]string{"Count", "Sum", "ValueAtQuantiles"}))
}

func (v *views) metrics() {
	v.kinds()
	table, point, e := v.from(v.Metrics), v.renamed(pointColumns), v.element()
	v.create("metrics_quantiles", "SELECT "+point+", CAST("+e+" ->> 'quantile' AS float8) AS Quantile, CAST("+e+" ->> 'value' AS float8) AS Value\nFROM "+table+", "+v.documents("ValueAtQuantiles")+` WHERE t."MetricType" = 'summary'`)
	if v.Dialect == SQLite {
		v.bucketsOfSQLite(table)
	} else {
		v.buckets(table)
	}
}

// buckets makes a row of each bucket. Bounds of exponential buckets are powers of two, and a power beyond a double is infinite or 0: PostgreSQL
// has errors for that.
func (v *views) buckets(table string) {
	point := append(slices.Clone(pointColumns), "MetricType", "AggregationTemporality")
	inner := v.renamed(point)
	outer := "h." + strings.Join(point, ", h.")
	const exponential = ` WHERE t."MetricType" = 'exponential_histogram'`
	side := func(side, lower, upper string) string {
		bound := func(exponent string) string {
			return "CASE WHEN " + exponent + " >= 1024 THEN CAST('Infinity' AS float8) WHEN " + exponent + " < -1074 THEN 0 ELSE power(CAST(2 AS float8), " + exponent + ") END"
		}
		replace := strings.NewReplacer("$above", bound("b.above"), "$below", bound("b.below"))
		return "SELECT " + strings.ReplaceAll(outer, "h.", "b.") + ", " + replace.Replace(lower) + " AS LowerBound, " + replace.Replace(upper) + ` AS UpperBound, b.n AS BucketCount
FROM (SELECT h.*, (h.o + g.i - 1) * h.width AS below, (h.o + g.i) * h.width AS above, h.c[g.i] AS n
  FROM (SELECT ` + inner + ", " + v.counts(side+"BucketCounts") + ` AS c, t."` + side + `Offset" AS o,
      power(CAST(2 AS float8), greatest(-900, least(900, -t."Scale"))) AS width
    FROM ` + table + exponential + ") h, " + v.places() + ") b"
	}
	last := "len(h.c)"
	if v.Dialect == PostgreSQL {
		last = "cardinality(h.c)"
	}
	v.create("metrics_buckets", strings.Join([]string{
		"SELECT " + outer + ", CASE WHEN g.i = 1 THEN CAST('-Infinity' AS float8) ELSE h.b[g.i - 1] END AS LowerBound,\n" +
			"  CASE WHEN g.i = " + last + " THEN CAST('Infinity' AS float8) ELSE h.b[g.i] END AS UpperBound, h.c[g.i] AS BucketCount\n" +
			"FROM (SELECT " + inner + ", " + v.counts("BucketCounts") + " AS c, " + v.bounds("ExplicitBounds") + " AS b\n" +
			"    FROM " + table + ` WHERE t."MetricType" = 'histogram') h, ` + v.places(),
		side("Positive", "$below", "$above"),
		side("Negative", "0 - $above", "0 - $below"), // and not -0, which both databases write with its sign
		"SELECT " + inner + `, 0 - t."ZeroThreshold" AS LowerBound, t."ZeroThreshold" AS UpperBound, t."ZeroCount" AS BucketCount` + "\nFROM " + table + exponential + ` AND t."ZeroCount" > 0`,
	}, "\nUNION ALL\n"))
}
