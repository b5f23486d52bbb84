// Package feed stores pulled records at the sources of an engine, so that they take the same durable way as pushed ones.
//
//	opts := extractor.Options{Emit: feed.Into(eng, func(ctx context.Context, dataType string) (string, error) { return "orders", nil })}
//	state, err = extractor.Run(ctx, cfg, state, opts)
//
// A page is kept when all its rows are on local disk. The position after it may then be saved. A page that is emitted again
// after a crash is stored once, while the engine keeps its key (see [extractor.Page.ID] and buffer.Tuning.KeyRetention). When the API has
// changed its response in between, it is another page.
package feed

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/driverkit/ctxio"
	"github.com/forebay/forebay/extractor"
	"github.com/forebay/forebay/mapping"
)

// Engine is the part of a [forebay.Engine] that is used.
type Engine interface {
	// IngestAtomic is [forebay.Engine.IngestAtomic].
	IngestAtomic(ctx context.Context, source string, b forebay.Batch) (forebay.BatchResult, error)
}

// RejectedError is a page with records that a sink can never store as they are. The other sinks and the other records of
// the page are stored.
type RejectedError struct {
	// Source received the page; DataType is the name of its records in the configuration.
	Source, DataType string
	// Records is the number of rejected ones.
	Records int
	// First is the first rejection.
	First *forebay.SinkError
}

func (e *RejectedError) Error() string {
	return fmt.Sprintf("%d records of data type %q do not fit source %q, the first one: %v", e.Records, e.DataType, e.Source, e.First)
}

func (e *RejectedError) Unwrap() error { return e.First }

// Into returns a function for [extractor.Options] that stores the records of each page at the source that sourceOf names
// for their data type. It returns when the rows of all sinks are on disk, and waits while there is no room for them. Its
// errors are the errors of sourceOf, of [forebay.Engine.IngestAtomic], and [*RejectedError]. It is for one run at a time.
func Into(eng Engine, sourceOf func(ctx context.Context, dataType string) (string, error)) func(context.Context, *extractor.Page) error {
	return func(ctx context.Context, p *extractor.Page) error {
		if p.Len() == 0 {
			return nil
		}
		source, err := sourceOf(ctx, p.DataType)
		if err != nil {
			return err
		}
		key := p.ID()
		for {
			res, err := eng.IngestAtomic(ctx, source, forebay.Batch{Records: records(p), Once: forebay.Once{Key: key}})
			var full *buffer.OverloadError
			switch {
			case errors.As(err, &full): // nothing of the page was taken
				if err := ctxio.Sleep(ctx, full.RetryAfter); err != nil {
					return err
				}
				continue
			case err != nil:
				return err
			case res.Rejected > 0:
				return &RejectedError{Source: source, DataType: p.DataType, Records: res.Rejected, First: res.First}
			}
			return nil
		}
	}
}

// records gives the records of a page one after the other, in the memory of one.
func records(p *extractor.Page) iter.Seq[*mapping.Record] {
	return func(yield func(*mapping.Record) bool) {
		var rec mapping.Record
		var body []byte
		for r := range p.Records() {
			body = r.AppendJSON(body[:0])
			rec.Reset()
			rec.Body, rec.Format = body, mapping.FormatJSON
			if !yield(&rec) {
				return
			}
		}
	}
}
