package forebay

import (
	"context"
	"fmt"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/erase"
)

// The types of [Engine.Erase] are declared in package erase.
type (
	// Match selects the records and rows of a person for [Engine.Erase].
	Match = erase.Match
	// EraseReport is what [Engine.Erase] has found and done.
	EraseReport = erase.Report
	// ErasedPlace is what [Engine.Erase] has found in one place.
	ErasedPlace = erase.Place
	// ErasedTable is a table that may have rows of the person. Erase does not change tables.
	ErasedTable = erase.Table
)

// The places of an [ErasedPlace].
const (
	// ErasedWaiting are rows of a sink in memory, on local disk and in staging.
	ErasedWaiting = erase.PlaceWaiting
	// ErasedQuarantine is the quarantine of a sink.
	ErasedQuarantine = erase.PlaceQuarantine
	// ErasedArchive are the raw records of an archive.
	ErasedArchive = erase.PlaceArchive
	// ErasedCopy is a checkpoint in the data directory, or a folder that was set aside there. Erase does not read it.
	ErasedCopy = erase.PlaceCopy
	// ErasedDamage is a record of damage, which may have bytes of rows. Erase does not read it.
	ErasedDamage = erase.PlaceDamage
	// ErasedKeys are the receipts of calls with a key.
	ErasedKeys = erase.PlaceKeys
)

// ErrEraseRuns is returned by [SinkHandle.Replay] during a call of [Engine.Erase], whose records the replay could read before they are erased.
var ErrEraseRuns = erase.ErrRuns

// Erase erases the records of a person, wherever the engine keeps them, and reports the data that remains elsewhere:
//
//   - Rows that wait for their table are left out of its import. Erase closes the files that gather rows. The rows leave staging with their file.
//   - Rejected records are discarded from the quarantines, including quarantines of removed sinks.
//   - Raw records in archives that are an [ArchiveReplacer] are replaced by empty ones in their objects, after the waiting records are imported.
//     Replays skip them, and keep their positions.
//   - The store of the data directory is rewritten without them, see [buffer.Buffer.Purge].
//   - Tables, copies of the data directory and other places are reported with a way to remove the rows.
//
// It can be repeated, even after an error or a crash. It then erases the rest. Records that arrive meanwhile may be found or not, so stop their
// sender first. One call runs at a time. Others wait. With Match.DryRun nothing is changed.
//
// Erase continues with the other places after a failure in one. The error joins the failures, and the report is valid. Erase also fails with the
// error of [Match.Validate], [ErrReplayRuns] while an archive is replayed, [buffer.ErrFileMoves] while files or rejected records of another
// engine arrive, [ErrUnknownSource], [ErrClosed] or the error of ctx.
func (e *Engine) Erase(ctx context.Context, m Match) (EraseReport, error) {
	config := erase.Config{Buffer: e.buf, Dir: e.dir, LocalDir: localFolder, Tuning: e.opts.Buffer, Archive: e.opts.Archive, Mapping: e.opts.Mapping, Log: e.log}
	run, err := erase.New(config, eraseHost{e}, m)
	if err != nil {
		return EraseReport{}, fmt.Errorf("erase: %w", err)
	}
	select {
	case e.erase <- struct{}{}:
		defer func() { <-e.erase }()
	case <-ctx.Done():
		return EraseReport{}, context.Cause(ctx)
	}
	if e.closed.Load() {
		return EraseReport{}, ErrClosed
	}
	if !m.DryRun {
		e.erasing.Add(1)
		defer e.erasing.Add(-1)
		// A run could store records that are already in its memory. A run that begins later sees erasing.
		if err := e.replays.None(); err != nil {
			return EraseReport{}, fmt.Errorf("erase: %w", err)
		}
	}
	return run.Run(ctx)
}

// eraseHost is the engine for an erasure.
type eraseHost struct{ *Engine }

// Sources implements [erase.Host].
func (h eraseHost) Sources() []erase.Source {
	all := h.Engine.Sources()
	list := make([]erase.Source, len(all))
	for i, src := range all {
		list[i] = erasedSource(src)
	}
	return list
}

// Source implements [erase.Host].
func (h eraseHost) Source(id string) (erase.Source, bool) {
	src, ok := h.Engine.Source(id)
	return erasedSource(src), ok
}

func erasedSource(src Source) erase.Source {
	out := erase.Source{ID: src.ID, Sinks: make([]erase.Sink, len(src.Sinks))}
	if src.Archive != nil {
		out.Archive = src.ArchiveID()
	}
	for i, s := range src.Sinks {
		out.Sinks[i] = erase.Sink{ID: s.ID, Table: s.Table.ID, Target: s.Table.Target, Columns: s.Table.Columns}
	}
	return out
}

// UnknownSource implements [erase.Host].
func (h eraseHost) UnknownSource(id string) error { return unknownSource(id) }

// Target implements [erase.Host].
func (h eraseHost) Target(name string) driver.Target { return h.opts.TargetNamed(name) }

// Quarantine implements [erase.Host].
func (h eraseHost) Quarantine(source, sink string) SinkQuarantine {
	return h.Sink(source, sink).Quarantine()
}

// FlushArchive implements [erase.Host].
func (h eraseHost) FlushArchive(ctx context.Context, source string) error {
	return h.flush(ctx, []string{bufferID(source, ArchiveSink)})
}

// LockArchive implements [erase.Host].
func (h eraseHost) LockArchive(ctx context.Context, archive string) (unlock func(), err error) {
	return h.defining.Lock(ctx, archive, "")
}
