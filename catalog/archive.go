package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/forebay/forebay"
)

// archiveKey is the setting of sources that keep their raw records.
const archiveKey = "archive.enabled"

// ReplaySpec selects the records that a replay of an archive reads.
type ReplaySpec struct {
	// Run, Archived, From, To and RowsPerSecond are as in [forebay.ReplayOptions].
	Run           string    `json:"run"`
	Archived      string    `json:"archived,omitempty"`
	From          time.Time `json:"from,omitzero"`
	To            time.Time `json:"to,omitzero"`
	RowsPerSecond float64   `json:"rowsPerSecond,omitempty"`
}

// options has no Generation because the source may have been replaced when the replay begins.
func (s ReplaySpec) options() forebay.ReplayOptions {
	return forebay.ReplayOptions{Run: s.Run, Archived: s.Archived, From: s.From, To: s.To, RowsPerSecond: s.RowsPerSecond}
}

// ArchiveReplay is the request and the progress of a task that replays an archive.
type ArchiveReplay struct {
	// Spec is the request of the task.
	Spec ReplaySpec `json:"spec"`
	// Progress is on disk. It is zero before the run has begun. While the task runs, the record of the task in the store is older.
	Progress forebay.ReplayProgress `json:"progress"`
}

// Sentence describes for people the result of a replay.
func (r ArchiveReplay) Sentence() string {
	p := r.Progress
	text := fmt.Sprintf("%d archived records were read, %d have become rows.", p.Records, p.Stored)
	if n := p.Rejected + p.Quarantined; n > 0 {
		text += fmt.Sprintf(" %d were rejected, %d of them are in the quarantine.", n, p.Quarantined)
	}
	if p.Skipped > 0 {
		text += fmt.Sprintf(" %d have a signal that the sink does not take.", p.Skipped)
	}
	if p.Gone > 0 {
		text += fmt.Sprintf(" %d objects had been removed.", p.Gone)
	}
	return text
}

const (
	archiveReplayType = "replay.archive"
	cancelledReplay   = "The replay was cancelled. Start it again with the same run to continue after the last record that it has stored."
)

var errReplayCancelled = errors.New("cancelled")

// ArchiveReplays are the replays of archives into one sink. See [Catalog.ArchiveReplays]. Each method returns [SourceNotFound] or [SinkNotFound]
// for a sink that does not exist.
type ArchiveReplays struct {
	c   *Catalog
	ref Ref
}

// ArchiveReplays returns the replays of archives into a sink. The sink need not exist.
func (c *Catalog) ArchiveReplays(sourceID, id string) ArchiveReplays {
	return ArchiveReplays{c, Ref{sourceID, id}}
}

// Start starts a task that maps the raw records of an archive to rows of a sink, with the current columns. See [forebay.SinkHandle.Replay].
// Each record becomes one row per run, no matter what fails and how often the task is started. While the task runs, its Task.Replay shows the
// progress. If Close interrupts the task, the next [Open] continues it. A sink has at most one such task at a time. The sink may change meanwhile, and
// each row has the columns of the moment in which it is mapped.
//
// Catalogs that share their store refuse it, because a run belongs to one engine. Call [forebay.SinkHandle.Replay] there.
func (r ArchiveReplays) Start(spec ReplaySpec) (Task, error) {
	c, ref := r.c, r.ref
	if c.co.isShared() {
		return Task{}, refuse(BadRequest, "Archives are not replayed over the API of a cluster: a run belongs to one node. Replay on one node, with SinkHandle.Replay.")
	}
	if err := spec.options().Validate(); err != nil {
		return Task{}, refuse(BadRequest, "%s", sentence(err))
	}
	if err := c.maps(ref); err != nil {
		return Task{}, err
	}
	task := c.newTask(archiveReplayType, ref, now())
	task.Replay = &ArchiveReplay{Spec: spec}
	if err := c.tasks.reserve(archiveEntity(ref), task.ID); err != nil {
		return Task{}, err
	}
	records := map[string][]byte{taskKey(task.ID): encode(task)}
	if err := c.store.Commit(records); err != nil {
		c.repairs.giveUp(records, err) // no caller will ask for it
		c.tasks.release(archiveEntity(ref))
		return Task{}, err
	}
	c.tasks.start(task)
	c.startReplay(task)
	return task.of(c.tasks), nil
}

// archiveEntity is the entity that a replay reserves. It is no id of a source or sink.
func archiveEntity(ref Ref) string { return ref.entity() + ".archive" }

// Cancel ends the replay that runs, and returns its task, which ends soon. What was stored stays. Without one the error
// is [TaskNotFound].
func (r ArchiveReplays) Cancel() (Task, error) {
	if _, _, err := r.c.find(r.ref); err != nil {
		return Task{}, err
	}
	task, ok := r.c.tasks.cancel(archiveEntity(r.ref))
	if !ok {
		return Task{}, refuse(TaskNotFound, "No archive is being replayed into sink %q of source %q.", r.ref.Sink, r.ref.Source)
	}
	return task, nil
}

// Runs returns the runs that the sink remembers in this engine. See [forebay.SinkHandle.Replays].
func (r ArchiveReplays) Runs(ctx context.Context) ([]forebay.ReplayProgress, error) {
	if _, _, err := r.c.find(r.ref); err != nil {
		return nil, err
	}
	list, err := r.c.eng.Sink(r.ref.Source, r.ref.Sink).Replays(ctx)
	if errors.Is(err, forebay.ErrUnknownSink) { // it has not been enabled yet
		return nil, nil
	}
	return list, err
}

// startReplay runs the task of a replay, which has its reservation.
func (c *Catalog) startReplay(task Task) {
	ctx, cancel := context.WithCancelCause(c.ctx)
	c.tasks.cancels(task.ID, cancel)
	go func() {
		defer cancel(nil)
		c.runReplay(ctx, task)
	}()
}

// runReplay makes a replay and records how it ended, unless the catalog is being closed.
func (c *Catalog) runReplay(ctx context.Context, task Task) {
	opts, done := task.Replay.Spec.options(), task
	state := *task.Replay
	opts.Generation = c.generation(cmp.Or(opts.Archived, task.SourceID))
	opts.Progress = func(p forebay.ReplayProgress) {
		state.Progress = p
		shown := state
		c.tasks.progress(task.ID, &shown)
	}
	progress, err := c.eng.Sink(task.SourceID, task.SinkID).Replay(ctx, opts)
	if progress.Run != "" {
		state.Progress = progress
	}
	done.Replay, done.FinishedAt = &state, now()
	switch {
	case err == nil:
		done.Status, done.Result = Succeeded, state.Sentence()
	case c.ctx.Err() != nil: // the next opening continues
		c.tasks.end(task, ErrClosed)
		return
	default:
		done.Status, done.Failure, done.Code = Failed, sentence(err), codeOf(err)
		switch {
		case errors.Is(context.Cause(ctx), errReplayCancelled):
			done.Failure, done.Code = cancelledReplay, ""
		case errors.Is(err, forebay.ErrNoArchive):
			done.Failure, done.Code = "The server keeps no raw records, so there is nothing to replay. Start it with -archive dir:FOLDER to keep the records that arrive from then on.", BadRequest
		case errors.Is(err, forebay.ErrOtherReplay), errors.Is(err, forebay.ErrUnknownArchive):
			done.Code = BadRequest
		}
		c.log.Warn("archive replay ended early", "task", task.ID, "cause", err, "next", "fix the cause, and start the replay again")
	}
	end := map[string][]byte{taskKey(task.ID): encode(done)}
	if err := c.store.Commit(end); err != nil {
		c.repairs.writeLater(end)
	}
	c.tasks.end(done, nil)
}

// resumeReplays continues the replays that an earlier opening has left, once the engine has its sources.
func (c *Catalog) resumeReplays() {
	for _, task := range c.Tasks() {
		if task.Replay != nil && !task.Finished() && c.tasks.resumeAs(task, archiveEntity(task.ref())) {
			c.startReplay(task)
		}
	}
}

// cancels says how a running task is cancelled.
func (t *tasks) cancels(id string, cancel context.CancelCauseFunc) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byID[id].cancel = cancel
}

// cancel cancels the task that has reserved an entity, and returns it.
func (t *tasks) cancel(entity string) (Task, bool) { return t.cancelOnly(entity, "") }

// cancelOnly is cancel for the task with an id. Empty means any task.
func (t *tasks) cancelOnly(entity, id string) (Task, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.byID[t.reserved[entity]]
	if r == nil || r.cancel == nil || id != "" && r.task.ID != id {
		return Task{}, false
	}
	r.cancel(errReplayCancelled)
	return r.task.of(t), true
}

// progress shows the progress of the replay of a running task. The state is no longer changed.
func (t *tasks) progress(id string, state *ArchiveReplay) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byID[id].task.Replay = state
}
