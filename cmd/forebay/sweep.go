//go:build !forebay_nobucket

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/drivers/bucket"
)

// swept is a place in a bucket in which uploads may be left.
type swept struct {
	name  string
	where interface {
		Uploads(ctx context.Context, age time.Duration) ([]bucket.Leftover, error)
		RemoveUploads(ctx context.Context, age time.Duration) (int, error)
		Close() error
	}
}

// sweep lists, and removes on request, the leftovers in the buckets of the flags. data has the data directory, if the user names one.
func (p process) sweep(ctx context.Context, cfg *serveConfig, f leftoverFlags, data []string) int {
	places, staging, err := cfg.inBuckets(ctx)
	defer func() {
		for _, s := range places {
			_ = s.where.Close() // of idle connections
		}
	}()
	switch {
	case err != nil:
		return p.end("orphans", err, failed)
	case len(places) == 0:
		return p.end("orphans", errors.New("nothing is in a bucket: give the file with -config, or the URL of one with -staging, -target parquet: or -archive"), wrongUsage)
	case len(data) > 0 && staging == nil:
		return p.end("orphans", errors.New("slices of a data directory are looked for in the bucket of -staging, which is missing"), wrongUsage)
	}
	var problems []error
	uploads, slices := 0, 0
	out := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	for _, s := range places {
		found, err := s.where.Uploads(ctx, f.uploads)
		for _, u := range found {
			fmt.Fprintf(out, "open upload\t%s\t%s\tbegun %s\n", s.name, u.Key, u.At.UTC().Format(time.RFC3339))
		}
		n := len(found)
		if err == nil && f.remove {
			n, err = s.where.RemoveUploads(ctx, f.uploads)
		}
		uploads, problems = uploads+n, append(problems, err)
	}
	if len(data) > 0 {
		slices, err = f.sweepSlices(ctx, out, staging, data[0])
		problems = append(problems, err)
	}
	_ = out.Flush()
	switch found := fmt.Sprintf("%s, %s", count(uploads, "open upload"), count(slices, "slice")); {
	case f.remove:
		fmt.Fprintf(p.stdout, "removed: %s\n", found)
	case uploads+slices > 0:
		fmt.Fprintf(p.stdout, "found: %s; -remove removes them\n", found)
	default:
		fmt.Fprintln(p.stdout, "found: nothing")
	}
	return p.end("orphans", errors.Join(problems...), failed)
}

// inBuckets opens the places of the flags that are in a bucket. staging is one of them. Nil means that it is not in a bucket.
func (cfg *serveConfig) inBuckets(ctx context.Context) (places []swept, staging *bucket.Staging, err error) {
	isURL := func(text string) bool {
		_, ok := cutPrefix(text, bucketSchemes())
		return ok
	}
	if isURL(cfg.staging) {
		if staging, err = bucket.Open(ctx, cfg.staging, bucket.Options{}); err != nil {
			return places, nil, fmt.Errorf("-staging: %w", err)
		}
		places = append(places, swept{"staging", staging})
	}
	if url, ok := strings.CutPrefix(cfg.target, "parquet:"); ok && isURL(url) {
		tables, err := bucket.OpenTables(ctx, url, bucket.TablesOptions{})
		if err != nil {
			return places, staging, fmt.Errorf("-target: %w", err)
		}
		places = append(places, swept{"target", tables})
	}
	if isURL(cfg.archive) {
		archive, err := bucket.OpenArchive(ctx, cfg.archive, bucket.ArchiveOptions{})
		if err != nil {
			return places, staging, fmt.Errorf("-archive: %w", err)
		}
		places = append(places, swept{"archive", archive})
	}
	return places, staging, nil
}

// sweepSlices lists, and removes if it should, the slices that the engine of a data directory is done with.
func (f *leftoverFlags) sweepSlices(ctx context.Context, out *tabwriter.Writer, staging *bucket.Staging, data string) (n int, err error) {
	in, err := forebay.Inspect(data, buffer.InspectOptions{})
	if _, ok := errors.AsType[*buffer.InUseError](err); ok {
		return 0, fmt.Errorf("%w\nA server is running on this directory. Stop it, or name a checkpoint of it: with -admin HOST:PORT, curl -X POST http://HOST:PORT/checkpoint makes one", err)
	}
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	oldest := in.NextSlice()
	engine, _, _ := strings.Cut(oldest, "-s")
	for _, s := range in.Slices() {
		id, _, _ := strings.Cut(s.ID, "-r")
		if strings.HasPrefix(id, engine+"-s") && id < oldest {
			oldest = id
		}
	}
	found, err := staging.Orphans(ctx, oldest, f.slices)
	if err != nil {
		return 0, err
	}
	for _, s := range found {
		fmt.Fprintf(out, "slice\tstaging\t%s\tstored %s\n", s.Key, s.At.UTC().Format(time.RFC3339))
	}
	if !f.remove {
		return len(found), nil
	}
	if damage, err := in.Damaged(ctx); err != nil || len(damage) > 0 {
		return 0, errors.Join(err, fmt.Errorf("%s has %s, so its engine may have forgotten slices that have rows: none is removed; \"forebay inspect %[1]s\" shows more",
			data, count(len(damage), "record")+" of damage"))
	}
	return staging.RemoveOrphans(ctx, oldest, f.slices)
}
