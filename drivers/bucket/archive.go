package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/parts"
)

// ArchiveOptions are options of [OpenArchive]. The zero value is ready to use.
type ArchiveOptions struct {
	// KeepFor is the age at which objects are removed, since the end of their hour, as in [dir.ArchiveOptions]. Default: objects are kept
	// forever. A lifecycle rule of the bucket may delete them too.
	KeepFor time.Duration
	// Scratch is as in [TablesOptions].
	Scratch string
	// PartSize is as in [Options]. An object that is read is in memory in pieces of this size.
	PartSize int64
}

// Archive keeps raw records in a bucket. It is a [driver.Target] for the archives of an engine, which can read them again. Its objects are
// the objects of [dir.Archive], under the keys PREFIX/ARCHIVE/HOUR/FILE.csv.gz, and docs/archive.md describes them. It is safe for
// concurrent use, even by several processes. Engines may share a prefix, and then the archives of sources with the same id.
//
// It imports each file exactly once. An object has the id of the file in its key and is put on the condition that the key is free. The rows of a
// file that arrived in different hours become visible one hour after the other.
type Archive struct {
	objects *store
	options ArchiveOptions
	now     func() time.Time
}

var (
	_ driver.Target      = (*Archive)(nil)
	_ driver.Compactor   = (*Archive)(nil)
	_ driver.LocalDriver = (*Archive)(nil)
)

// OpenArchive returns an archive in the bucket of a URL, see [Open]. It sends nothing to the bucket.
func OpenArchive(ctx context.Context, url string, o ArchiveOptions) (*Archive, error) {
	if o.KeepFor < 0 {
		return nil, fmt.Errorf("bucket: ArchiveOptions.KeepFor is %s, must not be negative", o.KeepFor)
	}
	if o.Scratch == "" {
		o.Scratch = os.TempDir()
	}
	objects, err := openStore(ctx, url, o.PartSize)
	if err != nil {
		return nil, err
	}
	removeScratch(o.Scratch)
	return &Archive{objects, o, time.Now}, nil
}

// Close ends idle connections. Calls and readers must have ended.
func (a *Archive) Close() error { return a.objects.close() }

const (
	// archiveHour is the layout of the hours in keys, UTC, and archiveExtension their end, as in package dir.
	archiveHour      = "2006-01-02T15"
	archiveExtension = ".csv.gz"
	// removedAtOnce is how many expired objects are listed before they are deleted.
	removedAtOnce = 1000
)

// Ensure implements [driver.Target]. The first column must be the arrival time of a record.
func (a *Archive) Ensure(ctx context.Context, t driver.Table) error {
	return dir.Archive(a.options.Scratch, dir.ArchiveOptions{}).Ensure(ctx, t)
}

// Import implements [driver.Target], exactly once. An object that exists is kept.
func (a *Archive) Import(ctx context.Context, f *driver.File) error {
	return a.objects.explain("archive", strconv.Quote(f.ID), a.importFile(ctx, f))
}

func (a *Archive) importFile(ctx context.Context, f *driver.File) (err error) {
	folder, err := os.MkdirTemp(a.options.Scratch, scratchPrefix)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	local := dir.Archive(folder, dir.ArchiveOptions{})
	if err := local.Import(ctx, f); err != nil {
		return err
	}
	objects, err := local.Objects(ctx, f.Table.ID, time.Time{}, endOfTime)
	if err != nil {
		return err
	}
	for _, object := range objects {
		path := filepath.Join(folder, f.Table.ID, filepath.FromSlash(object))
		if _, err := a.objects.put(ctx, f.Table.ID+"/"+object, func() (io.ReadCloser, error) { return os.Open(path) }); err != nil {
			return err
		}
	}
	return nil
}

// endOfTime is after every arrival time, because they have four digits for the year.
var endOfTime = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)

// Objects returns the names of the objects of an archive that may have records that arrived at or after one time and before another, by hour and
// import. It is what an engine needs of its archive. An unknown archive has none. It lists the days, or hours, that the bounds have in common, 1,000
// objects a request.
func (a *Archive) Objects(ctx context.Context, name string, from, to time.Time) (list []string, err error) {
	if err := checkArchive(name); err != nil {
		return nil, err
	}
	from, to = from.UTC(), to.UTC()
	if !from.Before(to) {
		return nil, nil
	}
	err = a.each(ctx, name, commonPrefix(from.Format(archiveHour), to.Format(archiveHour)), func(object string, at time.Time) error {
		if !at.Before(to) {
			return errEnough
		}
		if at.Add(time.Hour).After(from) {
			list = append(list, object)
		}
		return nil
	})
	return list, a.objects.explain("list", strconv.Quote(name), err)
}

// checkArchive refuses names that no archive has. A slash in one would lead elsewhere.
func checkArchive(name string) error {
	if err := parts.CheckArchive(name); err != nil {
		return fmt.Errorf("bucket: %w", err)
	}
	return nil
}

// commonPrefix returns what all hours between two have in common.
func commonPrefix(a, b string) string {
	if len(a) != len(b) { // years beyond 9999
		return ""
	}
	n := 0
	for n < len(a) && a[n] == b[n] {
		n++
	}
	return a[:n]
}

// errEnough ends a listing early.
var errEnough = errors.New("enough")

// each calls do with the objects of an archive whose names begin with a prefix, ascending, and the start of their hours. Other objects are left out.
func (a *Archive) each(ctx context.Context, name, prefix string, do func(object string, at time.Time) error) error {
	err := a.objects.list(ctx, name+"/"+prefix, func(key string, _ time.Time) error {
		object := strings.TrimPrefix(key, name+"/")
		if at, ok := hourOfObject(object); ok {
			return do(object, at)
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// hourOfObject returns the start of the hour of an object, by its name.
func hourOfObject(object string) (at time.Time, ok bool) {
	hour, file, _ := strings.Cut(object, "/")
	id, ok := strings.CutSuffix(file, archiveExtension)
	if !ok || parts.CheckID("file", id) != nil {
		return at, false
	}
	at, err := time.Parse(archiveHour, hour)
	return at, err == nil
}

// Open returns the plain CSV of an object, which begins with the names of the columns. The caller closes the reader, and may read as slowly as it
// likes, because no connection is open between pieces of PartSize. For an absent object the error matches [io/fs.ErrNotExist]. The error of the
// reader does too, if a large object is removed meanwhile.
func (a *Archive) Open(ctx context.Context, name, object string) (io.ReadCloser, error) {
	if err := checkArchive(name); err != nil {
		return nil, err
	}
	if _, ok := hourOfObject(object); !ok {
		return nil, fmt.Errorf("bucket: archive %s: %.200q is no object", name, object)
	}
	r := &pieces{ctx: ctx, objects: a.objects, key: name + "/" + object}
	if err := r.fetch(); err != nil {
		return nil, a.objects.explain("open", strconv.Quote(r.key), err)
	}
	return driver.Decode(driver.Gzip, r)
}

// pieces reads an object in pieces.
type pieces struct {
	ctx     context.Context
	objects *store
	key     string
	size    int64
	at      int64 // after piece
	piece   []byte
}

// fetch reads the next piece.
func (p *pieces) fetch() error {
	piece, size, err := p.objects.read(p.ctx, p.key, p.at, p.piece[:0])
	if err == nil && p.at > 0 && size != p.size {
		err = driver.Permanent(fmt.Errorf("%s has %d bytes, and had %d before: a different writer has replaced it", p.objects.prefix+p.key, size, p.size))
	}
	if err != nil {
		return err
	}
	p.piece, p.size, p.at = piece, size, p.at+int64(len(piece))
	return nil
}

// Read implements [io.Reader].
func (p *pieces) Read(b []byte) (int, error) {
	if len(p.piece) == 0 {
		if p.at >= p.size {
			return 0, io.EOF
		}
		if err := p.fetch(); err != nil {
			return 0, p.objects.explain("read", strconv.Quote(p.key), err)
		}
	}
	n := copy(b, p.piece)
	p.piece = p.piece[n:]
	return n, nil
}

// Close implements [io.Closer].
func (p *pieces) Close() error { return nil }

// Compact implements [driver.Compactor]. It removes the objects whose time has passed, as ArchiveOptions.KeepFor says.
func (a *Archive) Compact(ctx context.Context, t driver.Table) error {
	if a.options.KeepFor <= 0 {
		return nil
	}
	if err := checkArchive(t.ID); err != nil {
		return err
	}
	before := a.now().Add(-a.options.KeepFor - time.Hour)
	return a.objects.explain("remove", "old objects of "+strconv.Quote(t.ID), a.remove(ctx, t.ID, func(at time.Time) bool { return !at.After(before) }))
}

// remove deletes the objects whose hours begin at certain times, the oldest first, up to the first one that stays.
func (a *Archive) remove(ctx context.Context, name string, goes func(at time.Time) bool) error {
	for {
		var keys []string
		err := a.each(ctx, name, "", func(object string, at time.Time) error {
			if !goes(at) || len(keys) == removedAtOnce {
				return errEnough
			}
			keys = append(keys, name+"/"+object)
			return nil
		})
		if err == nil && len(keys) > 0 {
			err = a.objects.delete(ctx, keys)
		}
		if err != nil || len(keys) < removedAtOnce {
			return err
		}
	}
}

// Erase deletes all objects of an archive. It may be repeated, even after an error. An archive without objects is no error. An
// engine calls it when a source is erased. Versions that a bucket keeps of deleted objects stay, and so do interrupted uploads of large
// objects, see [Archive.RemoveUploads].
func (a *Archive) Erase(ctx context.Context, name string) error {
	if err := checkArchive(name); err != nil {
		return err
	}
	return a.objects.explain("erase", "archive "+strconv.Quote(name), a.remove(ctx, name, func(time.Time) bool { return true }))
}

// Archives returns the names of all archives below the prefix, ascending. It is what an engine needs of its archive when the records of a person
// are erased.
func (a *Archive) Archives(ctx context.Context) (names []string, err error) {
	err = a.objects.folders(ctx, func(name string) {
		if checkArchive(name) == nil {
			names = append(names, name)
		}
	})
	slices.Sort(names)
	return names, a.objects.explain("list", "archives", err)
}

// Replace gives an object other rows, as plain CSV with the names of the columns. Readers find the old object or the new one. For an absent object
// the error matches [io/fs.ErrNotExist]. Versions that a bucket keeps of replaced objects stay.
func (a *Archive) Replace(ctx context.Context, name, object string, rows io.Reader) error {
	if err := checkArchive(name); err != nil {
		return err
	}
	if _, ok := hourOfObject(object); !ok {
		return fmt.Errorf("bucket: archive %s: %.200q is no object", name, object)
	}
	key := name + "/" + object
	return a.objects.explain("replace", strconv.Quote(key), a.replace(ctx, key, rows))
}

func (a *Archive) replace(ctx context.Context, key string, rows io.Reader) (err error) {
	folder, err := os.MkdirTemp(a.options.Scratch, scratchPrefix)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	path := filepath.Join(folder, "object")
	if err := compressTo(path, rows); err != nil {
		return err
	}
	if _, _, err := a.objects.readRange(ctx, key, 0, 1, nil); err != nil { // absent, because the retention has removed it
		return err
	}
	return a.objects.putOnce(ctx, a.objects.prefix+key, func() (io.ReadCloser, error) { return os.Open(path) }, true)
}

// compressTo writes a file with the gzip of rows.
func compressTo(path string, rows io.Reader) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	z, _ := gzip.NewWriterLevel(file, gzip.BestSpeed) // a known level
	_, err = io.Copy(z, rows)
	if err == nil {
		err = z.Close()
	}
	return errors.Join(err, file.Close())
}

// Needs implements [driver.LocalDriver].
func (a *Archive) Needs(stored, raw int64) (folder string, bytes int64) {
	return dir.Archive(a.options.Scratch, dir.ArchiveOptions{}).Needs(stored, raw)
}
