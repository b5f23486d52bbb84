package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/bucket"
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

func bucketStaging() stagingKind {
	return stagingKind{
		prefixes: bucketSchemes(), form: "s3://BUCKET/PREFIX (or gs://, azblob://)",
		summary: "a bucket; credentials come from the environment",
		check:   func(text string) error { return bucket.ValidateURL(context.Background(), text) },
		open: func(text string) (driver.Staging, func() error, error) {
			staging, err := bucket.Open(context.Background(), text, bucket.Options{})
			if err != nil {
				return nil, nil, fmt.Errorf("-staging: %w", err)
			}
			return staging, staging.Close, nil
		},
	}
}
