package catalog

import (
	"cmp"
	"context"
)

// Retry repeats at once all failed work of a sink, or of all live sinks of a source, instead of waiting for the next
// attempt. Call it after the cause was fixed. It returns when the attempts are due. The statistics tell how they end. On a store that several
// catalogs share it does so at all nodes. If one does not respond, the error is a [*MissingError].
func (c *Catalog) Retry(ctx context.Context, ref Ref) error {
	t, s, err := c.find(ref)
	if err != nil {
		return err
	}
	sinks := t.sorted(false)
	if s != nil {
		sinks = []Sink{*s}
	}
	r := request{Op: opRetry, Source: ref.Source}
	for _, s := range sinks {
		r.Sinks = append(r.Sinks, s.ID)
	}
	_, _, err = c.everywhere(ctx, r) // a sink that never took an event is not found
	return err
}

func (c *Catalog) onFile(ctx context.Context, r request) error {
	if _, _, err := c.Sink(r.Source, r.Sinks[0]); err != nil {
		return err
	}
	done, why, err := c.everywhere(ctx, r)
	if err != nil {
		return err
	}
	return r.refusal(done, why)
}

// refusal returns the error of a decision about a file, nil if it was carried out.
func (r request) refusal(done outcome, why string) error {
	sink := r.Sinks[0]
	switch {
	case done == outcomeNotFound:
		return refuse(FileNotFound, "Sink %q of source %q has no file %q that waits: its rows are in the table, or it was discarded, or it never was. List the files again.", sink, r.Source, r.File)
	case done == outcomeImportRuns && why != "":
		return refuse(ImportRuns, "Nothing was changed: %s.", why)
	case done == outcomeImportRuns:
		return refuse(ImportRuns, "An import of file %q that was left alone still runs; try again when it has ended.", r.File)
	case done == outcomeNotHeld:
		return refuse(FileNotHeld, "Nothing was changed: %s.", cmp.Or(why, "the file cannot be split"))
	case done == outcomeOverloaded:
		return refuse(QuarantineFull, "Nothing was changed: %s.", cmp.Or(why, "the quarantine has no room for the rest of the file"))
	}
	return nil
}
