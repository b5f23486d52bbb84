package main

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/drivers/parquet"
	"github.com/forebay/forebay/internal/program/store"
)

func parquetTarget() targetKind {
	return targetKind{
		prefixes: []string{"parquet:"}, form: "parquet:FOLDER, parquet:s3://BUCKET/PREFIX",
		summary: "Parquet files in folders, or in a bucket (gs:// and azblob:// too)", folders: true, addresses: true, limits: new(parquet.Target),
		open: func(rest string, o dir.TablesOptions) (*store.Store, error) {
			if o.NoHeader || o.Gzip {
				return nil, errors.New("-no-header and -gzip are for CSV files: leave them out with -target parquet:FOLDER")
			}
			if _, ok := cutPrefix(rest, bucketSchemes()); ok {
				return openParquetBucket(rest, o)
			}
			if scheme, _, ok := strings.Cut(rest, "://"); ok {
				return nil, fmt.Errorf("-target parquet:%s:// names no bucket: write a folder, or s3://BUCKET/PREFIX (or gs://, azblob://)", scheme)
			}
			target, err := parquet.Tables(rest, parquet.Options{PartitionBy: o.PartitionBy, MergeTo: o.MergeTo, KeepFor: o.KeepFor})
			if err != nil {
				return nil, fmt.Errorf("-target: %w", err)
			}
			return &store.Store{
				Target: target, Tables: parquetReader{target}, Drop: target.Drop,
				Hint: fmt.Sprintf(`duckdb -c "SELECT country, count(*), sum(total) FROM read_parquet('%s/in.c-shop.orders/**/*.parquet', union_by_name = true) GROUP BY 1"`, rest),
			}, nil
		},
	}
}

// parquetReader reads the parts of tables.
type parquetReader struct{ target *parquet.Target }

// Columns implements [store.Reader].
func (r parquetReader) Columns(table string) ([]datatype.Column, error) {
	return r.target.Columns(table)
}

// Rows implements [store.Reader]. It reads the parts of one version of the table.
func (r parquetReader) Rows(table string) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		columns, err := r.target.Columns(table)
		if err != nil {
			yield(nil, err)
			return
		}
		folder, err := filepath.EvalSymlinks(r.target.Path(table))
		if err != nil {
			yield(nil, err)
			return
		}
		err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".parquet") {
				return err
			}
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			return readPart(f, path, columns, yield)
		})
		if err != nil && !errors.Is(err, fs.SkipAll) {
			yield(nil, err)
		}
	}
}
