package platform_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/forebay/forebay/storageapi"
)

func TestRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	c := must(w.CreateConfiguration(ctx, component, storageapi.ConfigurationCreate{Name: "C"}))(t)
	for _, id := range []string{"b", "a", "c"} {
		r := must(w.CreateRow(ctx, component, c.ID, storageapi.RowCreate{RowID: id, Name: id, Configuration: raw(`{"parameters":{"id":"` + id + `"}}`)}))(t)
		if r.Version != 1 || r.ChangeDescription != "Row "+id+" added" {
			t.Errorf("row %+v", r)
		}
	}
	order := func() (ids []string) {
		for r, err := range w.Rows(ctx, component, c.ID) {
			check(t, err)
			ids = append(ids, r.ID)
		}
		return ids
	}
	if got := order(); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("without an order the rows are %v, want the order of the ids", got)
	}
	conf := must(w.UpdateConfiguration(ctx, component, c.ID, storageapi.ConfigurationUpdate{RowsSortOrder: []string{"c", "a", "b"}}))(t)
	if got := order(); !slices.Equal(got, []string{"c", "a", "b"}) || !slices.Equal(conf.RowsSortOrder, got) {
		t.Errorf("rows are %v, order %v", got, conf.RowsSortOrder)
	}
	_, err := w.UpdateConfiguration(ctx, component, c.ID, storageapi.ConfigurationUpdate{RowsSortOrder: []string{"c", "a"}})
	expectError(t, err, 400, "validation.invalidRowSortOrder")
	_, err = w.UpdateConfiguration(ctx, component, c.ID, storageapi.ConfigurationUpdate{RowsSortOrder: []string{"c", "a", "x"}})
	expectError(t, err, 400, "storage.components.validation")
	added := must(w.CreateRow(ctx, component, c.ID, storageapi.RowCreate{}))(t)
	if got := order(); !slices.Equal(got, []string{"c", "a", "b", added.ID}) {
		t.Errorf("a new row comes last: %v", got)
	}

	disabled := true
	r := must(w.UpdateRow(ctx, component, c.ID, "a", storageapi.RowUpdate{IsDisabled: &disabled, Configuration: raw(`{"n":1.10}`)}))(t)
	if r.Version != 2 || !r.IsDisabled || r.Name != "a" || r.ChangeDescription != "Row a changed" {
		t.Errorf("updated row %+v", r)
	}
	expectJSON(t, "row content", r.Configuration, `{"n":1.10}`)
	before := must(w.Configuration(ctx, component, c.ID))(t)
	if before.ChangeDescription != "Row a changed" {
		t.Errorf("the configuration says %q of the change of its row", before.ChangeDescription)
	}
	r = must(w.UpdateRowState(ctx, component, c.ID, "a", raw(`{"s":[]}`)))(t)
	expectJSON(t, "row state", r.State, `{"s":[]}`)
	if after := must(w.Configuration(ctx, component, c.ID))(t); after.Version != before.Version {
		t.Errorf("state of a row made version %d", after.Version)
	}

	r = must(w.RollbackRow(ctx, component, c.ID, "a", 1, ""))(t)
	if r.Version != 3 || r.IsDisabled || r.ChangeDescription != "Rollback to version 1" {
		t.Errorf("rolled back row %+v", r)
	}
	expectJSON(t, "row state after the rollback", r.State, `{"s":[]}`)
	versions := must(storageapi.Collect(w.RowVersions(ctx, component, c.ID, "a")))(t)
	if len(versions) != 3 || versions[0].Version != 3 || !versions[1].IsDisabled {
		t.Errorf("row versions %+v", versions)
	}
	if v := must(w.RowVersion(ctx, component, c.ID, "a", 2))(t); string(v.Configuration) != `{"n":1.10}` {
		t.Errorf("row version 2 is %s", v.Configuration)
	}

	check(t, w.DeleteRow(ctx, component, c.ID, "a"))
	_, err = w.Row(ctx, component, c.ID, "a")
	expectError(t, err, 404, "storage.configuration.row.notFound")
	if got := order(); !slices.Equal(got, []string{"c", "b", added.ID}) {
		t.Errorf("after the deletion: %v", got)
	}
	// A rollback of the configuration brings the row back, with its last state, and takes the later one away.
	n := must(w.RollbackConfiguration(ctx, component, c.ID, conf.Version, ""))(t)
	if got := order(); !slices.Equal(got, []string{"c", "a", "b"}) {
		t.Errorf("after the rollback to version %d: %v", conf.Version, got)
	}
	r = must(w.Row(ctx, component, c.ID, "a"))(t)
	if r.Version != 4 || r.ChangeDescription != fmt.Sprintf("Rollback to version 1 (via configuration rollback to version %d)", conf.Version) {
		t.Errorf("row that came back: %+v", r)
	}
	expectJSON(t, "state of the row that came back", r.State, `{"s":[]}`)
	if b := must(w.Row(ctx, component, c.ID, "b"))(t); b.Version != 1 {
		t.Errorf("a row that did not change has version %d", b.Version)
	}

	// Copies are independent, and have no state.
	id := must(w.CopyConfiguration(ctx, component, c.ID, n, storageapi.ConfigurationCopy{Name: "Copy"}))(t)
	copied := must(w.Configuration(ctx, component, id))(t)
	want := fmt.Sprintf(`Copied from configuration "C" (%s) version %d`, c.ID, n)
	if copied.Version != 1 || copied.Name != "Copy" || copied.ChangeDescription != want || !slices.Equal(copied.RowsSortOrder, []string{"c", "a", "b"}) {
		t.Errorf("copy %+v", copied)
	}
	for _, r := range copied.Rows {
		expectJSON(t, "state of a copied row", r.State, `{}`)
		if r.Version != 1 {
			t.Errorf("copied row has version %d", r.Version)
		}
	}
	check(t, w.DeleteRow(ctx, component, id, "a"))
	must(w.Row(ctx, component, c.ID, "a"))(t)

	row := must(w.CopyRow(ctx, component, c.ID, "a", 2, storageapi.RowCopy{TargetConfigID: id}))(t)
	if row.Version != 1 || string(row.Configuration) != `{"n":1.10}` || row.ID == "a" || string(row.State) != `{}` {
		t.Errorf("copied row %+v", row)
	}
}
