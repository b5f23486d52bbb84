package forebaytest_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/forebaytest"
	"github.com/forebay/forebay/mapping"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func orders() forebay.Source {
	return forebay.Source{ID: "shop", Sinks: []forebay.Sink{{
		ID: "orders", Table: forebay.Table{ID: "in.c-shop.orders", Columns: mapping.Columns{
			mapping.Path("number", "number"), mapping.Path("total", "total"),
		}},
	}}}
}

func ingest(t *testing.T, kit *forebaytest.Kit, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		rec := mapping.JSON(fmt.Appendf(nil, `{"number":%d,"total":9.5}`, i))
		if _, err := kit.Engine().Ingest(t.Context(), "shop", rec); err != nil {
			t.Fatal(err)
		}
	}
}

// wantOrders checks that every order is in the table once, in order.
func wantOrders(t *testing.T, kit *forebaytest.Kit, n int) {
	t.Helper()
	rows := kit.Rows("in.c-shop.orders")
	if len(rows) != n {
		t.Fatalf("%d rows are in the table, want %d", len(rows), n)
	}
	for i, row := range rows {
		if row[0] != fmt.Sprint(i) {
			t.Fatalf("row %d is %q", i, row)
		}
	}
}

// A pipeline under faults, in no time: a user of the kit writes such a test.
func TestOrdersSurviveEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kit := forebaytest.New(t, forebay.Options{}, orders())

		ingest(t, kit, 0, 10)
		kit.Crash() // the power is cut after the responses
		kit.StepUpload()
		wantOrders(t, kit, 0)

		kit.Lose(buffertest.OpImport, 2) // the table has the rows, the engine does not know
		kit.StepImport()
		wantOrders(t, kit, 10)

		ingest(t, kit, 10, 20)
		kit.Fail(buffertest.OpPut, 5) // an outage of the staging store
		kit.Advance(31 * time.Second)
		kit.Crash()
		kit.Delay(buffertest.OpImport, 1, time.Minute)
		kit.StepImport()
		wantOrders(t, kit, 20)

		ingest(t, kit, 20, 30)
		kit.Restart()
		kit.StepImport()
		wantOrders(t, kit, 30)

		report, err := kit.Engine().Verify(t.Context())
		if err != nil || !report.OK() {
			t.Fatalf("got %+v, %v, want no error and report.OK()", report, err)
		}
	})
}

// A power cut may lose rows that were not acknowledged: the kit shows it.
func TestCrashTakesWhatWasNotSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := orders()
		src.Settings.Sync = forebay.SyncUnsafe
		kit := forebaytest.New(t, forebay.Options{}, src)
		ingest(t, kit, 0, 10)
		kit.Crash()
		kit.StepImport()
		wantOrders(t, kit, 0)
		ingest(t, kit, 0, 10)
		kit.Advance(time.Second)
		kit.Crash()
		kit.StepImport()
		wantOrders(t, kit, 10)
	})
}

func TestFailedImportIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kit := forebaytest.New(t, forebay.Options{}, orders())
		ingest(t, kit, 0, 1)
		kit.Fail(buffertest.OpImport, 3)
		kit.StepImport()
		imports, failed := 0, 0
		for _, c := range kit.Calls() {
			if c.Op == buffertest.OpImport {
				imports++
				if c.Err != nil {
					failed++
				}
			}
		}
		if imports != 4 || failed != 3 {
			t.Errorf("got %d imports, of which %d failed, want 4, of which 3 fail", imports, failed)
		}
	})
}
