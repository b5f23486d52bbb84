package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/forebay/forebay/drivers/sqlite"
	"github.com/forebay/forebay/internal/drivertest"
)

// The database and its log are private while they are open, and after.
func TestFilesArePrivate(t *testing.T) {
	folder := t.TempDir()
	drivertest.FilesArePrivate(t, folder, open(t, filepath.Join(folder, "a.db"), sqlite.Options{}))
}
