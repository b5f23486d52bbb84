// Command bench measures how fast slices and tables reach a bucket, compared with the uploads of the AWS SDK, on an S3 server that it starts.
//
//	go run ./bench -json
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/bucket"
	"github.com/forebay/forebay/drivers/parquet"
	"github.com/forebay/forebay/internal/buckettest"
	"github.com/forebay/forebay/internal/importbench"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) (err error) {
	buckettest.SetEnv()
	server, err := buckettest.StartS3()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	s := &store{server: server, sdk: s3.New(s3.Options{
		BaseEndpoint: aws.String("http://" + server.Address), Region: "us-east-1", UsePathStyle: true,
		Credentials:                credentials.NewStaticCredentialsProvider(buckettest.AccessKey, buckettest.SecretKey, ""),
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired, // as the driver does with an endpoint
	})}
	return importbench.Run(ctx, args, stdout,
		importbench.Scenario{Name: "upload/bucket", Import: s.slices, Loader: s.uploads, Goal: 0.9},
		importbench.Scenario{Name: "import/bucket", Import: s.tables, Loader: s.partUpload, Goal: 0.9})
}

// store is an S3 server with a bucket for each round.
type store struct {
	server  *buckettest.Server
	sdk     *s3.Client
	buckets atomic.Int64
}

func (s *store) bucket() (name, url string, err error) {
	name = fmt.Sprintf("round-%d", s.buckets.Add(1))
	return name, buckettest.S3URL(s.server.Address, name), s.server.CreateBucket(name)
}

// stored returns the rows of in if the bucket has the wanted bytes, and removes it.
func (s *store) stored(ctx context.Context, name string, in importbench.Input, want int64) (int64, error) {
	var got int64
	pages := s3.NewListObjectsV2Paginator(s.sdk, &s3.ListObjectsV2Input{Bucket: &name})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return 0, err
		}
		for _, o := range page.Contents {
			got += *o.Size
		}
	}
	if got != want {
		return 0, fmt.Errorf("the bucket has %d bytes, want %d", got, want)
	}
	return in.File.Rows, s.server.RemoveBucket(name)
}

// content is a slice in a file.
type content struct{ path string }

func (c content) Open() (io.ReadCloser, error) { return os.Open(c.path) }

func (c content) WriteTo(w io.Writer) (int64, error) {
	f, err := os.Open(c.path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return f.WriteTo(w)
}

// copySlices writes the slices to files, which both ways read.
func copySlices(ctx context.Context, dir string, in importbench.Input) (paths []string, size int64, err error) {
	for _, obj := range in.File.Slices {
		r, err := in.File.OpenSlice(ctx, obj)
		if err != nil {
			return nil, 0, err
		}
		path := filepath.Join(dir, obj.ID)
		f, err := os.Create(path)
		if err != nil {
			return nil, 0, errors.Join(err, r.Close())
		}
		n, err := io.Copy(f, r)
		if err := errors.Join(err, f.Close(), r.Close()); err != nil {
			return nil, 0, err
		}
		paths, size = append(paths, path), size+n
	}
	return paths, size, nil
}

// slices puts the slices one after the other.
func (s *store) slices(ctx context.Context, dir string, in importbench.Input) (func() error, func() (int64, error), error) {
	name, url, err := s.bucket()
	if err != nil {
		return nil, nil, err
	}
	staging, err := bucket.Open(ctx, url, bucket.Options{})
	if err != nil {
		return nil, nil, err
	}
	paths, size, err := copySlices(ctx, dir, in)
	run := func() error {
		for i, obj := range in.File.Slices {
			if err := staging.Put(ctx, obj, content{paths[i]}); err != nil {
				return err
			}
		}
		return nil
	}
	end := func() (int64, error) {
		rows, err := s.stored(ctx, name, in, size)
		return rows, errors.Join(err, staging.Close())
	}
	return run, end, err
}

// uploads uploads the same files with the SDK's defaults.
func (s *store) uploads(ctx context.Context, dir string, in importbench.Input) (func() error, func() (int64, error), error) {
	name, _, err := s.bucket()
	if err != nil {
		return nil, nil, err
	}
	paths, size, err := copySlices(ctx, dir, in)
	run := func() error { return s.upload(ctx, name, paths...) }
	return run, func() (int64, error) { return s.stored(ctx, name, in, size) }, err
}

func (s *store) upload(ctx context.Context, name string, paths ...string) error {
	manager := transfermanager.New(s.sdk, func(o *transfermanager.Options) {
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
	})
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		_, err = manager.UploadObject(ctx, &transfermanager.UploadObjectInput{Bucket: &name, Key: aws.String(filepath.Base(path)), Body: f})
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// tables imports into a table in the bucket.
func (s *store) tables(ctx context.Context, dir string, in importbench.Input) (func() error, func() (int64, error), error) {
	name, url, err := s.bucket()
	if err != nil {
		return nil, nil, err
	}
	tables, err := bucket.OpenTables(ctx, url, bucket.TablesOptions{Scratch: dir})
	if err != nil {
		return nil, nil, err
	}
	end := func() (int64, error) {
		rows, err := tables.CountFile(ctx, in.File.Table, in.File.ID)
		return rows, errors.Join(err, tables.Close(), s.server.RemoveBucket(name))
	}
	return func() error { return tables.Import(ctx, in.File) }, end, tables.Ensure(ctx, in.File.Table)
}

// partUpload imports into a folder and uploads the part with the SDK.
func (s *store) partUpload(ctx context.Context, dir string, in importbench.Input) (func() error, func() (int64, error), error) {
	name, _, err := s.bucket()
	if err != nil {
		return nil, nil, err
	}
	var paths []string
	folder, err := parquet.Tables(dir, parquet.Options{MergeTo: -1, OnImported: func(_ context.Context, _ *driver.File, parts []string) error {
		paths = parts
		return nil
	}})
	if err != nil {
		return nil, nil, err
	}
	run := func() error {
		if err := folder.Import(ctx, in.File); err != nil {
			return err
		}
		return s.upload(ctx, name, paths...)
	}
	end := func() (int64, error) {
		rows, err := folder.CountFile(ctx, in.File.Table, in.File.ID)
		return rows, errors.Join(err, s.server.RemoveBucket(name))
	}
	return run, end, folder.Ensure(ctx, in.File.Table)
}
