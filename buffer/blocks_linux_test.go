package buffer_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// blocks is what the files in a folder take, as du counts it.
func blocks(t *testing.T, dir string) (total int64, known bool) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Error(err)
	}
	for _, e := range entries {
		var st syscall.Stat_t
		if syscall.Stat(filepath.Join(dir, e.Name()), &st) == nil && !e.IsDir() { // else it was removed meanwhile
			total += st.Blocks * 512
		}
	}
	return total, true
}
