package drivers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/internal/ctxio"
	"github.com/forebay/forebay/storageapi"
)

// copySlices uploads the slices, as gzip, with a check of their rows.
func (t *Target) copySlices(ctx context.Context, f *buffer.File, file *storageapi.SlicedFile) error {
	var names []string
	for _, obj := range f.Slices {
		name := obj.ID + ".csv.gz"
		if err := t.copySlice(ctx, f, obj, name, file); err != nil {
			return fmt.Errorf("slice %s: %w", obj.ID, err)
		}
		names = append(names, name)
	}
	return file.Commit(ctx, names...)
}

func (t *Target) copySlice(ctx context.Context, f *buffer.File, obj buffer.Object, name string, file *storageapi.SlicedFile) error {
	rows, err := f.OpenRows(ctx, obj)
	if err != nil {
		return err
	}
	// The size must be known before the upload begins.
	temp, err := os.CreateTemp(t.opts.TempDir, "forebay-*.csv.gz")
	if err != nil {
		return errors.Join(err, rows.Close())
	}
	defer os.Remove(temp.Name())
	defer temp.Close()
	zw, err := gzip.NewWriterLevel(temp, gzip.BestSpeed)
	if err != nil {
		return errors.Join(err, rows.Close())
	}
	check := rowCounter{}
	_, err = io.CopyBuffer(ctxio.Writer(ctx, io.MultiWriter(&check, zw)), struct{ io.Reader }{rows}, make([]byte, 128<<10))
	if cerr := rows.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = zw.Close()
	}
	if err == nil && (check.inCell || check.rows != obj.Rows) {
		err = fmt.Errorf("staging has %d whole rows, want %d", check.rows, obj.Rows)
	}
	if err != nil {
		return err
	}
	info, err := temp.Stat()
	if err != nil {
		return err
	}
	return file.Put(ctx, name, storageapi.Source{
		Size: info.Size(), Open: func() (io.ReadCloser, error) { return os.Open(temp.Name()) },
	})
}

// rowCounter counts CSV rows. A doubled quote leaves a cell and enters it again, which comes to the same.
type rowCounter struct {
	rows   int64
	inCell bool
}

func (c *rowCounter) Write(p []byte) (int, error) {
	for _, b := range p {
		switch {
		case b == '"':
			c.inCell = !c.inCell
		case b == '\n' && !c.inCell:
			c.rows++
		}
	}
	return len(p), nil
}
