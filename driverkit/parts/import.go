package parts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/forebay/forebay/driver"
)

// Import implements [driver.Target], exactly once. It checks the form and the number of the rows, so a slice that was cut
// off in staging is found before its rows count as imported. An existing part with another number of rows than f is a
// [driver.Permanent] error, because the id was used for something else, or the part was changed.
func (t *Tables) Import(ctx context.Context, f *driver.File) error {
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
func (t *Tables) importFile(ctx context.Context, f *driver.File) (paths []string, err error) {
	d, err := t.ensure(ctx, f.Table)
	if err != nil {
		return nil, err
	}
	paths, err = t.imported(ctx, d, f, nil)
	if t.versioned(d) && errors.Is(err, fs.ErrNotExist) { // a merge has just replaced the part. It is looked for again, under the lock
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
		if err != nil { // each attempt writes its own files
			for _, temp := range staged {
				_ = t.FS.Remove(temp) // if it stays, the sweep removes it
			}
		}
	}()
	linked, err := t.IsLink(f.Table.ID)
	if err != nil {
		return nil, err
	}
	several := len(staged) > 1
	if several && d.Version < importsVersion {
		if err := t.allowImports(ctx, f.Table.ID); err != nil {
			return nil, err
		}
	}
	if linked || t.versioned(d) {
		convert := several && !linked // a plain folder that was copied from a partitioned table
		unlock, err := t.lock(ctx, f.Table.ID, convert)
		if err != nil {
			return nil, err
		}
		defer unlock.Close()
		if convert {
			if linked, err = t.IsLink(f.Table.ID); err == nil && !linked {
				err = t.switchVersion(f.Table.ID, change{})
			}
			if linked = true; err != nil {
				return nil, err
			}
		}
		// An attempt that the buffer has left alone may have stored the rows meanwhile, and they may even have been merged.
		if paths, err = t.imported(ctx, d, f, staged); paths != nil || err != nil {
			t.removeTempOf(f.ID)
			return paths, err
		}
	}
	paths, err = t.publishAll(f, d, staged)
	if err != nil && several { // another attempt was faster, and has removed the temporary files of the id
		if found, ferr := t.imported(ctx, d, f, staged); found != nil && ferr == nil {
			paths, err = found, nil
		}
	}
	if linked && err == nil { // its writer may have crashed before it was durable
		err = t.FS.SyncDir(t.Root)
	}
	if err == nil {
		t.note(f.Table.ID, f.ID, len(staged))
		t.removeTempOf(f.ID)
	}
	return paths, err
}

// publishAll makes the staged parts of a file visible with one rename, durably.
func (t *Tables) publishAll(f *driver.File, d Definition, staged map[string]string) (paths []string, err error) {
	dir := t.Path(f.Table.ID)
	prefix := ""
	if len(staged) > 1 {
		prefix = filepath.Join(ImportsDir, f.ID)
		err = t.publishDays(dir, f.ID, staged)
	} else {
		for path, temp := range staged {
			err = t.publishPart(temp, filepath.Join(dir, path), d)
		}
	}
	for path := range staged {
		paths = append(paths, filepath.Join(dir, prefix, path))
	}
	slices.Sort(paths)
	return paths, err
}

// publishDays gives the parts of a file with several days their names. It moves them to one folder, and renames that.
func (t *Tables) publishDays(dir, id string, staged map[string]string) (err error) {
	temp := t.tempPath(id)
	defer func() {
		if err != nil {
			_ = t.removeTree(context.Background(), temp) // if it stays, the sweep removes it
		}
	}()
	for _, path := range slices.Sorted(maps.Keys(staged)) {
		day := filepath.Join(temp, filepath.Dir(path))
		if err := t.FS.MkdirAll(day); err != nil {
			return err
		}
		if err := t.FS.Rename(staged[path], filepath.Join(temp, path)); err != nil {
			return err
		}
		if err := t.FS.SyncDir(day); err != nil {
			return err
		}
	}
	if err := t.FS.SyncDir(temp); err != nil {
		return err
	}
	imports := filepath.Join(dir, ImportsDir)
	if _, err := t.FS.Stat(imports); errors.Is(err, fs.ErrNotExist) {
		if err := t.FS.MkdirAll(imports); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	if err := t.FS.SyncDir(dir); err != nil { // another import may have made the folder, and crashed before its sync
		return err
	}
	to := filepath.Join(imports, id)
	t.removeEmpty(to)
	if err := t.FS.Rename(temp, to); err != nil {
		return otherDisk(to, t.Root, err)
	}
	return t.FS.SyncDir(imports)
}

// removeEmpty removes the folder of a file with several days, if a reader has removed all of its parts.
func (t *Tables) removeEmpty(folder string) {
	days, err := t.FS.ReadDir(folder)
	if err != nil {
		return
	}
	for _, d := range days {
		_ = t.FS.Remove(filepath.Join(folder, d.Name())) // fails for a folder that is not empty
	}
	_ = t.FS.Remove(folder)
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
// the file count as imported, its rows would be lost. So all of them are read, because repeated imports are rare.
// staged is as in [Tables.sectionsFor].
func (t *Tables) imported(ctx context.Context, d Definition, f *driver.File, staged map[string]string) (paths []string, err error) {
	found, err := t.sectionsFor(f.Table.ID, f.ID, staged)
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
			if err := t.syncFolders(s.Path); err != nil {
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
	return nil, driver.Permanent(fmt.Errorf("%s has %d rows, but the file of that id has %d: "+
		"move the part away if it holds other rows; the file is then imported", paths[0], rows, want))
}

// syncFolders makes the entries of the folders of a part durable, from its own folder to the folder of the table.
func (t *Tables) syncFolders(path string) error {
	folder := filepath.Dir(path)
	levels := 2 // dt=DAY and the table
	if filepath.Base(filepath.Dir(filepath.Dir(folder))) == ImportsDir {
		levels = 4
	}
	for range levels {
		if err := t.FS.SyncDir(folder); err != nil {
			return err
		}
		folder = filepath.Dir(folder)
	}
	return nil
}
