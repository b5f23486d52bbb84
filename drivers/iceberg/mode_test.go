package iceberg_test

import (
	"path/filepath"
	"testing"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/drivers/iceberg"
	"github.com/forebay/forebay/internal/modetest"
)

// The catalog, the metadata and the rows of a warehouse are private.
func TestFilesArePrivate(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "lake")
	target := open(t, folder, iceberg.Options{})
	f := fileOf("first", []datatype.Column{{Name: "id", Type: datatype.String}}, [][]string{{"a"}})
	if err := target.Ensure(t.Context(), f.Table); err != nil {
		t.Fatal(err)
	}
	if err := target.Import(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	modetest.Private(t, folder)
}
