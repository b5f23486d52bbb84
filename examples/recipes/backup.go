package recipes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/forebay/forebay"
)

// Backup copies an engine with the default drivers while events flow. To is a new folder. Opened with forebay.Open it is the engine of the
// moment of the backup. The order matters. First the rows, then staging, then tables, so that rows that move meanwhile are found further down.
// When Backup returns, the copy survives a power cut.
func Backup(ctx context.Context, eng *forebay.Engine, data, to string) error {
	if err := eng.Checkpoint(ctx, to); err != nil {
		return err
	}
	for _, folder := range []string{"staging", "tables"} {
		if err := copyFolder(filepath.Join(data, folder), filepath.Join(to, folder)); err != nil {
			return err
		}
	}
	return nil
}

// copyFolder leaves out files that are removed while it copies. It refuses links because tables with MergeTo or days have them, and need a snapshot
// of the volume instead.
func copyFolder(from, to string) error {
	var folders []string
	err := filepath.WalkDir(from, func(name string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			folders = append(folders, filepath.Join(to, rel))
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		if !entry.Type().IsRegular() {
			return fmt.Errorf("%s is not a plain file: take a snapshot of the volume", name)
		}
		in, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
		defer in.Close()
		out, err := os.OpenFile(filepath.Join(to, rel), os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, in)
		return errors.Join(err, out.Sync(), out.Close())
	})
	for _, folder := range append(folders, filepath.Dir(to)) { // the names of the files
		err = errors.Join(err, syncFolder(folder))
	}
	return err
}

func syncFolder(name string) error {
	if runtime.GOOS == "windows" {
		return nil // it has no such call
	}
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
