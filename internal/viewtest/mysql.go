package viewtest

// questionsOfMySQL are questions in the SQL of MySQL and MariaDB, for each view.
var questionsOfMySQL = []question{
	{
		`SELECT Timestamp, TimeUnixNano % 1000 AS n, TraceId, SeverityText, SeverityNumber, ServiceName, Body, JSON_VALUE(ResourceAttributes, '$."host.name"') AS host,
			JSON_VALUE(LogAttributes, '$."http.response.status_code"') AS status, EventName, ScopeName, ScopeAttributes FROM otel_logs ORDER BY Timestamp, Body`,
		questions[0].want,
	},
	questions[1],
	questions[2],
	{
		`SELECT EventTimestamp, EventTimeUnixNano % 60000000000 AS n, EventName, JSON_VALUE(EventAttributes, '$."exception.type"') AS type, SpanId, SpanName
			FROM otel_span_events WHERE EventName NOT LIKE 'year%' ORDER BY EventName`,
		questions[3].want,
	},
	{`SELECT EventTimestamp > now() AS late, EventTimeUnixNano FROM otel_span_events WHERE EventName = 'year 2500'`, `1|NULL`},
	{
		`SELECT EventName, EventTimeUnixNano FROM otel_span_events WHERE EventName LIKE 'year 2262%' ORDER BY EventName DESC`,
		`year 2262, last|9223372036854775807
		year 2262, beyond|NULL`,
	},
	{`SELECT TraceId, LinkedTraceId, LinkedSpanId FROM otel_span_links`, `aa000000000000000000000000000001|aa000000000000000000000000000002|NULL`},
	{`SELECT ServiceName, MetricName, Value, TimeUnix FROM otel_metrics_gauge`, `shop|load|0.5|0`},
	{`SELECT max(Value) AS v, count(*) AS n, max(TimeUnixNano) - min(TimeUnixNano) AS ns FROM otel_metrics_sum WHERE IsMonotonic AND MetricName = 'orders'`, `120|3|2000000000`},
	{
		`SELECT Count, Sum, JSON_VALUE(BucketCounts, '$[1]') AS second, JSON_VALUE(ExplicitBounds, '$[1]') AS bound, AggregationTemporality
			FROM otel_metrics_histogram ORDER BY Count DESC`,
		`10|7.5|5|2|Delta
		10|7.5|5|2|Delta
		3|NULL|NULL|NULL|Delta`,
	},
	{
		`SELECT Count, Scale, ZeroCount, PositiveOffset, JSON_VALUE(PositiveBucketCounts, '$[1]') AS second, JSON_VALUE(NegativeBucketCounts, '$[0]') AS one
			FROM otel_metrics_exponential_histogram ORDER BY Scale DESC`,
		`9223372036854775807|-1|2|-1|18446744073709551615|1
		0|-4|5|0|NULL|7`,
	},
	{`SELECT q.MetricName, s.Count, q.Quantile, q.Value FROM otel_metrics_summary s JOIN otel_metrics_quantiles q USING (MetricName)`, `rpc|5|0.5|12.5`},
	{
		`SELECT MetricName, LowerBound, UpperBound, sum(BucketCount) AS n FROM otel_metrics_buckets
			GROUP BY MetricName, LowerBound, UpperBound ORDER BY MetricName, LowerBound`,
		`latency|NULL|0.5|8
		latency|0.5|2|10
		latency|2|NULL|2
		size|NULL|-4.49423e+307|1
		size|-0.25|0.25|2
		size|0|0|12
		size|0.25|1|3
		size|1|4|18446744073709551615`,
	},
}
