package recipes

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/forebay/forebay/mapping"
)

// The backup has each row that was acknowledged before it once: rows in the table, in staging and on the local level.
func TestBackup(t *testing.T) {
	data, backup := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "backup")
	eng, rows := openIn(t, data, numbers())
	ingest := func(from, to int) {
		t.Helper()
		for n := from; n < to; n++ {
			if _, err := eng.Ingest(t.Context(), "queue", mapping.JSON(fmt.Appendf(nil, `{"n":%d}`, n))); err != nil {
				t.Fatal(err)
			}
		}
	}
	ingest(0, 10)
	rows("numbers") // in the table
	ingest(10, 20)
	if err := Backup(t.Context(), eng, data, backup); err != nil {
		t.Fatal(err)
	}
	ingest(20, 30)
	if err := eng.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(data); err != nil { // the disk is lost
		t.Fatal(err)
	}
	_, rows = openIn(t, backup, numbers())
	seen := make(map[string]int)
	for _, row := range rows("numbers") {
		seen[row[0]]++
	}
	for n := range 20 {
		if seen[fmt.Sprint(n)] != 1 {
			t.Errorf("row %d is in the table %d times", n, seen[fmt.Sprint(n)])
		}
	}
	if len(seen) != 20 {
		t.Errorf("%d rows, want 20", len(seen))
	}
}
