package replay

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
	"github.com/forebay/forebay/internal/kept"
	"github.com/forebay/forebay/mapping"
)

const (
	// A commit of a run has at most as many rows, bytes of rows and records that were read.
	runRows    = 500
	runBytes   = 256 << 10
	runRecords = 5000
)

// Run is a run in progress. See [Replays.Begin].
type Run struct {
	of     *Replays
	host   Host
	sinkID string // in the buffer
	opts   Options

	sink   Sink     // as it was defined when the rows below were mapped
	stored Progress // on disk
	now    Progress // with the records below

	data     []byte
	rows     int
	rejects  []buffer.Reject
	aside    int     // bytes of rejects
	causes   []error // why records were rejected, counted when this is on disk
	lookedAt int64

	started time.Time
	paced   int64 // rows since then
}

// Do reads the archive and stores the rows. It returns how far the run has come, even with an error.
func (r *Run) Do(ctx context.Context) (Progress, error) {
	err := r.begin(ctx)
	if err == nil {
		err = r.read(ctx)
	}
	return r.stored, err
}

// End ends the run in this process. It must be called after Begin.
func (r *Run) End() { r.of.runs.Delete(r.key()) }

func (r *Run) key() string { return runKey(r.sinkID, r.opts.Run) }

// link finds the sink as it is defined now.
func (r *Run) link(ctx context.Context) (err error) {
	r.sink, err = r.host.Sink(ctx)
	return err
}

// begin reads the position of the run, or stores a new one.
func (r *Run) begin(ctx context.Context) error {
	value, err := r.saved(ctx)
	if err != nil {
		return err
	}
	source, _, _ := strings.Cut(r.sinkID, "/")
	archived, generation := cmp.Or(r.opts.Archived, source), r.opts.Generation
	src, defined := r.host.Source(archived)
	if defined {
		generation = src.Generation
	}
	if value != nil {
		if r.stored, err = parseProgress(value); err != nil {
			return err
		}
		if r.stored.Archived != archived || r.stored.Generation != generation || !r.stored.From.Equal(r.opts.From) || !r.opts.To.IsZero() && !r.stored.To.Equal(r.opts.To) {
			return fmt.Errorf("%w: %q reads the archive %q from %s to %s: repeat it with these options, or use a different name", ErrOther, r.opts.Run, r.stored.archive(), r.stored.From, r.stored.To)
		}
		r.now = r.stored
		return nil
	}
	// The run is in progress here before others are asked. So of two that begin at once, at two engines, at least one finds the other.
	if err := r.host.Elsewhere(ctx, r.opts.Run); err != nil {
		return err
	}
	if value, err := r.saved(ctx); err != nil || value != nil { // the run has moved here since the first look
		return cmp.Or(err, r.moves())
	}
	now := time.Now().UTC()
	r.now = Progress{Run: r.opts.Run, Archived: archived, Generation: generation, From: r.opts.From.UTC(), To: r.opts.To.UTC(), Began: now}
	if r.opts.To.IsZero() {
		r.now.To = now.Add(1) // To is outside
	}
	if defined && src.Archives {
		if err := r.host.FlushArchive(ctx, archived); err != nil {
			return err
		}
	} else if err := r.exists(ctx); err != nil {
		return err
	}
	err = r.save(ctx)
	for errors.Is(err, buffer.ErrTooManyPositions) { // there may be many more, since runs of other engines have moved here
		if err := r.forgetOldest(ctx, err); err != nil {
			return err
		}
		err = r.save(ctx)
	}
	return r.host.Known(err)
}

// saved returns the position of the run, nil if there is none.
func (r *Run) saved(ctx context.Context) ([]byte, error) {
	value, err := r.of.buf.Sink(r.sinkID).Position(ctx, buffer.RunPosition+r.opts.Run)
	if errors.Is(err, buffer.ErrPositionArrives) {
		return nil, r.moves()
	}
	return value, r.host.Known(err)
}

func (r *Run) moves() error {
	return fmt.Errorf("%w, and moves to this one: %q: repeat the call in a moment", ErrElsewhere, r.opts.Run)
}

// exists refuses an archive without any record. Its name is probably wrong, and a replay of nothing would look like a success.
func (r *Run) exists(ctx context.Context) error {
	ever := time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	objects, err := r.of.archive.Objects(ctx, r.now.archive(), time.Time{}, ever)
	if err == nil && len(objects) == 0 {
		err = fmt.Errorf("%w: no record of source %q is stored, and no source of this name keeps its records: correct the name", ErrUnknownArchive, r.now.archive())
	}
	return err
}

// forgetOldest forgets the run that ended first. Its caller has had the longest time to hear of the end. Without a run that is done it returns full.
func (r *Run) forgetOldest(ctx context.Context, full error) error {
	all, err := r.of.List(ctx, r.sinkID)
	if err != nil {
		return r.host.Known(err)
	}
	all = slices.DeleteFunc(all, func(p Progress) bool { return !p.Done() })
	if len(all) == 0 {
		return full
	}
	oldest := slices.MinFunc(all, func(a, b Progress) int { return a.Ended.Compare(b.Ended) })
	return r.host.Known(r.of.Forget(ctx, r.sinkID, oldest.Run))
}

// position encodes where the run is.
func (r *Run) position() buffer.Position {
	value, err := json.Marshal(r.now)
	if err != nil {
		panic(fmt.Sprintf("forebay: encode %T: %v", r.now, err)) // times of this age, and of options that were encoded before
	}
	return buffer.Position{Name: buffer.RunPosition + r.opts.Run, Value: value}
}

// save stores the position alone.
func (r *Run) save(ctx context.Context) error {
	if err := r.of.buf.Sink(r.sinkID).SetPosition(ctx, r.position()); err != nil {
		return err
	}
	r.committed()
	return nil
}

func (r *Run) committed() {
	r.stored = r.now
	for _, cause := range r.causes {
		r.sink.Rejected(cause)
	}
	r.causes = nil
	if r.opts.Progress != nil {
		r.opts.Progress(r.stored)
	}
}

// read reads the objects after the position.
func (r *Run) read(ctx context.Context) error {
	if r.stored.Done() {
		return nil
	}
	objects, err := r.of.archive.Objects(ctx, r.now.archive(), r.now.From, r.now.To)
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
			return errors.Join(err, r.commit(ctx)) // mapped rows do not wait for the next call
		}
	}
	if err := r.commit(ctx); err != nil {
		return err
	}
	r.now.Ended = time.Now().UTC()
	return r.host.Known(r.save(ctx))
}

// readObject maps the rows of an object after the position.
func (r *Run) readObject(ctx context.Context, object string) error {
	src, err := r.of.archive.Open(ctx, r.now.archive(), object)
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

// most is how many rows a commit has, less than a second's share of a slow run.
func (r *Run) most() int {
	if r.opts.RowsPerSecond > 0 {
		return max(1, int(min(runRows, r.opts.RowsPerSecond/2)))
	}
	return runRows
}

// add maps a row of the archive. After an error it is not counted.
func (r *Run) add(ctx context.Context, cells [][]byte) error {
	rec, signal, err := kept.ParseRow(cells)
	if err != nil {
		return err
	}
	before := r.now
	r.now.Row++
	if r.lookedAt++; rec == nil { // it was erased
		return nil
	}
	if rec.Received.Before(r.now.From) || !rec.Received.Before(r.now.To) {
		return nil
	}
	r.now.Records++
	if !r.sink.Takes(signal) {
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
func (r *Run) mapRecord(rec *mapping.Record) error {
	defer rec.Release()
	data, cause := r.sink.Mapper.AppendRow(r.data, rec)
	if size := len(data) - len(r.data); cause == nil && size > r.sink.MaxRowBytes {
		cause = &mapping.RowTooLargeError{Size: size, Limit: r.sink.MaxRowBytes}
	}
	if cause == nil {
		r.data = data
		r.rows++
		r.now.Stored++
		return nil
	}
	if r.sink.Reject != nil {
		reject, err := r.sink.Reject(rec, cause)
		if err == nil {
			size := len(reject.Info) + len(reject.Data)
			err = r.sink.Handle.QuarantineFull(size, len(r.rejects), r.aside)
			if _, full := errors.AsType[*buffer.OverloadError](err); full {
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

// commit stores the mapped rows with the position after them, waits for the disk and for the pace, and finds the sink again.
func (r *Run) commit(ctx context.Context) error {
	n := r.rows + len(r.rejects)
	var err error
	switch {
	case n > 0:
		position := r.position()
		var ticket buffer.Ticket
		ticket, err = r.of.buf.AppendWhenRoom(ctx, time.Now(), buffer.Rows{
			Sink: r.sink.Handle, Data: r.data, Count: r.rows, Rejects: r.rejects, Position: &position,
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
		r.now = r.stored // whether it is on disk is unknown, so nothing may be stored after it
		return r.host.Known(err)
	}
	if r.paced += int64(n); r.opts.RowsPerSecond > 0 {
		if err := r.pause(ctx, r.started.Add(time.Duration(float64(r.paced)/r.opts.RowsPerSecond*float64(time.Second)))); err != nil {
			return err
		}
	}
	return r.link(ctx)
}

// pause waits until a moment.
func (r *Run) pause(ctx context.Context, until time.Time) error {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
