package forebay_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/mapping"
)

type typedLine struct {
	SKU   string  `json:"sku"`
	Price float64 `json:"price"`
}

type typedOrder struct {
	ID      int64       `json:"id"`
	Shop    string      `json:"shop"`
	At      time.Time   `json:"at"`
	Paid    bool        `json:"paid"`
	Cents   uint32      `json:"cents"`
	Country string      `json:"country"`
	Coupon  *string     `json:"coupon"`
	Lines   []typedLine `json:"lines"`
}

// orders has a sink with the columns of typedOrder.
func orders(tb testing.TB, change ...func(*forebay.Source)) forebay.Source {
	tb.Helper()
	columns, err := mapping.ColumnsOf[typedOrder]()
	if err != nil {
		tb.Fatal(err)
	}
	s := forebay.Source{ID: "shop", Sinks: []forebay.Sink{{ID: "orders", Table: forebay.Table{ID: "orders", Columns: columns}}}}
	for _, f := range change {
		f(&s)
	}
	return s
}

func newTypedOrder(i int) typedOrder {
	coupon := "SPRING"
	o := typedOrder{
		ID: int64(i), Shop: "north", At: time.Date(2026, 11, 29, 10, 0, i%60, i, time.UTC), Paid: i%2 == 0, Cents: uint32(i * 7), Country: "CZ",
		Lines: []typedLine{{"A-1", 2.5}, {"B \"2\"", float64(i)}},
	}
	if i%3 == 0 {
		o.Coupon = &coupon
	}
	return o
}

// Values give the same rows as their JSON, in repeated calls and from several goroutines. The engine does not read the values later.
func TestTypedValuesBecomeTheRowsOfTheirJSON(t *testing.T) {
	e, mem := openMemory(t)
	mustDefine(t, e, orders(t))
	byJSON := orders(t)
	byJSON.ID, byJSON.Sinks[0].Table.ID = "json", "json"
	mustDefine(t, e, byJSON)
	shop, err := forebay.Typed[typedOrder](e, "shop")
	must(t, err)
	var callers sync.WaitGroup
	for c := range 4 {
		callers.Go(func() {
			for n := range 20 {
				values := make([]typedOrder, n%7)
				for i := range values {
					values[i] = newTypedOrder(c*1000 + n*10 + i)
					text, err := json.Marshal(values[i])
					if err != nil {
						t.Error(err)
					}
					if _, err := e.Ingest(t.Context(), "json", mapping.JSON(text)); err != nil {
						t.Error(err)
					}
				}
				results, err := shop.Ingest(t.Context(), values...)
				if err != nil || len(results) != len(values) {
					t.Errorf("got %d results %v, want %d", len(results), err, len(values))
				}
				clear(values)
			}
		})
	}
	callers.Wait()
	var rows [2][]string
	for k, source := range []string{"shop", "json"} {
		must(t, e.Flush(t.Context(), source))
		for _, row := range mem.Rows([]string{"orders", "json"}[k]) {
			rows[k] = append(rows[k], strings.Join(row, "|"))
		}
		slices.Sort(rows[k])
	}
	if len(rows[0]) < 200 || !slices.Equal(rows[0], rows[1]) {
		t.Errorf("got %d rows, want these %d:\n%v\n%v", len(rows[0]), len(rows[1]), rows[0][:min(3, len(rows[0]))], rows[1][:min(3, len(rows[1]))])
	}
}

// A value without JSON is rejected with its position. The other values are stored.
func TestTypedValueWithoutJSON(t *testing.T) {
	e, mem := openMemory(t)
	mustDefine(t, e, orders(t))
	shop, err := forebay.Typed[typedOrder](e, "shop")
	must(t, err)
	bad := newTypedOrder(2)
	bad.At = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
	results, err := shop.Ingest(t.Context(), newTypedOrder(1), bad, newTypedOrder(3))
	var batch *forebay.BatchError
	if !errors.As(err, &batch) || batch.Records != 1 || !slices.Equal(batch.Causes[0].Records, []int{1}) || results[0].Sinks[0].Status != forebay.Stored {
		t.Errorf("got %+v %v, want a rejection of record 1", results, err)
	}
	must(t, e.Flush(t.Context(), "shop"))
	if n := len(mem.Rows("orders")); n != 2 {
		t.Errorf("the table has %d rows, want 2", n)
	}
}

// A call that is repeated with its key stores nothing twice.
func TestTypedOnce(t *testing.T) {
	e, mem := openMemory(t)
	mustDefine(t, e, orders(t))
	shop, err := forebay.Typed[*typedOrder](e, "shop") // pointers are accepted too
	must(t, err)
	a, b := newTypedOrder(1), newTypedOrder(2)
	for n := range 2 {
		results, err := shop.IngestOnce(t.Context(), forebay.Once{Key: "k"}, &a, &b)
		if err != nil || results[1].Sinks[0].Replayed != (n == 1) {
			t.Errorf("call %d: got %+v %v", n, results, err)
		}
	}
	must(t, e.Flush(t.Context(), "shop"))
	if n := len(mem.Rows("orders")); n != 2 {
		t.Errorf("the table has %d rows, want 2", n)
	}
}

// Columns that no value can fill are named when the program starts, not when the first row arrives.
func TestTypedIsCheckedOnce(t *testing.T) {
	e, _ := openMemory(t)
	mustDefine(t, e, orders(t, func(s *forebay.Source) {
		s.Sinks[0].Table.Columns = append(s.Sinks[0].Table.Columns,
			mapping.Path("total", "total", mapping.DataType(datatype.Int64)), mapping.Path("when", "paid", mapping.DataType(datatype.Timestamp)))
	}))
	_, err := forebay.Typed[typedOrder](e, "shop")
	want := `source "shop": sink "orders": column "total": path "total": no field of forebay_test.typedOrder writes "total"; add the field, or give the column a default
sink "orders": column "when": path "paid": field Paid has the type bool, and a column of type timestamp never accepts it (wrongKind)`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	if _, err := forebay.Typed[typedOrder](e, "none"); !errors.Is(err, forebay.ErrUnknownSource) {
		t.Errorf("got %v for a source that is not defined", err)
	}
	if _, err := forebay.Typed[struct{ C chan int }](e, "shop"); err == nil || !strings.Contains(err.Error(), `source "shop": mapping: field C`) {
		t.Errorf("got %v for a type without JSON", err)
	}
}

// typedRow is the duration of a row as JSON bytes that exist already, as a value, and as a value that the caller encodes with encoding/json.
type typedRow struct{ json, typed, marshal time.Duration }

// measureTyped returns the medians of calls of 100 values, in turn. Nothing is committed meanwhile, so it compares the path of a row until it is in
// memory.
func measureTyped(tb testing.TB) typedRow {
	tb.Helper()
	const batch, calls = 100, 300
	values := make([]typedOrder, batch)
	texts, records := make([][]byte, batch), make([]*mapping.Record, batch)
	for i := range values {
		values[i] = newTypedOrder(i)
		records[i] = new(mapping.Record)
		var err error
		if texts[i], err = json.Marshal(values[i]); err != nil {
			tb.Fatal(err)
		}
	}
	mem := buffertest.NewMemory()
	e, err := forebay.Open("data", forebay.Options{Staging: mem, Target: mem, Buffer: localdisk.On(buffer.Tuning{SyncInterval: time.Hour}, vfs.NewMem())})
	if err != nil {
		tb.Fatal(err)
	}
	if err := e.Define(tb.Context(), orders(tb, func(s *forebay.Source) { s.Settings.Sync = forebay.SyncUnsafe })); err != nil {
		tb.Fatal(err)
	}
	shop, err := forebay.Typed[typedOrder](e, "shop")
	if err != nil {
		tb.Fatal(err)
	}
	byJSON := func(text func(i int) []byte) error {
		for i, r := range records {
			r.Reset()
			r.Body, r.Format = text(i), mapping.FormatJSON
		}
		_, err := e.IngestBatch(tb.Context(), "shop", records)
		return err
	}
	ways := []func() error{
		func() error { return byJSON(func(i int) []byte { return texts[i] }) },
		func() error { _, err := shop.Ingest(tb.Context(), values...); return err },
		func() error {
			return byJSON(func(i int) []byte {
				text, err := json.Marshal(&values[i])
				if err != nil {
					tb.Fatal(err)
				}
				return text
			})
		},
	}
	took := make([][]time.Duration, len(ways))
	for range calls {
		for k, call := range ways {
			begin := time.Now()
			if err := call(); err != nil {
				tb.Fatal(err)
			}
			took[k] = append(took[k], time.Since(begin))
		}
	}
	if err := e.Close(); err != nil {
		tb.Fatal(err)
	}
	median := func(k int) time.Duration {
		slices.Sort(took[k])
		return took[k][calls/2] / batch
	}
	return typedRow{median(0), median(1), median(2)}
}

// A value costs at most 1.2 times the same row as JSON bytes that exist already. Both are measured in turn, and the best of several rounds counts,
// because other programs disturb some of them.
func TestTypedCostsNoMoreThanJSON(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector slows memory accesses, of which the two ways have different numbers")
	}
	const rounds, most = 5, 1.2
	best := math.Inf(1)
	for round := 0; round < rounds && best > most; round++ {
		row := measureTyped(t)
		ratio := float64(row.typed) / float64(row.json)
		t.Logf("a value took %s, its JSON %s: %.2f times as long", row.typed, row.json, ratio)
		best = min(best, ratio)
	}
	if best > most {
		t.Errorf("a value took %.2f times as long as its JSON in the best of %d rounds, want at most %.1f", best, rounds, most)
	}
}

// BenchmarkTyped reports the ratios of [measureTyped]:
//
//	go test . -run '^$' -bench Typed -count 5
func BenchmarkTyped(b *testing.B) {
	var sum typedRow
	for b.Loop() {
		row := measureTyped(b)
		sum.json, sum.typed, sum.marshal = sum.json+row.json, sum.typed+row.typed, sum.marshal+row.marshal
	}
	for name, took := range map[string]time.Duration{"json": sum.json, "typed": sum.typed, "marshal": sum.marshal} {
		b.ReportMetric(float64(took.Nanoseconds())/float64(b.N), name+"-ns/row")
		if name != "json" {
			b.ReportMetric(float64(took)/float64(sum.json), name+"/json")
		}
	}
}

// Orders are values of a struct. Its fields are the columns of the table.
func ExampleTyped() {
	ctx, e, closeEngine := exampleEngine()
	defer closeEngine()
	type order struct {
		ID    int64   `json:"id"`
		Total float64 `json:"total"`
		Note  *string `json:"note"` // NULL for most
	}
	columns, err := mapping.ColumnsOf[order]()
	if err != nil {
		panic(err)
	}
	if err := e.Define(ctx, forebay.Source{ID: "shop", Sinks: []forebay.Sink{{ID: "orders", Table: forebay.Table{ID: "orders", Columns: columns}}}}); err != nil {
		panic(err)
	}

	orders, err := forebay.Typed[order](e, "shop") // names each column that an order cannot fill
	if err != nil {
		panic(err)
	}
	results, err := orders.Ingest(ctx, order{ID: 1, Total: 9.9}, order{ID: 2, Total: 12})
	fmt.Println(len(results), results[0].Sinks[0].Status, err)

	// Output: 2 stored <nil>
}
