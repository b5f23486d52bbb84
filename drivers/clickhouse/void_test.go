package clickhouse

import (
	"errors"
	"sync"
	"testing"

	"github.com/forebay/forebay/driver"
)

// A file whose third block has a refused row is partly in the table. Void removes this part, and the id stays ruled out. A complete file stays.
func TestVoidOfAPartlyStoredFile(t *testing.T) {
	for _, o := range []Options{{}, {PartitionBy: "day"}} {
		target := manyBlocks(open(t, o))
		tbl := events("events")
		kept := newFile("file-1", tbl, eventRows(1, 60)...)
		mustImport(t, target, kept)
		server.Exec(t, "ALTER TABLE "+target.table(tbl.ID)+" ADD CONSTRAINT odd CHECK id != 2045")
		f := newFile("file-2", tbl, eventRows(2, 100)...)
		for range 2 {
			err := target.Import(t.Context(), f)
			var refused *driver.RowsError
			if !errors.As(err, &refused) || refused.Rows[0].Row != 45 || refused.Rows[0].Reason != "469" {
				t.Fatalf("Import = %v, want a *driver.RowsError for row 45", err)
			}
			expectCount(t, target, tbl, f.ID, 40)
		}
		for range 2 {
			if imported, err := target.Void(t.Context(), tbl, f.ID); err != nil || imported {
				t.Fatalf("Void = %v, %v, want false", imported, err)
			}
			if imported, err := target.Void(t.Context(), tbl, kept.ID); err != nil || !imported {
				t.Fatalf("Void of a file that is stored = %v, %v, want true", imported, err)
			}
			if err := target.Import(t.Context(), f); !errors.Is(err, driver.ErrVoid) || !driver.IsPermanent(err) {
				t.Errorf("Import of a file that is ruled out = %v", err)
			}
			expectRows(t, target, tbl.ID, eventRows(1, 60)...)
		}
	}
}

// Void runs at the same time as imports of the same file. Either it reports that the file is imported, and the table has all rows, or the table has none.
func TestVoidBesideImports(t *testing.T) {
	target := manyBlocks(open(t, Options{}))
	tbl := events("events")
	mustEnsure(t, target, tbl)
	outcomes := map[bool]int{}
	for i := range 12 {
		f := newFile("file-"+string(rune('a'+i)), tbl, eventRows(i, 60)...)
		var wg sync.WaitGroup
		var importErr, voidErr error
		var imported bool
		wg.Go(func() { importErr = target.Import(t.Context(), f) })
		wg.Go(func() {
			for range i { // later and later
				if _, err := target.CountFile(t.Context(), tbl, f.ID); err != nil {
					t.Error(err)
				}
			}
			imported, voidErr = target.Void(t.Context(), tbl, f.ID)
		})
		wg.Wait()
		want := int64(0)
		if imported {
			want = 60
		}
		if voidErr != nil || importErr == nil && !imported {
			t.Errorf("Import = %v, Void = %v, %v", importErr, imported, voidErr)
		}
		expectCount(t, target, tbl, f.ID, want)
		outcomes[imported]++
	}
	t.Logf("imported or not: %v", outcomes)
}
