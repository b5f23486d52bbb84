package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/internal/program/server"
)

// bucketArchive is an archive in a bucket.
type bucketArchive interface {
	forebay.Archive
	Close() error
}

// checkArchive returns the problems of the archive's flags, without opening it. Each problem is a [*server.FlagError].
func (cfg *serveConfig) checkArchive() (problems []error) {
	if cfg.archive != "" {
		if err := checkStaging("archive", cfg.archive); err != nil {
			problems = append(problems, err)
		}
	} else if cfg.archiveFor != 0 {
		problems = append(problems, server.WrongFlags("is for raw records: say with -archive where they are", "archive-keep-for"))
	}
	if cfg.archiveFor < 0 {
		problems = append(problems, server.WrongValue("archive-keep-for", "is %s, must not be negative", cfg.archiveFor))
	}
	return problems
}

// openArchive opens the archive, or returns nil if there is none. The caller closes it after the engine.
func (cfg *serveConfig) openArchive(ctx context.Context) (forebay.Archive, func() error, error) {
	nothing := func() error { return nil }
	if cfg.archive == "" {
		return nil, nothing, nil
	}
	if folder, ok := strings.CutPrefix(cfg.archive, "dir:"); ok {
		return dir.Archive(folder, dir.ArchiveOptions{KeepFor: cfg.archiveFor}), nothing, nil
	}
	a, err := openBucketArchive(ctx, cfg.archive, cfg.archiveFor)
	if err != nil {
		return nil, nil, fmt.Errorf("-archive: %w", err)
	}
	return a, a.Close, nil
}
