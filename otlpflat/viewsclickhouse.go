package otlpflat

import (
	"fmt"
	"slices"
	"strings"
)

const (
	// stringMap is the type of the exporter's attributes.
	stringMap = "Map(LowCardinality(String), String)"
	// addedPrefix begins the names of columns and indexes that the statements add to tables of ClickHouse.
	addedPrefix = "otel_"
)

// clickhouse makes the views with the names and types of the exporter's tables.
//
// Views over the tables win over materialized views into tables of the exporter, which would store each row twice, and would lack the rows whose
// import is repeated after the server has forgotten its token. What a view computes too slowly is a column or an index of the table instead.
func (v *views) clickhouse() {
	if v.Logs != "" {
		v.prepare(v.Logs, "TraceId", v.attributes("ResourceAttributes"), v.attributes("ScopeAttributes"), v.attributes("LogAttributes"))
		received := ""
		if v.ReceivedAt != "" {
			received = ", t." + v.quote(v.ReceivedAt) + " AS ReceivedAt"
		}
		v.create("logs", "SELECT "+v.fields(
			v.nanoTime("TimeUnixNano", "Timestamp"), "toDateTime("+v.nano("TimeUnixNano")+") AS TimestampTime", v.text("TraceId"), v.text("SpanId"),
			v.number("UInt8", "TraceFlags"), v.word("SeverityText"), v.number("UInt8", "SeverityNumber"), v.word("ServiceName"), v.text("Body"),
			v.word("ResourceSchemaUrl"), v.stored("ResourceAttributes"), v.word("ScopeSchemaUrl"), v.text("ScopeName"), v.word("ScopeVersion"), v.stored("ScopeAttributes"),
			v.stored("LogAttributes"), v.text("EventName"), "t.`TimeUnixNano` AS TimeUnixNano", "t.`ObservedTimestamp` AS ObservedTimestamp",
			"t.`ObservedTimeUnixNano` AS ObservedTimeUnixNano",
		)+received+"\nFROM "+v.from(v.Logs))
	}
	if v.Traces != "" {
		v.clickhouseTraces()
	}
	if v.Metrics != "" {
		v.clickhouseMetrics()
	}
}

// addition is a column that the server computes once for each row, from the column of the same name.
type addition struct{ column, typ, expression string }

// attributes adds a map.
func (v *views) attributes(column string) addition {
	return addition{column, stringMap, v.document(v.quote(column), "{}", stringMap)}
}

// list adds a list of tuples whose members read computes from x, a document of a JSON array with the given members.
func (v *views) list(column, members, typ, read string) addition {
	return addition{column, "Array(Tuple(" + typ + "))", "arrayMap(x -> (" + read + "), " + v.document(v.quote(column), "[]", "Array(Tuple("+members+"))") + ")"}
}

// prepare adds columns to a table, a filter for one column, and the range of the times of each granule. A view passes conditions on to an index
// only if both have the same expression. In a view, the columns would parse JSON for each row that a query reads.
func (v *views) prepare(table, filtered string, columns ...addition) {
	var parts []string
	for _, c := range columns {
		parts = append(parts, "ADD COLUMN IF NOT EXISTS "+v.quote(addedPrefix+c.column)+" "+c.typ+" MATERIALIZED "+c.expression)
	}
	if filtered != "" {
		parts = append(parts, "ADD INDEX IF NOT EXISTS "+v.quote(addedPrefix+filtered)+" assumeNotNull("+v.quote(filtered)+") TYPE bloom_filter(0.001) GRANULARITY 1")
	}
	parts = append(parts, "ADD INDEX IF NOT EXISTS "+v.quote(addedPrefix+"Time")+" fromUnixTimestamp64Nano(assumeNotNull(`TimeUnixNano`)) TYPE minmax GRANULARITY 1")
	name := v.quote(table)
	if v.Schema != "" {
		name = v.quote(v.Schema) + "." + name
	}
	v.statements = append(v.statements, "ALTER TABLE "+name+"\n  "+strings.Join(parts, ",\n  "))
}

func (v *views) fields(all ...string) string { return strings.Join(all, ",\n  ") }

// text is a text, which is empty where the table has NULL, because the nested column of a Nullable column has the default there.
func (v *views) text(column string) string {
	return fmt.Sprintf("assumeNotNull(t.`%s`) AS %[1]s", column)
}

// word is a text with few values.
func (v *views) word(column string) string {
	return fmt.Sprintf("CAST(ifNull(t.`%s`, ''), 'LowCardinality(String)') AS %[1]s", column)
}

func (v *views) number(typ, column string) string {
	return fmt.Sprintf("to%s(ifNull(t.`%s`, 0)) AS %[2]s", typ, column)
}

// nano is a column of nanoseconds as a time. NULL is 1970, as an unset time of the exporter.
func (v *views) nano(column string) string {
	return "fromUnixTimestamp64Nano(assumeNotNull(t.`" + column + "`))"
}

func (v *views) nanoTime(column, name string) string { return v.nano(column) + " AS " + name }

// stored is a column that prepare has added.
func (v *views) stored(column string) string {
	return "t." + v.quote(addedPrefix+column) + " AS " + column
}

// part is a member of the tuples of a list that prepare has added, as a nested column of the exporter.
func (v *views) part(column, member string) string {
	return "tupleElement(t." + v.quote(addedPrefix+column) + ", '" + member + "') AS `" + column + "." + member + "`"
}

// document is a JSON column as a value of a type. The server's parser refuses a whole document for an integer beyond 64 bits, which is how a double
// from 1.8e19 to 1e21 is written. Such a document is read once more, with these numbers as strings.
func (v *views) document(column, empty, typ string) string {
	text := "ifNull(" + column + ", '" + empty + "')"
	read := func(text string) string { return "JSONExtract(" + text + ", '" + typ + "')" }
	again := read(`replaceRegexpAll(` + text + `, '([:,\\[])(-?[0-9]{19,})', '\\1"\\2"')`)
	return "CAST(if(length(" + text + ") > 2 AND empty(" + read(text) + "), " + again + ", " + read(text) + "), '" + typ + "')" // if loses LowCardinality
}

// eventTime is the time of a text of package otlpflat.
func eventTime(text string) string { return "parseDateTime64BestEffortOrZero(" + text + ", 9)" }

func (v *views) clickhouseTraces() {
	v.prepare(
		v.Traces, "TraceId", v.attributes("ResourceAttributes"), v.attributes("ScopeAttributes"), v.attributes("SpanAttributes"),
		v.list("Events", "timestamp String, name String, attributes "+stringMap, "Timestamp DateTime64(9), Name LowCardinality(String), Attributes "+stringMap,
			eventTime("x.timestamp")+", x.name, x.attributes"),
		v.list("Links", "trace_id String, span_id String, trace_state String, attributes "+stringMap, "TraceId String, SpanId String, TraceState String, Attributes "+stringMap,
			"x.trace_id, x.span_id, x.trace_state, x.attributes"),
	)
	v.create("traces", "SELECT "+v.fields(
		v.nanoTime("TimeUnixNano", "Timestamp"), v.text("TraceId"), v.text("SpanId"), v.text("ParentSpanId"), v.text("TraceState"), v.word("SpanName"), v.word("SpanKind"),
		v.word("ServiceName"), v.stored("ResourceAttributes"), v.text("ScopeName"), v.text("ScopeVersion"), v.stored("SpanAttributes"), v.number("UInt64", "Duration"),
		v.word("StatusCode"), v.text("StatusMessage"), v.part("Events", "Timestamp"), v.part("Events", "Name"), v.part("Events", "Attributes"),
		v.part("Links", "TraceId"), v.part("Links", "SpanId"), v.part("Links", "TraceState"), v.part("Links", "Attributes"),
		v.number("UInt32", "TraceFlags"), "t.`TimeUnixNano` AS TimeUnixNano", v.word("ResourceSchemaUrl"), v.word("ScopeSchemaUrl"), v.stored("ScopeAttributes"),
	)+"\nFROM "+v.from(v.Traces))
	v.create("traces_trace_id_ts", "SELECT assumeNotNull(t.`TraceId`) AS TraceId, toDateTime(min("+v.nano("TimeUnixNano")+")) AS Start, toDateTime(max("+v.nano("TimeUnixNano")+
		")) AS End\nFROM "+v.from(v.Traces)+"\nWHERE assumeNotNull(t.`TraceId`) != '' GROUP BY TraceId")
	span := v.fields(v.nanoTime("TimeUnixNano", "Timestamp"), v.text("TraceId"), v.text("SpanId"), v.word("ServiceName"), v.word("SpanName"))
	v.create("span_events", "SELECT "+v.fields(span, "e.Timestamp AS EventTimestamp", "toUnixTimestamp64Nano(e.Timestamp) AS EventTimeUnixNano",
		"e.Name AS EventName", "e.Attributes AS EventAttributes")+"\nFROM "+v.from(v.Traces)+" ARRAY JOIN t."+v.quote(addedPrefix+"Events")+" AS e")
	v.create("span_links", "SELECT "+v.fields(span, "l.TraceId AS LinkedTraceId", "l.SpanId AS LinkedSpanId", "l.TraceState AS LinkedTraceState",
		"l.Attributes AS LinkAttributes")+"\nFROM "+v.from(v.Traces)+" ARRAY JOIN t."+v.quote(addedPrefix+"Links")+" AS l")
}

func (v *views) clickhouseMetrics() {
	v.prepare(
		v.Metrics, "", v.attributes("ResourceAttributes"), v.attributes("ScopeAttributes"), v.attributes("Attributes"),
		v.list("Exemplars", "timestamp String, value Float64, trace_id String, span_id String, attributes "+stringMap,
			"FilteredAttributes "+stringMap+", TimeUnix DateTime64(9), Value Float64, SpanId String, TraceId String",
			"x.attributes, "+eventTime("x.timestamp")+", x.value, x.span_id, x.trace_id"),
		v.list("ValueAtQuantiles", "quantile Float64, value Float64", "Quantile Float64, Value Float64", "x.quantile, x.value"),
	)
	exemplars := v.fields(v.part("Exemplars", "FilteredAttributes"), v.part("Exemplars", "TimeUnix"), v.part("Exemplars", "Value"), v.part("Exemplars", "SpanId"),
		v.part("Exemplars", "TraceId"))
	point := v.fields(v.stored("ResourceAttributes"), v.text("ResourceSchemaUrl"), v.text("ScopeName"), v.text("ScopeVersion"), v.stored("ScopeAttributes"),
		"toUInt32(0) AS ScopeDroppedAttrCount", v.text("ScopeSchemaUrl"), v.word("ServiceName"), v.word("MetricName"), v.text("MetricDescription"), v.text("MetricUnit"),
		v.stored("Attributes"), v.nanoTime("StartTimeUnixNano", "StartTimeUnix"), v.nanoTime("TimeUnixNano", "TimeUnix"), v.number("UInt32", "Flags"),
		"t.`StartTimeUnixNano` AS StartTimeUnixNano", "t.`TimeUnixNano` AS TimeUnixNano")
	temporality := "toInt32(indexOf(['Delta', 'Cumulative'], ifNull(t.`AggregationTemporality`, ''))) AS AggregationTemporality"
	counts := func(column string) string {
		return v.document("t.`"+column+"`", "[]", "Array(UInt64)") + " AS " + column
	}
	distribution := v.fields(v.number("UInt64", "Count"), v.number("Float64", "Sum"), v.number("Float64", "Min"), v.number("Float64", "Max"), temporality, exemplars)
	kind := func(kind string, own ...string) {
		v.create("metrics_"+kind, "SELECT "+v.fields(slices.Concat([]string{point}, own)...)+"\nFROM "+v.from(v.Metrics)+ofKind(kind))
	}
	kind("gauge", v.number("Float64", "Value"), exemplars)
	kind("sum", v.number("Float64", "Value"), temporality, "ifNull(t.`IsMonotonic`, false) AS IsMonotonic", exemplars)
	kind("histogram", distribution, counts("BucketCounts"), v.document("t.`ExplicitBounds`", "[]", "Array(Float64)")+" AS ExplicitBounds")
	kind("exponential_histogram", distribution, v.number("Int32", "Scale"), v.number("UInt64", "ZeroCount"), v.number("Float64", "ZeroThreshold"),
		v.number("Int32", "PositiveOffset"), counts("PositiveBucketCounts"), v.number("Int32", "NegativeOffset"), counts("NegativeBucketCounts"))
	kind("summary", v.number("UInt64", "Count"), v.number("Float64", "Sum"), v.part("ValueAtQuantiles", "Quantile"), v.part("ValueAtQuantiles", "Value"))
	v.create("metrics_quantiles", "SELECT "+v.fields(point, "q.Quantile AS Quantile", "q.Value AS Value")+"\nFROM "+v.from(v.Metrics)+" ARRAY JOIN t."+
		v.quote(addedPrefix+"ValueAtQuantiles")+" AS q"+ofKind("summary"))
	v.clickhouseBuckets(v.fields(point, v.word("MetricType"), temporality))
}

// ofKind is the condition for the points of one kind.
func ofKind(kind string) string { return "\nWHERE t.`MetricType` = '" + kind + "'" }

// clickhouseBuckets makes a row of each bucket, as [views.buckets] does.
func (v *views) clickhouseBuckets(point string) {
	row := func(lower, upper, count, from string) string {
		return "SELECT " + v.fields(point, lower+" AS LowerBound", upper+" AS UpperBound", count+" AS BucketCount") + "\nFROM " + v.from(v.Metrics) + from
	}
	each := func(counts string) string {
		return " ARRAY JOIN " + counts + " AS n, arrayEnumerate(" + counts + ") AS i"
	}
	counts := func(column string) string { return v.document("t.`"+column+"`", "[]", "Array(UInt64)") }
	side := func(side, lower, upper string) string {
		const width = "pow(2, greatest(-900, least(900, -ifNull(t.`Scale`, 0))))"
		bound := func(number string) string {
			exponent := "(ifNull(t.`" + side + "Offset`, 0) + " + number + ") * " + width
			return "multiIf(" + exponent + " >= 1024, inf, " + exponent + " < -1074, 0., pow(2, " + exponent + "))"
		}
		replace := strings.NewReplacer("$above", bound("toInt64(i)"), "$below", bound("toInt64(i) - 1"))
		return row(replace.Replace(lower), replace.Replace(upper), "n", each(counts(side+"BucketCounts"))+ofKind("exponential_histogram"))
	}
	bounds := v.document("t.`ExplicitBounds`", "[]", "Array(Float64)")
	v.create("metrics_buckets", strings.Join([]string{
		row("if(i = 1, -inf, "+bounds+"[i - 1])", "if(i = length("+counts("BucketCounts")+"), inf, "+bounds+"[i])", "n", each(counts("BucketCounts"))+ofKind("histogram")),
		side("Positive", "$below", "$above"),
		side("Negative", "0 - $above", "0 - $below"),
		row("0 - ifNull(t.`ZeroThreshold`, 0)", "ifNull(t.`ZeroThreshold`, 0)", "toUInt64(ifNull(t.`ZeroCount`, 0))", ofKind("exponential_histogram")+" AND t.`ZeroCount` > 0"),
	}, "\nUNION ALL\n"))
}
