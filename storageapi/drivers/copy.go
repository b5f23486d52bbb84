package drivers

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/ctxio"
	"github.com/forebay/forebay/storageapi"
)

// copySlices uploads the slices, as gzip, with a check of their rows.
func (t *Target) copySlices(ctx context.Context, f *driver.File, file *storageapi.SlicedFile) error {
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

func (t *Target) copySlice(ctx context.Context, f *driver.File, obj driver.Object, name string, file *storageapi.SlicedFile) error {
	src, err := f.OpenRows(ctx, obj)
	if err != nil {
		return err
	}
	defer src.Close()
	// The size must be known before the upload begins.
	temp, err := os.CreateTemp(t.opts.TempDir, "forebay-*.csv.gz")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	defer temp.Close()
	zw, err := gzip.NewWriterLevel(temp, gzip.BestSpeed)
	if err != nil {
		return err
	}
	rows := driver.NewRowReader(io.TeeReader(src, ctxio.Writer(ctx, zw)))
	for rows.Next() {
	}
	if err = rows.Err(); err == nil {
		err = zw.Close()
	}
	if err == nil && rows.Rows() != obj.Rows {
		err = fmt.Errorf("staging has %d rows, want %d", rows.Rows(), obj.Rows)
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
