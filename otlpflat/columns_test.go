package otlpflat_test

import (
	"errors"
	"iter"
	"math"
	"slices"
	"testing"

	"github.com/tidwall/gjson"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/otlpflat"
)

// withoutColumn are the members that have no column because few senders set them, or other members say the same.
var withoutColumn = []string{
	"duration_ns",
	"dropped_attributes_count", "dropped_events_count", "dropped_links_count", "resource_dropped_attributes_count", "resource_schema_url", "metric_metadata",
}

// Every member of a random record has a column, and a record is rejected only for a count that int64 cannot hold.
func TestTypedColumns(t *testing.T) {
	g := newGenerator(seedtest.Of(t))
	for name, kind := range map[string]struct {
		columns mapping.Columns
		docs    func() iter.Seq[mapping.FieldDocument]
	}{
		"logs":    {otlpflat.LogColumns(), func() iter.Seq[mapping.FieldDocument] { return otlpflat.Logs(g.logs()) }},
		"metrics": {otlpflat.PointColumns(), func() iter.Seq[mapping.FieldDocument] { return otlpflat.Metrics(g.metrics()) }},
		"traces":  {otlpflat.SpanColumns(), func() iter.Seq[mapping.FieldDocument] { return otlpflat.Traces(g.traces()) }},
	} {
		mapper, err := mapping.Compile(kind.columns, mapping.Options{})
		if err != nil {
			t.Fatal(err)
		}
		filled := map[string]bool{}
		for range 100 {
			for doc := range kind.docs() {
				text, err := doc.AppendJSON(nil)
				if err != nil {
					t.Fatal(err)
				}
				cells := mapper.Cells(&mapping.Record{Document: doc})
				gjson.ParseBytes(text).ForEach(func(key, _ gjson.Result) bool {
					if !slices.Contains(withoutColumn, key.Str) && !slices.ContainsFunc(cells, func(c mapping.Cell) bool { return c.Column == key.Str }) {
						t.Errorf("%s: no column has the member %s", name, key.Str)
					}
					return true
				})
				for _, c := range cells {
					var fail *mapping.Error
					tooMany := (c.Column == "count" || c.Column == "zero_count") && errors.As(c.Err, &fail) && fail.Reason == mapping.OutOfRange
					if c.Err != nil && !tooMany {
						t.Errorf("%s: %v of %s", name, c.Err, text)
					}
					filled[c.Column] = filled[c.Column] || !c.Null && c.Err == nil
				}
			}
		}
		for _, c := range kind.columns {
			if !filled[c.Name] {
				t.Errorf("%s: the column %s is always NULL", name, c.Name)
			}
		}
	}
}

func TestTypedColumnsOfChosenRecords(t *testing.T) {
	logs := plog.NewLogs()
	record := logs.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty()
	record.SetTimestamp(1_700_000_000_123_456_789)
	record.SetTraceID(pcommon.TraceID{1, 15: 2})
	record.Body().SetStr("paid")
	metrics := pmetric.NewMetrics()
	all := metrics.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics()
	whole := all.AppendEmpty().SetEmptySum()
	whole.SetIsMonotonic(true)
	whole.DataPoints().AppendEmpty().SetIntValue(math.MaxInt32)
	all.AppendEmpty().SetEmptyGauge().DataPoints().AppendEmpty().SetDoubleValue(math.NaN())
	histogram := all.AppendEmpty().SetEmptyHistogram().DataPoints().AppendEmpty()
	histogram.SetCount(7)
	histogram.BucketCounts().FromRaw([]uint64{3, 4})

	var docs []map[string]string
	for _, kind := range []struct {
		columns mapping.Columns
		docs    iter.Seq[mapping.FieldDocument]
	}{{otlpflat.LogColumns(), otlpflat.Logs(logs)}, {otlpflat.PointColumns(), otlpflat.Metrics(metrics)}} {
		mapper, err := mapping.Compile(kind.columns, mapping.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for doc := range kind.docs {
			cells := map[string]string{}
			for _, c := range mapper.Cells(&mapping.Record{Document: doc}) {
				cells[c.Column] = c.Value
				if c.Null {
					cells[c.Column] = "NULL"
				}
				if c.Err != nil {
					t.Error(c.Err)
				}
			}
			docs = append(docs, cells)
		}
	}
	for i, want := range []map[string]string{
		{
			"timestamp": "2023-11-14T22:13:20.123456Z", "observed_timestamp": "NULL", "trace_id": "01000000000000000000000000000002", "span_id": "NULL",
			"body": `"paid"`, "severity_number": "0", "severity_text": "", "attributes": "{}", "event_name": "NULL",
		},
		{"value": "2147483647", "is_monotonic": "true", "metric_type": "sum", "count": "NULL", "timestamp": "NULL", "flags": "NULL"},
		{"value": "NaN", "is_monotonic": "NULL", "aggregation_temporality": "NULL"},
		{"value": "NULL", "count": "7", "sum": "NULL", "bucket_counts": "[3,4]"},
	} {
		for column, text := range want {
			if docs[i][column] != text {
				t.Errorf("record %d: %s is %q, want %q", i, column, docs[i][column], text)
			}
		}
	}
	if c := otlpflat.PointColumns()[0]; c.DataType != datatype.UUID {
		t.Errorf("got %+v, want c.DataType == %v", c, datatype.UUID)
	}
}
