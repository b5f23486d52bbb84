package catalog

import (
	"context"
	"errors"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
)

// RetrySink repeats at once what has failed at a sink, instead of waiting for the next attempt: after its table, or what else
// was the cause, was mended. It returns when the attempts are due; the statistics tell how they end.
func (c *Catalog) RetrySink(ctx context.Context, sourceID, id string) error {
	if _, _, err := c.Sink(sourceID, id); err != nil {
		return err
	}
	err := c.eng.Retry(ctx, sourceID, id)
	if errors.Is(err, forebay.ErrUnknownSink) { // it never took an event
		return nil
	}
	return err
}

// RetrySource is RetrySink for all live sinks of a source.
func (c *Catalog) RetrySource(ctx context.Context, sourceID string) error {
	_, sinks, err := c.Sinks(sourceID, false)
	if err != nil {
		return err
	}
	for _, s := range sinks {
		var gone *Error // since the list was made
		if err := c.RetrySink(ctx, sourceID, s.ID); err != nil && !errors.As(err, &gone) {
			return err
		}
	}
	return nil
}

// DiscardFile gives up a file of a sink that is not in its table yet, see [forebay.Engine.Discard]. Its rows are lost, and
// counted as discarded.
func (c *Catalog) DiscardFile(ctx context.Context, sourceID, id, fileID string) error {
	if _, _, err := c.Sink(sourceID, id); err != nil {
		return err
	}
	err := c.eng.Discard(ctx, sourceID, id, fileID)
	switch {
	case errors.Is(err, forebay.ErrUnknownSink), errors.Is(err, buffer.ErrUnknownFile):
		return refuse(FileNotFound, "Sink %q of source %q has no file %q that waits.", id, sourceID, fileID)
	case errors.Is(err, buffer.ErrImportRuns):
		return refuse(ImportRuns, "An import of file %q that was left alone still runs; try again when it has ended.", fileID)
	}
	return err
}
