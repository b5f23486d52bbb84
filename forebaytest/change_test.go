package forebaytest_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/forebaytest"
	"github.com/forebay/forebay/mapping"
)

// prices has a table that grows by one column with each deployment.
func prices(columns ...string) forebay.Source {
	table := forebay.Table{ID: "prices", Extend: true, Columns: mapping.Columns{mapping.Path("id", "id", mapping.DataType(datatype.Int64), mapping.Required())}}
	for _, name := range columns {
		table.Columns = append(table.Columns, mapping.Path(name, name, mapping.DataType(datatype.String)))
	}
	return forebay.Source{ID: "shop", Sinks: []forebay.Sink{{ID: "prices", Table: table}}}
}

func send(t *testing.T, kit *forebaytest.Kit, body string) {
	t.Helper()
	if _, err := kit.Engine().Ingest(t.Context(), "shop", mapping.JSON([]byte(body))); err != nil {
		t.Fatal(err)
	}
}

func wantRows(t *testing.T, kit *forebaytest.Kit, want ...[]string) {
	t.Helper()
	got := slices.SortedFunc(slices.Values(kit.Rows("prices")), slices.Compare[[]string])
	if !slices.EqualFunc(got, want, slices.Equal[[]string]) {
		t.Errorf("got the rows %q, want %q", got, want)
	}
}

// A deployment adds a column. Rows that waited have NULL in it, and a crash does not restore the former definition.
func TestSchemaChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kit := forebaytest.New(t, forebay.Options{}, prices("price"))
		send(t, kit, `{"id":1,"price":"9.90"}`)
		send(t, kit, `{"id":2}`)
		if err := kit.Define(prices("price", "currency")); err != nil {
			t.Fatal(err)
		}
		kit.Crash()
		send(t, kit, `{"id":3,"price":"1","currency":"CZK"}`)
		kit.StepImport()
		wantRows(t, kit, []string{"1", "9.90", forebaytest.Null}, []string{"2", forebaytest.Null, forebaytest.Null}, []string{"3", "1", "CZK"})

		changed := prices("price", "currency")
		changed.Sinks[0].Table.ID = ""
		if err := kit.Define(changed); err == nil {
			t.Error("a table without a name is defined")
		}
		kit.Restart() // with the definition that was accepted
	})
}

// Two engines feed one table, and a fault hits the next call of either engine.
func TestTwoEnginesOnOneTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := forebaytest.New(t, forebay.Options{}, prices("price"))
		two := one.Beside(forebay.Options{}, prices("price"))
		one.Lose(buffertest.OpImport, 2)
		send(t, one, `{"id":1}`)
		send(t, two, `{"id":2}`)
		two.Crash()
		one.StepImport()
		two.StepImport()
		wantRows(t, one, []string{"1", forebaytest.Null}, []string{"2", forebaytest.Null})
	})
}

// Rows that the table refuses go to the quarantine. All other rows go to the table.
func TestRefusedRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kit := forebaytest.New(t, forebay.Options{}, prices("price"))
		kit.RefuseRows(func(_ string, row []string) driver.RowError {
			if row[1] == "-1" {
				return driver.RowError{Column: "price", Reason: "23514", Message: "violates the check"}
			}
			return driver.RowError{}
		})
		send(t, kit, `{"id":1,"price":"1"}`)
		send(t, kit, `{"id":2,"price":"-1"}`)
		send(t, kit, `{"id":3}`)
		kit.StepImport()
		wantRows(t, kit, []string{"1", "1"}, []string{"3", forebaytest.Null})
		if s := kit.Engine().Stats().Sinks[0]; s.Poison.Rows != 1 || s.Quarantine.Records != 1 {
			t.Errorf("got %d refused rows and %d in the quarantine, want one", s.Poison.Rows, s.Quarantine.Records)
		}
	})
}

// A deployment adds a column while rows wait.
func ExampleKit_Define() {
	_ = func(t *testing.T) { // your test
		synctest.Test(t, func(t *testing.T) {
			kit := forebaytest.New(t, forebay.Options{}, prices("price"))
			send(t, kit, `{"id":1,"price":"9.90"}`)
			if err := kit.Define(prices("price", "currency")); err != nil {
				t.Fatal(err)
			}
			kit.StepImport()
			fmt.Println(kit.Rows("prices")[0][2] == forebaytest.Null)
		})
	}
}
