// Package modetest checks who can read the files of a test.
package modetest

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
)

// Private checks that no other user may read a file below a folder, and that at least one file is there. An engine that is open may
// remove files meanwhile.
func Private(t *testing.T, folder string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if path != folder && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		files++
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %s, want 0600", path, info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files == 0 {
		t.Errorf("%s has no files", folder)
	}
}
