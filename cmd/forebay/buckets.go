//go:build !forebay_nobucket

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/bucket"
	"github.com/forebay/forebay/drivers/parquet"
	"github.com/forebay/forebay/internal/program/store"
)

// bucketsMissing says that the program was built without buckets. Empty means that it has them.
const bucketsMissing = ""

// openBucketArchive opens the raw records in the bucket of a URL.
func openBucketArchive(ctx context.Context, url string, keepFor time.Duration) (bucketArchive, error) {
	a, err := bucket.OpenArchive(ctx, url, bucket.ArchiveOptions{KeepFor: keepFor})
	if err != nil {
		return nil, err
	}
	return a, nil
}

// openBucketStaging opens the files that wait in the bucket of a URL.
func openBucketStaging(url string) (driver.Staging, func() error, error) {
	staging, err := bucket.Open(context.Background(), url, bucket.Options{})
	if err != nil {
		return nil, nil, err
	}
	return staging, staging.Close, nil
}

// checkBucket returns the fault of a bucket's URL.
func checkBucket(url string) error { return bucket.ValidateURL(context.Background(), url) }

// prepareParquetBucket checks tables of Parquet in the bucket of a URL.
func prepareParquetBucket(url string, f targetFlags) (opener, []error) {
	problems := f.refuse("does not go with -target parquet: and a bucket, where parts are Parquet and neither merged nor removed: leave it out", "partition-by")
	var keys parquetKeys
	problems = append(problems, f.options.read(&keys)...)
	opts := bucket.TablesOptions{
		PartitionBy: f.PartitionBy, RowGroup: keys.RowGroup, Bloom: f.bloomOr(keys.Bloom), Compression: parquet.Compression(keys.Compression), Scratch: keys.Scratch, PartSize: int64(keys.PartSize),
	}
	return func() (*store.Store, error) { return openParquetBucket(url, opts) },
		slices.Concat(problems, f.explain(opts.Validate(), &keys, false), f.explain(bucket.ValidateURL(context.Background(), url), &keys, true))
}

func openParquetBucket(url string, opts bucket.TablesOptions) (*store.Store, error) {
	target, err := bucket.OpenTables(context.Background(), url, opts)
	if err != nil {
		return nil, err
	}
	return &store.Store{
		Target: target, Tables: bucketReader{target}, Closer: target.Close,
		Hint: fmt.Sprintf(`duckdb -c "SELECT country, count(*), sum(total) FROM '%s/in.c-shop.orders/**/*.parquet' GROUP BY 1"`, inDuckDB(url)),
	}, nil
}

// bucketReader reads the parts of tables in a bucket.
type bucketReader struct{ target *bucket.Tables }

// Columns implements [store.Reader].
func (r bucketReader) Columns(table string) ([]datatype.Column, error) {
	return r.target.Columns(context.Background(), table)
}

// Rows implements [store.Reader].
func (r bucketReader) Rows(table string) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		names, err := r.target.Parts(context.Background(), table)
		if err != nil {
			yield(nil, err)
			return
		}
		columns, err := r.Columns(table) // read after the list, so that they include the columns of every part
		if err != nil {
			yield(nil, err)
			return
		}
		for _, name := range names {
			if err := r.readPart(name, columns, yield); err != nil {
				if !errors.Is(err, fs.SkipAll) {
					yield(nil, err)
				}
				return
			}
		}
	}
}

// readPart copies a part to a temporary file, because readers of Parquet go back and forth.
func (r bucketReader) readPart(name string, columns []datatype.Column, yield func([]string, error) bool) (err error) {
	rc, err := r.target.OpenPart(context.Background(), name)
	if err != nil {
		return err
	}
	defer rc.Close()
	f, err := os.CreateTemp("", "forebay-read-*.parquet")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	if _, err := io.Copy(f, rc); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return readPart(f, name, columns, yield)
}
