package browsertest

import (
	"fmt"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/console"
	"github.com/forebay/forebay/mapping"
)

// A user who chooses a version of the definition sees, replays and discards only the records that this version has rejected.
func TestQuarantineByVersion(t *testing.T) {
	eng, err := forebay.Open(t.TempDir(), forebay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	for version := 3; version <= 5; version++ { // each has rejected as many records
		err := eng.Define(t.Context(), forebay.Source{ID: "web", Sinks: []forebay.Sink{{
			ID: "orders", Version: version, OnReject: forebay.Quarantine,
			Table: forebay.Table{ID: "web.orders", Columns: mapping.Columns{mapping.Path("id", "id")}},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range version {
			if _, err := eng.Ingest(t.Context(), "web", mapping.JSON(fmt.Appendf(nil, `{"of":%d,"number":%d}`, version, i))); err != nil {
				t.Fatal(err)
			}
		}
	}
	url := serve(t, newConsole(t, eng, console.Options{Authorize: everything}))
	b := newTab(t)
	b.live(url + "#/quarantine")
	b.text("3 groups, 12 records")
	if got := eval[string](b, `[...document.querySelector("#q-version").options].map((o) => o.textContent).sort().join()`); got != "3,4,5,any" {
		t.Errorf("the versions to choose from are %s", got)
	}
	b.write("#q-version", "4")
	b.text("1 group, 4 records")
	b.text("version 4, as now")
	b.button("List all")
	b.until(`document.querySelectorAll(".records tbody tr").length === 4`)
	b.button("Close the list")
	b.button("Replay 4…")
	b.button("Replay")
	b.text("0 replayed, 4 rejected again, 0 gone before, done") // by version 5
	b.text("No record matches the filter.")
	b.write("#q-version", "5")
	b.text("1 group, 9 records")
	b.write("#q-version", "3")
	b.text("1 group, 3 records")
	b.button("Discard 3…")
	b.button("Discard")
	b.text("3 discarded, 0 gone before, done")
	b.write("#q-version", "")
	b.text("1 group, 9 records")
	for r, err := range eng.Sink("web", "orders").Quarantine().List(t.Context(), forebay.RejectedFilter{}) {
		if err != nil || r.Version != 5 {
			t.Errorf("left is %+v, %v", r, err)
		}
	}

	// The address has the filter.
	b.open(url + "#/quarantine?version=5")
	b.text("1 group, 9 records")
	b.open(url + "#/quarantine?version=4")
	b.text("No record matches the filter.")
}
