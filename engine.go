// Package forebay is an embeddable event buffer. It maps each event to a row of one or more tables, stores the rows on local disk before it
// returns, and moves them to their tables in batches. Each row arrives exactly once.
//
//	engine, err := forebay.Open("data", forebay.Options{}) // tables are folders of CSV files in data/tables
//	if err != nil {
//		return err
//	}
//	defer engine.Close()
//	err = engine.Define(ctx, forebay.Source{ID: "web", Sinks: []forebay.Sink{{ID: "events", Table: forebay.Table{
//		ID: "events", Columns: mapping.Columns{mapping.UUID("id"), mapping.Datetime("at"), mapping.Path("user", "user.id")},
//	}}}})
//	if err != nil {
//		return err
//	}
//	_, err = engine.Ingest(ctx, "web", mapping.JSON(body)) // nil: the row is on local disk
//
// The path of a row:
//
//	record ─▶ mapping ─▶ CSV row ─▶ local disk ─(step 1)─▶ staging ─(step 2)─▶ table
//
// An [Engine] is opened on a data directory. [Engine.Define] gives it sources. The sinks of a source say how an event
// becomes a row (package mapping), which table takes it, and under which conditions rows move on (package trigger).
// [Engine.Ingest] returns when the rows of a record are on disk. [Engine.Flush] waits until they are in the table.
// Package stream serves ingestion over HTTP. In-process callers need only this package and mapping.
//
// # Promise
//
// A row that Ingest acknowledged with [Stored] is in its table exactly once, or on its way there, after any crash,
// power cut, I/O error, or outage of staging or target. This holds for targets that import a file once per id, as the
// directory driver does. Package driver has the contract, and package buffer lists the assumptions about the disk. A row acknowledged
// with [Queued] (a sink set to [SyncUnsafe]) can be lost by a crash in the first 50 ms or so. The sinks of a source are independent.
// After a crash during Ingest one of them may have kept the record and another not.
//
// Nothing is dropped silently. A record that cannot be mapped is rejected with an error that names sink, column and
// cause, and counted. Memory and disk are bounded, and at a bound Ingest fails before it has taken anything.
//
// # Errors
//
// They are typed by the reaction they call for. Reject: [mapping.Error], [RowTooLargeError]. Retry later:
// [buffer.OverloadError], [buffer.FailedError], [buffer.UnknownError]. Stop: [buffer.FencedError]. Repair: [DefinitionError], [driver.SchemaError].
package forebay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/metric"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/driverkit/buildversion"
	"github.com/forebay/forebay/driverkit/keylock"
	"github.com/forebay/forebay/internal/callspans"
	"github.com/forebay/forebay/internal/cowmap"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/mappers"
	"github.com/forebay/forebay/internal/maproom"
	"github.com/forebay/forebay/internal/secrets"
	"github.com/forebay/forebay/internal/tables"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/replay"
	"github.com/forebay/forebay/shadow"
	"github.com/forebay/forebay/trigger"
)

// Engine accepts records for its sources and moves their rows to the tables of the sinks. It is safe for concurrent use.
type Engine struct {
	opts Options
	log  *slog.Logger
	buf  *buffer.Buffer
	// observation is nil without a meter.
	observation    metric.Registration
	portion, batch int // see portionBytes and batchBytes
	room           *maproom.Room
	spans          *callspans.Spans // nil without a tracer

	// sources is changed by Define and Remove, and read by Ingest without a lock.
	sources *cowmap.Map[source]
	// counts has *rejections.Counter by name of the sink in the buffer, dropped *atomic.Int64 by source for the records that no enabled
	// sink took. Both outlive definitions.
	counts, dropped sync.Map
	// Lock order: defining before define. Ingest takes neither.
	//
	// defining locks a source while its definition changes. It is held during calls of the target.
	defining keylock.Locks
	// define is a lock with room for one, the call that changes or forgets definitions. It may be held during I/O of the
	// local disk, never during a call of a driver.
	define  chan struct{}
	closed  atomic.Bool
	mappers *mappers.Cache
	tables  tables.Tables
	shadows shadow.Group
	replays *replay.Replays
	// erase is a lock with room for one, the call of Erase that runs. erasing counts the calls that change something.
	erase   chan struct{}
	erasing atomic.Int32
	dir     string
	// slots has *shadow.Slot by name of the sink in the buffer.
	slots sync.Map
}

// Version returns the version of Forebay that the program was built with. It is a tag, a pseudo-version that ends with the commit, or "devel"
// and, if the program has it, the commit.
func Version() string { return buildversion.String() }

// Open opens an engine on a data directory, which it creates if it is missing. Rows that an earlier process left there
// move to their tables at once, even before their sinks are defined again. Only one engine can have the directory open.
func Open(dir string, opts Options) (*Engine, error) {
	local, err := localOf("open", dir)
	if err != nil {
		return nil, err
	}
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults(dir)
	spans := callspans.New(opts.Tracer)
	buf, err := buffer.Open(local, buffer.Options{
		Staging: opts.Staging, Target: opts.Target, Targets: opts.Targets, TargetOf: opts.targetOf, Leases: opts.Leases, Changelog: opts.Changelog, OnDamage: opts.OnDamage, Logger: opts.Logger, Meter: opts.Meter,
		SinkAttributes: sinkAttributes, Hooks: hooksOf(opts.Hooks, spans), Tuning: opts.Buffer,
	})
	if err != nil {
		return nil, err
	}
	e := &Engine{
		define: make(chan struct{}, 1), erase: make(chan struct{}, 1), dir: dir, opts: opts, log: opts.Logger, buf: buf,
		portion: portionOf(portionBytes, opts.Buffer), batch: portionOf(batchBytes, opts.Buffer),
		room: maproom.New(opts.Buffer), sources: cowmap.New[source](), spans: spans,
		mappers: mappers.New(sharedMapping(opts)), tables: tables.Tables{Buffer: buf, Target: opts.TargetNamed, Log: opts.Logger},
	}
	e.replays = replay.New(buf, opts.Archive)
	if e.observation, err = e.observe(); err != nil {
		return nil, errors.Join(err, buf.Close())
	}
	return e, nil
}

// localFolder is the part of a data directory that belongs to the buffer.
const localFolder = "local"

// localOf returns the folder of the buffer in a data directory. The verb says what the caller does with it.
func localOf(verb, dir string) (string, error) {
	if err := localdisk.Named(dir); err != nil {
		return "", fmt.Errorf("forebay: %s: %w", verb, err)
	}
	return filepath.Join(dir, localFolder), nil
}

// bufferID is the name of a sink in the buffer and in what drivers see.
func bufferID(sourceID, sinkID string) string { return sourceID + "/" + sinkID }

// lockDefinitions waits until no other call changes definitions.
func (e *Engine) lockDefinitions(ctx context.Context) error {
	select {
	case e.define <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if e.closed.Load() {
		<-e.define
		return ErrClosed
	}
	return nil
}

// open returns the source that a call is for, if it accepts records now.
func (e *Engine) open(ctx context.Context, sourceID string) (*source, error) {
	if e.closed.Load() {
		return nil, ErrClosed
	}
	src := e.sources.Get(sourceID)
	switch {
	case src == nil:
		return nil, unknownSource(sourceID)
	case src.def.Disabled:
		return nil, fmt.Errorf("%w: %q: define it without Disabled to accept its records", ErrDisabledSource, sourceID)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return src, nil
}

// load returns the counters under a key. It makes them at the first call.
func load[T any](m *sync.Map, key string) *T {
	v, ok := m.Load(key)
	if !ok {
		v, _ = m.LoadOrStore(key, new(T))
	}
	return v.(*T)
}

// endSinks starts the import of waiting rows for each sink that next removes or disables.
func (e *Engine) endSinks(ctx context.Context, old, next *source) error {
	if old == nil {
		return nil
	}
	var problems []error
	for _, s := range old.sinks {
		kept := next != nil && slices.ContainsFunc(next.sinks, func(n *sink) bool { return n.id == s.id })
		if !kept {
			problems = append(problems, e.buf.Sink(s.handle.ID()).Drop(ctx))
		}
	}
	return errors.Join(problems...)
}

// endShadows ends the shadows of the sinks whose columns differ between old and next.
func endShadows(old, next *source) {
	if old == nil {
		return
	}
	for _, o := range old.sinks {
		var mapper *mapping.Mapper
		if next != nil {
			if n := next.sink(o.id); n != nil {
				mapper = n.mapper
			}
		}
		o.shadow.Redefine(mapper)
	}
}

// Remove removes a source. It accepts no more records. Rows that wait are still imported. The counters stay, see [Engine.Forget]. A
// new source with the same id does not know the keys of the removed source.
func (e *Engine) Remove(ctx context.Context, sourceID string) error {
	unlock, err := e.defining.Lock(ctx, sourceID, "")
	if err != nil {
		return err
	}
	defer unlock()
	if err := e.lockDefinitions(ctx); err != nil {
		return err
	}
	defer func() { <-e.define }()
	old := e.sources.Get(sourceID)
	if old == nil {
		return unknownSource(sourceID)
	}
	e.sources.Put(sourceID, nil)
	endShadows(old, nil)
	problems := []error{e.endSinks(ctx, old, nil)}
	for _, s := range old.sinks {
		problems = append(problems, e.buf.Sink(s.handle.ID()).EndKeys(ctx))
	}
	return errors.Join(problems...)
}

// Options returns the options with which the engine was opened, with their defaults. The caller must not modify the map Targets.
func (e *Engine) Options() Options { return e.opts }

// Buffer returns the local level, for work on stored rows that needs no definition, such as damage, slices, free space of the volume, and
// moves of files and rejected records to another engine. It names a sink "source/sink". The engine alone defines, drops and forgets sinks,
// appends rows, and closes the buffer.
func (e *Engine) Buffer() *buffer.Buffer { return e.buf }

// Source returns the definition of a source, or false when there is none. The caller must not modify its slices.
func (e *Engine) Source(id string) (Source, bool) {
	src := e.sources.Get(id)
	if src == nil {
		return Source{}, false
	}
	return src.def, true
}

// Sources returns all definitions, sorted by id.
func (e *Engine) Sources() []Source {
	list := make([]Source, 0, e.sources.Len())
	for src := range e.sources.All() {
		list = append(list, src.def)
	}
	slices.SortFunc(list, func(a, b Source) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// SourceWithSecret returns the definition of a source if secret is its Secret, or its OldSecret before OldSecretUntil. No
// secret fits a source without one.
//
// Its duration depends on the given secret alone, not on whether the source exists or which secrets it has.
func (e *Engine) SourceWithSecret(id, secret string) (Source, bool) {
	src := e.sources.Get(id)
	if src == nil {
		src = noSource
	}
	got := secrets.DigestOf(secret)
	if !src.secrets.Accept(&got) {
		return Source{}, false
	}
	return src.def, true
}

// SourcesWithSecret returns the definitions of all sources that the secret fits, by the rule of SourceWithSecret, in no order.
// All sources are compared, so that the duration does not tell which one fits.
func (e *Engine) SourcesWithSecret(secret string) []Source {
	got := secrets.DigestOf(secret)
	var list []Source
	for src := range e.sources.All() {
		if src.secrets.Accept(&got) {
			list = append(list, src.def)
		}
	}
	return list
}

// Flush returns nil when all rows that the named sinks had accepted before the call are in their tables. Without names, it covers all
// sinks of the source. It waits for the end of an outage, so give ctx a deadline. When ctx ends, or before that when an
// operator must fix the cause of a failure, the error is or wraps a [*buffer.HeldError] that says which file waits and why.
func (e *Engine) Flush(ctx context.Context, sourceID string, sinkIDs ...string) error {
	src := e.sources.Get(sourceID)
	if src == nil {
		return unknownSource(sourceID)
	}
	if len(sinkIDs) == 0 {
		for _, s := range src.def.Sinks {
			sinkIDs = append(sinkIDs, s.ID)
		}
		if src.def.Archive != nil {
			sinkIDs = append(sinkIDs, ArchiveSink)
		}
	}
	ids := make([]string, len(sinkIDs))
	for i, id := range sinkIDs {
		isArchive := id == ArchiveSink && src.def.Archive != nil
		if !isArchive && !slices.ContainsFunc(src.def.Sinks, func(s Sink) bool { return s.ID == id }) {
			return unknownSink(sourceID, id)
		}
		ids[i] = bufferID(sourceID, id)
	}
	return e.flush(ctx, ids)
}

// FlushAll is Flush for every sink that has rows, including sinks that are no longer defined. So it drains an engine that accepts no
// records, such as one from [Restore] without definitions. When FlushAll has returned nil, and no sink of Stats has Slices left, all
// rows are in their tables and nothing of them is left in staging.
func (e *Engine) FlushAll(ctx context.Context) error {
	var ids []string
	for _, s := range e.buf.Stats().Sinks {
		ids = append(ids, s.ID)
	}
	return e.flush(ctx, ids)
}

// flush closes all files first, so that they are moved concurrently, and then waits for each sink.
func (e *Engine) flush(ctx context.Context, ids []string) error {
	known := ids[:0:0]
	for _, id := range ids {
		switch err := e.buf.Sink(id).CloseFile(ctx, trigger.Requested); {
		case errors.Is(err, buffer.ErrUnknownSink): // a disabled sink that never took a row
		case err != nil:
			return err
		default:
			known = append(known, id)
		}
	}
	for _, id := range known {
		if err := e.buf.Sink(id).Flush(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Verify recounts the stored rows of every sink and compares them with the counters. See [buffer.Buffer.Verify].
func (e *Engine) Verify(ctx context.Context) (buffer.Report, error) { return e.buf.Verify(ctx) }

// Close stops the intake, writes all accepted rows to disk, also rows of SyncUnsafe sinks, and closes the data directory.
// Rows that are not in their table yet continue at the next Open. Call FlushAll before Close to wait for them. Close may
// be called twice.
func (e *Engine) Close() error {
	e.closed.Store(true)
	e.shadows.Close()
	if e.observation != nil {
		_ = e.observation.Unregister() // nothing depends on it
	}
	return e.buf.Close()
}
