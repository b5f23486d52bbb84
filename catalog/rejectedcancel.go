package catalog

import (
	"context"
	"slices"

	"github.com/forebay/forebay"
)

const cancelledRejects = "The replay was cancelled. What it has replayed is in the table or on its way there, each record once; the rest is still in the quarantine. Send the request again for the rest."

// rejectsEntity is the entity that a replay or discard of rejected records reserves. It is not a valid id, so it does not exclude changes of the sink.
func rejectsEntity(ref Ref) string { return ref.entity() + rejectsKind }

// replayRejectsType is the type of tasks that replay rejected records.
const replayRejectsType = "api.replay" + rejectsKind

func (c *Catalog) cancelRejects(ctx context.Context, ref Ref) (Task, error) {
	if err := c.CatchUp(ctx); err != nil {
		return Task{}, err
	}
	if _, _, err := c.find(ref); err != nil {
		return Task{}, err
	}
	last, err := c.tasks.lastReplay(ref)
	if err != nil || last.Finished() || c.tasks.cancelRejects(last) {
		return last, err
	}
	r := request{Op: opCancelRejects, Source: ref.Source, Sinks: []string{ref.Sink}, Task: last.ID}
	done := func(i instanceResponse) bool { return i.Outcome == outcomeDone }
	got := c.co.ask(ctx, filesTimeout, r, done)
	all := got.instances
	if slices.ContainsFunc(all, done) {
		return last, nil
	}
	if now, err := c.Task(last.ID); err != nil || now.Finished() {
		return now, err
	}
	knows := func(instance string) bool {
		return instance == c.opts.Shared.Instance || slices.ContainsFunc(all, func(i instanceResponse) bool { return i.Instance == instance })
	}
	if missing := got.missing(ctx, knows); len(missing) > 0 {
		return Task{}, &MissingError{missing}
	}
	return last, nil // it ends, or its node has stopped and another node ends it
}

func (m *Maintenance) cancelRejects(_ context.Context, ref Ref) (Task, error) {
	if _, err := m.quarantine(ref); err != nil {
		return Task{}, err
	}
	last, err := m.tasks.lastReplay(ref)
	if err != nil || last.Finished() || m.tasks.cancelRejects(last) {
		return last, err
	}
	return m.Task(last.ID) // it has ended meanwhile
}

// replayInSteps replays records that a selection names or selects now. ctx ends it between two steps. The rows of one that has begun are counted.
func (m *Maintenance) replayInSteps(ctx context.Context, q forebay.SinkQuarantine, s RejectedSelection) (res RejectsResult, err error) {
	ids := s.IDs
	if len(ids) == 0 {
		for r, err := range q.List(ctx, s.Filter) {
			if ctx.Err() != nil {
				return res, context.Cause(ctx)
			}
			if err != nil {
				return res, err
			}
			ids = append(ids, r.ID)
		}
	}
	for some := range slices.Chunk(ids, rejectsAtOnce) {
		if ctx.Err() != nil {
			return res, context.Cause(ctx)
		}
		step, err := q.Replay(m.ctx, some...)
		res.add(RejectsResult{Replayed: step.Replayed, Rejected: step.Rejected, Gone: step.Gone})
		if err != nil {
			return res, err
		}
	}
	return res, nil
}

// lastReplay returns the replay of rejected records that runs for a sink, or else the last one. Without one the error is [TaskNotFound].
func (t *tasks) lastReplay(ref Ref) (last Task, err error) {
	defer func() { last.owner = t }()
	t.mu.Lock()
	defer t.mu.Unlock()
	found := false
	for _, r := range t.byID { // at most one of them runs
		if r.task.Type != replayRejectsType || r.task.ref() != ref {
			continue
		}
		newer := r.task.CreatedAt.After(last.CreatedAt) && last.Finished()
		if !found || !r.task.Finished() || newer {
			last, found = r.task, true
		}
	}
	if !found {
		return last, refuse(TaskNotFound, "No rejected records of sink %q of source %q are being replayed.", ref.Sink, ref.Source)
	}
	return last, nil
}

// cancelRejects cancels a replay of rejected records that runs here, and reports whether it does.
func (t *tasks) cancelRejects(task Task) bool {
	_, ok := t.cancelOnly(rejectsEntity(task.ref()), task.ID)
	return ok
}
