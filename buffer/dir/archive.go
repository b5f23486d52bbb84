package dir

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/parts"
)

// ArchiveOptions are options of [Archive].
type ArchiveOptions struct {
	// KeepFor, if not 0, is the age at which objects are removed, counted from the end of their hour. It applies to the archives of an engine,
	// even if the source no longer uses its archive. Other folders stay until they are deleted. Default: objects are kept forever.
	KeepFor time.Duration
}

// ArchiveDir keeps raw records in a folder. It is a [driver.Target] for the archives of an engine, which can read them again. docs/archive.md
// describes the objects. It imports each file exactly once. It is safe for concurrent use, even by several processes.
//
// The rows of one file that arrived in different hours become visible one hour after the other.
type ArchiveDir struct {
	files parts.Store
	keep  time.Duration
}

var (
	_ driver.Target      = (*ArchiveDir)(nil)
	_ driver.Compactor   = (*ArchiveDir)(nil)
	_ driver.LocalDriver = (*ArchiveDir)(nil)
)

// Archive returns an archive in the directory path. The first import creates the directory.
func Archive(path string, o ArchiveOptions) *ArchiveDir {
	return &ArchiveDir{files: parts.NewStore(path), keep: o.KeepFor}
}

const (
	// hourLayout names the folders of hours, UTC.
	hourLayout = "2006-01-02T15"
	// archiveExt ends the names of objects.
	archiveExt = ".csv.gz"
	// openHours is how many hours of one file are written at once.
	openHours = 32
)

// Ensure implements [driver.Target]. The first column must be the arrival time of a record.
func (a *ArchiveDir) Ensure(ctx context.Context, t driver.Table) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := parts.CheckArchive(t.ID); err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	if len(t.Columns) == 0 || t.Columns[0].Type != datatype.Timestamp {
		return driver.Permanent(fmt.Errorf("archive %s: the first column is not the arrival time of raw records", t.ID))
	}
	return nil
}

// Import implements [driver.Target], exactly once. An object has the id of the file in its name, and an existing one is kept.
func (a *ArchiveDir) Import(ctx context.Context, f *driver.File) error {
	err := cmp.Or(a.Ensure(ctx, f.Table), parts.CheckID("file", f.ID))
	if err == nil {
		err = a.importFile(ctx, f)
	}
	if err != nil {
		return fmt.Errorf("archive %s: import %s: %w", f.Table.ID, f.ID, err)
	}
	return nil
}

func (a *ArchiveDir) importFile(ctx context.Context, f *driver.File) error {
	a.files.Sweep()
	hours, err := hoursOf(ctx, f)
	if err != nil {
		return err
	}
	for some := range slices.Chunk(hours, openHours) { // one chunk, unless callers set the times of records
		if err := a.importHours(ctx, f, some); err != nil {
			return err
		}
	}
	return nil
}

// hourOf returns the hour of a row.
func hourOf(cells [][]byte) (string, error) {
	const example = "2006-01-02T15:04:05.000000Z"
	if len(cells[0]) != len(example) {
		return "", driver.Permanent(fmt.Errorf("the arrival time %.40q is no timestamp", cells[0]))
	}
	hour := string(cells[0][:len(hourLayout)])
	if _, err := time.Parse(hourLayout, hour); err != nil {
		return "", driver.Permanent(fmt.Errorf("the arrival time %.40q is no timestamp", cells[0]))
	}
	return hour, nil
}

// hoursOf returns the hours of the rows of a file, ascending.
func hoursOf(ctx context.Context, f *driver.File) ([]string, error) {
	rows := f.ReadRows(ctx)
	defer rows.Close()
	var hours []string
	for rows.Next() {
		hour, err := hourOf(rows.Cells())
		if err != nil {
			return nil, err
		}
		if at, found := slices.BinarySearch(hours, hour); !found {
			hours = slices.Insert(hours, at, hour)
		}
	}
	return hours, rows.Err()
}

// object is an object that is being written.
type object struct {
	temp string
	file parts.File
	buf  *bufio.Writer
	gzip *gzip.Writer
	line []byte
}

// importHours writes the rows of some hours.
func (a *ArchiveDir) importHours(ctx context.Context, f *driver.File, hours []string) (err error) {
	open := make(map[string]*object, len(hours))
	defer func() {
		for _, o := range open { // after an error
			_ = o.file.Close()
			_ = a.files.FS.Remove(o.temp)
		}
	}()
	for _, hour := range hours {
		path := a.path(f.Table.ID, hour, f.ID)
		if err := a.files.EnsureDir(filepath.Dir(path)); err != nil {
			return err
		}
		if info, err := a.files.Find(path); err != nil || info != nil {
			if err != nil {
				return err
			}
			continue
		}
		o := &object{}
		if o.temp, o.file, err = a.files.CreateTemp(f.ID); err != nil {
			return err
		}
		open[hour] = o
		o.buf = bufio.NewWriterSize(o.file, 64<<10)
		o.gzip, _ = gzip.NewWriterLevel(o.buf, gzip.BestSpeed) // a known level
		for _, name := range f.Table.Names() {
			o.add([]byte(name), false)
		}
		if err := o.end(); err != nil {
			return err
		}
	}
	if len(open) == 0 {
		return nil
	}
	rows := f.ReadRows(ctx)
	defer rows.Close()
	for rows.Next() {
		cells := rows.Cells()
		hour, err := hourOf(cells)
		if err != nil {
			return err
		}
		o := open[hour]
		if o == nil {
			continue
		}
		for _, cell := range cells {
			o.add(cell, cell == nil)
		}
		if err := o.end(); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, hour := range hours {
		if o := open[hour]; o != nil {
			if err := a.publish(o, a.path(f.Table.ID, hour, f.ID)); err != nil {
				return err
			}
			delete(open, hour)
		}
	}
	return nil
}

// add appends a cell to the row.
func (o *object) add(cell []byte, null bool) {
	if len(o.line) > 0 {
		o.line = append(o.line, ',')
	}
	if null {
		return
	}
	o.line = append(o.line, '"')
	for _, b := range cell {
		if b == '"' {
			o.line = append(o.line, '"')
		}
		o.line = append(o.line, b)
	}
	o.line = append(o.line, '"')
}

// end writes the row.
func (o *object) end() error {
	_, err := o.gzip.Write(append(o.line, '\n'))
	o.line = o.line[:0]
	return err
}

// publish gives a complete object its name, durably.
func (a *ArchiveDir) publish(o *object, path string) error {
	err := o.gzip.Close()
	if err == nil {
		err = o.buf.Flush()
	}
	if err == nil {
		err = o.file.Sync()
	}
	if err := errors.Join(err, o.file.Close()); err != nil {
		return err
	}
	if err := a.files.FS.Rename(o.temp, path); err != nil {
		return err
	}
	return a.files.FS.SyncDir(filepath.Dir(path))
}

func (a *ArchiveDir) path(name, hour, fileID string) string {
	return filepath.Join(a.files.Root, name, hour, fileID+archiveExt)
}

// Objects returns the names of the objects of an archive that may have records that arrived at or after from and before to, by hour and
// import. It is what an engine needs of its archive. An unknown archive has none.
func (a *ArchiveDir) Objects(ctx context.Context, name string, from, to time.Time) ([]string, error) {
	hours, err := a.hours(name)
	if err != nil {
		return nil, err
	}
	var list []string
	for _, hour := range hours {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		at, _ := time.Parse(hourLayout, hour) // hours has checked it
		if !at.Before(to) || !at.Add(time.Hour).After(from) {
			continue
		}
		entries, err := a.files.FS.ReadDir(filepath.Join(a.files.Root, name, hour))
		if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("archive %s: %w", name, err)
		}
		var objects []string
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), archiveExt) {
				objects = append(objects, hour+"/"+e.Name())
			}
		}
		slices.Sort(objects)
		list = append(list, objects...)
	}
	return list, nil
}

// Open returns the plain CSV of an object, which begins with the names of the columns. The caller closes the reader. For an absent object the
// error matches [fs.ErrNotExist].
func (a *ArchiveDir) Open(ctx context.Context, name, object string) (io.ReadCloser, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if !filepath.IsLocal(object) {
		return nil, fmt.Errorf("archive %s: %q is no object", name, object)
	}
	if err := parts.CheckArchive(name); err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	rc, err := a.files.FS.Open(filepath.Join(a.files.Root, name, filepath.FromSlash(object)))
	if err != nil {
		return nil, fmt.Errorf("archive %s: %w", name, err)
	}
	return driver.Decode(driver.Gzip, rc)
}

// hours returns the hours that an archive has, ascending.
func (a *ArchiveDir) hours(name string) ([]string, error) {
	entries, err := a.files.FS.ReadDir(filepath.Join(a.files.Root, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("archive %s: %w", name, err)
	}
	var hours []string
	for _, e := range entries {
		if _, err := time.Parse(hourLayout, e.Name()); err == nil && e.IsDir() {
			hours = append(hours, e.Name())
		}
	}
	slices.Sort(hours)
	return hours, nil
}

// Archives returns the names of all archives, ascending. It is what an engine needs of its archive when the records of a person are erased.
func (a *ArchiveDir) Archives(ctx context.Context) ([]string, error) {
	entries, err := a.files.FS.ReadDir(a.files.Root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && e.Name() != parts.TempDir && parts.CheckArchive(e.Name()) == nil {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// Replace gives an object other rows, as plain CSV with the names of the columns, in one step. After an error or a crash the object has all of its
// old rows or all of the new ones. For an absent object the error matches [fs.ErrNotExist].
func (a *ArchiveDir) Replace(ctx context.Context, name, object string, rows io.Reader) error {
	if err := parts.CheckArchive(name); err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	if !filepath.IsLocal(object) || !strings.HasSuffix(object, archiveExt) {
		return fmt.Errorf("archive %s: %q is no object", name, object)
	}
	if err := a.replace(ctx, filepath.Join(a.files.Root, name, filepath.FromSlash(object)), rows); err != nil {
		return fmt.Errorf("archive %s: replace %s: %w", name, object, err)
	}
	return nil
}

func (a *ArchiveDir) replace(ctx context.Context, path string, rows io.Reader) error {
	if info, err := a.files.Find(path); err != nil || info == nil {
		return cmp.Or(err, fs.ErrNotExist)
	}
	temp, err := a.files.StageFile(ctx, strings.TrimSuffix(filepath.Base(path), archiveExt), func(w io.Writer) error {
		z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // a known level
		if _, err := io.Copy(z, rows); err != nil {
			return err
		}
		return z.Close()
	})
	if err != nil {
		return err
	}
	if info, err := a.files.Find(path); err != nil || info == nil { // the retention has removed it meanwhile
		_ = a.files.FS.Remove(temp)
		return cmp.Or(err, fs.ErrNotExist)
	}
	if err := a.files.FS.Rename(temp, path); err != nil {
		_ = a.files.FS.Remove(temp)
		return err
	}
	return a.files.FS.SyncDir(filepath.Dir(path))
}

// Compact implements [driver.Compactor]. It removes the objects whose time has passed, as ArchiveOptions.KeepFor says.
func (a *ArchiveDir) Compact(ctx context.Context, t driver.Table) error {
	a.files.Sweep() // what an interrupted import has left has raw records too
	if a.keep <= 0 {
		return nil
	}
	hours, err := a.hours(t.ID)
	if err != nil {
		return err
	}
	for _, hour := range hours {
		at, _ := time.Parse(hourLayout, hour) // hours has checked it
		if a.files.Now().Before(at.Add(time.Hour + a.keep)) {
			break
		}
		if _, err := a.remove(ctx, filepath.Join(a.files.Root, t.ID, hour)); err != nil {
			return fmt.Errorf("archive %s: %w", t.ID, err)
		}
	}
	return nil
}

// Erase deletes all objects of an archive, durably, and its folder unless it contains other files. It may be repeated, even after an error.
// An archive without objects is no error. An engine calls it when a source is erased.
//
// What an import that was interrupted has left in the folder .tmp is not named by its archive. It goes an hour later, with the next import or
// retention.
func (a *ArchiveDir) Erase(ctx context.Context, name string) error {
	if err := parts.CheckArchive(name); err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	if err := a.erase(ctx, name); err != nil {
		return fmt.Errorf("archive %s: %w", name, err)
	}
	return nil
}

func (a *ArchiveDir) erase(ctx context.Context, name string) error {
	a.files.Sweep()
	hours, err := a.hours(name)
	if err != nil {
		return err
	}
	folder := filepath.Join(a.files.Root, name)
	for _, hour := range hours {
		stays, err := a.remove(ctx, filepath.Join(folder, hour))
		if err == nil && stays {
			err = a.files.FS.SyncDir(filepath.Join(folder, hour))
		}
		if err != nil {
			return err
		}
	}
	// Even without hours, because an earlier call may have failed after a removal. Folders that are gone have nothing to sync.
	for _, dir := range []string{folder, a.files.Root} {
		if err := a.files.FS.SyncDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if dir == folder {
			_ = a.files.FS.Remove(folder) // users may keep their own files there
		}
	}
	return nil
}

// remove deletes the objects of an hour, and its folder if nothing stays in it.
func (a *ArchiveDir) remove(ctx context.Context, dir string) (stays bool, err error) {
	entries, err := a.files.FS.ReadDir(dir)
	for _, e := range entries {
		if err = ctx.Err(); err == nil && strings.HasSuffix(e.Name(), archiveExt) {
			err = a.files.FS.Remove(filepath.Join(dir, e.Name()))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return true, err
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return true, err
	}
	err = a.files.FS.Remove(dir) // an import has arrived, or users keep their own files there, so the next call tries again
	return err != nil && !errors.Is(err, fs.ErrNotExist), nil
}

// Needs implements [driver.LocalDriver].
func (a *ArchiveDir) Needs(stored, raw int64) (folder string, bytes int64) {
	return a.files.Root, min(raw+4<<10, 2*stored+4<<10)
}
