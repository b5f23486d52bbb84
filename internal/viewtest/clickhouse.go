package viewtest

// questionsOfClickHouse are questions in the SQL of ClickHouse, for each view. A value that is not set is empty, 0 or 1970, as in the exporter's tables.
var questionsOfClickHouse = []question{
	{
		`SELECT Timestamp = fromUnixTimestamp64Nano(TimeUnixNano) AND TimestampTime = toDateTime(Timestamp) AS same, TimeUnixNano % 1000 AS n, TraceId, SeverityText,
			SeverityNumber, ServiceName, Body, ResourceAttributes['host.name'] AS host, LogAttributes['http.response.status_code'] AS status, EventName, ScopeName,
			length(ScopeAttributes) FROM otel_logs ORDER BY TimestampTime, Body = 'came without a time' DESC, status`,
		`1|0|||0|shop|came without a time|a-1|||http|0
		1|1|aa000000000000000000000000000001|INFO|9|shop|cart opened|a-1|200||http|0
		1|1|aa000000000000000000000000000001|INFO|9|shop|paying|a-1|201||http|0
		1|1|aa000000000000000000000000000001|INFO|9|shop|card declined|a-1|202||http|0
		1|1|aa000000000000000000000000000002|INFO|9|shop|goods packed|a-1|203||http|0
		1|7|||0|shop|{"msg":"it's \"quoted\""}|a-1||audit|http|0`,
	},
	{`SELECT count() AS n, min(ReceivedAt) AS received FROM otel_logs`, `6|0`},
	{
		`SELECT SpanKind, count() AS n, countIf(Duration > 0) AS ended, max(Duration) AS longest FROM otel_traces GROUP BY SpanKind ORDER BY 1`,
		`Client|2|1|9000000
		Internal|2|2|2000000
		Server|21|21|20000000`,
	},
	{`SELECT SpanAttributes['http.route'] AS route, SpanAttributes['big'] AS big FROM otel_traces WHERE SpanName = 'POST /transfer'`, `/transfer|100000000000000000000`},
	{
		`SELECT arrayStringConcat(Events.Name, ', ') AS names, toUnixTimestamp64Nano(Events.Timestamp[1]) % 60000000000 AS n, Events.Attributes[1]['exception.type'] AS type,
			Links.TraceId[1] AS linked, Links.SpanId[1] AS span FROM otel_traces WHERE notEmpty(Events.Name)`,
		`exception, no time, whole second, year 2500, year 2262, last, year 2262, beyond|23999999999|Declined|aa000000000000000000000000000002|`,
	},
	{`SELECT e.Name FROM otel_traces ARRAY JOIN Events AS e WHERE e.Name LIKE '%time'`, `no time`},
	{
		`SELECT toInt64(toUnixTimestamp(Start)) - (SELECT min(toUnixTimestamp(Timestamp)) FROM otel_logs) AS start, Start = End AS same FROM otel_traces_trace_id_ts
			WHERE TraceId = 'aa000000000000000000000000000002'`, `0|1`,
	},
	{`SELECT EventName, EventTimeUnixNano % 60000000000 AS n, SpanName FROM otel_span_events WHERE EventAttributes['exception.type'] = 'Declined'`, `exception|23999999999|GET`},
	{`SELECT TraceId, LinkedTraceId, LinkedSpanId FROM otel_span_links`, `aa000000000000000000000000000001|aa000000000000000000000000000002|`},
	{`SELECT ServiceName, MetricName, Value, toUnixTimestamp64Nano(TimeUnix) = TimeUnixNano AS same FROM otel_metrics_gauge`, `shop|load|0.5|1`},
	{
		`SELECT max(Value) AS v, count() AS n, max(TimeUnix) - min(TimeUnix) AS seconds, any(AggregationTemporality) AS t FROM otel_metrics_sum
			WHERE IsMonotonic AND MetricName = 'orders'`,
		`120|3|2|2`,
	},
	{
		`SELECT Count, Sum, BucketCounts[2] AS second, ExplicitBounds[2] AS bound, AggregationTemporality FROM otel_metrics_histogram ORDER BY Count DESC`,
		`10|7.5|5|2|1
		10|7.5|5|2|1
		3|0|0|0|1`,
	},
	{
		`SELECT Count, Scale, ZeroCount, PositiveOffset, PositiveBucketCounts[2] AS second, NegativeBucketCounts[1] AS one
			FROM otel_metrics_exponential_histogram ORDER BY Scale DESC`,
		`9223372036854775807|-1|2|-1|18446744073709551615|1
		0|-4|5|0|0|7`,
	},
	{
		`SELECT s.MetricName, s.Count, s.ValueAtQuantiles.Quantile[1] AS q, s.ValueAtQuantiles.Value[1] AS v, q.Quantile, q.Value
			FROM otel_metrics_summary s JOIN otel_metrics_quantiles q ON q.MetricName = s.MetricName`,
		`rpc|5|0.5|12.5|0.5|12.5`,
	},
	{
		`SELECT Exemplars.Value[1] AS value, Exemplars.TraceId[1] AS trace, Exemplars.FilteredAttributes[1]['user'] AS user, toUnixTimestamp(Exemplars.TimeUnix[1]) > 0 AS timed
			FROM otel_metrics_sum WHERE notEmpty(Exemplars.Value)`,
		`7|aa000000000000000000000000000001|u1|1`,
	},
	{
		`SELECT MetricName, toString(LowerBound) AS lower, toString(UpperBound) AS upper, sum(toInt128(BucketCount)) AS n FROM otel_metrics_buckets
			GROUP BY MetricName, LowerBound, UpperBound ORDER BY MetricName, LowerBound`,
		`latency|-inf|0.5|8
		latency|0.5|2|10
		latency|2|inf|2
		size|-inf|-4.49423283715579e307|1
		size|-0.25|0.25|2
		size|0|0|12
		size|0.25|1|3
		size|1|4|18446744073709551615`,
	},
}
