package catalog

import (
	"cmp"
	"context"
	"errors"
	"log/slog"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/driverkit/warnlog"
)

// Maintenance works on the quarantines, the held files and the shadows of an engine whose sources are defined elsewhere, such as in a file. A
// [Catalog] does the same for the sources that it defines. Maintenance changes no definition. Its tasks and reports are in memory, so the caller starts an
// interrupted task again after a restart. The records that the task had replayed have left the quarantine. It is safe for concurrent use.
type Maintenance struct {
	eng     *forebay.Engine
	opts    MaintenanceOptions
	tasks   *tasks
	shadows shadows
	ctx     context.Context
	cancel  context.CancelFunc
}

// MaintenanceOptions are the options of [NewMaintenance].
type MaintenanceOptions struct {
	// BranchID stands in the ids of tasks. Default: 1.
	BranchID int
	// Logger gets the tasks that have failed. Default: warnings and errors go to [slog.Default]. [slog.DiscardHandler] silences them.
	Logger *slog.Logger
}

// NewMaintenance returns the maintenance of an engine. Close it before the engine.
func NewMaintenance(eng *forebay.Engine, opts MaintenanceOptions) *Maintenance {
	opts.BranchID, opts.Logger = cmp.Or(opts.BranchID, 1), warnlog.Or(opts.Logger)
	m := &Maintenance{eng: eng, opts: opts, tasks: &tasks{reserved: map[string]string{}, byID: map[string]*running{}}}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	return m
}

// Close interrupts the tasks and waits for their end. No further one can be started.
func (m *Maintenance) Close() {
	m.tasks.close()
	m.cancel()
	m.tasks.work.Wait()
}

func (m *Maintenance) token(Ref) (Token, bool) { return Token{}, false }

// Engine returns the engine.
func (m *Maintenance) Engine() *forebay.Engine { return m.eng }

// sink returns the counters of a sink. It need no longer be defined. Its kept records are still there.
func (m *Maintenance) sink(ref Ref) (forebay.SinkStats, error) {
	for _, st := range m.eng.Stats().Sinks {
		if st.Source == ref.Source && st.Sink == ref.Sink {
			return st, nil
		}
	}
	return forebay.SinkStats{}, notFound(ref)
}

func (m *Maintenance) quarantine(ref Ref) (forebay.SinkQuarantine, error) {
	_, err := m.sink(ref)
	return m.eng.Sink(ref.Source, ref.Sink).Quarantine(), err
}

// refusal is an error of the engine for users. The sink is known to the engine, so one that is not found is not defined now.
func refusal(ref Ref, recordID string, err error) error {
	edit, wrong := errors.AsType[*forebay.EditError](err)
	switch {
	case wrong:
		return refuse(BadRequest, "%s", refusedEdit(edit))
	case errors.Is(err, buffer.ErrUnknownRejected):
		return recordNotFound(ref, recordID)
	case errors.Is(err, buffer.ErrRejectedChanged):
		return recordChanged(recordID)
	case errors.Is(err, forebay.ErrUnknownSource), errors.Is(err, forebay.ErrUnknownSink), errors.Is(err, forebay.ErrDisabledSource):
		return refuse(SinkDisabled, "Sink %q of source %q is disabled or no longer defined, so it maps nothing.", ref.Sink, ref.Source)
	}
	return err
}

func (m *Maintenance) listRejected(ctx context.Context, ref Ref, f forebay.RejectedFilter, limit int) (RejectedPage, error) {
	st, err := m.sink(ref)
	if err != nil {
		return RejectedPage{}, err
	}
	page, err := m.eng.Sink(ref.Source, ref.Sink).Quarantine().Page(ctx, f, limit)
	if errors.Is(err, buffer.ErrUnknownRejected) {
		return RejectedPage{}, noPlace(f.After)
	}
	return RejectedPage{Records: page.Records, Next: page.Next, Total: st.Quarantine.Records}, refusal(ref, "", err)
}

func (m *Maintenance) rejectedRecord(ctx context.Context, ref Ref, recordID string) (forebay.RejectedContent, error) {
	q, err := m.quarantine(ref)
	if err != nil {
		return forebay.RejectedContent{}, err
	}
	c, err := q.Get(ctx, recordID)
	return c, refusal(ref, recordID, err)
}

func (m *Maintenance) editRejected(ctx context.Context, by By, ref Ref, recordID string, revision int, body []byte) error {
	q, err := m.quarantine(ref)
	if err != nil {
		return err
	}
	return refusal(ref, recordID, q.With(forebay.QuarantineNote{By: by.who()}).Edit(ctx, recordID, revision, body))
}

func (m *Maintenance) testRejected(ctx context.Context, ref Ref, recordID string) ([]TestedCell, error) {
	q, err := m.quarantine(ref)
	if err != nil {
		return nil, err
	}
	if !q.Has(recordID) {
		return nil, recordNotFound(ref, recordID)
	}
	cells, err := q.Test(ctx, recordID)
	if err != nil {
		return nil, refusal(ref, recordID, err)
	}
	return testedCells(cells), nil
}

func (m *Maintenance) replayRejected(ctx context.Context, ref Ref, recordID string) (RejectsResult, error) {
	q, err := m.quarantine(ref)
	if err != nil {
		return RejectsResult{}, err
	}
	if !q.Has(recordID) {
		return RejectsResult{}, recordNotFound(ref, recordID)
	}
	res, err := q.Replay(ctx, recordID)
	if err == nil && res.Gone > 0 { // another caller was faster
		err = buffer.ErrUnknownRejected
	}
	return RejectsResult{Replayed: res.Replayed, Rejected: res.Rejected}, refusal(ref, recordID, err)
}

func (m *Maintenance) discardRejected(ctx context.Context, by By, ref Ref, recordID, reason string) error {
	q, err := m.quarantine(ref)
	if err != nil {
		return err
	}
	n, err := q.With(forebay.QuarantineNote{By: by.who(), Reason: reason}).Discard(ctx, recordID)
	if err == nil && n == 0 {
		err = buffer.ErrUnknownRejected
	}
	return refusal(ref, recordID, err)
}

func (m *Maintenance) replayRejects(ref Ref, s RejectedSelection) (Task, error) {
	if q, err := m.quarantine(ref); err != nil {
		return Task{}, err
	} else if _, err := q.Mapping(m.ctx); err != nil {
		return Task{}, refusal(ref, "", err)
	}
	return m.start("replay", ref, s, nil, func(ctx context.Context, q forebay.SinkQuarantine) (RejectsResult, error) {
		return m.replayInSteps(ctx, q, s)
	})
}

func (m *Maintenance) discardRejects(by By, ref Ref, s RejectedSelection, reason string) (Task, error) {
	return m.start("discard", ref, s, &Discard{By: by.who(), Reason: reason}, func(ctx context.Context, q forebay.SinkQuarantine) (res RejectsResult, err error) {
		if len(s.IDs) == 0 {
			res.Discarded, err = q.DiscardAll(ctx, s.Filter)
			return res, err
		}
		if res.Discarded, err = q.Discard(ctx, s.IDs...); err == nil {
			res.Gone = len(s.IDs) - res.Discarded
		}
		return res, err
	})
}

// start starts a task that moves records. One of a sink excludes others.
func (m *Maintenance) start(
	verb string, ref Ref, s RejectedSelection, discard *Discard, move func(context.Context, forebay.SinkQuarantine) (RejectsResult, error),
) (Task, error) {
	if err := s.check(); err != nil {
		return Task{}, err
	}
	q, err := m.quarantine(ref)
	if err != nil {
		return Task{}, err
	}
	m.tasks.expire(now())
	task := newTask(m.opts.BranchID, verb+rejectsKind, ref, now())
	task.Discard = discard
	if err := m.tasks.reserve(rejectsEntity(ref), task.ID); err != nil {
		return Task{}, err
	}
	m.tasks.start(task)
	running, end := context.WithCancelCause(m.ctx)
	m.tasks.cancels(task.ID, end)
	go func() {
		defer end(nil)
		ctx, cancel := context.WithTimeout(running, rejectsTimeout)
		defer cancel()
		result, err := move(ctx, q)
		if err != nil {
			m.opts.Logger.Warn("task failed", "task", task.ID, "cause", err, "next", "read the task for its error, and retry it")
		}
		done := task.movedRejects(result, discard == nil, m.ctx.Err() != nil, refusal(ref, "", err))
		done.noteDiscard(m.opts.Logger)
		m.tasks.end(done, nil)
	}()
	return task.of(m.tasks), nil
}

// Task returns a task by its id.
func (m *Maintenance) Task(id string) (Task, error) {
	r, err := m.tasks.find(id)
	return r.task, err
}

func (m *Maintenance) sinkStatistics(_ context.Context, ref Ref) (Statistics, error) {
	st, err := m.sink(ref)
	if err != nil {
		return Statistics{}, err
	}
	return engineCounts{{ref.Source, ref.Sink}: st}.of(ref.Source, Sink{ID: ref.Sink}), nil
}

// Retry repeats at once all failed work of a sink, or of all sinks of a source. See [Catalog.Retry].
func (m *Maintenance) Retry(ctx context.Context, ref Ref) error {
	r := request{Op: opRetry, Source: ref.Source}
	for _, st := range m.eng.Stats().Sinks {
		if st.Source == ref.Source && (ref.Sink == "" || st.Sink == ref.Sink) {
			r.Sinks = append(r.Sinks, st.Sink)
		}
	}
	if _, defined := m.eng.Source(ref.Source); len(r.Sinks) == 0 && (ref.Sink != "" || !defined) {
		return notFound(ref)
	}
	_, _, err := onEngine(ctx, m.eng, r)
	return err
}

func (m *Maintenance) onFile(ctx context.Context, r request) error {
	if _, err := m.sink(Ref{r.Source, r.Sinks[0]}); err != nil {
		return err
	}
	done, why, err := onEngine(ctx, m.eng, r)
	if err != nil {
		return err
	}
	return r.refusal(done, why)
}

func (m *Maintenance) shadow(ctx context.Context, ref Ref, change shadowChange, opts forebay.ShadowOptions) (forebay.ShadowReport, error) {
	source, _ := m.eng.Source(ref.Source)
	r, err := m.shadows.begin(ctx, m.eng, source, ref, change, opts)
	if err != nil {
		return forebay.ShadowReport{}, refusal(ref, "", err)
	}
	return r, nil
}

func (m *Maintenance) shadowReport(ref Ref) (forebay.ShadowReport, error) {
	if s := m.shadows.of(ref); s != nil {
		return s.Report(), nil
	}
	return forebay.ShadowReport{}, noShadow(ref)
}

func (m *Maintenance) endShadow(ref Ref) (forebay.ShadowReport, error) {
	if s := m.shadows.of(ref); s != nil {
		return s.Close(), nil
	}
	return forebay.ShadowReport{}, noShadow(ref)
}
