package platform_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/forebay/forebay/storageapi"
)

func TestColumns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	w.table(ctx, "in.c-c.t", nil, "a", "b")
	check(t, importCSV(w, ctx, "in.c-c.t", storageapi.Import{}, "f", "a,b\n1,2\n"))
	check(t, w.DeleteColumn(ctx, "in.c-c.t", "b"))
	check(t, w.AddColumn(ctx, "in.c-c.t", storageapi.Column{Name: "b"}))
	check(t, w.AddColumn(ctx, "in.c-c.t", storageapi.Column{Name: "_čaj ø"}))
	// The cells of a column that was deleted do not come back with its name.
	if got, want := w.preview("in.c-c.t", storageapi.RowQuery{}), "\"a\",\"b\",\"caj_o\"\n\"1\",\"\",\"\"\n"; got != want {
		t.Errorf("rows %q, want %q", got, want)
	}
	expectError(t, w.AddColumn(ctx, "in.c-c.t", storageapi.Column{Name: "B"}), 400, "storage.tables.columnAlreadyExists")
	expectError(t, w.AddColumn(ctx, "in.c-c.t", storageapi.Column{Name: ""}), 400, "storage.tables.invalidColumnName")
	expectError(t, w.DeleteColumn(ctx, "in.c-c.t", "none"), 404, "storage.tables.columnNotExists")
}

func TestTables(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	w.table(ctx, "in.c-t.t", nil, "a")
	_, err := w.CreateTable(ctx, "in.c-t", storageapi.TableCreate{Name: "t", Columns: storageapi.TextColumns("a")})
	expectError(t, err, 400, "storage.buckets.tableAlreadyExists")
	_, err = w.CreateTable(ctx, "in.c-t", storageapi.TableCreate{Name: "u"})
	expectError(t, err, 400, "storage.tables.validation.noColumns")
	_, err = w.CreateTable(ctx, "in.c-t", storageapi.TableCreate{Name: "u", Columns: storageapi.TextColumns("a b")})
	expectError(t, err, 400, "storage.tables.validation.invalidColumnName")
	_, err = w.CreateTable(ctx, "in.c-t", storageapi.TableCreate{Name: "u", Columns: storageapi.TextColumns("a"), PrimaryKey: []string{"A"}})
	expectError(t, err, 400, "storage.tables.validation.invalidPrimaryKeyColumns")
	_, err = w.CreateTable(ctx, "in.c-none", storageapi.TableCreate{Name: "u", Columns: storageapi.TextColumns("a")})
	expectError(t, err, 404, "storage.buckets.notFound")

	typed := must(w.CreateTable(ctx, "in.c-t", storageapi.TableCreate{
		Name: "typed", PrimaryKey: []string{"id"}, Columns: []storageapi.Column{{Name: "id", BaseType: "INTEGER"}, {Name: "at", BaseType: "TIMESTAMP"}},
	}))(t)
	if !typed.IsTyped || typed.Definition.Value == nil || typed.Definition.Value.Columns[1].BaseType != "TIMESTAMP" || typed.Bucket == nil {
		t.Errorf("typed table %+v", typed)
	}
	var job *storageapi.JobError
	if err := importCSV(w, ctx, typed.ID, storageapi.Import{}, "f", "id,at,more\n1,2,3\n"); !errors.As(err, &job) || job.Code() != "csvImport.columnsNotMatch" {
		t.Errorf("a column more in a typed table: %v", err)
	}

	made := must(w.CreateTableFromFile(ctx, "in.c-t", storageapi.TableFromFile{Name: "made", FileID: w.upload("f", "_id,b b\n1,x\n1,y\n"), PrimaryKey: []string{"id"}}))(t)
	if !slices.Equal(made.Columns, []string{"id", "b_b"}) || made.RowsCount != 1 || !slices.Equal(made.PrimaryKey, []string{"id"}) {
		t.Errorf("table of a file %+v", made)
	}
	for data, code := range map[string]string{"": "storage.tables.validation.noColumns", "a,a\n": "storage.tables.validation.invalidColumnName"} {
		_, err := w.CreateTableFromFile(ctx, "in.c-t", storageapi.TableFromFile{Name: "bad", FileID: w.upload("f", data)})
		if !errors.As(err, &job) || job.Code() != code {
			t.Errorf("table of %q: %v, want %s", data, err, code)
		}
	}
	_, err = w.CreateTableFromFile(ctx, "in.c-t", storageapi.TableFromFile{Name: "bad", FileID: w.upload("f", "a\n"), PrimaryKey: []string{"x"}})
	if !errors.As(err, &job) || job.Code() != "storage.tables.validation.invalidPrimaryKeyColumns" {
		t.Errorf("key that is not in the file: %v", err)
	}

	if u := must(w.UpdateTable(ctx, "in.c-t.t", "shown"))(t); u.DisplayName != "shown" {
		t.Errorf("updated %+v", u)
	}
	_, err = w.UpdateTable(ctx, "in.c-t.made", "shown")
	expectError(t, err, 400, "storage.buckets.tableAlreadyExists")

	all := must(w.SetTableMetadata(ctx, "in.c-t.t", "stream", []storageapi.KeyValue{{Key: "k", Value: "v"}}, storageapi.ColumnNote{ColumnName: "a", Key: "c", Value: "d"}))(t)
	if len(all.Metadata) != 1 || len(all.ColumnsMetadata["a"]) != 1 {
		t.Errorf("metadata %+v", all)
	}
	if d := must(w.Table(ctx, "in.c-t.t"))(t); len(d.Metadata) != 1 || len(d.ColumnMetadata["a"]) != 1 {
		t.Errorf("detail %+v", d)
	}
	if list := must(storageapi.Collect(w.TableMetadata(ctx, "in.c-t.t")))(t); len(list) != 1 || list[0].Provider != "stream" {
		t.Errorf("metadata %+v", list)
	}
	if list := must(storageapi.Collect(w.Tables(ctx)))(t); len(list) != 3 {
		t.Errorf("got %d tables, want 3", len(list))
	}
	check(t, w.DeleteTable(ctx, "in.c-t.t", false))
	_, err = w.Table(ctx, "in.c-t.t")
	expectError(t, err, 404, "storage.tables.notFound")
	w.table(ctx, "in.c-t.t", nil, "a")
	if got := w.preview("in.c-t.t", storageapi.RowQuery{}); got != "\"a\"\n" {
		t.Errorf("a new table of the name has %q", got)
	}
}

// A table with types describes each column in full.
func TestTypesOfColumns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.table(t.Context(), "in.c-t.other", nil, "a")
	typed := must(w.CreateTable(t.Context(), "in.c-t", storageapi.TableCreate{Name: "t", PrimaryKey: []string{"id"}, Columns: []storageapi.Column{
		{Name: "id", BaseType: "INTEGER"}, {Name: "n", Definition: storageapi.Some(storageapi.ColumnDefinition{Type: "numeric", Length: "10,2"})}, {Name: "x"},
	}}))(t)
	var got []string
	for _, c := range typed.Definition.Value.Columns {
		d := c.Definition.Value
		got = append(got, fmt.Sprint(c.Name, " ", c.BaseType, " ", d.Type, " ", d.Length, " ", *d.Nullable))
	}
	if want := []string{"id INTEGER INTEGER  false", "n NUMERIC numeric 10,2 true", "x STRING STRING  true"}; !slices.Equal(got, want) {
		t.Errorf("columns %q, want %q", got, want)
	}
}

// A key names each column once.
func TestKeyNamesColumnTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	w.table(ctx, "in.c-t.t", nil, "a")
	_, err := w.CreateTable(ctx, "in.c-t", storageapi.TableCreate{Name: "u", Columns: storageapi.TextColumns("a"), PrimaryKey: []string{"a", "a"}})
	expectError(t, err, 400, "storage.tables.validation.invalidPrimaryKeyColumns")
	expectError(t, w.SetPrimaryKey(ctx, "in.c-t.t", "a", "a"), 400, "storage.validation.primaryKey")
}
