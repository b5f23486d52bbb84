package parts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/ctxio"
)

// A table whose parts are split by day or merged is a link to its newest version:
//
//	tables/in.c-web.events          → .versions/in.c-web.events/1795361460000000
//	tables/.versions/in.c-web.events/
//	  1795361400000000/               the previous version, kept for versionGrace
//	  1795361460000000/               table.json and the parts
//	tables/.versions/.in.c-web.events.lock
//
// A version is named by the time at which it was made. It shares the files of the previous version by hard links. One rename of
// the link makes a switch. All new parts appear and all replaced ones disappear at once, in the listing of a reader that
// resolves the link once. A reader that resolves it for every file may miss a file that it has listed, which is an error. It
// never reads a row twice, because no name is used for other rows.
//
// A switch copies all names of the table, so only merges and the removal of old parts switch, and only once there is enough to
// do, see [Tables.due]. An import renames one file or one folder into the newest version. It renames the part of its only day into the
// folder of the day, or the parts of several days, in one folder, into [ImportsDir]. So one rename makes all its rows visible,
// and its cost depends on its own rows alone. The import holds the lock of the table shared, so that no switch copies the version
// meanwhile. A switch holds the lock alone.
//
// A part stays where it is until it is merged, and a merged part is in a folder of one of its sources. A reader that lists
// that folder before a switch and other folders after it has listed the source, and finds that it is gone. If parts moved to
// other folders, such a reader could miss rows without an error.
//
// Designs that lost: Renaming directories instead of a link (RENAME_EXCHANGE) is Linux only, and a reader could not hold on to the
// directory that it has resolved. Links to shared folders of days inside of a version are not followed by readers that walk a tree,
// such as the glob ** of DuckDB.
const VersionsDir = ".versions"

// versionGrace is how long a version stays after it was replaced, for its readers.
const versionGrace = time.Hour

// maxVersions bounds the versions of a table that are replaced within versionGrace, because file systems bound the links of a file (ext4:
// 65,000).
const maxVersions = 1000

// VersionsPath returns the folder of the versions of a table.
func (t *Tables) VersionsPath(table string) string {
	return filepath.Join(t.Root, VersionsDir, folder(table))
}

// lockPath returns a file of a table next to its versions. The dot at the start keeps it apart from the versions of a table whose
// id ends with that extension.
func (t *Tables) lockPath(table, extension string) string {
	return filepath.Join(t.Root, VersionsDir, "."+folder(table)+"."+extension)
}

// lock locks a table, alone or shared with others that lock it shared. It waits at most until ctx ends.
func (t *Tables) lock(ctx context.Context, table string, alone bool) (unlock io.Closer, err error) {
	if err := t.EnsureDir(filepath.Join(t.Root, VersionsDir)); err != nil {
		return nil, err
	}
	return t.waitLock(ctx, t.lockPath(table, "lock"), alone)
}

// waitLock locks a file or folder. It waits at most until ctx ends.
func (t *Tables) waitLock(ctx context.Context, path string, alone bool) (unlock io.Closer, err error) {
	pause := ctxio.Pause{First: time.Millisecond, Last: 50 * time.Millisecond}
	for {
		unlock, ok, err := t.FS.Lock(path, alone)
		if ok || err != nil {
			return unlock, err
		}
		if err := pause.Wait(ctx); err != nil {
			return nil, err
		}
	}
}

// IsLink reports whether a table is a link to a version. A missing table is no error.
func (t *Tables) IsLink(table string) (bool, error) {
	target, err := t.linkOf(table)
	return target != "", err
}

// linkOf returns the text of the link of a table. A table that is no link, or missing, has none.
func (t *Tables) linkOf(table string) (string, error) {
	target, err := t.FS.Readlink(t.Path(table))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return target, err
}

// change is what one switch does to a table.
type change struct {
	// add are finished temporary files by their path in the table.
	add map[string]string
	// remove are paths in the table.
	remove map[string]bool
}

// switchVersion replaces the newest version of a table by one with a change. A table without a folder or with a plain one
// becomes a link. The caller holds the lock alone.
func (t *Tables) switchVersion(table string, c change) error {
	current, versions := t.Path(table), t.VersionsPath(table)
	target, err := t.FS.Readlink(current)
	plain := err == nil && target == ""
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	before, _ := strconv.ParseInt(filepath.Base(target), 10, 64)
	if err := t.EnsureDir(versions); err != nil {
		return err
	}
	next, err := t.nextVersion(versions, max(before+1, t.Now().UnixMicro()))
	if err != nil {
		return err
	}
	link := next + ".link"
	err = t.makeVersion(next, current, c)
	if err == nil {
		err = t.FS.Symlink(filepath.Join(VersionsDir, folder(table), filepath.Base(next)), link)
	}
	if err != nil {
		_ = t.removeTree(context.Background(), next) // nothing refers to it, and no sweep of a plain table would remove it later
		return err
	}
	if plain {
		if err := t.FS.Exchange(link, current); err != nil { // the link has its new name, and this one the plain folder
			err = errors.Join(driver.Permanent(fmt.Errorf("%s is a plain folder, and this file system cannot replace it by a link "+
				"in one step: parts of a new table can be merged: %w", current, err)), t.FS.Remove(link))
			if target, e := t.FS.Readlink(current); target == "" && e == nil {
				_ = t.removeTree(context.Background(), next) // likewise
			}
			return err
		}
	} else if err := t.FS.Rename(link, current); err != nil {
		return err
	}
	return t.FS.SyncDir(t.Root)
}

// makeVersion makes the folder of a new version durably, from the newest one and a change.
func (t *Tables) makeVersion(next, current string, c change) error {
	if err := t.FS.MkdirAll(next); err != nil {
		return err
	}
	folders := map[string]bool{next: true}
	if err := t.linkFiles(current, next, "", c.remove, folders); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(c.add)) {
		path := filepath.Join(next, name)
		if parent := filepath.Dir(path); !folders[parent] {
			if err := t.FS.MkdirAll(parent); err != nil {
				return err
			}
			folders[parent] = true
		}
		if err := t.FS.Rename(c.add[name], path); err != nil {
			return err
		}
	}
	for _, f := range slices.Sorted(maps.Keys(folders)) {
		if err := t.FS.SyncDir(f); err != nil {
			return err
		}
	}
	return t.FS.SyncDir(filepath.Dir(next))
}

// nextVersion returns the path of a new version, with the lowest free number from atLeast on. A switch that was cut short may have
// left one with that number, when the clock was set back since the newest version.
func (t *Tables) nextVersion(versions string, atLeast int64) (string, error) {
	entries, err := t.FS.ReadDir(versions)
	if err != nil {
		return "", err
	}
	taken := make(map[int64]bool)
	for _, e := range entries {
		if n, err := strconv.ParseInt(strings.TrimSuffix(e.Name(), ".link"), 10, 64); err == nil {
			taken[n] = true
		}
	}
	for taken[atLeast] {
		atLeast++
	}
	return filepath.Join(versions, fmt.Sprintf("%016d", atLeast)), nil // 16 digits until 2286, so names sort as numbers
}

// linkFiles links the files of a folder, and of its subfolders, into a different folder. It notes the folders that it makes.
func (t *Tables) linkFiles(from, to, rel string, without, folders map[string]bool) error {
	entries, err := t.FS.ReadDir(filepath.Join(from, rel))
	if err != nil {
		return err
	}
	made := folders[filepath.Join(to, rel)]
	for _, e := range entries {
		path := filepath.Join(rel, e.Name())
		if e.IsDir() {
			if err := t.linkFiles(from, to, path, without, folders); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			continue
		}
		if without[path] {
			continue
		}
		if !made { // a folder whose last file goes, goes too
			if err := t.FS.MkdirAll(filepath.Join(to, rel)); err != nil {
				return err
			}
			folders[filepath.Join(to, rel)], made = true, true
		}
		// A reader of the table may have deleted the file.
		if err := t.FS.Link(filepath.Join(from, path), filepath.Join(to, path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// removeVersions removes the versions that were replaced long ago, and what an interrupted switch has left.
func (t *Tables) removeVersions(ctx context.Context, table string) error {
	unlock, err := t.lock(ctx, table, true)
	if err != nil {
		return err
	}
	versions := t.VersionsPath(table)
	doomed, err := t.doomedVersions(table)
	for i, name := range doomed {
		// Moved first, so that no switch waits for the removal.
		aside := filepath.Join(t.Root, TempDir, fmt.Sprintf("version.%016x", rand.Uint64()))
		err = errors.Join(err, t.FS.Rename(filepath.Join(versions, name), aside))
		doomed[i] = aside
	}
	if err := errors.Join(err, unlock.Close()); err != nil {
		return err
	}
	for _, path := range doomed {
		err = errors.Join(err, t.removeTree(ctx, path))
	}
	return err
}

// doomedVersions returns the entries in the folder of versions that are no longer needed. Called with the exclusive lock held,
// because a switch in progress creates entries that look the same.
func (t *Tables) doomedVersions(table string) (doomed []string, err error) {
	target, err := t.FS.Readlink(t.Path(table))
	if target == "" || err != nil {
		return nil, err
	}
	current := filepath.Base(target)
	entries, err := t.FS.ReadDir(t.VersionsPath(table))
	if err != nil {
		return nil, err
	}
	now, _ := strconv.ParseInt(current, 10, 64)
	old := t.Now().Add(-t.Grace).UnixMicro()
	replaced := now // when the next older version was replaced
	for i, e := range slices.Backward(entries) {
		base, isLink := strings.CutSuffix(e.Name(), ".link")
		n, err := strconv.ParseInt(base, 10, 64)
		if err != nil || e.Name() == current {
			continue
		}
		at := replaced
		if isLink { // the plain folder, or left by an interrupted switch
			at = n
		} else {
			replaced = n
		}
		if n > now || at <= old || i < len(entries)-maxVersions {
			doomed = append(doomed, e.Name())
		}
	}
	return doomed, nil
}
