package catalog

import (
	"context"
	"errors"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
)

// Retry repeats at once what has failed at a sink, or at all live sinks of a source, instead of waiting for the next
// attempt: after the cause was fixed. It returns when the attempts are due; the statistics tell how they end.
func (c *Catalog) Retry(ctx context.Context, ref Ref) error {
	t, s, err := c.find(ref)
	if err != nil {
		return err
	}
	sinks := t.sorted(false)
	if s != nil {
		sinks = []Sink{*s}
	}
	for _, s := range sinks {
		err := c.eng.Retry(ctx, ref.Source, s.ID)
		if err != nil && !errors.Is(err, forebay.ErrUnknownSink) { // such a sink never took an event
			return err
		}
	}
	return nil
}

// RetryFile is [Catalog.Retry] for one file of a sink.
func (c *Catalog) RetryFile(ctx context.Context, sourceID, id, fileID string) error {
	return c.onFile(ctx, sourceID, id, fileID, c.eng.RetryFile)
}

// DiscardFile gives up a file of a sink that is not in its table yet, see [forebay.Engine.Discard]. Its rows are lost, and
// counted as discarded.
func (c *Catalog) DiscardFile(ctx context.Context, sourceID, id, fileID string) error {
	return c.onFile(ctx, sourceID, id, fileID, c.eng.Discard)
}

func (c *Catalog) onFile(ctx context.Context, sourceID, id, fileID string, do func(ctx context.Context, sourceID, id, fileID string) error) error {
	if _, _, err := c.Sink(sourceID, id); err != nil {
		return err
	}
	err := do(ctx, sourceID, id, fileID)
	switch {
	case errors.Is(err, forebay.ErrUnknownSink), errors.Is(err, buffer.ErrUnknownFile):
		return refuse(FileNotFound, "Sink %q of source %q has no file %q that waits.", id, sourceID, fileID)
	case errors.Is(err, buffer.ErrImportRuns):
		return refuse(ImportRuns, "An import of file %q that was left alone still runs; try again when it has ended.", fileID)
	}
	return err
}
