package forebay_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/mapping"
)

const grownTable = "in.c-shop.orders"

// grows returns a source whose table grows, with a typed column a name.
func grows(columns ...mapping.Column) forebay.Source {
	return forebay.Source{ID: "shop", Sinks: []forebay.Sink{{ID: "orders", Table: forebay.Table{ID: grownTable, Columns: columns, Extend: true}}}}
}

func typedPath(name string, t datatype.Type) mapping.Column {
	c := mapping.Path(name, name)
	c.DataType = t
	return c
}

// grownRows returns the rows of a table as sorted text, with NULL.
func grownRows(t *testing.T, tables *dir.TableDir) string {
	t.Helper()
	var rows []string
	for row, err := range tables.Cells(grownTable) {
		must(t, err)
		var cells []string
		for _, cell := range row {
			if cell == nil {
				cells = append(cells, "NULL")
			} else {
				cells = append(cells, fmt.Sprintf("%q", cell))
			}
		}
		rows = append(rows, strings.Join(cells, " "))
	}
	slices.Sort(rows)
	return strings.Join(rows, "\n")
}

func ingestJSON(t *testing.T, e *forebay.Engine, body string) {
	t.Helper()
	mustIngest(t, e, "shop", mapping.JSON([]byte(body)))
}

// Two engines with different versions of a definition feed one table. One of them goes back to the earlier version.
func TestTwoVersionsFeedOneTable(t *testing.T) {
	root := t.TempDir()
	tables := dir.Tables(filepath.Join(root, "tables"))
	id, sum, note := typedPath("id", datatype.Int64), typedPath("sum", datatype.Decimal(10, 2)), typedPath("note", datatype.String)
	open := func(name string) *forebay.Engine {
		e, err := forebay.Open(filepath.Join(root, name), forebay.Options{Target: tables})
		must(t, err)
		t.Cleanup(func() { _ = e.Close() })
		return e
	}
	define := func(e *forebay.Engine, columns ...mapping.Column) {
		t.Helper()
		must(t, e.Define(t.Context(), grows(columns...)))
	}
	old, young := open("old"), open("young")
	define(old, id, note)
	define(young, id, sum, note)
	ingestJSON(t, old, `{"id":1,"sum":5,"note":null}`)
	ingestJSON(t, young, `{"id":2,"sum":"1.50","note":""}`)
	ingestJSON(t, young, `{"id":3,"sum":null,"note":"null"}`)
	define(young, note, id) // a rollback, in another order
	ingestJSON(t, young, `{"id":4,"sum":7}`)
	for _, e := range []*forebay.Engine{old, young} {
		must(t, e.FlushAll(t.Context()))
	}
	want := `"1" NULL NULL
"2" "" "1.50"
"3" "null" NULL
"4" NULL NULL`
	if got := grownRows(t, tables); got != want {
		t.Errorf("the table has\n%s\nwant\n%s", got, want)
	}
}

// Rows that wait when Extend is switched on together with the first new column arrive too.
func TestWaitingRowsReachATableThatBeginsToGrow(t *testing.T) {
	root := t.TempDir()
	tables := dir.Tables(filepath.Join(root, "tables"))
	e, err := forebay.Open(filepath.Join(root, "data"), forebay.Options{Target: tables})
	must(t, err)
	defer e.Close()
	id, note := typedPath("id", datatype.Int64), typedPath("note", datatype.String)
	fixed := grows(id, note)
	fixed.Sinks[0].Table.Extend = false
	for _, step := range []struct {
		def  forebay.Source
		body string
	}{
		{fixed, `{"id":1,"note":""}`},
		{grows(id, typedPath("sum", datatype.Int64)), `{"id":2,"sum":3,"note":"unused"}`},
		{grows(note, id), `{"id":3,"note":"last"}`},
	} {
		must(t, e.Define(t.Context(), step.def))
		ingestJSON(t, e, step.body)
	}
	must(t, e.FlushAll(t.Context()))
	if got, want := grownRows(t, tables), `"1" "" NULL
"2" NULL "3"
"3" "last" NULL`; got != want {
		t.Errorf("the table has\n%s\nwant\n%s", got, want)
	}
}

// A deployment whose definition the table cannot follow continues with the columns that were accepted last, even after a restart.
func TestRefusedChangeKeepsTheLastColumns(t *testing.T) {
	root := t.TempDir()
	tables := dir.Tables(filepath.Join(root, "tables"))
	id, sum := typedPath("id", datatype.Int64), typedPath("sum", datatype.Int64)
	wrong := grows(id, typedPath("sum", datatype.Float64))
	for restart := range 3 {
		e, err := forebay.Open(filepath.Join(root, "data"), forebay.Options{Target: tables})
		must(t, err)
		if restart == 0 {
			must(t, e.Define(t.Context(), grows(id, sum)))
		}
		if err := e.Define(t.Context(), wrong); err != nil {
			t.Fatalf("restart %d: a change that the table cannot follow ends the program: %v", restart, err)
		}
		ingestJSON(t, e, fmt.Sprintf(`{"id":%d,"sum":10}`, restart))
		if st := e.Stats().Sinks[0]; !strings.Contains(st.Refused, "float64") {
			t.Errorf("restart %d: the statistics say %q", restart, st.Refused)
		}
		compiled, err := e.Compile(wrong)
		must(t, err)
		problems, err := compiled.Apply(t.Context(), forebay.ApplyOptions{})
		var change *buffer.ChangeError
		if err != nil || len(problems) != 1 || !problems[0].Kept || !errors.As(problems[0].Err, &change) || change.Kept.Type != datatype.Int64 {
			t.Errorf("restart %d: problems %+v, %v", restart, problems, err)
		}
		strict := forebay.ApplyOptions{Refuse: func(forebay.TableProblem) bool { return true }}
		if _, err := compiled.Apply(t.Context(), strict); !errors.As(err, &change) {
			t.Errorf("restart %d: a strict change gives %v", restart, err)
		}
		must(t, e.FlushAll(t.Context()))
		if restart == 2 {
			if err := e.Define(t.Context(), grows(id, sum, typedPath("more", datatype.Bool))); err != nil || e.Stats().Sinks[0].Refused != "" {
				t.Errorf("a good change: %v, %q", err, e.Stats().Sinks[0].Refused)
			}
		}
		must(t, e.Close())
	}
	if got, want := grownRows(t, tables), `"0" "10" NULL
"1" "10" NULL
"2" "10" NULL`; got != want {
		t.Errorf("the table has\n%s\nwant\n%s", got, want)
	}
}

// An operator drops a table that grows. It is created again with the present columns. Another type of a column is still refused,
// until the counters of the removed sink are forgotten, because rows of the former type could still wait.
func TestDroppedTableComesBack(t *testing.T) {
	tables := dir.Tables(t.TempDir())
	e, err := forebay.Open(t.TempDir(), forebay.Options{Target: tables})
	must(t, err)
	defer e.Close()
	id, note, sum := typedPath("id", datatype.Int64), typedPath("note", datatype.String), typedPath("sum", datatype.Int64)
	flush := func(def forebay.Source, body, want string) {
		t.Helper()
		must(t, e.Define(t.Context(), def))
		ingestJSON(t, e, body)
		must(t, e.FlushAll(t.Context()))
		if got := grownRows(t, tables); got != want {
			t.Errorf("the table has\n%s\nwant\n%s", got, want)
		}
	}
	flush(grows(id, note, sum), `{"id":1,"note":"x","sum":5}`, `"1" "x" "5"`)
	flush(grows(id, sum), `{"id":2,"sum":6}`, `"1" "x" "5"`+"\n"+`"2" NULL "6"`)
	must(t, tables.Drop(t.Context(), grownTable))
	flush(grows(id, sum), `{"id":3}`, `"3" NULL`)
	must(t, tables.Drop(t.Context(), grownTable))
	if err := e.Define(t.Context(), grows(typedPath("id", datatype.String), sum)); err != nil || e.Stats().Sinks[0].Refused == "" {
		t.Errorf("another type of a dropped table: %v, refused %q", err, e.Stats().Sinks[0].Refused)
	}
	must(t, e.Remove(t.Context(), "shop"))
	must(t, e.Forget(t.Context(), "shop", "orders"))
	flush(grows(typedPath("id", datatype.String), sum), `{"id":"four"}`, `"four" NULL`)
	if refused := e.Stats().Sinks[0].Refused; refused != "" {
		t.Errorf("refused: %s", refused)
	}
}

// Rows that wait because another engine has added a column say that Extend lets them in, and it does.
func TestHeldRowsSayThatExtendHelps(t *testing.T) {
	root := t.TempDir()
	tables := dir.Tables(filepath.Join(root, "tables"))
	id := typedPath("id", datatype.Int64)
	fixed := grows(id, typedPath("note", datatype.String))
	fixed.Sinks[0].Table.Extend = false
	var engines []*forebay.Engine
	for i, def := range []forebay.Source{fixed, grows(id, typedPath("sum", datatype.Int64))} {
		e, err := forebay.Open(filepath.Join(root, fmt.Sprint(i)), forebay.Options{Target: tables})
		must(t, err)
		defer e.Close()
		must(t, e.Define(t.Context(), def))
		engines = append(engines, e)
	}
	e := engines[0]
	ingestJSON(t, e, `{"id":1,"note":"x"}`)
	err := e.FlushAll(t.Context())
	if err == nil || !strings.Contains(err.Error(), `the mapping has no "sum"`) || !strings.Contains(err.Error(), "or set extend so that the table accepts them") {
		t.Fatalf("flush: %v", err)
	}
	grown := grows(id, typedPath("note", datatype.String))
	must(t, e.Define(t.Context(), grown))
	must(t, e.FlushAll(t.Context()))
	if got, want := grownRows(t, tables), `"1" "x" NULL`; got != want {
		t.Errorf("the table has\n%s\nwant\n%s", got, want)
	}
}

// A renamed column is one more column. The log names it once.
func TestRenamedColumn(t *testing.T) {
	var log bytes.Buffer
	tables := dir.Tables(t.TempDir())
	e, err := forebay.Open(t.TempDir(), forebay.Options{Target: tables, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	must(t, err)
	defer e.Close()
	id, sum, note := typedPath("id", datatype.Int64), typedPath("sum", datatype.Int64), typedPath("note", datatype.String)
	total, other := sum, sum
	total.Name = "total"
	other.Name, other.Path = "other", "other"
	for i, step := range []struct {
		columns []mapping.Column
		logged  string
	}{
		{[]mapping.Column{id, sum, note}, ""},
		{[]mapping.Column{total, id, note}, `columns="[sum → total]"`},
		{[]mapping.Column{total, id, note}, ""},
		{[]mapping.Column{id, note, other}, ""},             // another path
		{[]mapping.Column{id, note, other, sum, total}, ""}, // nothing is gone
	} {
		log.Reset()
		must(t, e.Define(t.Context(), grows(step.columns...)))
		ingestJSON(t, e, fmt.Sprintf(`{"id":%d,"sum":5}`, i))
		if got := log.String(); strings.Contains(got, "renamed column added as a new one") != (step.logged != "") || !strings.Contains(got, step.logged) {
			t.Errorf("definition %d logs %s, want %s", i, got, step.logged)
		}
	}
	must(t, e.FlushAll(t.Context()))
	if got, want := grownRows(t, tables), `"0" "5" NULL NULL NULL
"1" NULL NULL "5" NULL
"2" NULL NULL "5" NULL
"3" NULL NULL NULL NULL
"4" "5" NULL "5" NULL`; got != want {
		t.Errorf("the table has\n%s\nwant\n%s", got, want)
	}
}

// An operator has widened a column of the table. Rows of the narrower type arrive, and the definition may follow. It cannot go back.
func TestColumnWidenedByHand(t *testing.T) {
	root := t.TempDir()
	tables := dir.Tables(filepath.Join(root, "tables"))
	e, err := forebay.Open(filepath.Join(root, "data"), forebay.Options{Target: tables})
	must(t, err)
	defer e.Close()
	narrow := grows(typedPath("id", datatype.Int64), typedPath("sum", datatype.Decimal(4, 2)))
	wide := grows(typedPath("id", datatype.Decimal(21, 0)), typedPath("sum", datatype.Decimal(6, 2)))
	define := func(def forebay.Source, refused string) {
		t.Helper()
		must(t, e.Define(t.Context(), def))
		if got := e.Stats().Sinks[0].Refused; !strings.Contains(got, refused) || refused == "" && got != "" {
			t.Errorf("refused: %q, want %q", got, refused)
		}
	}
	store := func(body string) {
		t.Helper()
		ingestJSON(t, e, body)
		must(t, e.FlushAll(t.Context()))
	}
	define(narrow, "")
	store(`{"id":1,"sum":1.5}`)
	define(wide, `the column "id" is decimal(21,0) in the mapping and int64 in the table`)
	file := filepath.Join(tables.Path(grownTable), "table.json")
	text, err := os.ReadFile(file)
	must(t, err)
	altered := strings.NewReplacer(`"int64"`, `"decimal(21,0)"`, "decimal(4,2)", "decimal(6,2)").Replace(string(text))
	must(t, os.WriteFile(file, []byte(altered), 0o600))
	define(narrow, "")
	store(`{"id":2,"sum":2.5}`)
	define(wide, "")
	store(`{"id":100000000000000000000,"sum":1234.5}`)
	define(narrow, `column "id" cannot be int64`)
	store(`{"id":4,"sum":9999}`)
	if got, want := grownRows(t, tables), `"1" "1.50"
"100000000000000000000" "1234.50"
"2" "2.50"
"4" "9999.00"`; got != want {
		t.Errorf("the table has\n%s\nwant\n%s", got, want)
	}
}

func TestExtendNeedsATargetThatExtends(t *testing.T) {
	mem := buffertest.NewMemory()
	e, err := forebay.Open(t.TempDir(), forebay.Options{Target: struct{ driver.Target }{mem}})
	must(t, err)
	defer e.Close()
	if err := e.Define(t.Context(), grows(typedPath("id", datatype.Int64), typedPath("n", datatype.Int64))); err == nil || !strings.Contains(err.Error(), "without Extend") {
		t.Errorf("define: %v", err)
	}
	var problems *forebay.DefinitionError
	if _, err := e.Compile(grows(typedPath("id", datatype.Int64), typedPath("ID", datatype.Int64))); !errors.As(err, &problems) {
		t.Errorf("names that differ in case: %v", err)
	}
}

// A refused definition says whether Extend would help.
func TestRefusedColumnsSayWhetherExtendHelps(t *testing.T) {
	id, note := typedPath("id", datatype.Int64), typedPath("note", datatype.String)
	for _, tc := range []struct {
		name    string
		options dir.TablesOptions
		extend  bool
		second  mapping.Column
		want    string // "" for no hint
	}{
		{"new column", dir.TablesOptions{}, false, typedPath("sum", datatype.Int64), "or set extend so that the table accepts them"},
		{"other type", dir.TablesOptions{}, false, typedPath("note", datatype.Int64), ""},
		{"no header", dir.TablesOptions{NoHeader: true}, true, typedPath("sum", datatype.Int64), "; Extend does not help"},
	} {
		tables := dir.TablesWith(t.TempDir(), tc.options)
		for i, column := range []mapping.Column{note, tc.second} {
			e, err := forebay.Open(t.TempDir(), forebay.Options{Target: tables})
			must(t, err)
			def := grows(id, column)
			def.Sinks[0].Table.Extend = tc.extend
			err = e.Define(t.Context(), def)
			var schema *driver.SchemaError
			switch {
			case i == 0 && err != nil:
				t.Fatal(err)
			case i == 1 && (!errors.As(err, &schema) || !driver.IsPermanent(err) ||
				tc.want == "" && strings.Contains(strings.ToLower(err.Error()), "extend") || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
			}
			must(t, e.Close())
		}
	}
}
