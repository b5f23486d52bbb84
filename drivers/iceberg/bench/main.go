// Command bench measures the driver against iceberg-go itself, which writes and commits the same rows from Arrow batches in memory, on all
// cores and with its own settings.
//
//	go run ./bench -json
//
// The scenario import/iceberg is one import, from slices in staging to a committed snapshot. drain/iceberg is the whole path of rows from the
// local disk of an engine, to staging and in several imports to committed snapshots.
//
// With the argument pipeline it measures the path from an event to a query, compared with a program that appends with the library each second:
//
//	go run ./bench pipeline -json
//
// With the argument small it makes 905 imports of 21 rows, with and without merges of their data files:
//
//	go run ./bench small
package main

import (
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	iceberglib "github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"github.com/forebay/forebay/drivers/iceberg"
	"github.com/forebay/forebay/internal/importbench"
	"github.com/forebay/forebay/internal/pipebench"
)

func main() { os.Exit(pipebench.Main(os.Args[1:], os.Stdout, os.Stderr, run)) }

func run(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) == 1 && args[0] == "small" {
		return small(ctx, stdout)
	}
	return pipebench.Compare(ctx, args, stdout, database,
		importbench.Scenario{Name: "import/iceberg", Import: importer, Loader: library, Goal: 0.5},
		importbench.Scenario{Name: "drain/iceberg", Import: drain, Loader: library, RowsPerS: 150_000})
}

func importer(ctx context.Context, dir string, in importbench.Input) (func() error, func() (int64, error), error) {
	target, err := iceberg.Open(dir, iceberg.Options{})
	if err != nil {
		return nil, nil, err
	}
	if err := target.Ensure(ctx, in.File.Table); err != nil {
		return nil, nil, err
	}
	return func() error { return target.Import(ctx, in.File) }, func() (int64, error) { return countAndClose(ctx, target) }, nil
}

func countAndClose(ctx context.Context, target *iceberg.Local) (int64, error) {
	rows, err := count(ctx, target)
	return rows, errors.Join(err, target.Close())
}

// count counts the rows by a scan.
func count(ctx context.Context, target *iceberg.Local) (rows int64, err error) {
	tbl, err := target.Catalog().LoadTable(ctx, identifier())
	if err != nil {
		return 0, err
	}
	_, batches, err := tbl.Scan().ToArrowRecords(ctx)
	if err != nil {
		return 0, err
	}
	for batch, err := range batches {
		if err != nil {
			return 0, err
		}
		rows += batch.NumRows()
		batch.Release()
	}
	return rows, nil
}

// library writes the rows with WriteRecords and commits them.
func library(ctx context.Context, dir string, in importbench.Input) (func() error, func() (int64, error), error) {
	target, err := iceberg.Open(dir, iceberg.Options{})
	if err != nil {
		return nil, nil, err
	}
	if err := target.Ensure(ctx, in.File.Table); err != nil {
		return nil, nil, err
	}
	tbl, err := target.Catalog().LoadTable(ctx, identifier())
	if err != nil {
		return nil, nil, err
	}
	schema, batches, err := read(ctx, tbl, in)
	if err != nil {
		return nil, nil, err
	}
	run := func() error {
		var records iter.Seq2[arrow.RecordBatch, error] = func(yield func(arrow.RecordBatch, error) bool) {
			for _, b := range batches {
				if !yield(b, nil) {
					return
				}
			}
		}
		var files []iceberglib.DataFile
		for f, err := range table.WriteRecords(ctx, tbl, schema, records) {
			if err != nil {
				return err
			}
			files = append(files, f)
		}
		tx := tbl.NewTransaction()
		if err := tx.AddDataFiles(ctx, files, nil); err != nil {
			return err
		}
		_, err := tx.Commit(ctx)
		return err
	}
	return run, func() (int64, error) { return countAndClose(ctx, target) }, nil
}

// read returns the rows as Arrow batches.
func read(ctx context.Context, tbl *table.Table, in importbench.Input) (*arrow.Schema, []arrow.RecordBatch, error) {
	schema, err := table.SchemaToArrowSchema(tbl.Schema(), nil, true, false)
	if err != nil {
		return nil, nil, err
	}
	builder := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	rows := in.File.ReadRows(ctx)
	defer rows.Close()
	var batches []arrow.RecordBatch
	for n := 1; rows.Next(); n++ {
		for i, cell := range rows.Cells() {
			to := builder.Field(i)
			if cell == nil {
				to.AppendNull()
			} else if err := to.AppendValueFromString(text(to, string(cell))); err != nil {
				return nil, nil, err
			}
		}
		if n%8192 == 0 {
			batches = append(batches, builder.NewRecordBatch())
		}
	}
	batches = append(batches, builder.NewRecordBatch())
	return schema, batches, rows.Err()
}

// text is a cell as the builder reads it.
func text(to array.Builder, cell string) string {
	if _, ok := to.(*array.TimestampBuilder); ok {
		return strings.TrimSuffix(cell, "Z") + "+00:00"
	}
	return cell
}
