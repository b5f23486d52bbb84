package buffer_test

import (
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// blocks returns the bytes that the files of a folder take, as du counts them. It counts until two counts in a row agree, because during
// one count a file may take the blocks that another gives back.
func blocks(t *testing.T, dir string) (total int64, known bool) {
	t.Helper()
	look := func() map[string]int64 {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Error(err)
		}
		sizes := make(map[string]int64)
		for _, e := range entries {
			var st syscall.Stat_t
			if syscall.Stat(filepath.Join(dir, e.Name()), &st) == nil && !e.IsDir() { // else it was removed meanwhile
				sizes[e.Name()] = st.Blocks * 512
			}
		}
		return sizes
	}
	first, second := look(), look()
	for _, size := range second {
		total += size
	}
	return total, maps.Equal(first, second)
}
