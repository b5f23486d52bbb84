package recipes

import (
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/mapping"
)

// The shadow finds the record that the typed column rejects. After the change rows of both definitions are in one table.
func TestMigrate(t *testing.T) {
	eng, rows := open(t, Payments(false))
	try := func(bodies ...string) (forebay.ShadowReport, error) {
		t.Helper()
		var report forebay.ShadowReport
		var err error
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			report, err = Try(t.Context(), eng, "payments", Payments(true).Sinks[0], int64(len(bodies)))
		}()
		for _, body := range append(bodies, bodies...) { // until the shadow has seen enough
			ingest(t, eng, body)
		}
		for {
			select {
			case <-ended:
				return report, err
			default:
				ingest(t, eng, bodies[0])
			}
		}
	}
	if report, err := try(`{"total":"12 EUR"}`); err == nil || !strings.Contains(err.Error(), "total_amount") {
		t.Errorf("got %+v, %v, want an error and strings.Contains(err.Error(), \"total_amount\")", report, err)
	}
	if report, err := try(`{"total":12.5}`, `{"total":null}`); err != nil || report.Compared != 2 {
		t.Errorf("got %+v, %v, want no error and report.Compared == 2", report, err)
	}
	before := len(rows("in.c-shop.payments"))
	if err := eng.Define(t.Context(), Payments(true)); err != nil {
		t.Fatal(err)
	}
	ingest(t, eng, `{"total":12.5}`)
	ingest(t, eng, `{"total":"12 EUR"}`) // goes to the quarantine
	after := rows("in.c-shop.payments")
	last := slices.IndexFunc(after, func(row []string) bool { return row[len(row)-1] == "12.50" })
	if len(after) != before+1 || last < 0 || after[last][1] != "12.5" {
		t.Errorf("%d rows before: got %d after, want one more, the last with 12.5: %q", before, len(after), after)
	}
	rejected := 0
	for record, err := range eng.Sink("payments", "payments").Quarantine().List(t.Context(), forebay.RejectedFilter{}) {
		if err != nil || record.Column != "total_amount" {
			t.Errorf("got %+v, %v, want no error and record.Column == \"total_amount\"", record, err)
		}
		rejected++
	}
	if rejected != 1 {
		t.Errorf("got %d records in the quarantine, want 1", rejected)
	}
}

func ingest(t *testing.T, eng *forebay.Engine, body string) {
	t.Helper()
	if _, err := eng.Ingest(t.Context(), "payments", mapping.JSON([]byte(body))); err != nil {
		t.Fatal(err)
	}
}
