package duckdb_test

import (
	"path/filepath"
	"testing"

	"github.com/forebay/forebay/drivers/duckdb"
	"github.com/forebay/forebay/internal/refusedtest"
)

func TestTextThatIsNotUTF8(t *testing.T) {
	target, err := duckdb.Open(filepath.Join(t.TempDir(), "events.duckdb"), duckdb.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	refusedtest.Text(t, target, "events")
}
