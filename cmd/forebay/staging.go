package main

import (
	"fmt"
	"strings"

	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/driver"
)

func folderStaging() stagingKind {
	const prefix = "dir:"
	return stagingKind{
		prefixes: []string{prefix}, form: "dir:FOLDER", summary: "a folder of this machine",
		check: func(string) error { return nil },
		open: func(text string) (driver.Staging, func() error, error) {
			return dir.Staging(strings.TrimPrefix(text, prefix)), nil, nil
		},
	}
}

// bucketSchemes begin the URL of a bucket.
func bucketSchemes() []string { return []string{"s3://", "gs://", "azblob://"} }

func bucketStaging() stagingKind {
	summary := "a bucket; credentials come from the environment"
	if bucketsMissing != "" {
		summary = "needs a build without the tag forebay_nobucket"
	}
	return stagingKind{
		prefixes: bucketSchemes(), form: "s3://BUCKET/PREFIX (or gs://, azblob://)",
		summary: summary,
		check:   checkBucket,
		open: func(text string) (driver.Staging, func() error, error) {
			staging, closing, err := openBucketStaging(text)
			if err != nil {
				return nil, nil, fmt.Errorf("-staging: %w", err)
			}
			return staging, closing, nil
		},
	}
}
