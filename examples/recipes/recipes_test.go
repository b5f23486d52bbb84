package recipes

import (
	"path/filepath"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/dir"
)

// open opens an engine with sources. The function that it returns brings all rows to their tables and reads one of them.
func open(t *testing.T, sources ...forebay.Source) (*forebay.Engine, func(table string) [][]string) {
	t.Helper()
	return openIn(t, t.TempDir(), sources...)
}

func openIn(t *testing.T, data string, sources ...forebay.Source) (*forebay.Engine, func(table string) [][]string) {
	t.Helper()
	eng, err := forebay.Open(data, forebay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := eng.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, source := range sources {
		if err := eng.Define(t.Context(), source); err != nil {
			t.Fatal(err)
		}
	}
	return eng, func(table string) (rows [][]string) {
		t.Helper()
		if err := eng.FlushAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		for row, err := range dir.Tables(filepath.Join(data, "tables")).Rows(table) {
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, row)
		}
		return rows
	}
}
