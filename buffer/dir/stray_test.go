package dir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/parts"
)

// An operator has put folders where files belong. They are not read as parts, and a definition that cannot be read
// needs a person.
func TestStrayFolders(t *testing.T) {
	tables := Tables(t.TempDir())
	must(t, tables.Import(t.Context(), newFile("file-1", faultTable, faultRows)))
	for _, name := range []string{"backup.csv", "backup.csv.gz"} {
		must(t, os.Mkdir(filepath.Join(tables.Path(faultTable.ID), name), 0o700))
	}
	rows := 0
	for _, err := range tables.Rows(faultTable.ID) {
		must(t, err)
		rows++
	}
	if rows != 3 {
		t.Errorf("got %d rows, want 3", rows)
	}

	path := filepath.Join(tables.Path(faultTable.ID), parts.DefinitionFile)
	must(t, os.Remove(path))
	must(t, os.Mkdir(path, 0o700))
	for what, err := range map[string]error{
		"ensure": tables.Ensure(t.Context(), faultTable),
		"import": tables.Import(t.Context(), newFile("file-2", faultTable, faultRows)),
	} {
		if !driver.IsPermanent(err) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want a permanent error with the path", what, err)
		}
	}
}
