// Command bench measures the import into a folder of Parquet compared with the library's own writer, which gets the same rows as Go structs
// from memory and writes them with the same schema, encodings and codec to a file that it syncs.
//
//	go run ./bench -encoding gzip -json
//
// With the argument pipeline it measures the path from an event to a query, compared with a program that closes a file with the library each second:
//
//	go run ./bench pipeline -json
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/parquet"
	"github.com/forebay/forebay/internal/importbench"
	"github.com/forebay/forebay/internal/pipebench"
)

func main() { os.Exit(pipebench.Main(os.Args[1:], os.Stdout, os.Stderr, run)) }

func run(ctx context.Context, args []string, stdout io.Writer) error {
	return pipebench.Compare(ctx, args, stdout, database, importbench.Scenario{Name: "import/parquet", Import: importer, Loader: library, Goal: 0.9})
}

// table returns the table of the input. Columns without NULL are required, as fields of a Go struct are in the library.
func table() driver.Table {
	t := importbench.Table()
	for i := range t.Columns {
		t.Columns[i].Required = t.Columns[i].Name != "value"
	}
	return t
}

func importer(ctx context.Context, dir string, in importbench.Input) (func() error, func() (int64, error), error) {
	target, err := parquet.Tables(filepath.Join(dir, "lake"), parquet.Options{})
	if err != nil {
		return nil, nil, err
	}
	f := *in.File
	f.Table = table()
	if err := target.Ensure(ctx, f.Table); err != nil {
		return nil, nil, err
	}
	end := func() (int64, error) { return countRows(target.Path(f.Table.ID)) }
	return func() error { return target.Import(ctx, &f) }, end, nil
}

// row is a row as a program gives it to the library.
type row struct {
	ID    [16]byte `parquet:"id,uuid"`
	At    int64    `parquet:"at,delta,timestamp(microsecond)"`
	N     int64    `parquet:"n,delta"`
	Kind  string   `parquet:"kind,dict"`
	Value *float64 `parquet:"value,optional"`
	OK    bool     `parquet:"ok"`
	Body  string   `parquet:"body"`
}

func library(ctx context.Context, dir string, in importbench.Input) (func() error, func() (int64, error), error) {
	rows, err := structs(ctx, in.File)
	if err != nil {
		return nil, nil, err
	}
	run := func() error { return writeFile(filepath.Join(dir, "rows.parquet"), rows) }
	return run, func() (int64, error) { return countRows(dir) }, nil
}

// structs reads the rows of a file.
func structs(ctx context.Context, f *driver.File) (all []row, err error) {
	rows := f.ReadRows(ctx)
	defer rows.Close()
	for rows.Next() {
		var r row
		var errs [5]error
		c := rows.Cells()
		r.ID, errs[0] = datatype.ParseUUID(c[0])
		r.At, errs[1] = datatype.ParseTimestamp(c[1])
		r.N, errs[2] = datatype.ParseInt64(c[2])
		r.Kind, r.Body = string(c[3]), string(c[6])
		if c[4] != nil {
			r.Value = new(float64)
			*r.Value, errs[3] = datatype.ParseFloat64(c[4])
		}
		r.OK, errs[4] = datatype.ParseBool(c[5])
		if err := errors.Join(errs[:]...); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, rows.Err()
}

// writeFile writes rows as a user of the library does.
func writeFile[T any](path string, rows []T) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := pq.NewGenericWriter[T](f, pq.Compression(&zstd.Codec{Level: zstd.SpeedFastest}), pq.MaxRowsPerRowGroup(128<<10))
	if _, err := w.Write(rows); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return f.Sync()
}

// countRows reads how many rows the parts of a folder have.
func countRows(dir string) (rows int64, err error) {
	if dir, err = filepath.EvalSymlinks(dir); errors.Is(err, os.ErrNotExist) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*.parquet"))
	if err != nil {
		return 0, err
	}
	for _, path := range paths {
		n, err := rowsOf(path)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", path, err)
		}
		rows += n
	}
	return rows, nil
}

func rowsOf(path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	p, err := pq.OpenFile(f, info.Size(), pq.SkipPageIndex(true))
	if err != nil {
		return 0, err
	}
	return p.NumRows(), nil
}
