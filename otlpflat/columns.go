package otlpflat

import (
	"strings"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping"
)

// LogColumns returns typed columns for the records of [Logs]. They are a uuid id, and each member that a log record has, under its name.
//
// The types here, and in [PointColumns] and [SpanColumns], are timestamp for times, string for ids of traces and spans, names and
// texts, int64 for integers and counts, float64 for values and json for attributes, lists and the body. A time or id that is not
// set is NULL, and so is a member that the record does not have. Timestamps lose the digits below a microsecond. A count above
// 2^63-1 is rejected. So are NaN and infinities, if the target cannot store them. The caller may change the columns.
func LogColumns() mapping.Columns {
	return columns(
		of{datatype.Timestamp, "timestamp observed_timestamp"}, of{datatype.Int64, "severity_number"}, of{datatype.String, "severity_text event_name"},
		of{datatype.JSON, "body"}, of{datatype.String, "trace_id span_id"}, of{datatype.Int64, "flags"}, of{datatype.JSON, "attributes resource scope"},
	)
}

// PointColumns returns typed columns for the records of [Metrics], of all types of metrics. See [LogColumns].
func PointColumns() mapping.Columns {
	return columns(
		of{datatype.Timestamp, "timestamp start_timestamp"},
		of{datatype.String, "metric_name metric_description metric_unit metric_type aggregation_temporality"}, of{datatype.Bool, "is_monotonic"},
		of{datatype.Float64, "value sum min max zero_threshold"}, of{datatype.Int64, "count zero_count scale flags"},
		of{datatype.JSON, "bucket_counts explicit_bounds positive negative quantile_values exemplars attributes resource scope"},
	)
}

// SpanColumns returns typed columns for the records of [Traces]. See [LogColumns].
func SpanColumns() mapping.Columns {
	return columns(
		of{datatype.Timestamp, "timestamp end_timestamp"}, of{datatype.String, "trace_id span_id parent_span_id trace_state"},
		of{datatype.String, "name kind status_code status_message"}, of{datatype.Int64, "flags"},
		of{datatype.JSON, "attributes events links resource scope"},
	)
}

// of are members of one type, by name.
type of struct {
	typ   datatype.Type
	names string
}

func columns(members ...of) mapping.Columns {
	all := mapping.Columns{mapping.UUID("id", mapping.DataType(datatype.UUID))}
	for _, m := range members {
		for name := range strings.FieldsSeq(m.names) {
			unset := m.typ == datatype.Timestamp || strings.HasSuffix(name, "_id") // is written as ""
			all = append(all, mapping.Path(name, name, mapping.DataType(m.typ), mapping.With(mapping.TypeOptions{EmptyIsNull: unset})))
		}
	}
	return all
}
