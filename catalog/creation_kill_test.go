package catalog_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/proctest"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/mapping"
)

// tellingTables writes a line for every table that it has made or compared.
type tellingTables struct{ *dir.TableDir }

func (t tellingTables) Ensure(ctx context.Context, table driver.Table) error {
	err := t.TableDir.Ensure(ctx, table)
	if err == nil {
		_, err = fmt.Println(table.ID)
	}
	return err
}

func tablesOf(folder string) *dir.TableDir { return dir.Tables(filepath.Join(folder, "tables")) }

func createUntilKilled(folder string) error {
	eng, err := forebay.Open(filepath.Join(folder, "data"), forebay.Options{Target: tellingTables{tablesOf(folder)}})
	if err != nil {
		return err
	}
	cat, err := catalog.Open(filepath.Join(folder, "catalog"), eng, catalog.Options{})
	if err != nil {
		return err
	}
	task, err := cat.CreateSource(user, spec("Web", sinksOfKill()...))
	if err != nil {
		return err
	}
	if task, err = cat.Wait(context.Background(), task.ID); err != nil || task.Status != catalog.Succeeded {
		return fmt.Errorf("task %+v: %w", task, err)
	}
	select {} // until it is killed
}

func sinksOfKill() (names []string) {
	for i := range 12 {
		names = append(names, fmt.Sprint("s", i))
	}
	return names
}

// TestKillDuringCreate kills a process while it creates the tables of a source. Either the source is there with all of
// them, or the corrected request is not refused because of the tables that were left.
func TestKillDuringCreate(t *testing.T) {
	if folder, ok := proctest.Child(); ok {
		t.Fatal(createUntilKilled(folder))
	}
	if testing.Short() {
		t.Skip("starts processes")
	}
	rng := seedtest.Rand(t)
	undone := 0
	for range max(*kills/2, 1) {
		folder := t.TempDir()
		after := 1 + rng.IntN(len(sinksOfKill()))
		proctest.Start(t, t.Name(), folder).Lines(after, 0, func(string) {})
		tables := tablesOf(folder)
		eng := openAt(t, filepath.Join(folder, "data"), forebay.Options{Target: tables})
		cat, err := catalog.Open(filepath.Join(folder, "catalog"), eng, catalog.Options{})
		must(t, err)
		want := datatype.UntypedColumns("id", "body")
		if _, err := cat.Source("web"); err != nil {
			undone++
			want = datatype.UntypedColumns("only")
			done(t, cat)(cat.CreateSource(user, corrected(sinksOfKill()...)))
		}
		for _, sink := range sinksOfKill() {
			if got, err := tables.Columns("in.c-web." + sink); err != nil || !slices.Equal(got, want) {
				t.Errorf("killed after %d tables: the table of %s has %v, %v, want %v", after, sink, got, err, want)
			}
		}
		if _, err := eng.Ingest(t.Context(), "web", mapping.JSON([]byte(`{}`))); err != nil {
			t.Error(err)
		}
		if err := cat.Close(); err != nil {
			t.Error(err)
		}
	}
	if undone == 0 {
		seedtest.Missed(t, "no process was killed before its change was made")
	}
	t.Logf("%d changes were undone", undone)
}

func openAt(t *testing.T, folder string, opts forebay.Options) *forebay.Engine {
	t.Helper()
	eng, err := forebay.Open(folder, opts)
	must(t, err)
	t.Cleanup(func() {
		if err := eng.Close(); err != nil {
			t.Error(err)
		}
	})
	return eng
}
