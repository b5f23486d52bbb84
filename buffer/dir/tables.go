package dir

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"

	"github.com/klauspost/compress/gzip"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/ctxio"
)

// TablesOptions are options of [TablesWith].
type TablesOptions struct {
	// Gzip stores parts as <id>.csv.gz: gzip slices are copied, others are compressed at the fastest level. Default: plain
	// <id>.csv. One table can have parts of both kinds, so the option may change between two runs.
	Gzip bool
}

// TableDir is a [buffer.Target] that keeps each table in a directory. It imports each file exactly once. It is safe for
// concurrent use.
type TableDir struct {
	store
	gzip bool

	// creating is held while a table is created, so that one of two definitions with different columns fails.
	creating sync.Mutex
}

var (
	_ buffer.Target      = (*TableDir)(nil)
	_ buffer.Counter     = (*TableDir)(nil)
	_ buffer.Taker       = (*TableDir)(nil)
	_ buffer.Uncreator   = (*TableDir)(nil)
	_ buffer.LocalDriver = (*TableDir)(nil)
)

// Tables returns a target in the directory path, with the default options. The first Ensure or Import creates the directory.
func Tables(path string) *TableDir { return TablesWith(path, TablesOptions{}) }

// TablesWith is [Tables] with options.
func TablesWith(path string, o TablesOptions) *TableDir {
	return &TableDir{store: newStore(path), gzip: o.Gzip}
}

// Path returns the directory of a table, whether it exists or not. Readers may open its parts at any time: a part is
// complete when it has its name, and never changes.
func (t *TableDir) Path(table string) string { return filepath.Join(t.root, folder(table)) }

// Ensure implements [buffer.Target].
func (t *TableDir) Ensure(ctx context.Context, table buffer.Table) error {
	if err := checkTable(table); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := t.ensure(ctx, table); err != nil {
		return fmt.Errorf("table directory: ensure %q: %w", table.ID, err)
	}
	return nil
}

func (t *TableDir) ensure(ctx context.Context, table buffer.Table) error {
	dir := t.Path(table.ID)
	if err := t.ensureDir(t.root); err != nil {
		return err
	}
	if err := t.ensureDir(dir); err != nil {
		return err
	}
	t.sweep()
	err := t.compare(table)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	t.creating.Lock()
	defer t.creating.Unlock()
	if err := t.compare(table); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	data, err := json.MarshalIndent(definition{Version: definitionVersion, ID: table.ID, Columns: table.Columns, Creation: table.Creation}, "", "  ")
	if err != nil {
		return err
	}
	return t.write(ctx, filepath.Join(dir, definitionFile), definitionID(table.ID), func(w io.Writer) error {
		_, err := w.Write(append(data, '\n'))
		return err
	})
}

// compare returns an error for a table with other columns. A missing table is fs.ErrNotExist.
func (t *TableDir) compare(table buffer.Table) error {
	columns, err := t.Columns(table.ID)
	if err != nil {
		return err
	}
	if !slices.Equal(columns, table.Columns) {
		return &buffer.SchemaError{Table: table.ID, Want: slices.Clone(table.Columns), Got: columns}
	}
	return nil
}

const (
	definitionFile    = "table.json"
	definitionVersion = 1
)

// definition is the content of table.json.
type definition struct {
	Version int               `json:"version"`
	ID      string            `json:"id"`
	Columns []datatype.Column `json:"columns"`
	// Creation is the mark of the call that created the table.
	Creation string `json:"creation,omitempty"`
}

// Columns returns the columns of a table. A missing table is an error that matches [fs.ErrNotExist].
func (t *TableDir) Columns(table string) ([]datatype.Column, error) {
	d, err := t.definition(table)
	return d.Columns, err
}

// definition reads table.json. A missing table is fs.ErrNotExist.
func (t *TableDir) definition(table string) (d definition, err error) {
	path := filepath.Join(t.Path(table), definitionFile)
	rc, err := t.fs.Open(path)
	if err != nil {
		return d, err
	}
	defer rc.Close()
	data, err := io.ReadAll(rc)
	if err != nil {
		if info, e := t.fs.Stat(path); e == nil && !info.Mode().IsRegular() {
			err = buffer.Permanent(fmt.Errorf("%s is no regular file (%s): move it away", path, info.Mode()))
		}
		return d, err
	}
	// The version is read first, because a newer format may not fit the type.
	var v struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return d, buffer.Permanent(fmt.Errorf("%s is damaged, restore it or delete the table: %w", path, err))
	}
	if v.Version != definitionVersion {
		return d, buffer.Permanent(fmt.Errorf("%s has version %d, this release knows version %d", path, v.Version, definitionVersion))
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return d, buffer.Permanent(fmt.Errorf("%s is damaged, restore it or delete the table: %w", path, err))
	}
	if d.ID != table {
		return d, buffer.Permanent(fmt.Errorf("%s belongs to table %q, whose id shares a folder with %q: rename one of them", path, d.ID, table))
	}
	return d, nil
}

const plainPart, gzipPart = ".csv", ".csv.gz"

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
	if err := t.importFile(ctx, f); err != nil {
		return fmt.Errorf("table directory: import %s into %q: %w", f.ID, f.Table.ID, err)
	}
	return nil
}

func (t *TableDir) importFile(ctx context.Context, f *buffer.File) error {
	if err := t.ensure(ctx, f.Table); err != nil {
		return err
	}
	path, err := t.findPart(f.Table.ID, f.ID)
	if err != nil {
		return err
	}
	if path != "" {
		return t.checkImported(ctx, path, f)
	}
	if t.gzip {
		return t.write(ctx, t.part(f.Table.ID, f.ID, gzipPart), f.ID, func(w io.Writer) error { return copyGzip(ctx, w, f) })
	}
	return t.write(ctx, t.part(f.Table.ID, f.ID, plainPart), f.ID, func(w io.Writer) error { return copyPlain(ctx, w, f) })
}

// Needs implements [buffer.LocalDriver].
func (t *TableDir) Needs(stored, raw int64) (folder string, bytes int64) {
	if t.gzip { // slices of another encoding are compressed again, perhaps less
		return t.root, min(raw, 2*stored)
	}
	return t.root, raw
}

func (t *TableDir) part(table, id, extension string) string {
	return filepath.Join(t.Path(table), id+extension)
}

// findPart returns the path of the part of a file, or "" if it was not imported.
func (t *TableDir) findPart(table, id string) (string, error) {
	for _, extension := range []string{plainPart, gzipPart} {
		path := t.part(table, id, extension)
		if info, err := t.find(path); info != nil || err != nil {
			return path, err
		}
	}
	return "", nil
}

// checkImported compares the part with the name of f with f. If a part with other rows let f count as imported, the rows of
// f would be lost. The whole part is read, because repeated imports are rare.
func (t *TableDir) checkImported(ctx context.Context, path string, f *buffer.File) error {
	rows, err := t.countRows(ctx, path)
	if err != nil {
		return err
	}
	var want int64 // as in the import, which checks every slice
	for _, obj := range f.Slices {
		want += obj.Rows
	}
	if rows != want {
		return buffer.Permanent(fmt.Errorf("%s has %d rows, but the file of that id has %d: "+
			"move the part away if its rows are not those of the file, then it is imported", path, rows, want))
	}
	return nil
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
		err = check.end()
	}
	if err != nil {
		return fmt.Errorf("slice %s: %w", obj.ID, err)
	}
	if check.rows != obj.Rows {
		return fmt.Errorf("slice %s: staging has %d rows, want %d", obj.ID, check.rows, obj.Rows)
	}
	return nil
}
