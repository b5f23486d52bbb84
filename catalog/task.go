package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/driver"
)

// TaskStatus is how far a task is.
type TaskStatus string

// The states of a task.
const (
	Processing TaskStatus = "processing"
	Succeeded  TaskStatus = "success"
	Failed     TaskStatus = "error"
)

// Task is a change that runs, or did. Tasks are kept for an hour after a success and for 48 hours after a failure.
type Task struct {
	// ID is Type/branch/source[/sink]/time_random.
	ID string `json:"id"`
	// Type is the operation, such as "create.source".
	Type     string     `json:"type"`
	SourceID string     `json:"sourceId"`
	SinkID   string     `json:"sinkId,omitempty"`
	Status   TaskStatus `json:"status"`
	// CreatedAt and FinishedAt have milliseconds; FinishedAt is zero while the task runs.
	CreatedAt  time.Time `json:"createdAt"`
	FinishedAt time.Time `json:"finishedAt,omitzero"`
	// Result is one sentence after a success, Failure the text for the user after a failure.
	Result  string `json:"result,omitempty"`
	Failure string `json:"failure,omitempty"`
	// Code is set if the request is at fault. It is the code of an [Error], or [BadRequest] if the target can never have such a table. It
	// is empty if the same request may succeed later.
	Code Code `json:"code,omitempty"`
	// Warnings are problems that a user must look at although the task has succeeded.
	Warnings []Warning `json:"warnings,omitempty"`
	// Partial is set if a deletion was made, but something outside the catalog is left. Failure says what.
	Partial bool `json:"partial,omitempty"`
	// Rejects is the result of a replay or discard of rejected records, even a failed one. It is nil for other tasks.
	Rejects *RejectsResult `json:"rejects,omitempty"`
	// Discard says who discards rejected records and why. It is nil for other tasks. It is never changed.
	Discard *Discard `json:"discard,omitempty"`
	// Replay is the selection and the progress of the replay of an archive. It is nil for other tasks. It is never changed.
	Replay *ArchiveReplay `json:"replay,omitempty"`

	owner *tasks // nil in a record
}

// Warning is about one sink of a change that was made. Its table cannot take its rows. They wait in staging until that is fixed,
// or the sink continues with its earlier columns if its table grows. The result of the task says which. The other sinks are not
// concerned.
type Warning struct {
	// SinkID is the sink.
	SinkID string `json:"sinkId"`
	// Message is one sentence for the user. It names the table and its problem.
	Message string `json:"message"`
}

// Wait returns the task when it has ended. The error is an [*Error] with the failure of a task that has not succeeded, or the cause of ctx if that
// ended before. The task continues then. It returns [ErrClosed] if the catalog was closed during an erasure or the replay of an archive, which the next
// [Open] continues. After a task of another node, this node's engine has the change too, unless it refused it.
//
// A task comes from a [Catalog] or [Maintenance]. To wait for a task of which only the id is known, ask for it with Catalog.Task.
func (t Task) Wait(ctx context.Context) (Task, error) {
	if t.owner == nil {
		return t, errors.New("catalog: the task is a copy without its catalog: ask for it with Catalog.Task")
	}
	ended, err := t.owner.wait(ctx, t.ID)
	if err == nil && ended.Status == Failed {
		err = &Error{Code: ended.Code, Message: ended.Failure, Task: ended.ID}
	}
	return ended, err
}

// Finished tells whether the task has ended.
func (t Task) Finished() bool { return t.Status != Processing }

const (
	taskTimeout = 5 * time.Minute
	keepSuccess = time.Hour
	keepFailure = 48 * time.Hour
)

// Time returns the form that the service gives to times, in UTC with milliseconds.
func Time(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// tasks are the running and the kept tasks, and their reservations. A task is reserved, started and ended, in this
// order. A change without a task is reserved and released.
type tasks struct {
	mu       sync.Mutex
	closed   bool
	reserved map[string]string // the task by the entity that it changes; "" for a change without a task
	byID     map[string]*running
	work     sync.WaitGroup // what Close waits for
	// ended, if not nil, is called after a wait for a task that ran elsewhere.
	ended func(ctx context.Context, task Task)
}

// running is a task in memory. done is closed when it has ended, or when err says that it has not.
type running struct {
	task Task
	err  error
	done chan struct{}
	// cancel, if not nil, ends the task early.
	cancel context.CancelCauseFunc
	// elsewhere is set while the task belongs to another catalog, or if it had ended when this one was opened.
	elsewhere bool
}

// busy is the error for an entity that another change has reserved. task is empty if that change has no task.
func busy(entity, task string) *Error {
	e := refuse(Busy, "Another change of %q is running; wait until it has ended and try again.", entity)
	if task != "" {
		e.Task, e.Message = task, fmt.Sprintf("Task %q is changing %q; wait until it has ended and try again.", task, entity)
	}
	return e
}

// isBusy reports whether another change has the entity.
func isBusy(err error) bool {
	refused, ok := errors.AsType[*Error](err)
	return ok && refused.Code == Busy
}

// reserve gives an entity to a task. The error is [Busy] if another change has it.
func (t *tasks) reserve(entity, taskID string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return ErrClosed
	}
	if other, ok := t.reserved[entity]; ok {
		return busy(entity, other)
	}
	t.reserved[entity] = taskID
	t.work.Add(1)
	return nil
}

// join lets close wait for work without a reservation, until leave is called.
func (t *tasks) join() (leave func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, ErrClosed
	}
	t.work.Add(1)
	return t.work.Done, nil
}

// release ends a reservation whose change has no task, or was refused.
func (t *tasks) release(entity string) {
	t.mu.Lock()
	delete(t.reserved, entity)
	t.mu.Unlock()
	t.work.Done()
}

// start makes a task visible that has its reservation.
func (t *tasks) start(task Task) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byID[task.ID] = &running{task: task, done: make(chan struct{})}
}

// resume reserves and starts a task of an earlier opening. Its record is missing if the store is a copy. It reports false after close.
func (t *tasks) resume(task Task) bool { return t.resumeAs(task, task.ref().entity()) }

// resumeAs is resume for a task that reserves another entity.
func (t *tasks) resumeAs(task Task, entity string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	if t.byID[task.ID] == nil {
		t.byID[task.ID] = &running{task: task, done: make(chan struct{})}
	}
	t.byID[task.ID].elsewhere = false
	t.reserved[entity] = task.ID
	t.work.Add(1)
	return true
}

// end wakes the waiters for a task. With an error the task has not ended, because the catalog was closed before. Whoever sees
// the end of the task can start the next one, and whoever sees the end of Close sees the end of the task.
func (t *tasks) end(task Task, err error) {
	t.mu.Lock()
	t.giveBack(task.ID)
	r := t.byID[task.ID]
	r.task, r.err = task, err
	t.mu.Unlock()
	close(r.done)
	t.work.Done()
}

// giveBack ends the reservation of a task. t.mu is held.
func (t *tasks) giveBack(taskID string) {
	maps.DeleteFunc(t.reserved, func(_, id string) bool { return id == taskID })
}

// find returns a task as it is now.
func (t *tasks) find(id string) (running, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.byID[id]
	if r == nil {
		return running{}, refuse(TaskNotFound, "Task %q not found: it never was, or it ended long ago. Read the source or sink to see the effect of the task.", id)
	}
	found := *r
	found.task.owner = t
	return found, nil
}

// wait returns a task when it has ended, even if it failed.
func (t *tasks) wait(ctx context.Context, id string) (Task, error) {
	r, err := t.find(id)
	if err != nil {
		return Task{}, err
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		return r.task, context.Cause(ctx)
	}
	if r, err = t.find(id); err != nil || r.err != nil {
		return r.task, cmp.Or(err, r.err)
	}
	if r.elsewhere && t.ended != nil {
		t.ended(ctx, r.task)
	}
	return r.task, nil
}

// expire forgets tasks after their retention and returns their keys as records to remove.
func (t *tasks) expire(now time.Time) map[string][]byte {
	old := map[string][]byte{}
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, r := range t.byID {
		keep := keepSuccess
		if r.task.Status == Failed {
			keep = keepFailure
		}
		if r.task.Finished() && now.Sub(r.task.FinishedAt) > keep {
			old[taskKey(id)] = nil
			delete(t.byID, id)
		}
	}
	return old
}

// close refuses further reservations and reports whether it was open.
func (t *tasks) close() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := !t.closed
	t.closed = true
	return was
}

func (t Task) ref() Ref { return Ref{t.SourceID, t.SinkID} }

// of returns the task as users get it.
func (t Task) of(owner *tasks) Task {
	t.owner = owner
	return t
}

func (c *Catalog) newTask(kind string, ref Ref, at time.Time) Task {
	return newTask(c.opts.BranchID, kind, ref, at)
}

func newTask(branch int, kind string, ref Ref, at time.Time) Task {
	const digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	random := make([]byte, 5)
	for i := range random {
		random[i] = digits[rand.IntN(len(digits))]
	}
	return Task{
		ID:   fmt.Sprintf("api.%s/%d/%s/%s_%s", kind, branch, ref.entity(), Time(at), random),
		Type: "api." + kind, SourceID: ref.Source, SinkID: ref.Sink, Status: Processing, CreatedAt: at,
	}
}

// submit checks a change and starts it as a task. kind is a format for the kind of ref.
func (c *Catalog) submit(by By, kind string, ref Ref, p plan) (Task, error) {
	at := now()
	task := c.newTask(fmt.Sprintf(kind, ref.kind()), ref, at)
	if err := c.tasks.reserve(ref.entity(), task.ID); err != nil {
		return Task{}, err
	}
	checked := func() (*change, error) { return c.check(by, ref, p, at) }
	hold, err := c.co.begin(c.ctx, ref, ref.entity(), task.ID, checked, map[string][]byte{taskKey(task.ID): encode(task)})
	if err != nil {
		c.tasks.release(ref.entity())
		return Task{}, err
	}
	c.tasks.start(task)
	go func() {
		ctx, cancel := context.WithTimeout(c.ctx, taskTimeout)
		defer cancel()
		c.run(ctx, by, task, hold, p)
	}()
	return task.of(c.tasks), nil
}

// check refuses a change that is impossible as things are.
func (c *Catalog) check(by By, ref Ref, p plan, at time.Time) (*change, error) {
	ch, err := c.plan(by, ref, p, at)
	if err != nil {
		return nil, err
	}
	def, err := c.compile(ch.next)
	if err != nil {
		return nil, err
	}
	if def != nil {
		for _, p := range def.Problems() {
			if ch.refuses(p) {
				return nil, refuse(BadRequest, "%s", sentence(p.Err))
			}
		}
	}
	if table, task := c.tables.erasureOf(newTables(ch.old, ch.next)); task != "" {
		return nil, &Error{Code: Busy, Task: task, Message: fmt.Sprintf("Task %q is erasing table %q; wait until it has ended and try again.", task, table)}
	}
	return ch, nil
}

// run makes the change of a task and records how it ended.
func (c *Catalog) run(ctx context.Context, by By, task Task, hold string, p plan) {
	done := task
	var rest *erasure
	c.co.syncFollowed(ctx)
	unlock, err := c.locks.Lock(ctx, task.SourceID, task.ID)
	if err == nil {
		err = c.apply(ctx, by, task.ref(), task.ID, hold, p, func(ch *change) (string, []byte) {
			if rest = ch.erasure; rest != nil {
				rest.Task = task
				return erasureKey(task), encode(rest)
			}
			done.Status, done.Result, done.Warnings, done.FinishedAt = Succeeded, ch.result, ch.warnings, now()
			return taskKey(task.ID), encode(done)
		})
		unlock()
	}
	if err == nil && rest != nil {
		c.finishErasure(ctx, rest, hold)
		return
	}
	if errors.Is(err, ErrChanged) {
		c.co.disown(task)
		return
	}
	if err != nil {
		done = task
		done.Status, done.FinishedAt, done.Failure, done.Code = Failed, now(), c.failure(ctx, err), codeOf(err)
		c.log.Warn("task failed", "task", task.ID, "cause", err, "next", "read the task for its error, and retry it")
		if _, unknown := errors.AsType[*unknownError](err); !unknown { // else the record in the store is the truth
			end := map[string][]byte{taskKey(task.ID): encode(done)}
			c.co.end(hold, end)
			if err := c.store.Commit(end); err != nil {
				c.repairs.writeLater(end)
			}
		}
	}
	c.co.release(hold)
	c.tasks.end(done, nil)
}

// codeOf returns the code of a failure, or "" when the request is not at fault.
func codeOf(err error) Code {
	if refused, ok := errors.AsType[*Error](err); ok {
		return refused.Code
	}
	if _, ok := errors.AsType[*forebay.DefinitionError](err); ok {
		return BadRequest
	}
	switch {
	case driver.IsPermanent(err):
		return BadRequest
	case errors.Is(err, forebay.ErrTooManySources): // another task was faster
		return SourceLimit
	}
	return ""
}

// failure returns the text for the user.
func (c *Catalog) failure(ctx context.Context, err error) string {
	var unknown *unknownError
	switch {
	case errors.As(err, &unknown):
		return sentence(err)
	case c.ctx.Err() != nil:
		return interrupted
	case ctx.Err() != nil:
		return fmt.Sprintf("The task took more than %s and was given up: %v.", taskTimeout, err)
	}
	return sentence(err)
}

const interrupted = "The service was stopped while the task was running. Nothing of it was applied: send the request again."

// interrupted is the failure of a task that was stopped.
func (t Task) interrupted() string {
	if t.movesRejects() {
		return interruptedRejects
	}
	return interrupted
}

// sentence makes a text for users of an error.
func sentence(err error) string {
	text := strings.ReplaceAll(err.Error(), "\n", "; ") // joined errors
	if text == "" {
		return "Unknown error."
	}
	text = strings.ToUpper(text[:1]) + text[1:]
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}

// Task returns a task by its id.
func (c *Catalog) Task(id string) (Task, error) {
	r, err := c.tasks.find(id)
	return r.task, err
}

// loadTasks reads the tasks of earlier openings. Tasks that had not ended count as failed, except erasures and replays of archives.
func (c *Catalog) loadTasks(erasures []*erasure) error {
	ended := map[string][]byte{}
	err := scan(c.store, taskPrefix, func(key string, t *Task) {
		goesOn := t.Replay != nil && !t.Finished() || slices.ContainsFunc(erasures, func(e *erasure) bool { return e.Task.ID == t.ID })
		if !goesOn && !t.Finished() {
			t.Status, t.Failure, t.FinishedAt = Failed, t.interrupted(), now()
			ended[key] = encode(t)
		}
		r := &running{task: *t, done: make(chan struct{})}
		if c.tasks.byID[t.ID] = r; !goesOn {
			close(r.done)
		}
	})
	if err == nil && len(ended) > 0 {
		err = c.store.Commit(ended)
	}
	if err != nil {
		err = fmt.Errorf("catalog: %w", err)
	}
	return err
}

// Tasks returns all tasks that are kept, oldest first.
func (c *Catalog) Tasks() []Task {
	c.tasks.mu.Lock()
	defer c.tasks.mu.Unlock()
	list := make([]Task, 0, len(c.tasks.byID))
	for _, r := range c.tasks.byID {
		list = append(list, r.task.of(c.tasks))
	}
	slices.SortFunc(list, func(a, b Task) int { return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), strings.Compare(a.ID, b.ID)) })
	return list
}
