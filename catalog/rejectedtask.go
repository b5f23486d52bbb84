package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/forebay/forebay"
)

// RejectsResult counts the records of a replay or a discard by result.
type RejectsResult struct {
	// Replayed became rows.
	Replayed int `json:"replayed,omitempty"`
	// Rejected could not be mapped again and are still there.
	Rejected int `json:"rejected,omitempty"`
	// Gone were no longer there because another caller has replayed or discarded them, or they have expired.
	Gone int `json:"gone,omitempty"`
	// Discarded were deleted.
	Discarded int `json:"discarded,omitempty"`
}

func (r *RejectsResult) add(o RejectsResult) {
	r.Replayed += o.Replayed
	r.Rejected += o.Rejected
	r.Gone += o.Gone
	r.Discarded += o.Discarded
}

// count is how many records were asked for so far.
func (r RejectsResult) count() int { return r.Replayed + r.Rejected + r.Gone + r.Discarded }

// sentence describes for people the result of a task.
func (r RejectsResult) sentence(replay bool) string {
	if !replay {
		return fmt.Sprintf("%d rejected records were discarded.", r.Discarded)
	}
	text := fmt.Sprintf("%d rejected records have become rows.", r.Replayed)
	if r.Rejected > 0 {
		text += fmt.Sprintf(" %d were rejected again and are still there.", r.Rejected)
	}
	if r.Gone > 0 {
		text += fmt.Sprintf(" %d were no longer there.", r.Gone)
	}
	return text
}

// RejectedSelection selects records of a quarantine.
type RejectedSelection struct {
	// IDs are records, at most [MaxSelected].
	IDs []string
	// Filter selects without IDs. The zero value selects all that are there now.
	Filter forebay.RejectedFilter
}

// MaxSelected is how many ids a [RejectedSelection] may have.
const MaxSelected = 10_000

func (c *Catalog) replayRejects(ref Ref, s RejectedSelection) (Task, error) {
	if err := c.maps(ref); err != nil {
		return Task{}, err
	}
	return c.submitRejects("replay", opReplayRejects, ref, s, nil)
}

func (c *Catalog) discardRejects(by By, ref Ref, s RejectedSelection, reason string) (Task, error) {
	return c.submitRejects("discard", opDropRejects, ref, s, &Discard{By: by.who(), Reason: reason})
}

// Discard says who discards rejected records, and why.
type Discard struct {
	// By is the name of the user or token.
	By string `json:"by"`
	// Reason is for people. It may be empty.
	Reason string `json:"reason,omitempty"`
}

const (
	rejectsKind        = ".rejects"
	interruptedRejects = "The service was stopped while the task was running. Send the request again for the rest: nothing is stored twice."
	// rejectsTimeout bounds a replay or a discard.
	rejectsTimeout = time.Hour
)

// movesRejects reports whether a task replays or discards rejected records.
func (t Task) movesRejects() bool { return strings.HasSuffix(t.Type, rejectsKind) }

// check refuses a selection that cannot be.
func (s *RejectedSelection) check() error {
	if len(s.IDs) > MaxSelected {
		return refuse(BadRequest, "The selection has %d records, at most %d are allowed.", len(s.IDs), MaxSelected)
	}
	if s.Filter.After != "" {
		return refuse(BadRequest, "A selection does not begin after a record.")
	}
	return nil
}

func (c *Catalog) submitRejects(verb, op string, ref Ref, s RejectedSelection, discard *Discard) (Task, error) {
	if err := s.check(); err != nil {
		return Task{}, err
	}
	if _, _, err := c.find(ref); err != nil {
		return Task{}, err
	}
	task := c.newTask(verb+rejectsKind, ref, now())
	task.Discard = discard
	entity := rejectsEntity(ref)
	if err := c.tasks.reserve(entity, task.ID); err != nil {
		return Task{}, err
	}
	planned := func() (*change, error) {
		_, _, err := c.find(ref)
		return &change{}, err
	}
	hold, err := c.co.begin(c.ctx, Ref{}, entity, task.ID, planned, map[string][]byte{taskKey(task.ID): encode(task)})
	if err != nil {
		c.tasks.release(entity)
		return Task{}, err
	}
	c.tasks.start(task)
	r := request{Op: op, Source: ref.Source, Sinks: []string{ref.Sink}, Rejects: &rejectsRequest{IDs: s.IDs}}
	if len(s.IDs) == 0 {
		r.Rejects.Filter = newFilterRecord(s.Filter)
	}
	ctx, cancel := context.WithCancelCause(c.ctx)
	c.tasks.cancels(task.ID, cancel)
	go func() {
		defer cancel(nil)
		c.runRejects(ctx, task, hold, r)
	}()
	return task.of(c.tasks), nil
}

// runRejects makes a replay or a discard and records how it ended. ctx ends it between two steps.
func (c *Catalog) runRejects(ctx context.Context, task Task, hold string, r request) {
	ctx, cancel := context.WithTimeout(ctx, rejectsTimeout)
	defer cancel()
	defer c.co.release(hold)
	result := RejectsResult{}
	c.co.syncFollowed(ctx)
	var err error
	if r.Rejects.Filter != nil {
		err = c.moveFiltered(ctx, hold, r, &result)
	} else {
		err = c.moveSelected(ctx, hold, r, &result)
	}
	done := task.movedRejects(result, r.Op == opReplayRejects, c.ctx.Err() != nil, err)
	if err != nil {
		c.log.Warn("task failed", "task", task.ID, "cause", err, "next", "read the task for its error, and retry it")
	}
	done.noteDiscard(c.log)
	end := map[string][]byte{taskKey(task.ID): encode(done)}
	c.co.end(hold, end)
	switch err := c.co.commit(hold, end); {
	case errors.Is(err, ErrChanged):
		c.co.disown(task)
		return
	case err != nil:
		c.repairs.writeLater(end)
	}
	c.tasks.end(done, nil)
}

// movedRejects is a replay or discard that has ended. stopped says that the service is stopping.
func (t Task) movedRejects(result RejectsResult, replay, stopped bool, err error) Task {
	t.Status, t.FinishedAt, t.Rejects = Succeeded, now(), &result
	switch {
	case err == nil:
		t.Result = result.sentence(replay)
	case stopped:
		t.Status, t.Failure = Failed, interruptedRejects
	case errors.Is(err, errReplayCancelled):
		t.Status, t.Failure = Failed, cancelledRejects
	default:
		t.Status, t.Failure = Failed, sentence(err)
	}
	return t
}

// noteDiscard logs which user discarded records, and why.
func (t Task) noteDiscard(log *slog.Logger) {
	if d := t.Discard; d != nil && t.Rejects.Discarded > 0 {
		log.Info("rejected records discarded by request", "source", t.SourceID, "sink", t.SinkID, "records", t.Rejects.Discarded, "by", d.By, "reason", d.Reason, "task", t.ID)
	}
}

// moveFiltered goes through all instances, with a place in each.
func (c *Catalog) moveFiltered(ctx context.Context, hold string, r request, result *RejectsResult) error {
	var problems []error
	filters := *r.Rejects
	for places := range c.co.rounds() {
		for _, instance := range places {
			step := filters
			filter := *step.Filter
			step.Instance, step.Filter, step.After = instance, &filter, nil
			for {
				r.Rejects = &step
				a, err := c.moveAt(ctx, hold, instance, r)
				result.add(a.Result)
				if err != nil {
					problems = append(problems, err)
					break
				}
				if !a.More {
					break
				}
				filter.Until, step.After = a.Until, map[string]string{instance: a.Last}
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
	}
	return errors.Join(problems...)
}

// moveSelected asks each instance for the selected records that it has.
func (c *Catalog) moveSelected(ctx context.Context, hold string, r request, result *RejectsResult) error {
	var problems []error
	ids := slices.Compact(slices.Sorted(slices.Values(r.Rejects.IDs)))
	for some := range slices.Chunk(ids, rejectsAtOnce) {
		var moved RejectsResult
		for places := range c.co.rounds() {
			moved.Rejected = 0 // by an earlier round
			for _, instance := range places {
				r.Rejects = &rejectsRequest{Instance: instance, IDs: some}
				a, err := c.moveAt(ctx, hold, instance, r)
				moved.add(a.Result)
				problems = append(problems, err)
				if moved.count() >= len(some) {
					break
				}
			}
			if moved.count() >= len(some) || ctx.Err() != nil {
				break
			}
		}
		if ctx.Err() == nil && errors.Join(problems...) == nil {
			moved.Gone = len(some) - moved.Replayed - moved.Rejected - moved.Discarded
		}
		result.add(moved)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return errors.Join(problems...)
}

const (
	// moveAttempts is how often an instance that does not respond is asked, and fullAttempts how often an instance whose sink is full.
	moveAttempts = 3
	fullAttempts = 60
	movePause    = time.Second
)

// moveAt makes one step at an instance, wherever it is. A step may be repeated, because the records that it has moved are gone. A step that has begun
// is not ended by ctx, because its moved records would not be counted.
func (c *Catalog) moveAt(ctx context.Context, hold, instance string, r request) (rejectsResponse, error) {
	var moved RejectsResult // by attempts that have not come to their end
	failed := Missing{Instance: instance, Node: c.co.instances()[instance]}
	for attempt, full := 1, 0; ; {
		if err := cmp.Or(context.Cause(ctx), c.co.owns(hold)); err != nil {
			return rejectsResponse{Result: moved}, err
		}
		stepping, cancel := context.WithTimeout(c.ctx, filesTimeout)
		all := c.co.carryOut(stepping, r)
		cancel()
		if len(all) == 0 {
			got := c.co.ask(c.ctx, filesTimeout, r, func(i instanceResponse) bool { return i.Instance == instance })
			all = slices.DeleteFunc(got.instances, func(i instanceResponse) bool { return i.Instance != instance })
			if len(all) == 0 {
				missing := got.missing(ctx, func(other string) bool { return other != instance })
				if len(missing) == 0 {
					return rejectsResponse{Result: moved}, nil // it has ended because it had none left
				}
				failed = missing[0]
			}
		}
		slices.SortFunc(all, func(a, b instanceResponse) int { return cmp.Compare(b.Epoch, a.Epoch) })
		for _, i := range all[:min(1, len(all))] {
			if i.Rejects == nil {
				i.Rejects = &rejectsResponse{}
			}
			i.Rejects.Result.add(moved)
			switch i.Outcome {
			case outcomeDone, outcomeNotFound:
				return *i.Rejects, nil
			case outcomeOverloaded:
				moved = i.Rejects.Result
				if full++; full >= fullAttempts {
					return rejectsResponse{Result: moved}, fmt.Errorf("sink %q is full at instance %s; send the request again when its rows are in their table", r.Sinks[0], instance)
				}
				attempt = 0
			default:
				moved, failed.Reason = i.Rejects.Result, "it has failed there, see the log of the node"
				if i.err != nil && attempt == moveAttempts {
					return rejectsResponse{Result: moved}, i.err
				}
			}
		}
		if attempt == moveAttempts {
			return rejectsResponse{Result: moved}, &MissingError{[]Missing{failed}}
		}
		attempt++
		select {
		case <-time.After(movePause):
		case <-ctx.Done():
		}
	}
}
