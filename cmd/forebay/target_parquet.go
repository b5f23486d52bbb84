package main

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/drivers/parquet"
	"github.com/forebay/forebay/internal/program/server"
	"github.com/forebay/forebay/internal/program/store"
)

func parquetTarget() targetKind {
	return targetKind{
		prefixes: []string{"parquet:"}, form: "parquet:FOLDER, parquet:s3://BUCKET/PREFIX",
		summary: "Parquet in folders, or a bucket (gs://, azblob:// too)", ages: true, addresses: true, limits: new(parquet.Target),
		keys: parquetKeys{},
		prepare: func(rest string, f targetFlags) (opener, []error) {
			if _, ok := cutPrefix(rest, bucketSchemes()); ok {
				return prepareParquetBucket(rest, f)
			}
			if scheme, _, ok := strings.Cut(rest, "://"); ok {
				return nil, []error{server.WrongValue("target", "parquet:%s:// names no bucket: write a folder, or s3://BUCKET/PREFIX (or gs://, azblob://)", scheme)}
			}
			problems := f.refuse("is for CSV files: leave it out with -target parquet:FOLDER", "partition-by", "merge-to", "keep-for")
			var keys parquetKeys
			problems = append(problems, f.options.read(&keys)...)
			if keys.Scratch != "" {
				problems = append(problems, f.options.wrong("scratch", "is for tables in a bucket")...)
			}
			if keys.PartSize != 0 {
				problems = append(problems, f.options.wrong("partSize", "is for tables in a bucket")...)
			}
			target, err := parquet.Tables(rest, parquet.Options{
				PartitionBy: f.PartitionBy, MergeTo: max(f.MergeTo, 0), KeepFor: f.KeepFor, EmptyPart: true, RowGroup: keys.RowGroup, Bloom: f.bloomOr(keys.Bloom), Compression: parquet.Compression(keys.Compression),
			})
			return func() (*store.Store, error) {
				return &store.Store{
					Target: target, Tables: parquetReader{target}, Drop: target.Drop,
					Hint: fmt.Sprintf(`duckdb -c "SELECT country, count(*), sum(total) FROM read_parquet('%s/in.c-shop.orders/**/*.parquet', union_by_name = true) GROUP BY 1"`, rest),
				}, nil
			}, append(problems, f.explain(err, &keys, false)...)
		},
	}
}

// parquetKeys are the options of a Parquet target.
type parquetKeys struct {
	Compression string   `json:"compression" doc:"codec of new parts: zstd, snappy or none; default: zstd"`
	Bloom       []string `json:"bloom" doc:"'string' columns, such as [trace], with Bloom filters, which speed up queries for a single value"`
	RowGroup    int64    `json:"rowGroup" doc:"rows per row group, the unit in which query engines skip rows and divide work; default: 131072"`
	Scratch     string   `json:"scratch" doc:"folder for files that are being imported into a bucket; default: the system's temporary folder"`
	PartSize    byteSize `json:"partSize" doc:"size of the parts in which a large file is sent to a bucket; memory holds four parts at a time; default: 8MB, minimum 5MB"`
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
