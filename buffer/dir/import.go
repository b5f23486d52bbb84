package dir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/klauspost/compress/gzip"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/internal/ctxio"
)

// Import implements [buffer.Target], exactly once. It checks the form and the number of the rows, so a slice that was cut
// off in staging is found before its rows count as imported. An existing part with another number of rows than f is a
// [buffer.Permanent] error: the id was used for something else, or the part was changed.
func (t *TableDir) Import(ctx context.Context, f *buffer.File) error {
	if err := checkID("file", f.ID); err != nil {
		return err
	}
	if err := checkTable(f.Table); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	parts, err := t.importFile(ctx, f)
	if err == nil && t.opts.OnImported != nil {
		err = t.opts.OnImported(ctx, f, parts)
	}
	if err != nil {
		return fmt.Errorf("table directory: import %s into %q: %w", f.ID, f.Table.ID, err)
	}
	return nil
}

// importFile returns the paths of the parts that have the rows.
func (t *TableDir) importFile(ctx context.Context, f *buffer.File) (paths []string, err error) {
	d, err := t.ensure(ctx, f.Table)
	if err != nil {
		return nil, err
	}
	if paths, err = t.imported(ctx, d, f); paths != nil || err != nil {
		return paths, err
	}
	var staged map[string]string // temporary files by path in the table
	if d.Partition != "" {
		staged, err = t.split(ctx, d, f)
	} else {
		staged = make(map[string]string)
		staged[f.ID+t.extension()], err = t.stage(ctx, f.ID, func(w io.Writer) error { return t.copyFile(ctx, w, d, f) })
	}
	if err != nil {
		return nil, err
	}
	dir := t.Path(f.Table.ID)
	linked, err := t.isLink(f.Table.ID)
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
			err = t.fs.SyncDir(t.root)
		}
	}
	if err == nil {
		t.removeTempOf(f.ID)
	}
	return paths, err
}

// publishPart gives the only part of a file its name.
func (t *TableDir) publishPart(temp, path string, d definition) error {
	if d.Partition != "" { // its day may be new
		folder := filepath.Dir(path)
		if err := t.fs.MkdirAll(folder); err != nil {
			return err
		}
		if err := t.fs.SyncDir(filepath.Dir(folder)); err != nil {
			return err
		}
	}
	return t.publish(temp, path)
}

// imported returns the paths of the parts with the rows of a file, nil if it was not imported. If parts with other rows let
// the file count as imported, its rows would be lost: all of them are read, because repeated imports are rare.
func (t *TableDir) imported(ctx context.Context, d definition, f *buffer.File) (paths []string, err error) {
	found, err := t.sections(f.Table.ID, f.ID)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	rows, whole, err := t.countSections(ctx, d, found)
	if err != nil {
		return nil, err
	}
	for _, s := range found {
		paths = append(paths, s.path)
		if d.Partition != "" { // its folder may be younger than the last sync, because its writer may have crashed
			if err := errors.Join(t.fs.SyncDir(filepath.Dir(s.path)), t.fs.SyncDir(filepath.Dir(filepath.Dir(s.path)))); err != nil {
				return nil, err
			}
		}
	}
	if linked, err := t.isLink(f.Table.ID); err != nil || linked {
		if err := errors.Join(err, t.fs.SyncDir(t.root)); err != nil { // and so may the link
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

// copyFile writes a part with the rows of all slices.
func (t *TableDir) copyFile(ctx context.Context, w io.Writer, d definition, f *buffer.File) error {
	if !d.NoHeader {
		if err := pack(w, headerLine(d.namesFor(f.Table)), t.opts.Gzip); err != nil {
			return err
		}
	}
	if t.opts.Gzip {
		return copyGzip(ctx, w, f)
	}
	return copyPlain(ctx, w, f)
}

// copyPlain writes the decoded rows of all slices.
func copyPlain(ctx context.Context, w io.Writer, f *buffer.File) error {
	for _, obj := range f.Slices {
		if err := copySlice(ctx, w, f, obj); err != nil {
			return err
		}
	}
	return nil
}

// copySlice writes the decoded rows of a slice.
func copySlice(ctx context.Context, w io.Writer, f *buffer.File, obj buffer.Object) error {
	rc, err := f.OpenRows(ctx, obj)
	if err != nil {
		return fmt.Errorf("open slice %s: %w", obj.ID, err)
	}
	return copyRows(ctx, w, rc, f, obj)
}

// copyGzip writes all slices as gzip members: gzip slices unchanged, others compressed.
func copyGzip(ctx context.Context, w io.Writer, f *buffer.File) error {
	for _, obj := range f.Slices {
		if obj.Encoding != buffer.Gzip {
			zw, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
			if err != nil {
				return err
			}
			if err := copySlice(ctx, zw, f, obj); err != nil {
				return err
			}
			if err := zw.Close(); err != nil {
				return err
			}
			continue
		}
		stored, err := f.OpenSlice(ctx, obj)
		if err != nil {
			return fmt.Errorf("open slice %s: %w", obj.ID, err)
		}
		// The bytes reach the part as the decoder reads them. The decoder reads to the end or fails.
		rc, err := buffer.Decode(obj.Encoding, &teeReader{stored, w})
		if err != nil {
			return fmt.Errorf("open slice %s: %w", obj.ID, err)
		}
		if err := copyRows(ctx, io.Discard, rc, f, obj); err != nil {
			return err
		}
	}
	return nil
}

// teeReader writes everything it reads to w.
type teeReader struct {
	io.ReadCloser
	w io.Writer
}

func (t *teeReader) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	if n > 0 {
		if _, err := t.w.Write(p[:n]); err != nil {
			return 0, err
		}
	}
	return n, err
}

// copyRows copies the plain rows of one slice, checks them, and closes rc.
func copyRows(ctx context.Context, w io.Writer, rc io.ReadCloser, f *buffer.File, obj buffer.Object) error {
	check := rowChecker{columns: len(f.Table.Columns)}
	_, err := io.CopyBuffer(ctxio.Writer(ctx, io.MultiWriter(&check, w)), struct{ io.Reader }{rc}, make([]byte, 128<<10))
	if cerr := rc.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = check.endOf(obj)
	}
	if err != nil {
		return fmt.Errorf("slice %s: %w", obj.ID, err)
	}
	return nil
}
