package recipes

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/forebay/forebay"
)

// Backup copies an engine with the default drivers while events flow. To is a new folder; opened with forebay.Open it is the engine of the
// moment of the backup. The order matters: first the rows, then staging, then tables, so that what moves meanwhile is found further down.
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

// copyFolder leaves out files that are removed while it copies.
func copyFolder(from, to string) error {
	return filepath.WalkDir(from, func(name string, entry fs.DirEntry, err error) error {
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
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
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
}
