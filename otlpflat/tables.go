package otlpflat

import (
	"slices"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping"
)

// LogsTable returns columns for the records of [Logs]. Their names are the names that the ClickHouse exporter of the OpenTelemetry
// Collector gives its columns, so that queries for those tables find them.
//
//	Timestamp, ObservedTimestamp                        timestamp, without the digits below a microsecond
//	TimeUnixNano, ObservedTimeUnixNano                  int64: the same times in nanoseconds since 1970
//	TraceId, SpanId                                     string of hexadecimal digits
//	TraceFlags, SeverityNumber                          int64
//	SeverityText, EventName                             string
//	ServiceName                                         string: the attribute service.name of the resource
//	Body                                                string; a body that is no text is JSON
//	ResourceSchemaUrl, ScopeSchemaUrl                   string
//	ScopeName, ScopeVersion                             string
//	ResourceAttributes, ScopeAttributes, LogAttributes  json: an object whose keys keep their dots
//
// A log without a time has its observed time in Timestamp and TimeUnixNano, and without both the time of receipt. A span or point without a time has
// the time of receipt.
//
// An observed time, an id, an empty text other than the body, a body, and the attributes of a scope are NULL if the sender has not set them. Protobuf
// does not tell a number that is not set from 0, so SeverityNumber and TraceFlags are 0 then, and a resource or record without attributes has {}. A
// record is rejected if a number of it does not fit an int64, such as a count above 2^63-1, or a time after 2262-04-11. It is also rejected if the
// target cannot store one of its values, such as NaN. The caller may change the columns, and add some.
func LogsTable() mapping.Columns {
	return slices.Concat(
		recordTimes("Timestamp", "TimeUnixNano", "timestamp", "observed_timestamp"), times("ObservedTimestamp", "ObservedTimeUnixNano", "observed_timestamp"),
		mapping.Columns{
			typed("TraceId", "trace_id", datatype.String), typed("SpanId", "span_id", datatype.String), typed("TraceFlags", "flags", datatype.Int64),
			typed("SeverityText", "severity_text", datatype.String), typed("SeverityNumber", "severity_number", datatype.Int64),
			serviceName(),
			mapping.Path("Body", "body", mapping.DataType(datatype.String), mapping.With(mapping.TypeOptions{AnyKind: true})),
		},
		origin(),
		mapping.Columns{typed("LogAttributes", "attributes", datatype.JSON), typed("EventName", "event_name", datatype.String)},
	)
}

// TracesTable returns columns for the records of [Traces]. See [LogsTable].
//
//	Timestamp, TimeUnixNano                             the start; without one the time of receipt
//	Duration                                            int64 of nanoseconds; NULL without an end, or with an end before the start
//	TraceId, SpanId, ParentSpanId, TraceState           string
//	SpanName, SpanKind, StatusCode, StatusMessage       string; kinds and codes have the names of package otlpflat, Unspecified and Unset too
//	Events, Links                                       json: arrays of the events and links of package otlpflat; [] without any
//	SpanAttributes                                      json
//
// and ServiceName, TraceFlags and the columns of resource and scope.
func TracesTable() mapping.Columns {
	return slices.Concat(
		recordTimes("Timestamp", "TimeUnixNano", "timestamp", ""),
		mapping.Columns{
			typed("Duration", "duration_ns", datatype.Int64),
			typed("TraceId", "trace_id", datatype.String), typed("SpanId", "span_id", datatype.String), typed("ParentSpanId", "parent_span_id", datatype.String),
			typed("TraceState", "trace_state", datatype.String), typed("TraceFlags", "flags", datatype.Int64),
			typed("SpanName", "name", datatype.String), typed("SpanKind", "kind", datatype.String), serviceName(),
		},
		origin(),
		mapping.Columns{
			typed("SpanAttributes", "attributes", datatype.JSON),
			typed("StatusCode", "status_code", datatype.String), typed("StatusMessage", "status_message", datatype.String),
			typed("Events", "events", datatype.JSON), typed("Links", "links", datatype.JSON),
		},
	)
}

// MetricsTable returns columns for the records of [Metrics], of all kinds of metrics. See [LogsTable]. [Views] makes a view of each kind, with
// the columns that it has.
//
//	MetricType                                          string: gauge, sum, histogram, exponential_histogram or summary
//	MetricName, MetricDescription, MetricUnit           string
//	TimeUnix, TimeUnixNano                              the time of the point, as timestamp and as int64; without one the time of receipt
//	StartTimeUnix, StartTimeUnixNano                    the start of its interval
//	Attributes                                          json
//	Value                                               float64: the nearest one of an integer, which differs from it above 2^53
//	Count, Sum, Min, Max                                int64, float64: of histograms and summaries
//	BucketCounts, ExplicitBounds                        json arrays: of histograms
//	Scale, ZeroCount, ZeroThreshold                     int64, int64, float64: of exponential histograms
//	PositiveOffset, PositiveBucketCounts                int64, json array
//	NegativeOffset, NegativeBucketCounts                int64, json array
//	ValueAtQuantiles                                    json array of quantiles: of summaries
//	AggregationTemporality                              string: Unspecified, Delta or Cumulative
//	IsMonotonic                                         bool: of sums
//	Exemplars                                           json array
//	Flags                                               int64; NULL without one
//
// and ServiceName and the columns of resource and scope. What a kind of metric does not have is NULL.
func MetricsTable() mapping.Columns {
	return slices.Concat(
		mapping.Columns{
			typed("MetricType", "metric_type", datatype.String), serviceName(), typed("MetricName", "metric_name", datatype.String),
			typed("MetricDescription", "metric_description", datatype.String), typed("MetricUnit", "metric_unit", datatype.String),
		},
		recordTimes("TimeUnix", "TimeUnixNano", "timestamp", ""), times("StartTimeUnix", "StartTimeUnixNano", "start_timestamp"),
		mapping.Columns{
			typed("Attributes", "attributes", datatype.JSON), typed("Value", "value", datatype.Float64),
			typed("Count", "count", datatype.Int64), typed("Sum", "sum", datatype.Float64),
			typed("Min", "min", datatype.Float64), typed("Max", "max", datatype.Float64),
			typed("BucketCounts", "bucket_counts", datatype.JSON), typed("ExplicitBounds", "explicit_bounds", datatype.JSON),
			typed("Scale", "scale", datatype.Int64), typed("ZeroCount", "zero_count", datatype.Int64), typed("ZeroThreshold", "zero_threshold", datatype.Float64),
			typed("PositiveOffset", "positive.offset", datatype.Int64), typed("PositiveBucketCounts", "positive.bucket_counts", datatype.JSON),
			typed("NegativeOffset", "negative.offset", datatype.Int64), typed("NegativeBucketCounts", "negative.bucket_counts", datatype.JSON),
			typed("ValueAtQuantiles", "quantile_values", datatype.JSON),
			typed("AggregationTemporality", "aggregation_temporality", datatype.String), typed("IsMonotonic", "is_monotonic", datatype.Bool),
			typed("Exemplars", "exemplars", datatype.JSON), typed("Flags", "flags", datatype.Int64),
		},
		origin(),
	)
}

// typed is a column with a member of a record. Protobuf does not tell an empty text from one that is not set, so the text is NULL.
func typed(name, path string, t datatype.Type) mapping.Column {
	empty := t == datatype.String || t == datatype.Timestamp
	return mapping.Path(name, path, mapping.DataType(t), mapping.With(mapping.TypeOptions{EmptyIsNull: empty}))
}

// times are two columns with one time, as timestamp, and as nanoseconds since 1970.
func times(moment, nanos, path string) mapping.Columns {
	return timesOf(moment, nanos, path, mapping.TypeOptions{})
}

// recordTimes are the times of a record. A record without the member path has the time of the member other, if other is not empty, and
// without both the time of receipt, so that queries by time and rules of retention find each row.
func recordTimes(moment, nanos, path, other string) mapping.Columns {
	return timesOf(moment, nanos, path, mapping.TypeOptions{ElsePath: other, ElseArrival: true})
}

func timesOf(moment, nanos, path string, o mapping.TypeOptions) mapping.Columns {
	o.EmptyIsNull = true
	number := o
	number.Epoch = mapping.EpochNanos
	return mapping.Columns{
		mapping.Path(moment, path, mapping.DataType(datatype.Timestamp), mapping.With(o)),
		mapping.Path(nanos, path, mapping.DataType(datatype.Int64), mapping.With(number)),
	}
}

func serviceName() mapping.Column {
	return mapping.Path("ServiceName", `resource["service.name"]`, mapping.DataType(datatype.String),
		mapping.With(mapping.TypeOptions{EmptyIsNull: true, AnyKind: true}))
}

// origin are the columns of resource and scope.
func origin() mapping.Columns {
	return mapping.Columns{
		typed("ResourceSchemaUrl", "resource_schema_url", datatype.String), typed("ResourceAttributes", "resource", datatype.JSON),
		typed("ScopeSchemaUrl", "scope.schema_url", datatype.String), typed("ScopeName", "scope.name", datatype.String),
		typed("ScopeVersion", "scope.version", datatype.String), typed("ScopeAttributes", "scope.attributes", datatype.JSON),
	}
}
