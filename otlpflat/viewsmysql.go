package otlpflat

import (
	"slices"
	"strings"
)

// mysqlDocuments turns a JSON array into rows of x, whose column n is the place in the array, from 1.
func mysqlDocuments(column string) string {
	return "JSON_TABLE(t.`" + column + "`, '$[*]' COLUMNS (n FOR ORDINALITY)) AS x"
}

// mysqlMember is a member of a document of mysqlDocuments, as text, or as JSON if raw.
func mysqlMember(column, member string, raw bool) string {
	function := "JSON_VALUE"
	if raw {
		function = "JSON_EXTRACT"
	}
	return function + "(t.`" + column + "`, CONCAT('$[', x.n - 1, ']" + member + "'))"
}

// mysql makes the views for MySQL and MariaDB, which have no arrays. Counts and bounds of buckets are JSON arrays, as in SQLite.
func (v *views) mysql() {
	if v.Logs != "" {
		v.logs()
	}
	if v.Traces != "" {
		v.mysqlTraces()
	}
	if v.Metrics != "" {
		v.mysqlMetrics()
	}
}

func (v *views) mysqlTraces() {
	v.create("traces", "SELECT "+v.renamed(names(TracesTable()))+"\nFROM "+v.from(v.Traces))
	span := v.renamed([]string{"Timestamp", "TraceId", "SpanId", "ServiceName", "SpanName"})
	at := mysqlMember("Events", ".timestamp", false)
	// In a text of package otlpflat the fraction begins at the 21st character. A DATETIME would round the digits below a microsecond.
	moment := "CAST(NULLIF(REPLACE(LEFT(" + at + ", 26), 'Z', ''), '') AS DATETIME(6))"
	seconds := "TIMESTAMPDIFF(SECOND, '1970-01-01', CAST(LEFT(" + at + ", 19) AS DATETIME))"
	fraction := "CAST(RPAD(REPLACE(SUBSTR(" + at + ", 21), 'Z', ''), 9, '0') AS SIGNED)"
	fits := seconds + " < 9223372036 OR " + seconds + " = 9223372036 AND " + fraction + " <= 854775807"
	v.create("span_events", "SELECT "+span+", "+moment+" AS EventTimestamp,\n  CASE WHEN "+at+" > '' THEN CASE WHEN "+fits+" THEN "+seconds+" * 1000000000 + "+fraction+
		" END END AS EventTimeUnixNano,\n  "+mysqlMember("Events", ".name", false)+" AS EventName, "+mysqlMember("Events", ".attributes", true)+
		" AS EventAttributes\nFROM "+v.from(v.Traces)+", "+mysqlDocuments("Events"))
	link := func(member string) string { return "NULLIF(" + mysqlMember("Links", "."+member, false) + ", '')" }
	v.create("span_links", "SELECT "+span+", "+link("trace_id")+" AS LinkedTraceId, "+link("span_id")+" AS LinkedSpanId,\n  "+link("trace_state")+
		" AS LinkedTraceState, "+mysqlMember("Links", ".attributes", true)+" AS LinkAttributes\nFROM "+v.from(v.Traces)+", "+mysqlDocuments("Links"))
}

func (v *views) mysqlMetrics() {
	v.kinds()
	double := func(text string) string { return "CAST(" + text + " AS DOUBLE)" }
	v.create("metrics_quantiles", "SELECT "+v.renamed(pointColumns)+", "+double(mysqlMember("ValueAtQuantiles", ".quantile", false))+" AS Quantile, "+
		double(mysqlMember("ValueAtQuantiles", ".value", false))+" AS Value\nFROM "+v.from(v.Metrics)+", "+mysqlDocuments("ValueAtQuantiles")+ofKind("summary"))
	point := v.renamed(append(slices.Clone(pointColumns), "MetricType", "AggregationTemporality"))
	count := func(column string) string { return "CAST(" + mysqlMember(column, "", false) + " AS DECIMAL(20))" }
	side := func(side, lower, upper string) string {
		// An infinite bound is NULL, because DOUBLE has no infinity.
		bound := func(number string) string {
			exponent := "((t.`" + side + "Offset` + " + number + ") * POWER(2, GREATEST(-900, LEAST(900, -t.`Scale`))))"
			return "CASE WHEN " + exponent + " >= 1024 THEN NULL WHEN " + exponent + " < -1074 THEN 0 ELSE POWER(2, " + exponent + ") END"
		}
		replace := strings.NewReplacer("$above", bound("CAST(x.n AS SIGNED)"), "$below", bound("CAST(x.n AS SIGNED) - 1"))
		return "SELECT " + point + ",\n  " + replace.Replace(lower) + " AS LowerBound,\n  " + replace.Replace(upper) + " AS UpperBound, " + count(side+"BucketCounts") +
			" AS BucketCount\nFROM " + v.from(v.Metrics) + ", " + mysqlDocuments(side+"BucketCounts") + ofKind("exponential_histogram")
	}
	limit := func(place string) string {
		return double("JSON_VALUE(t.`ExplicitBounds`, CONCAT('$[', " + place + ", ']'))")
	}
	v.create("metrics_buckets", strings.Join([]string{
		"SELECT " + point + ",\n  CASE WHEN x.n > 1 THEN " + limit("x.n - 2") + " END AS LowerBound,\n  " + limit("x.n - 1") + " AS UpperBound, " + count("BucketCounts") +
			" AS BucketCount\nFROM " + v.from(v.Metrics) + ", " + mysqlDocuments("BucketCounts") + ofKind("histogram"),
		side("Positive", "$below", "$above"),
		side("Negative", "0 - $above", "0 - $below"),
		"SELECT " + point + ", 0 - t.`ZeroThreshold` AS LowerBound, t.`ZeroThreshold` AS UpperBound, t.`ZeroCount` AS BucketCount\nFROM " + v.from(v.Metrics) +
			ofKind("exponential_histogram") + " AND t.`ZeroCount` > 0",
	}, "\nUNION ALL\n"))
}
