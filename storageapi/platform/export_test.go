package platform_test

import (
	"compress/gzip"
	"io"
	"strings"
	"testing"

	"github.com/forebay/forebay/storageapi"
)

func TestPreviewAndExport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	w.table(ctx, "in.c-p.t", nil, "n", "s")
	check(t, importCSV(w, ctx, "in.c-p.t", storageapi.Import{}, "f", "n,s\n10,a\n9,b\n-1.5,c\nx,d\n"))
	filter := func(operator, dataType string, values ...string) []storageapi.Filter {
		return []storageapi.Filter{{Column: "n", Operator: operator, Values: values, DataType: dataType}}
	}
	for name, c := range map[string]struct {
		q    storageapi.RowQuery
		want string
	}{
		"columns":        {storageapi.RowQuery{Columns: []string{"s"}, Limit: 2}, "a b"},
		"eq":             {storageapi.RowQuery{Columns: []string{"s"}, Filters: filter("eq", "", "9", "x")}, "b d"},
		"ne":             {storageapi.RowQuery{Columns: []string{"s"}, Filters: filter("ne", "", "9", "x")}, "a c"},
		"text":           {storageapi.RowQuery{Columns: []string{"s"}, Filters: filter("gt", "", "10")}, "b d"},
		"numbers":        {storageapi.RowQuery{Columns: []string{"s"}, Filters: filter("gt", "INTEGER", "9")}, "a"},
		"le":             {storageapi.RowQuery{Columns: []string{"s"}, Filters: filter("le", "DOUBLE", "9.0")}, "b c"},
		"sorted numbers": {storageapi.RowQuery{Columns: []string{"s"}, Filters: filter("ne", "", "x"), OrderBy: []storageapi.Order{{Column: "n", DataType: "REAL"}}}, "c b a"},
		"sorted text":    {storageapi.RowQuery{Columns: []string{"s"}, OrderBy: []storageapi.Order{{Column: "s", Order: "DESC"}}, Limit: 3}, "d c b"},
		"long ago":       {storageapi.RowQuery{Columns: []string{"s"}, ChangedUntil: "2020-01-01"}, ""},
		"relative":       {storageapi.RowQuery{Columns: []string{"s"}, ChangedUntil: "-2 days"}, ""},
		"since then":     {storageapi.RowQuery{Columns: []string{"s"}, ChangedSince: "-2 days"}, "a b c d"},
		"lately":         {storageapi.RowQuery{Columns: []string{"s"}, ChangedSince: "2020-01-01"}, "a b c d"},
	} {
		lines := strings.Split(strings.TrimSuffix(w.preview("in.c-p.t", c.q), "\n"), "\n")[1:]
		if got := strings.ReplaceAll(strings.Join(lines, " "), `"`, ""); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
		id := must(w.ExportTable(ctx, "in.c-p.t", storageapi.Export{RowQuery: c.q}))(t)
		lines = strings.Split(strings.TrimSuffix(w.slices(id), "\n"), "\n")
		if got := strings.ReplaceAll(strings.Join(lines, " "), `"`, ""); got != c.want {
			t.Errorf("%s: exported %q, want %q", name, got, c.want)
		}
	}
	cells := must(w.PreviewJSON(ctx, "in.c-p.t", storageapi.RowQuery{Limit: 1}))(t)
	if len(cells.Rows) != 1 || *cells.Rows[0][0].Value != "10" || cells.Rows[0][1].ColumnName != "s" {
		t.Errorf("JSON %+v", cells)
	}
	_, err := w.Preview(ctx, "in.c-p.t", storageapi.RowQuery{Columns: []string{"none"}})
	expectError(t, err, 400, "storage.tables.invalidSelection")
	_, err = w.Preview(ctx, "in.c-p.t", storageapi.RowQuery{Limit: 1001})
	expectError(t, err, 400, "storage.tables.invalidSelection")
	if a := w.raw("GET", "/v2/storage/tables/in.c-p.t/data-preview?limit=0", "", ""); strings.Count(string(a.body), "\n") != 5 {
		t.Errorf("limit 0: %s", a.body)
	}

	// The same export of the same table is the same file.
	one := must(w.ExportTable(ctx, "in.c-p.t", storageapi.Export{Gzip: true}))(t)
	if again := must(w.ExportTable(ctx, "in.c-p.t", storageapi.Export{Gzip: true}))(t); again != one {
		t.Errorf("file %d, then %d", one, again)
	}
	zr := must(gzip.NewReader(strings.NewReader(w.slices(one))))(t)
	if data := must(io.ReadAll(zr))(t); !strings.HasPrefix(string(data), "\"10\",\"a\"\n\"9\",\"b\"\n") {
		t.Errorf("compressed export %q", data)
	}
	check(t, w.DeleteRows(ctx, "in.c-p.t", filter("eq", "", "9")...))
	if changed := must(w.ExportTable(ctx, "in.c-p.t", storageapi.Export{Gzip: true}))(t); changed == one {
		t.Error("an export of another table is the file of the one before")
	}
	if n := must(w.Table(ctx, "in.c-p.t"))(t).RowsCount; n != 3 {
		t.Errorf("%d rows are left, want 3", n)
	}
	check(t, w.DeleteRows(ctx, "in.c-p.t"))
	if got := w.preview("in.c-p.t", storageapi.RowQuery{}); got != "\"n\",\"s\"\n" {
		t.Errorf("emptied table has %q", got)
	}
	if a := w.raw("DELETE", "/v2/storage/tables/in.c-p.t/rows", "", ""); a.status != 400 {
		t.Errorf("emptying without allowTruncate: %d", a.status)
	}
}
