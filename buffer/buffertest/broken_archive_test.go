package buffertest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/suitetest"
)

// brokenArchive is an archive in a folder whose operations a test replaces.
type brokenArchive struct {
	*dir.ArchiveDir
	root    string
	imp     func(ctx context.Context, a brokenArchive, f *driver.File) error
	objects func(ctx context.Context, a brokenArchive, source string, from, to time.Time) ([]string, error)
	open    func(ctx context.Context, a brokenArchive, source, object string) (io.ReadCloser, error)
	compact func(ctx context.Context, a brokenArchive, t driver.Table) error
	erase   func(ctx context.Context, a brokenArchive, archive string) error
	replace func(ctx context.Context, a brokenArchive, archive, object string, rows io.Reader) error
}

func (a brokenArchive) Replace(ctx context.Context, archive, object string, rows io.Reader) error {
	if a.replace != nil {
		return a.replace(ctx, a, archive, object, rows)
	}
	return a.ArchiveDir.Replace(ctx, archive, object, rows)
}

var errEnough = errors.New("enough")

func (a brokenArchive) Erase(ctx context.Context, archive string) error {
	if a.erase != nil {
		return a.erase(ctx, a, archive)
	}
	return a.ArchiveDir.Erase(ctx, archive)
}

func (a brokenArchive) Import(ctx context.Context, f *driver.File) error {
	if a.imp != nil {
		return a.imp(ctx, a, f)
	}
	return a.ArchiveDir.Import(ctx, f)
}

func (a brokenArchive) Objects(ctx context.Context, source string, from, to time.Time) ([]string, error) {
	if a.objects != nil {
		return a.objects(ctx, a, source, from, to)
	}
	return a.ArchiveDir.Objects(ctx, source, from, to)
}

func (a brokenArchive) Open(ctx context.Context, source, object string) (io.ReadCloser, error) {
	if a.open != nil {
		return a.open(ctx, a, source, object)
	}
	return a.ArchiveDir.Open(ctx, source, object)
}

func (a brokenArchive) Compact(ctx context.Context, t driver.Table) error {
	if a.compact != nil {
		return a.compact(ctx, a, t)
	}
	return a.ArchiveDir.Compact(ctx, t)
}

// changed reads objects with other bytes.
func changed(change func(data []byte) []byte) brokenArchive {
	return brokenArchive{open: func(ctx context.Context, a brokenArchive, source, object string) (io.ReadCloser, error) {
		rc, err := a.ArchiveDir.Open(ctx, source, object)
		if err != nil {
			return nil, err
		}
		defer rc.Close()
		data, err := io.ReadAll(rc)
		return io.NopCloser(bytes.NewReader(change(data))), err
	}}
}

// renamed imports under another id.
func renamed(id func(f *driver.File) string) brokenArchive {
	n := 0
	return brokenArchive{imp: func(ctx context.Context, a brokenArchive, f *driver.File) error {
		file := *f
		if file.ID = id(f); file.ID == "" {
			n++
			file.ID = f.ID + strings.Repeat("-x", n)
		}
		return a.ArchiveDir.Import(ctx, &file)
	}}
}

// Each of these archives breaks one promise, and the check named for the promise must fail.
func TestBrokenArchiveIsCaught(t *testing.T) {
	if testing.Short() {
		t.Skip("the sound archives are enough for the race detector")
	}
	for name, tc := range map[string]struct {
		caughtBy string
		archive  brokenArchive
	}{
		"no row with names": {"Rows", changed(func(data []byte) []byte { return data[bytes.IndexByte(data, '\n')+1:] })},
		"bytes are cleaned": {"Rows", changed(func(data []byte) []byte { return bytes.ToValidUTF8(data, []byte("?")) })},
		"line ends change":  {"Rows", changed(func(data []byte) []byte { return bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")) })},
		"rows of an object are sorted": {"Rows", changed(func(data []byte) []byte {
			rows, _ := parseRows(data)
			slices.SortFunc(rows[1:], slices.Compare[[]string])
			var out []byte
			for _, row := range rows {
				out = appendRow(out, row)
			}
			return out
		})},
		"large objects end early": {"LargeObject", changed(func(data []byte) []byte {
			end := min(len(data), 6<<20)
			return data[:bytes.LastIndexByte(data[:end], '\n')+1]
		})},
		"local time": {"Ranges", brokenArchive{objects: func(ctx context.Context, a brokenArchive, source string, from, to time.Time) ([]string, error) {
			wall := func(at time.Time) time.Time {
				_, offset := at.Zone()
				return at.Add(time.Duration(offset) * time.Second)
			}
			return a.ArchiveDir.Objects(ctx, source, wall(from), wall(to))
		}}},
		"the hour of the start is left out": {"Ranges", brokenArchive{objects: func(ctx context.Context, a brokenArchive, source string, from, to time.Time) ([]string, error) {
			return a.ArchiveDir.Objects(ctx, source, from.Add(time.Hour), to)
		}}},
		"bounds are ignored": {"Ranges", brokenArchive{objects: func(ctx context.Context, a brokenArchive, source string, _, _ time.Time) ([]string, error) {
			from, to := anyTime()
			return a.ArchiveDir.Objects(ctx, source, from, to)
		}}},
		"objects in any order": {"ManyHours", brokenArchive{objects: func(ctx context.Context, a brokenArchive, source string, from, to time.Time) ([]string, error) {
			list, err := a.ArchiveDir.Objects(ctx, source, from, to)
			slices.Reverse(list)
			return list, err
		}}},
		"only the first hours of a file": {"ManyHours", brokenArchive{objects: func(ctx context.Context, a brokenArchive, source string, from, to time.Time) ([]string, error) {
			list, err := a.ArchiveDir.Objects(ctx, source, from, to)
			return list[:min(len(list), 32)], err
		}}},
		"an id is forgotten":    {"ImportAgain", renamed(func(*driver.File) string { return "" })},
		"files share an object": {"ImportConcurrently", renamed(func(*driver.File) string { return "all" })},
		"a fault counts as done": {"ImportInterrupted", brokenArchive{imp: func(ctx context.Context, a brokenArchive, f *driver.File) error {
			_ = a.ArchiveDir.Import(ctx, f)
			return nil
		}}},
		"half a file is archived": {"ImportInterrupted", brokenArchive{imp: half}},
		"contexts are ignored": {"ImportCancelled", brokenArchive{imp: func(_ context.Context, a brokenArchive, f *driver.File) error {
			return a.ArchiveDir.Import(context.Background(), f)
		}}},
		"absent objects are empty": {"Absent", brokenArchive{open: func(ctx context.Context, a brokenArchive, source, object string) (io.ReadCloser, error) {
			rc, err := a.ArchiveDir.Open(ctx, source, object)
			if errors.Is(err, fs.ErrNotExist) {
				return io.NopCloser(strings.NewReader("")), nil
			}
			return rc, err
		}}},
		"wrong files are tried again": {"Refuses", brokenArchive{imp: func(ctx context.Context, a brokenArchive, f *driver.File) error {
			if err := a.ArchiveDir.Import(ctx, f); err != nil {
				return errors.New(err.Error())
			}
			return nil
		}}},
		"nothing is removed": {"Retention", brokenArchive{compact: func(context.Context, brokenArchive, driver.Table) error { return nil }}},
		"all is removed": {"Retention", brokenArchive{compact: func(ctx context.Context, a brokenArchive, t driver.Table) error {
			return dir.Archive(a.root, dir.ArchiveOptions{KeepFor: 1}).Compact(ctx, t)
		}}},
		"old objects are removed without a retention": {"NoRetention", brokenArchive{compact: func(ctx context.Context, a brokenArchive, t driver.Table) error {
			return dir.Archive(a.root, dir.ArchiveOptions{KeepFor: time.Hour}).Compact(ctx, t)
		}}},
		"only old objects are erased": {"Erase", brokenArchive{erase: func(ctx context.Context, a brokenArchive, archive string) error {
			table := archiveTable()
			if table.ID = archive; strings.Trim(archive, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" {
				return a.ArchiveDir.Erase(ctx, archive)
			}
			return dir.Archive(a.root, dir.ArchiveOptions{KeepFor: time.Since(archiveHour.Add(2 * time.Hour))}).Compact(ctx, table)
		}}},
		"generations are erased together": {"Erase", brokenArchive{erase: func(ctx context.Context, a brokenArchive, archive string) error {
			err := a.ArchiveDir.Erase(ctx, archive)
			folders, _ := filepath.Glob(filepath.Join(a.root, archive+".*"))
			for _, folder := range folders {
				err = errors.Join(err, a.ArchiveDir.Erase(ctx, filepath.Base(folder)))
			}
			return err
		}}},
		"an erasure leads elsewhere": {"Erase", brokenArchive{erase: func(ctx context.Context, a brokenArchive, archive string) error {
			if err := a.ArchiveDir.Erase(ctx, archive); err != nil && !driver.IsPermanent(err) {
				return err
			}
			return nil
		}}},
		"half an object is replaced": {"Replace", brokenArchive{replace: func(ctx context.Context, a brokenArchive, archive, object string, rows io.Reader) error {
			some, failed := io.ReadAll(rows)
			return errors.Join(a.ArchiveDir.Replace(ctx, archive, object, bytes.NewReader(some)), failed)
		}}},
		"a replaced object keeps its rows": {"Replace", brokenArchive{replace: func(ctx context.Context, a brokenArchive, archive, object string, rows io.Reader) error {
			err := a.ArchiveDir.Replace(ctx, archive, object, iotest.ErrReader(errEnough))
			if errors.Is(err, errEnough) {
				_, err = io.Copy(io.Discard, rows)
			}
			return err
		}}},
		"an absent object is made": {"Replace", brokenArchive{replace: func(ctx context.Context, a brokenArchive, archive, object string, rows io.Reader) error {
			err := a.ArchiveDir.Replace(ctx, archive, object, rows)
			if errors.Is(err, fs.ErrNotExist) {
				err = errors.Join(err, os.WriteFile(filepath.Join(a.root, archive, filepath.FromSlash(object)), nil, 0o600))
			}
			return err
		}}},
		"an object is replaced under another name": {"Replace", brokenArchive{replace: func(ctx context.Context, a brokenArchive, archive, object string, rows io.Reader) error {
			err := a.ArchiveDir.Replace(ctx, archive, object, rows)
			if err == nil {
				path := filepath.Join(a.root, archive, filepath.FromSlash(object))
				err = os.Rename(path, strings.Replace(path, "file", "new-file", 1))
			}
			return err
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			if failed := failedArchive(t, tc.caughtBy, tc.archive); len(failed) != 1 {
				t.Errorf("%s does not catch it", tc.caughtBy)
			}
		})
	}
}

// half archives the rows of the slices that can be opened.
func half(ctx context.Context, a brokenArchive, f *driver.File) error {
	file := *f
	file.OpenSlice = func(ctx context.Context, obj driver.Object) (io.ReadCloser, error) {
		rc, err := f.OpenSlice(ctx, obj)
		if err != nil {
			return io.NopCloser(strings.NewReader("")), nil
		}
		return rc, nil
	}
	file.Slices = slices.DeleteFunc(slices.Clone(f.Slices), func(obj driver.Object) bool {
		rc, err := f.OpenSlice(ctx, obj)
		if err == nil {
			_, err = io.Copy(io.Discard, rc)
			rc.Close()
		}
		return err != nil
	})
	file.Rows = 0
	for _, obj := range file.Slices {
		file.Rows += obj.Rows
	}
	if err := a.ArchiveDir.Import(ctx, &file); err != nil || len(file.Slices) == len(f.Slices) {
		return err
	}
	return errInjected
}

// failedArchive runs the checks of that name, or all if it is empty, and returns the names of the failed checks.
func failedArchive(t *testing.T, name string, archive brokenArchive) (failed []string) {
	for _, c := range archiveChecks {
		if name != "" && c.name != name {
			continue
		}
		if errs := suitetest.Failures(t.Context(), func(r tb) {
			archive.root = filepath.Join(t.TempDir(), "archive")
			open := func() ArchiveTarget {
				archive.ArchiveDir = dir.Archive(archive.root, dir.ArchiveOptions{KeepFor: c.keepFor})
				return archive
			}
			c.run(r, &archiveBench{ArchiveTarget: open(), t: r, reopen: open})
		}); errs != nil {
			t.Logf("%s: %s", c.name, errs[0])
			failed = append(failed, c.name)
		}
	}
	return failed
}

func TestSoundArchivePasses(t *testing.T) {
	if failed := failedArchive(t, "", brokenArchive{}); failed != nil {
		t.Errorf("%q fail, want nil", failed)
	}
}
