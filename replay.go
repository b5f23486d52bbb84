package forebay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/mapping"
)

var (
	// ErrNoArchive is returned by [SinkHandle.Replay] and [Engine.EraseArchive] of an engine without Options.Archive.
	ErrNoArchive = errors.New("the engine keeps no raw records: set Options.Archive")
	// ErrReplayRuns is returned by [SinkHandle.Replay] for a run that is going on in this process.
	ErrReplayRuns = errors.New("the run is in progress")
	// ErrOtherReplay is returned by [SinkHandle.Replay] for a run that has begun with another archive or time range. Nothing was stored.
	ErrOtherReplay = errors.New("the run has begun with other options")
	// ErrUnknownArchive is returned by [SinkHandle.Replay] for an archive that has no records if no defined source keeps it. Nothing was stored.
	ErrUnknownArchive = errors.New("no such archive of raw records")
)

// ReplayOptions say what [SinkHandle.Replay] reads, and how fast.
type ReplayOptions struct {
	// Run names the run: 1 to 48 characters of a-z, 0-9, '-' and '_', starting and ending with a letter or digit. Another call with the
	// same name goes on where the run was interrupted. A new name reads, and stores, everything again.
	Run string
	// Archived is the id of the source whose archive is read; it need not be defined any more. Default: the source of the sink.
	Archived string
	// Generation is the [Source.Generation] of that source, if it is not defined; a source that is defined says it. Default: none.
	Generation string
	// From and To bound the arrival times; To is outside. Defaults: everything; what has arrived when the run begins.
	From, To time.Time
	// RowsPerSecond bounds how many records become rows or quarantined records in a second, on average. Default: 0, no bound.
	RowsPerSecond float64
	// Progress, if not nil, is called after each commit, by the goroutine of the call.
	Progress func(ReplayProgress)
}

// Validate reports all problems at once.
func (o ReplayOptions) Validate() error {
	var problems []error
	report := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("ReplayOptions."+format, args...))
	}
	if err := validateID(o.Run); err != nil {
		report("Run: %w", err)
	}
	if o.Archived != "" {
		if err := validateID(o.Archived); err != nil {
			report("Archived: %w", err)
		}
	}
	if o.Generation != "" {
		if err := validateID(o.Generation); err != nil {
			report("Generation: %w", err)
		}
	}
	if !o.To.IsZero() && !o.From.Before(o.To) {
		report("To is %s, which is not after From, %s", o.To, o.From)
	}
	if !(o.RowsPerSecond >= 0) {
		report("RowsPerSecond is %v, must not be negative", o.RowsPerSecond)
	}
	return errors.Join(problems...)
}

// ReplayProgress is how far a run has come. All of it is on disk.
type ReplayProgress struct {
	// Run is the name of the run, and Archived the source whose archive is read, with its Generation.
	Run        string `json:"run"`
	Archived   string `json:"archived"`
	Generation string `json:"generation,omitempty"`
	// From and To bound the arrival times.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Began is when the run began, Ended when it was done; zero before.
	Began time.Time `json:"began"`
	Ended time.Time `json:"ended,omitzero"`
	// Records are the records in the time range that were read: each is Stored as a row, Rejected as the mapping cannot take it,
	// Quarantined for the same reason in a sink with a quarantine, or Skipped because the sink does not take its signal.
	Records     int64 `json:"records"`
	Stored      int64 `json:"stored"`
	Rejected    int64 `json:"rejected"`
	Quarantined int64 `json:"quarantined"`
	Skipped     int64 `json:"skipped"`
	// Gone are the objects that the retention of the archive had removed before they were read to their end.
	Gone int64 `json:"gone"`
	// Object is the object that is read, and Row how many of its rows were read.
	Object string `json:"object"`
	Row    int64  `json:"row"`
}

// archive names the archive that is read.
func (p ReplayProgress) archive() string { return archiveID(p.Archived, p.Generation) }

// Done reports whether the run has ended.
func (p ReplayProgress) Done() bool { return !p.Ended.IsZero() }

const (
	// A commit of a run has at most as many rows, bytes of rows and records that were read.
	runRows    = 500
	runBytes   = 256 << 10
	runRecords = 5000
	// runPosition begins the names of the positions of runs.
	runPosition = "replay/"
)

// Replay maps the raw records of an archive with the current definition of a sink and stores the rows, in the order of the archive: by hour of
// arrival, and within an hour by import. Other sinks are not touched. It returns when all records in the time range that have arrived before the
// run began are stored, durably; it first waits until the archive of a defined source has what was accepted. Records that come later may
// be part of the run or not. The rows have the arrival times of the records.
//
// Exactly once: the rows of a commit and the position behind them are one batch. When the call ends early, by an error, the end of ctx or
// of the process, call it again with the same Run: it goes on behind the last commit. A run that is done stores nothing more. The sink remembers
// 16 runs, and forgets the oldest that is done for a new one; see [SinkHandle.ForgetReplay]. The first run upgrades the data directory to version 3
// of its format, which earlier releases refuse.
//
// What the sink cannot map goes where its OnReject says: it is counted, or put into the quarantine. Replay waits for room of memory, disk and
// sink, and fails with a [*buffer.OverloadError] when the quarantine is full. An object that is removed by the retention of the archive
// meanwhile is counted.
//
// Errors besides the errors of the archive: [ErrUnknownSource], [ErrDisabledSource], [ErrUnknownSink], the error of [ReplayOptions.Validate],
// [ErrNoArchive], [ErrUnknownArchive], [ErrReplayRuns], [ErrOtherReplay], [buffer.ErrTooManyPositions] with 16 runs that are not done, a [*buffer.FailedError], [ErrClosed],
// the error of ctx. The progress tells what was stored before.
func (h SinkHandle) Replay(ctx context.Context, opts ReplayOptions) (ReplayProgress, error) {
	if err := opts.Validate(); err != nil {
		return ReplayProgress{}, err
	}
	if h.e.opts.Archive == nil {
		return ReplayProgress{}, ErrNoArchive
	}
	r := &run{e: h.e, source: h.source, sinkID: h.sink, opts: opts}
	if err := r.link(ctx); err != nil {
		return ReplayProgress{}, err
	}
	key := r.id() + "/" + opts.Run
	if _, runs := h.e.runs.LoadOrStore(key, true); runs {
		return ReplayProgress{}, fmt.Errorf("%w: %q: wait for its end, or use a different name", ErrReplayRuns, opts.Run)
	}
	defer h.e.runs.Delete(key)
	if err := r.begin(ctx); err != nil {
		return r.stored, err
	}
	err := r.read(ctx)
	return r.stored, err
}

// Replays returns the runs that a sink remembers, in the order of their first start. Errors: [ErrUnknownSink], a [*buffer.FailedError], [ErrClosed],
// the error of ctx.
func (h SinkHandle) Replays(ctx context.Context) ([]ReplayProgress, error) {
	positions, err := h.e.buf.Positions(ctx, h.id())
	if err != nil {
		return nil, h.known(err)
	}
	var all []ReplayProgress
	for name, value := range positions {
		if !strings.HasPrefix(name, runPosition) {
			continue
		}
		p, err := parseProgress(value)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b ReplayProgress) int { return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.Run, b.Run)) })
	return all, nil
}

// ForgetReplay deletes what a sink remembers of a run, done or not. A later run of this name begins from the start. Its errors are the errors of
// [SinkHandle.Replays], and [ErrReplayRuns].
func (h SinkHandle) ForgetReplay(ctx context.Context, name string) error {
	id := h.id()
	if _, runs := h.e.runs.LoadOrStore(id+"/"+name, true); runs {
		return fmt.Errorf("%w: %q: wait for its end", ErrReplayRuns, name)
	}
	defer h.e.runs.Delete(id + "/" + name)
	return h.known(h.e.buf.SetPosition(ctx, id, buffer.Position{Name: runPosition + name}))
}

func parseProgress(value []byte) (p ReplayProgress, err error) {
	if err := json.Unmarshal(value, &p); err != nil {
		return p, fmt.Errorf("forebay: the position of a run cannot be read: %w", err)
	}
	return p, nil
}

// run is one call of Replay.
type run struct {
	e              *Engine
	source, sinkID string
	opts           ReplayOptions

	src    *source // as the sink was defined when the rows below were mapped
	sink   *sink
	takes  func(Signal) bool
	stored ReplayProgress // on disk
	now    ReplayProgress // with the records below

	data     []byte
	rows     int
	rejects  []buffer.Reject
	aside    int     // bytes of rejects
	causes   []error // why records were rejected: they are counted when this is on disk
	lookedAt int64

	started time.Time
	paced   int64 // rows since then
}

func (r *run) id() string { return bufferID(r.source, r.sinkID) }

// link finds the sink as it is defined now.
func (r *run) link(ctx context.Context) error {
	src, err := r.e.open(ctx, r.source)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(src.sinks, func(s *sink) bool { return s.id == r.sinkID && !s.archive })
	if at < 0 {
		return unknownSink(r.source, r.sinkID)
	}
	r.src, r.sink = src, src.sinks[at]
	def := src.def.Sinks[slices.IndexFunc(src.def.Sinks, func(s Sink) bool { return s.ID == r.sinkID })]
	r.takes = def.takes
	return nil
}

// begin finds the position of the run, or makes it.
func (r *run) begin(ctx context.Context) error {
	value, err := r.e.buf.Position(ctx, r.id(), runPosition+r.opts.Run)
	if err != nil {
		return r.err(err)
	}
	archived, generation := cmp.Or(r.opts.Archived, r.source), r.opts.Generation
	src, defined := r.e.Source(archived)
	if defined {
		generation = src.Generation
	}
	if value != nil {
		if r.stored, err = parseProgress(value); err != nil {
			return err
		}
		if r.stored.Archived != archived || r.stored.Generation != generation || !r.stored.From.Equal(r.opts.From) || !r.opts.To.IsZero() && !r.stored.To.Equal(r.opts.To) {
			return fmt.Errorf("%w: %q reads the archive %q from %s to %s: repeat it with these options, or use a different name", ErrOtherReplay, r.opts.Run, r.stored.archive(), r.stored.From, r.stored.To)
		}
		r.now = r.stored
		return nil
	}
	now := time.Now().UTC()
	r.now = ReplayProgress{Run: r.opts.Run, Archived: archived, Generation: generation, From: r.opts.From.UTC(), To: r.opts.To.UTC(), Began: now}
	if r.opts.To.IsZero() {
		r.now.To = now.Add(1) // To is outside
	}
	if defined && src.Archive != nil {
		if err := r.e.Flush(ctx, archived, ArchiveSink); err != nil {
			return err
		}
	} else if err := r.exists(ctx); err != nil {
		return err
	}
	err = r.save(ctx)
	if errors.Is(err, buffer.ErrTooManyPositions) {
		if err := r.forgetOldest(ctx, err); err != nil {
			return err
		}
		err = r.save(ctx)
	}
	return r.err(err)
}

// exists refuses an archive without any record. Its name is probably wrong, and a replay of no records would look like a success.
func (r *run) exists(ctx context.Context) error {
	ever := time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	objects, err := r.e.opts.Archive.Objects(ctx, r.now.archive(), time.Time{}, ever)
	if err == nil && len(objects) == 0 {
		err = fmt.Errorf("%w: no record of source %q is stored, and no source of this name keeps its records: correct the name", ErrUnknownArchive, r.now.archive())
	}
	return err
}

// forgetOldest forgets the oldest run that is done. Without one it returns full.
func (r *run) forgetOldest(ctx context.Context, full error) error {
	all, err := r.e.Sink(r.source, r.sinkID).Replays(ctx)
	if err != nil {
		return err
	}
	for _, p := range all {
		if p.Done() {
			return r.e.Sink(r.source, r.sinkID).ForgetReplay(ctx, p.Run)
		}
	}
	return full
}

func (r *run) err(err error) error { return r.e.unknownSink(err, r.source, r.sinkID) }

// position encodes where the run is.
func (r *run) position() buffer.Position {
	value, err := json.Marshal(r.now)
	if err != nil {
		panic(fmt.Sprintf("forebay: encode %T: %v", r.now, err)) // times of this age, and of options that were encoded before
	}
	return buffer.Position{Name: runPosition + r.opts.Run, Value: value}
}

// save stores the position alone.
func (r *run) save(ctx context.Context) error {
	if err := r.e.buf.SetPosition(ctx, r.id(), r.position()); err != nil {
		return err
	}
	r.committed()
	return nil
}

func (r *run) committed() {
	r.stored = r.now
	for _, cause := range r.causes {
		r.sink.count.rejected(cause)
	}
	r.causes = nil
	if r.opts.Progress != nil {
		r.opts.Progress(r.stored)
	}
}

// read reads the objects behind the position.
func (r *run) read(ctx context.Context) error {
	if r.stored.Done() {
		return nil
	}
	objects, err := r.e.opts.Archive.Objects(ctx, r.now.archive(), r.now.From, r.now.To)
	if err != nil {
		return err
	}
	r.started = time.Now()
	for _, object := range objects {
		if object < r.now.Object {
			continue
		}
		if object > r.now.Object {
			r.now.Object, r.now.Row = object, 0
		}
		if err := r.readObject(ctx, object); err != nil {
			return errors.Join(err, r.commit(ctx)) // what was mapped before does not wait for the next call
		}
	}
	if err := r.commit(ctx); err != nil {
		return err
	}
	r.now.Ended = time.Now().UTC()
	return r.err(r.save(ctx))
}

// readObject maps the rows of an object behind the position.
func (r *run) readObject(ctx context.Context, object string) error {
	src, err := r.e.opts.Archive.Open(ctx, r.now.archive(), object)
	if errors.Is(err, fs.ErrNotExist) {
		r.now.Gone++
		return nil
	}
	if err != nil {
		return err
	}
	defer src.Close()
	in := driver.NewRowReader(src)
	if !in.Next() {
		return fmt.Errorf("object %s of the archive: %w", object, cmp.Or(in.Err(), errors.New("it has no row with the names of the columns")))
	}
	from := r.now.Row
	for row := int64(0); in.Next(); row++ {
		if row < from {
			continue
		}
		if err := r.add(ctx, in.Cells()); err != nil {
			return fmt.Errorf("object %s of the archive, record %d: %w", object, row, err)
		}
		if r.rows+len(r.rejects) >= r.most() || len(r.data)+r.aside >= runBytes || r.lookedAt >= runRecords {
			if err := r.commit(ctx); err != nil {
				return err
			}
		}
	}
	if err := in.Err(); errors.Is(err, fs.ErrNotExist) { // removed while it was read
		r.now.Gone++
	} else if err != nil {
		return fmt.Errorf("object %s of the archive: %w", object, err)
	}
	return nil
}

// most is how many rows a commit has: less than a second's share of a slow run.
func (r *run) most() int {
	if r.opts.RowsPerSecond > 0 {
		return max(1, int(min(runRows, r.opts.RowsPerSecond/2)))
	}
	return runRows
}

// add maps a row of the archive. After an error it is not counted.
func (r *run) add(ctx context.Context, cells [][]byte) error {
	rec, signal, err := parseArchived(cells)
	if err != nil {
		return err
	}
	before := r.now
	r.now.Row++
	if r.lookedAt++; rec.Received.Before(r.now.From) || !rec.Received.Before(r.now.To) {
		return nil
	}
	r.now.Records++
	if !r.takes(signal) {
		r.now.Skipped++
		return nil
	}
	if err := r.mapRecord(rec); err != nil {
		r.now = before
		return err
	}
	return nil
}

// mapRecord adds the row of a record, or what becomes of it instead.
func (r *run) mapRecord(rec *mapping.Record) error {
	defer rec.Release()
	s := r.sink
	data, cause := s.mapper.AppendRow(r.data, rec)
	if size := len(data) - len(r.data); cause == nil && size > r.e.opts.MaxRowBytes {
		cause = &RowTooLargeError{Size: size, Limit: r.e.opts.MaxRowBytes}
	}
	if cause == nil {
		r.data = data
		r.rows++
		r.now.Stored++
		return nil
	}
	if s.keeps {
		reject, err := rejectOf(rec, cause, s.name, r.src.kept)
		if err == nil {
			size := len(reject.Info) + len(reject.Data)
			if err = s.handle.QuarantineFull(size, len(r.rejects), r.aside); isOverload(err) {
				return err
			}
			if err == nil {
				r.rejects = append(r.rejects, reject)
				r.aside += size
				r.now.Quarantined++
				r.causes = append(r.causes, cause)
				return nil
			}
		}
	}
	r.causes = append(r.causes, cause)
	r.now.Rejected++
	return nil
}

// commit stores what was mapped with the position behind it, waits for the disk and for the pace, and looks for a new definition.
func (r *run) commit(ctx context.Context) error {
	n := r.rows + len(r.rejects)
	var err error
	switch {
	case n > 0:
		position := r.position()
		var ticket buffer.Ticket
		ticket, err = r.e.buf.AppendWhenRoom(ctx, time.Now(), buffer.Rows{
			Sink: r.sink.handle, Data: r.data, Count: r.rows, Rejects: r.rejects, Position: &position,
		})
		if err == nil {
			err = ticket.Wait(ctx)
		}
		if err == nil {
			r.committed()
		}
	case r.now != r.stored:
		err = r.save(ctx)
	}
	r.data, r.rows, r.rejects, r.aside, r.causes, r.lookedAt = r.data[:0], 0, nil, 0, nil, 0
	if err != nil {
		r.now = r.stored // whether it is on disk is unknown, so nothing may be stored behind it
		return r.err(err)
	}
	if r.paced += int64(n); r.opts.RowsPerSecond > 0 {
		if err := r.pause(ctx, r.started.Add(time.Duration(float64(r.paced)/r.opts.RowsPerSecond*float64(time.Second)))); err != nil {
			return err
		}
	}
	return r.link(ctx)
}

// pause waits until a moment.
func (r *run) pause(ctx context.Context, until time.Time) error {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
