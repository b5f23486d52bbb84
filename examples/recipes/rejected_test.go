package recipes

import (
	"slices"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/mapping"
)

// A shop sends prices with a comma. They are kept, and become rows when the definition accepts them.
func TestRepair(t *testing.T) {
	eng, rows := open(t, Prices(`Body("price")`))
	for _, body := range []string{`{"article":"pen","price":"1.20"}`, `{"article":"ink","price":"12,50"}`, `{"article":"cap","price":"soon"}`} {
		if _, err := eng.Ingest(t.Context(), "shop", mapping.JSON([]byte(body))); err != nil {
			t.Fatal(err)
		}
	}
	if got := rows("in.c-shop.prices"); len(got) != 1 {
		t.Fatalf("rows before the repair: %q", got)
	}
	var said []string
	tolerant := Prices(`std.strReplace(Body("price"), ",", ".")`)
	for _, want := range []forebay.ReplayResult{{Replayed: 1, Rejected: 1}, {Rejected: 1}} { // the second call finds only records that no definition takes
		res, err := Repair(t.Context(), eng, tolerant, func(line string) { said = append(said, line) })
		if err != nil || res.Replayed != want.Replayed || res.Rejected != want.Rejected {
			t.Fatalf("got %+v, %v, want %+v", res, err, want)
		}
	}
	for _, want := range []string{"2 records, column price: malformed", "article = ink", "price = 12.50"} {
		if !slices.Contains(said, want) {
			t.Errorf("%q lacks %q", said, want)
		}
	}
	if got := rows("in.c-shop.prices"); len(got) != 2 || got[1][1] != "12.50" {
		t.Errorf("rows after the repair: %q", got)
	}
}
