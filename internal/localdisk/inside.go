package localdisk

import (
	"errors"
	"os"
	"path/filepath"
)

// Named returns an error for an empty path, which would otherwise stand for the working directory of the process.
func Named(dir string) error {
	if dir == "" {
		return errors.New("the folder has no name: name a data directory")
	}
	return nil
}

// Inside reports whether path is folder or in it. The two may be spelled differently, for example relative, or through symbolic links. path
// need not exist.
func Inside(path, folder string) bool {
	if folder == "" {
		return false
	}
	path, folder = Resolve(path), Resolve(folder)
	wanted, err := os.Stat(folder)
	for {
		if path == folder {
			return true
		}
		if err == nil { // a bind mount, or a file system that ignores case
			if found, err := os.Stat(path); err == nil && os.SameFile(found, wanted) {
				return true
			}
		}
		parent := filepath.Dir(path)
		if parent == path {
			return false
		}
		path = parent
	}
}

// Resolve returns an absolute path whose existing part has no symbolic links.
func Resolve(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	missing := ""
	for existing := path; ; existing = filepath.Dir(existing) {
		if real, err := filepath.EvalSymlinks(existing); err == nil {
			return filepath.Join(real, missing)
		}
		if existing == filepath.Dir(existing) {
			return path
		}
		missing = filepath.Join(filepath.Base(existing), missing)
	}
}
