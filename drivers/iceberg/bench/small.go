package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/iceberg"
)

const (
	smallFiles = 905
	smallRows  = 21 // of a file
)

// small imports many small files, each followed by Compact, without and with merges, and prints the number of files and the time of a scan.
func small(ctx context.Context, stdout io.Writer) (err error) {
	for _, mergeTo := range []int64{-1, 0} {
		dir, err := os.MkdirTemp("", "small-")
		if err == nil {
			err = errors.Join(smallIn(ctx, stdout, dir, mergeTo), os.RemoveAll(dir))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func smallIn(ctx context.Context, stdout io.Writer, dir string, mergeTo int64) error {
	target, err := iceberg.Open(filepath.Join(dir, "lake"), iceberg.Options{MergeTo: mergeTo})
	if err != nil {
		return err
	}
	defer target.Close()
	var imports, compactions time.Duration
	for n := range smallFiles {
		f := smallFile(n)
		start := time.Now()
		if err := target.Import(ctx, f); err != nil {
			return err
		}
		imported := time.Now()
		imports += imported.Sub(start)
		if err := target.Compact(ctx, f.Table); err != nil {
			return err
		}
		compactions += time.Since(imported)
	}
	tbl, err := target.Catalog().LoadTable(ctx, identifier())
	if err != nil {
		return err
	}
	files, err := tbl.Scan().PlanFiles(ctx)
	if err != nil {
		return err
	}
	start := time.Now()
	rows, err := count(ctx, target)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "MergeTo %d: %d imports, %d rows, %d data files; imports %v, Compact %v, a scan of all rows %v\n", mergeTo, smallFiles, rows,
		len(files), imports.Round(time.Millisecond), compactions.Round(time.Millisecond), time.Since(start).Round(time.Millisecond))
	return err
}

// smallFile returns a file of few rows.
func smallFile(n int) *driver.File {
	var rows bytes.Buffer
	for i := range smallRows {
		fmt.Fprintf(&rows, "\"%d\",\"row %d of file %d\"\n", n*smallRows+i, i, n)
	}
	id := fmt.Sprintf("engine-f%06d", n)
	slice := driver.Object{ID: id + "-s", FileID: id, SinkID: "source/sink", Rows: smallRows, RawBytes: int64(rows.Len())}
	return &driver.File{
		ID: id, SinkID: "source/sink", Rows: smallRows, RawBytes: int64(rows.Len()), Slices: []driver.Object{slice},
		Table: driver.Table{ID: identifier()[1], Columns: []datatype.Column{
			{Name: "id", Type: datatype.Int64, Required: true}, {Name: "text", Type: datatype.String},
		}},
		OpenSlice: func(context.Context, driver.Object) (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(rows.Bytes())), nil
		},
		SaveProgress: func(context.Context, []byte) error { return nil },
	}
}
