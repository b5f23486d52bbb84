package buffertest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// typedValues are canonical texts of each type, among them some that targets have changed.
var typedValues = map[datatype.Type][]string{
	datatype.String:         {"", "null", "NULL", `\N`, " ", `"`, "a\r\nb", "007", "日本語"},
	datatype.Bool:           {"true", "false"},
	datatype.Int64:          {"0", "-1", "9007199254740993", "9223372036854775807", "-9223372036854775808"},
	datatype.Float64:        {"0.1", "-1.5", "1e+21", "1e-7", "123456.789"},
	datatype.Decimal(38, 4): {"0.0000", "1.1000", "-9999999999999999999999999999999999.9999"},
	datatype.Timestamp:      {"2026-11-22T07:47:19.000001Z", "1969-12-31T23:59:59.999999Z"},
	datatype.Date:           {"2026-11-22", "2000-02-29"},
	datatype.UUID:           {"00000000-0000-0000-0000-000000000000", "0191f6a8-1c2d-7e3f-8a9b-0c1d2e3f4a5b"},
	datatype.JSON:           {`{"a":[1,null,"null"]}`, `"text"`, "12", "[]", `""`},
	datatype.Bytes:          {"", "AA==", "/+8="},
}

func typedTable() driver.Table {
	columns := []datatype.Column{{Name: "key", Type: datatype.Int64, Required: true}}
	for _, t := range []datatype.Type{
		datatype.String, datatype.Bool, datatype.Int64, datatype.Float64, datatype.Decimal(38, 4), datatype.Timestamp, datatype.Date, datatype.UUID,
		datatype.JSON, datatype.Bytes,
	} {
		name, _, _ := strings.Cut(string(t), "(")
		columns = append(columns, datatype.Column{Name: "c_" + name, Type: t})
	}
	return driver.Table{ID: "in.c-buffertest.typed", Columns: columns}
}

// needTyped skips a check that the target says nothing about.
func (b *bench) needTyped() {
	b.t.Helper()
	if !b.typed {
		b.t.Skipf("TargetHarness.Typed is not set")
	}
}

func typedColumns(t tb, b *bench) {
	b.needTyped()
	table := typedTable()
	for range 2 {
		b.mustEnsure(table)
	}
	for name, change := range map[string]func([]datatype.Column){
		"another type":      func(c []datatype.Column) { c[3].Type = datatype.String },
		"no type":           func(c []datatype.Column) { c[1].Type = datatype.Untyped },
		"a wider decimal":   func(c []datatype.Column) { c[5].Type = datatype.Decimal(38, 5) },
		"another name":      func(c []datatype.Column) { c[2].Name = "flag" },
		"types of two swap": func(c []datatype.Column) { c[6].Type, c[7].Type = c[7].Type, c[6].Type },
	} {
		other := typedTable()
		change(other.Columns)
		var schema *driver.SchemaError
		if err := b.Ensure(t.Context(), other); !errors.As(err, &schema) || !slices.Equal(datatype.Names(schema.Got), table.Names()) {
			t.Errorf("Ensure with %s = %v, want a *driver.SchemaError with the columns of the table: compare with Table.Fit", name, err)
		}
	}
	b.mustEnsure(table)
	f := newFile("file-1", table, nil)
	f.parts = []slice{{rows: b.typedRows(table.Columns), members: 1}}
	b.mustStore(f)
}

// valuesOf returns values of a type that the target can store. They include the first and the last year of its [driver.Limiter], and none outside.
func (b *bench) valuesOf(typ datatype.Type) (values []string) {
	first, last := 1, 9999
	if l, ok := b.Target.(driver.Limiter); ok {
		limits := l.Limits()
		first, last = max(first, limits.MinYear), min(last, cmp.Or(limits.MaxYear, last))
	}
	values = slices.Clone(typedValues[typ])
	switch typ {
	case datatype.Date:
		values = append(values, fmt.Sprintf("%04d-01-01", first), fmt.Sprintf("%04d-12-31", last))
	case datatype.Timestamp:
		values = append(values, fmt.Sprintf("%04d-01-01T00:00:00.000000Z", first), fmt.Sprintf("%04d-12-31T23:59:59.999999Z", last))
	default:
		return values
	}
	return slices.DeleteFunc(values, func(v string) bool { return v[:4] < fmt.Sprintf("%04d", first) || v[:4] > fmt.Sprintf("%04d", last) })
}

// typedRows has each value of each column once, and NULL in the others, and a row of NULL alone.
func (b *bench) typedRows(columns []datatype.Column) [][]string {
	var rows [][]string
	row := func() []string {
		r := slices.Repeat([]string{Null}, len(columns))
		r[0] = fmt.Sprint(len(rows))
		return r
	}
	for i, c := range columns[1:] {
		for _, v := range b.valuesOf(c.Type) {
			r := row()
			r[i+1] = v
			rows = append(rows, r)
		}
	}
	return append(rows, row())
}

// nullCells has NULL, the empty text and the words for NULL side by side, in every place and encoding.
func nullCells(_ tb, b *bench) {
	b.needTyped()
	table := driver.Table{ID: "in.c-buffertest.null", Columns: []datatype.Column{
		{Name: "a", Type: datatype.String}, {Name: "b", Type: datatype.String}, {Name: "c", Type: datatype.Int64}, {Name: "d"},
	}}
	var rows [][]string
	texts := []string{Null, "", "null", "NULL", `\N`, ",", "\n", `"`, `""`}
	for _, a := range texts {
		for _, c := range texts {
			rows = append(rows, []string{a, c, Null, ""}, []string{c, a, "7", c})
			if rows[len(rows)-1][3] == Null {
				rows[len(rows)-1][3] = "untyped columns have no NULL"
			}
		}
	}
	f := &testFile{id: "file-1", table: table}
	for i, e := range encodings {
		part := slices.Clone(rows)
		for j, row := range part {
			part[j] = slices.Clone(row)
			part[j][2] = strings.ReplaceAll(row[2], "7", fmt.Sprint(1000*i+j))
		}
		f.parts = append(f.parts, slice{rows: part, encoding: e, members: 1 + i})
	}
	b.mustStore(f)

	// A row may be NULL alone. Then it is nothing but commas.
	nulls := newFile("file-2", driver.Table{ID: "in.c-buffertest.nulls", Columns: table.Columns[:2]}, [][]string{{Null, Null}, {"", ""}, {Null, Null}, {Null, ""}})
	b.mustStore(nulls)
}

// wrongCells imports rows with another number of cells than the table has columns. Such a file must fail as a whole.
func wrongCells(t tb, b *bench) {
	b.needTyped()
	table := driver.Table{ID: "in.c-buffertest.cells", Columns: []datatype.Column{
		{Name: "a", Type: datatype.String}, {Name: "b", Type: datatype.String}, {Name: "c", Type: datatype.String},
	}}
	good := newFile("file-0", table, [][]string{{"a", Null, "c"}})
	b.mustImport(good)
	for i, row := range []string{`"a","b"`, `"a",`, `,`, ``, `"a"`, `"a","b","c",`, `,,,`, `"a","b","c","d"`, `"a,b","c"`} {
		if b.loose && row == ",,," {
			continue
		}
		f := newFile(fmt.Sprintf("file-%d", i+1), table, [][]string{{"x", "y", "z"}, {"x", "y", "z"}})
		f.parts[0].data = []byte("\"x\",\"y\",\"z\"\n" + row + "\n")
		if err := b.importFile(t.Context(), f); err == nil {
			t.Errorf("Import of the row %s into 3 columns = nil, want an error: count the cells of each row", row)
		}
		b.expectRows(table.ID, good)
		b.expectCount(table, f.id, 0)
	}
}

func extendedTable(columns ...datatype.Column) driver.Table {
	return driver.Table{ID: "in.c-buffertest.extended", Columns: columns, Extend: true}
}

// extender returns the target, or skips the check.
func (b *bench) extender() driver.Extender {
	b.t.Helper()
	x, ok := b.Target.(driver.Extender)
	if !ok {
		b.t.Skipf("the target is no driver.Extender")
	}
	return x
}

// columnsOf returns the columns of a table. An Ensure that cannot succeed names them.
func (b *bench) columnsOf(table string) []datatype.Column {
	b.t.Helper()
	var schema *driver.SchemaError
	err := b.Ensure(b.t.Context(), driver.Table{ID: table, Columns: []datatype.Column{{Name: "no column of the table", Type: datatype.Bool}}})
	if !errors.As(err, &schema) {
		b.t.Fatalf("Ensure of table %s with other columns = %v, want a *driver.SchemaError: without Table.Extend nothing is added", table, err)
	}
	return schema.Got
}

var (
	idColumn   = datatype.Column{Name: "id", Type: datatype.String, Required: true}
	textColumn = datatype.Column{Name: "text", Type: datatype.String}
	sumColumn  = datatype.Column{Name: "sum", Type: datatype.Int64, Required: true}
	atColumn   = datatype.Column{Name: "at", Type: datatype.Timestamp}
)

func nullable(c datatype.Column) datatype.Column {
	c.Required = false
	return c
}

func extend(t tb, b *bench) {
	x := b.extender()
	expect := func(table driver.Table, want ...datatype.Column) {
		t.Helper()
		for range 2 {
			if err := x.Extend(t.Context(), table); err != nil {
				t.Fatalf("Extend(%v) = %v, want nil", table.Columns, err)
			}
		}
		if got := b.columnsOf(table.ID); !slices.Equal(got, want) {
			t.Errorf("after Extend(%v) the table has %v, want %v: new columns come behind the others and are nullable", table.Columns, got, want)
		}
	}
	table, id, sum := extendedTable(idColumn, textColumn), nullable(idColumn), nullable(sumColumn)
	expect(table, id, textColumn)
	expect(extendedTable(sumColumn, idColumn), id, textColumn, sum)
	expect(table, id, textColumn, sum)
	expect(extendedTable(datatype.Column{Name: "ID", Type: datatype.String}, atColumn), id, textColumn, sum, atColumn)

	var schema *driver.SchemaError
	other := extendedTable(idColumn, datatype.Column{Name: "extra", Type: datatype.Bool}, datatype.Column{Name: "Sum", Type: datatype.Float64})
	if err := x.Extend(t.Context(), other); !errors.As(err, &schema) || len(schema.Want) != 1 || schema.Want[0] != other.Columns[2] {
		t.Errorf("Extend with another type of a column = %v, want a *driver.SchemaError that names this column alone", err)
	}
	if got := b.columnsOf(table.ID); len(got) != 4 {
		t.Errorf("an Extend that failed left the columns %v", got)
	}

	// A table that a definition without Extend has made can grow later. What is no longer in every row becomes nullable.
	frozen := driver.Table{ID: "in.c-buffertest.frozen", Columns: []datatype.Column{idColumn, sumColumn}}
	b.mustEnsure(frozen)
	f := newFile("file-1", frozen, [][]string{{"a", "1"}})
	b.mustStore(f)
	expect(driver.Table{ID: frozen.ID, Columns: []datatype.Column{idColumn, textColumn}, Extend: true}, idColumn, sum, textColumn)
	b.compare(frozen.ID, b.read(frozen.ID), [][]string{{"a", "1", Null}}, true)
}

// extendConcurrently adds different columns at once. Whoever comes second must look again and not fail.
func extendConcurrently(t tb, b *bench) {
	x := b.extender()
	const n = 8
	mustTogether(t, "Extend", n, func(i int) error {
		return x.Extend(t.Context(), extendedTable(idColumn, datatype.Column{Name: fmt.Sprintf("c%d", i/2), Type: datatype.Int64}))
	})
	names := datatype.Names(b.columnsOf(extendedTable().ID))
	slices.Sort(names[1:])
	if want := []string{"id", "c0", "c1", "c2", "c3"}; !slices.Equal(names, want) {
		t.Errorf("the table has the columns %q, want %q", names, want)
	}
}

// importExtends imports files of different definitions into one table, old ones late.
func importExtends(_ tb, b *bench) {
	b.extender()
	one := newFile("file-1", extendedTable(idColumn, textColumn), [][]string{{"1", "a"}, {"2", Null}, {"3", ""}})
	b.mustImport(one)
	two := newFile("file-2", extendedTable(sumColumn, idColumn), [][]string{{"10", "4"}, {"20", "5"}}) // no text, and another order
	b.mustImport(two)
	three := newFile("file-3", extendedTable(datatype.Column{Name: "TEXT", Type: datatype.String}, idColumn), [][]string{{"b", "6"}, {Null, "7"}}) // late
	b.mustImport(three)
	want := [][]string{
		{"1", "a", Null}, {"2", Null, Null}, {"3", "", Null}, {"4", Null, "10"}, {"5", Null, "20"}, {"6", "b", Null}, {"7", Null, Null},
	}
	b.compare(one.table.ID, b.read(one.table.ID), want, true)
	for _, f := range []*testFile{two, one, three} {
		b.mustImport(f)
		b.expectCount(f.table, f.id, len(f.rows()))
	}
	b.compare(one.table.ID, b.read(one.table.ID), want, true)
	if b.reopen != nil {
		b.Target = b.reopen()
	}
	four := newFile("file-4", extendedTable(idColumn, atColumn), [][]string{{"8", "2026-11-22T07:47:19.000000Z"}})
	b.mustImport(four)
	for i := range want {
		want[i] = append(want[i], Null)
	}
	b.compare(one.table.ID, b.read(one.table.ID), append(want, []string{"8", Null, Null, "2026-11-22T07:47:19.000000Z"}), true)
	other := newFile("file-5", extendedTable(idColumn, datatype.Column{Name: "sum", Type: datatype.String}), [][]string{{"9", "x"}})
	var schema *driver.SchemaError
	if err := b.importFile(b.t.Context(), other); !errors.As(err, &schema) {
		b.t.Errorf("Import with another type of a column = %v, want a *driver.SchemaError", err)
	}
	b.expectCount(other.table, other.id, 0)
}
