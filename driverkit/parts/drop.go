package parts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
)

// Drop deletes a table with all its rows. A missing table is no error. A later or concurrent import creates it again.
func (t *Tables) Drop(ctx context.Context, table string) error {
	if table == "" {
		return errors.New("the table has no id")
	}
	t.forget(table)
	if err := t.drop(ctx, t.Path(table)); err != nil {
		return fmt.Errorf("drop table %q: %w", table, err)
	}
	return nil
}

// Uncreate implements [driver.Uncreator].
func (t *Tables) Uncreate(ctx context.Context, table, creation string) error {
	if table == "" {
		return errors.New("the table has no id")
	}
	if err := t.uncreate(ctx, table, creation); err != nil {
		return fmt.Errorf("take back table %q: %w", table, err)
	}
	return nil
}

func (t *Tables) uncreate(ctx context.Context, table, creation string) error {
	path := t.Path(table)
	d, err := t.definition(table)
	absent := errors.Is(err, fs.ErrNotExist)
	if err != nil && !absent || !absent && (d.Creation != creation || creation == "") {
		return err
	}
	files, err := t.FS.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	// A crash between the creation of the folder and of the definition leaves a folder without files, and a crash of an import one for imports.
	if err != nil || slices.ContainsFunc(files, func(f fs.DirEntry) bool { return f.Name() != DefinitionFile && !t.isEmpty(path, f) }) {
		return err
	}
	return t.drop(ctx, path)
}

func (t *Tables) drop(ctx context.Context, path string) error {
	target, err := t.FS.Readlink(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	// Readers see the whole table or none of it, because it is moved away before its files are removed.
	aside := filepath.Join(t.Root, TempDir, fmt.Sprintf("dropped.%016x", rand.Uint64()))
	if err := t.EnsureDir(filepath.Dir(aside)); err != nil {
		return err
	}
	t.creating.Lock()
	if target == "" {
		err = t.FS.Rename(path, aside)
	} else if err = t.FS.Remove(path); err == nil {
		err = t.FS.Rename(filepath.Dir(filepath.Join(t.Root, target)), aside)
	}
	t.mu.Lock()
	delete(t.durable, path)
	delete(t.durable, filepath.Dir(filepath.Join(t.Root, target)))
	t.mu.Unlock()
	t.creating.Unlock()
	switch {
	case errors.Is(err, fs.ErrNotExist): // another process was first
		return nil
	case err != nil:
		return err
	}
	if err := t.FS.SyncDir(t.Root); err != nil {
		return err
	}
	return t.removeTree(ctx, aside)
}
