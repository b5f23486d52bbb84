//go:build forebay_nobucket

package main

import (
	"context"
	"errors"
	"time"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/program/server"
)

// bucketsMissing says that the program was built without buckets. The clients of the three clouds are a third of the program.
const bucketsMissing = "needs a bucket, and this program was built without buckets: build it without the tag forebay_nobucket"

func openBucketArchive(context.Context, string, time.Duration) (bucketArchive, error) {
	return nil, errors.New(bucketsMissing)
}

func openBucketStaging(string) (driver.Staging, func() error, error) {
	return nil, nil, errors.New(bucketsMissing)
}

func checkBucket(string) error { return errors.New(bucketsMissing) }

func prepareParquetBucket(string, targetFlags) (opener, []error) {
	return nil, []error{server.WrongFlags(bucketsMissing, "target")}
}

func (p process) sweep(context.Context, *serveConfig, leftoverFlags, []string) int {
	return p.end("orphans", errors.New(bucketsMissing), wrongUsage)
}
