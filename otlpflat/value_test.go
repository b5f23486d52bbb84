package otlpflat_test

import (
	"testing"

	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/otlpflat"
)

// An integer that no double holds is whole in the column that docs/telemetry.md adds.
func TestLargeIntegerOfPoint(t *testing.T) {
	batch := pmetric.NewMetrics()
	batch.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty().SetEmptyGauge().DataPoints().AppendEmpty().SetIntValue(1<<53 + 1)
	columns := append(otlpflat.MetricsTable(), mapping.Path("ValueText", "value", mapping.DataType(datatype.String)))
	mapper, err := mapping.Compile(columns, mapping.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"Value": "9007199254740992", "ValueText": "9007199254740993"}
	for doc := range otlpflat.Metrics(batch) {
		for _, c := range mapper.Cells(&mapping.Record{Document: doc}) {
			if w, ok := want[c.Column]; ok && (c.Value != w || c.Err != nil) {
				t.Errorf("%s is %+v, want %s", c.Column, c, w)
			}
			delete(want, c.Column)
		}
	}
	if len(want) > 0 {
		t.Errorf("no %v", want)
	}
}
