package rejections

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"testing"

	"go.opentelemetry.io/otel/attribute"

	"github.com/forebay/forebay/internal/kept"
	"github.com/forebay/forebay/internal/metertest"
	"github.com/forebay/forebay/mapping"
)

// Each error is counted under the reason that a record in a quarantine has.
func TestCounter(t *testing.T) {
	var c Counter
	if got := c.ByName(); len(got) > 0 {
		t.Errorf("a new counter has %v, want nothing", got)
	}
	want := map[string]int64{"failed": 7}
	for _, err := range []error{
		&mapping.Error{Reason: mapping.TooDeep},
		fmt.Errorf("wrapped: %w", &mapping.Error{Reason: mapping.TooDeep}),
		&mapping.RowTooLargeError{Size: 2, Limit: 1},
		&mapping.Error{Reason: mapping.TooDeep + 1},
		errors.New("none of them"),
	} {
		c.Reject(err)
		want[kept.ReasonOf(err)]++
	}
	c.Fail(3)
	c.Fail(4)
	if got := c.ByName(); !maps.Equal(got, want) {
		t.Errorf("the counts are %v, want %v", got, want)
	}
}

// Sinks are measured one by one, and above the limit as sums.
func TestObserve(t *testing.T) {
	sinks := make([]Sink, 2)
	for i, name := range []string{"a", "b"} {
		sinks[i] = Sink{ID: name, Refused: name == "b", Count: new(Counter)}
		sinks[i].Count.Fail(i + 1)
	}
	attributes := func(id string) []attribute.KeyValue { return []attribute.KeyValue{attribute.String("sink", id)} }
	for most, want := range map[int]map[string]float64{
		2: {
			"forebay.records.rejected{reason=failed,sink=a}": 1, "forebay.records.rejected{reason=failed,sink=b}": 2,
			"forebay.sinks.refused{sink=a}": 0, "forebay.sinks.refused{sink=b}": 1,
		},
		1: {"forebay.records.rejected{reason=failed}": 3, "forebay.sinks.refused{}": 1},
	} {
		meter := metertest.New()
		registration, err := Observe(meter, most, attributes, func() iter.Seq[Sink] { return slices.Values(sinks) })
		if err != nil {
			t.Fatal(err)
		}
		if got := meter.Collect(); !maps.Equal(got, want) {
			t.Errorf("with at most %d single sinks: measured %v, want %v", most, got, want)
		}
		if err := registration.Unregister(); err != nil || meter.Callbacks() != 0 {
			t.Errorf("%d callbacks are left, %v, want none", meter.Callbacks(), err)
		}
	}
}
