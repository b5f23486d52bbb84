package viewtest

// questionsOfSQLite are questions in the SQL of SQLite, for each view.
var questionsOfSQLite = []question{
	questions[0],
	questions[1],
	questions[2],
	{
		`SELECT EventTimestamp, EventTimeUnixNano % 60000000000 AS n, EventName, EventAttributes ->> 'exception.type' AS type, SpanId, SpanName
			FROM otel_span_events WHERE EventName NOT LIKE 'year%' ORDER BY EventName`,
		`3|23999999999|exception|Declined|0000000000000014|GET
		NULL|NULL|no time|NULL|0000000000000014|GET
		0|20000000000|whole second|NULL|0000000000000014|GET`,
	},
	{`SELECT EventTimestamp || '' LIKE '2500-01-01T00:00:00.000000Z' AS late, EventTimeUnixNano FROM otel_span_events WHERE EventName = 'year 2500'`, `1|NULL`},
	{
		`SELECT EventName, EventTimeUnixNano FROM otel_span_events WHERE EventName LIKE 'year 2262%' ORDER BY EventName DESC`,
		`year 2262, last|9223372036854775807
		year 2262, beyond|NULL`,
	},
	{`SELECT TraceId, LinkedTraceId, LinkedSpanId FROM otel_span_links`, `aa000000000000000000000000000001|aa000000000000000000000000000002|NULL`},
	{`SELECT ServiceName, MetricName, Value, TimeUnix FROM otel_metrics_gauge`, `shop|load|0.5|0`},
	{`SELECT max(Value) AS v, count(*) AS n, max(TimeUnixNano) - min(TimeUnixNano) AS ns FROM otel_metrics_sum WHERE IsMonotonic AND MetricName = 'orders'`, `120|3|2000000000`},
	{
		`SELECT Count, Sum, BucketCounts ->> 1 AS second, ExplicitBounds ->> 1 AS bound, AggregationTemporality FROM otel_metrics_histogram ORDER BY Count DESC`,
		`10|7.5|5|2|Delta
		10|7.5|5|2|Delta
		3|NULL|NULL|NULL|Delta`,
	},
	{
		`SELECT Count, Scale, ZeroCount, PositiveOffset, PositiveBucketCounts, NegativeBucketCounts ->> 0 AS one FROM otel_metrics_exponential_histogram ORDER BY Scale DESC`,
		`9223372036854775807|-1|2|-1|[3,18446744073709551615]|1
		0|-4|5|0|[]|7`,
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
		size|1|4|1.84467e+19`,
	},
}
