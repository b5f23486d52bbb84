package dir

import (
	"context"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/ctxio"
	"github.com/forebay/forebay/driverkit/parts"
)

const plainPart, gzipPart = ".csv", ".csv.gz"

// csvFormat is the [parts.Format] of CSV.
type csvFormat struct{ gzip bool }

// Name implements [parts.Format].
func (csvFormat) Name() string { return "" }

// Extensions implements [parts.Format].
func (csvFormat) Extensions() []string { return []string{plainPart, gzipPart} }

// extension ends the names of new parts.
func (c csvFormat) extension() string {
	if c.gzip {
		return gzipPart
	}
	return plainPart
}

// Stage implements [parts.Format].
func (c csvFormat) Stage(ctx context.Context, s *parts.Store, d parts.Definition, f *driver.File) (map[string]string, error) {
	if d.Partition != "" {
		return c.split(ctx, s, d, f)
	}
	temp, err := s.StageFile(ctx, f.ID, func(w io.Writer) error { return c.copyFile(ctx, w, d, f) })
	return map[string]string{d.PartPath("", f.ID, f.Rows, c.extension()): temp}, err
}

// Empty implements [parts.EmptyFormat]. The part of a table that was created without header lines has none.
func (csvFormat) Empty(w io.Writer, d parts.Definition) error {
	if d.NoHeader {
		return nil
	}
	_, err := w.Write(headerLine(datatype.Names(d.Columns)))
	return err
}

// copyFile writes a part with the rows of all slices.
func (c csvFormat) copyFile(ctx context.Context, w io.Writer, d parts.Definition, f *driver.File) error {
	if !d.NoHeader {
		if err := pack(w, headerLine(d.NamesFor(f.Table)), c.gzip); err != nil {
			return err
		}
	}
	if c.gzip {
		return copyGzip(ctx, w, f)
	}
	return copyPlain(ctx, w, f)
}

// copyPlain writes the decoded rows of all slices.
func copyPlain(ctx context.Context, w io.Writer, f *driver.File) error {
	for _, obj := range f.Slices {
		if err := copySlice(ctx, w, f, obj); err != nil {
			return err
		}
	}
	return nil
}

// copySlice writes the decoded rows of a slice.
func copySlice(ctx context.Context, w io.Writer, f *driver.File, obj driver.Object) error {
	rc, err := f.OpenRows(ctx, obj)
	if err != nil {
		return fmt.Errorf("open slice %s: %w", obj.ID, err)
	}
	return copyRows(ctx, w, rc, f, obj)
}

// copyGzip writes all slices as gzip members, gzip slices unchanged, others compressed.
func copyGzip(ctx context.Context, w io.Writer, f *driver.File) error {
	for _, obj := range f.Slices {
		if obj.Encoding != driver.Gzip {
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
		rc, err := driver.Decode(obj.Encoding, &teeReader{stored, w})
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
func copyRows(ctx context.Context, w io.Writer, rc io.ReadCloser, f *driver.File, obj driver.Object) error {
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
