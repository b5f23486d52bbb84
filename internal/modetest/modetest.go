// Package modetest checks who can read the files of a test.
package modetest

import (
	"io/fs"
	"path/filepath"
	"testing"
)

// Private checks that no other user may read a file below a folder, and that at least one file is there.
func Private(t *testing.T, folder string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		files++
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %s, want 0600", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if files == 0 {
		t.Errorf("%s has no files", folder)
	}
}
