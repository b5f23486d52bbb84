package parts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/forebay/forebay/buffer"
)

// Import implements [buffer.Target], exactly once. It checks the form and the number of the rows, so a slice that was cut
// off in staging is found before its rows count as imported. An existing part with another number of rows than f is a
// [buffer.Permanent] error: the id was used for something else, or the part was changed.
func (t *Tables) Import(ctx context.Context, f *buffer.File) error {
	if err := CheckID("file", f.ID); err != nil {
		return err
	}
	if err := checkTable(f.Table); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	parts, err := t.importFile(ctx, f)
	if err == nil && t.OnImported != nil {
		err = t.OnImported(ctx, f, parts)
	}
	if err != nil {
		return fmt.Errorf("%s: import %s into %q: %w", t.Driver, f.ID, f.Table.ID, err)
	}
	return nil
}

// importFile returns the paths of the parts that have the rows.
func (t *Tables) importFile(ctx context.Context, f *buffer.File) (paths []string, err error) {
	d, err := t.ensure(ctx, f.Table)
	if err != nil {
		return nil, err
	}
	paths, err = t.imported(ctx, d, f)
	if t.versioned(d) && errors.Is(err, fs.ErrNotExist) { // a merge has just replaced the part: it is looked for again, under the lock
		err = nil
	}
	if paths != nil || err != nil {
		return paths, err
	}
	staged, err := t.Format.Stage(ctx, &t.Store, d, f)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil { // each attempt writes files of its own
			for _, temp := range staged {
				_ = t.FS.Remove(temp) // if it stays, the sweep removes it
			}
		}
	}()
	dir := t.Path(f.Table.ID)
	linked, err := t.IsLink(f.Table.ID)
	if err != nil {
		return nil, err
	}
	if linked || t.versioned(d) {
		unlock, err := t.lock(ctx, f.Table.ID, len(staged) > 1)
		if err != nil {
			return nil, err
		}
		defer unlock.Close()
		// An attempt that the buffer has left alone may have stored the rows meanwhile, and they may even have been merged.
		if paths, err = t.imported(ctx, d, f); paths != nil || err != nil {
			t.removeTempOf(f.ID)
			return paths, err
		}
	}
	for path := range staged {
		paths = append(paths, filepath.Join(dir, path))
	}
	slices.Sort(paths)
	if len(staged) > 1 {
		err = t.switchVersion(f.Table.ID, change{add: staged})
	} else {
		for path, temp := range staged {
			err = t.publishPart(temp, filepath.Join(dir, path), d)
		}
		if linked && err == nil { // its writer may have crashed before it was durable
			err = t.FS.SyncDir(t.Root)
		}
	}
	if err == nil {
		t.removeTempOf(f.ID)
	}
	return paths, err
}

// publishPart gives the only part of a file its name.
func (t *Tables) publishPart(temp, path string, d Definition) error {
	if d.Partition != "" { // its day may be new
		folder := filepath.Dir(path)
		if err := t.FS.MkdirAll(folder); err != nil {
			return err
		}
		if err := t.FS.SyncDir(filepath.Dir(folder)); err != nil {
			return err
		}
	}
	return t.publish(temp, path)
}

// imported returns the paths of the parts with the rows of a file, nil if it was not imported. If parts with other rows let
// the file count as imported, its rows would be lost: all of them are read, because repeated imports are rare.
func (t *Tables) imported(ctx context.Context, d Definition, f *buffer.File) (paths []string, err error) {
	found, err := t.sections(f.Table.ID, f.ID)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	rows, whole, err := t.countSections(ctx, d, found)
	if err != nil {
		return nil, err
	}
	for _, s := range found {
		paths = append(paths, s.Path)
		if d.Partition != "" { // its folder may be younger than the last sync, because its writer may have crashed
			if err := errors.Join(t.FS.SyncDir(filepath.Dir(s.Path)), t.FS.SyncDir(filepath.Dir(filepath.Dir(s.Path)))); err != nil {
				return nil, err
			}
		}
	}
	if linked, err := t.IsLink(f.Table.ID); err != nil || linked {
		if err := errors.Join(err, t.FS.SyncDir(t.Root)); err != nil { // and so may the link
			return nil, err
		}
	}
	var want int64 // as in the import, which checks every slice
	for _, obj := range f.Slices {
		want += obj.Rows
	}
	if rows == want || rows < want && whole && d.Partition != "" { // some of its days were removed
		return paths, nil
	}
	return nil, buffer.Permanent(fmt.Errorf("%s has %d rows, but the file of that id has %d: "+
		"move the part away if it holds other rows; the file is then imported", paths[0], rows, want))
}
