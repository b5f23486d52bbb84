// Package otlpflat turns batches of OpenTelemetry logs, metrics and traces into flat records, one for each log record, data
// point and span.
//
//	for doc := range otlpflat.Logs(batch) {
//		row, err := mapper.AppendRow(row[:0], &mapping.Record{Document: doc, Received: now})
//	}
//
// [EncodedLogs], [EncodedMetrics] and [EncodedTraces] do the same for requests that are not decoded, in less time. A record is a [mapping.FieldDocument] over the data. A column that
// wants one field reads that field. The record is written as JSON only for a column that wants all of it. Records of one resource
// and scope share their JSON, and the cells made of it.
//
// # Records
//
// A record is one compact JSON object with the members below, in this order. A member with a question mark is present only
// if the sender has set it. All others are always present. Resource and attributes are objects whose keys keep their dots,
// so a path to one needs quotes, as in attributes["http.route"].
//
//	log        timestamp, observed_timestamp, severity_number, severity_text, body, flags, trace_id?, span_id?,
//	           attributes, resource, scope, event_name?, dropped_attributes_count?
//	span       timestamp (its start), end_timestamp, trace_id, span_id, parent_span_id?, trace_state, name, kind, flags,
//	           status_code, status_message, attributes, events, links, resource, scope, duration_ns?,
//	           dropped_attributes_count?, dropped_events_count?, dropped_links_count?
//	event      timestamp, name, attributes, dropped_attributes_count?
//	link       trace_id, span_id, trace_state, attributes, flags, dropped_attributes_count?
//	point      metric_name, metric_description, metric_unit, metric_type, resource, scope, start_timestamp, timestamp,
//	           attributes, then by metric_type:
//	           gauge                  value
//	           sum                    value, is_monotonic, aggregation_temporality
//	           histogram              count, sum?, min?, max?, bucket_counts, explicit_bounds, aggregation_temporality
//	           exponential_histogram  count, sum?, min?, max?, scale, zero_count, aggregation_temporality,
//	                                  zero_threshold, positive, negative
//	           summary                count, sum, quantile_values
//	           then flags?, exemplars?, metric_metadata?
//	buckets    offset, bucket_counts
//	quantile   quantile, value
//	exemplar   timestamp, value, trace_id?, span_id?, attributes
//	scope      name, version, attributes?, dropped_attributes_count?, schema_url?
//
// duration_ns is the number of nanoseconds from the start to the end of a span that has both, and ends not before it starts.
// Every record ends with resource_dropped_attributes_count? and resource_schema_url?.
//
// # Values
//
//	time             RFC 3339 in UTC, up to nine digits of a second without trailing zeros; "" if it is not set
//	trace and span   lower-case hexadecimal digits; "" if it is not set
//	integer, count   a number, exact over the whole range of 64 bits
//	double           the shortest number that reads back as the same double; NaN, Infinity and -Infinity are strings
//	bytes            base64 with padding, as a string
//	text             a string; bytes that are not UTF-8 become U+FFFD
//	map, list        an object, an array
//	no value         null
//	enumeration      its name: kind is Unspecified, Internal, Server, Client, Producer or Consumer, status_code Unset, Ok or
//	                 Error, aggregation_temporality Unspecified, Delta or Cumulative. A value without a name is its
//	                 number, as a string.
//
// [LogColumns], [PointColumns] and [SpanColumns] are typed columns with these members. [LogsTable], [MetricsTable] and [TracesTable] are typed
// columns with the names of the ClickHouse exporter of the OpenTelemetry Collector, and [Views] writes SQL on top of them. For other types or
// names write columns with paths.
//
// If a sender has set an attribute twice, the last value counts. It alone is written, and paths find it.
package otlpflat
