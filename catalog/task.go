package catalog

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
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
	// Type is what is done, such as "create.source".
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
	// Code names what is at fault where that is the request: of an [Error], and [BadRequest] where the target can never have
	// the table as it is asked for. It is empty where the same request may succeed later.
	Code Code `json:"code,omitempty"`
	// Warnings are what needs somebody's attention though the task has succeeded.
	Warnings []Warning `json:"warnings,omitempty"`
	// Partial is set on a deletion that was done, though something of it outside is left; Failure says what.
	Partial bool `json:"partial,omitempty"`
}

// Warning is about one sink of a change that was made: its table cannot take its rows, which wait in staging until that is
// mended. The other sinks are not concerned.
type Warning struct {
	// SinkID is the sink.
	SinkID string `json:"sinkId"`
	// Message is one sentence for the user. It names the table and what is wrong with it.
	Message string `json:"message"`
}

// Finished tells whether the task has ended.
func (t Task) Finished() bool { return t.Status != Processing }

const (
	taskTimeout  = 5 * time.Minute
	keepSuccess  = time.Hour
	keepFailure  = 48 * time.Hour
	sweepTimeout = 5 * time.Minute
)

// Time returns the form that the service gives to times, in UTC with milliseconds.
func Time(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func (c *Catalog) newTask(kind, sourceID, sinkID string, at time.Time) Task {
	const digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	random := make([]byte, 5)
	for i := range random {
		random[i] = digits[rand.IntN(len(digits))]
	}
	parts := []string{"api." + kind, fmt.Sprint(c.opts.BranchID), sourceID}
	if sinkID != "" {
		parts = append(parts, sinkID)
	}
	parts = append(parts, Time(at)+"_"+string(random))
	return Task{
		ID: strings.Join(parts, "/"), Type: "api." + kind, SourceID: sourceID, SinkID: sinkID, Status: Processing, CreatedAt: at,
	}
}

// entity is what a task has to itself.
func entity(sourceID, sinkID string) string {
	if sinkID == "" {
		return sourceID
	}
	return sourceID + "/" + sinkID
}

// A plan is a change of a tree: a pure function of the tree as it is, nil when there is none. It is asked twice, to
// answer the caller and again when the change is made.
type plan func(at time.Time, old *tree) (*change, error)

// change is what a plan comes to.
type change struct {
	// next replaces the tree; nil erases it.
	next *tree
	// versions are new records by key; nil ones are erased.
	versions map[string][]byte
	// result is the sentence of the task.
	result string
	// erasure is what of the change remains to be done after it was stored; nil for nothing.
	erasure *erasure
	// created are the sinks that are made, or made anew: the table of such a sink must be right, also where a deleted one of
	// the id had it.
	created []string
	// warnings are what the user should know though the change was made.
	warnings []Warning
}

// submit checks a change and starts it as a task.
func (c *Catalog) submit(kind, sourceID, sinkID string, p plan) (Task, error) {
	at := now()
	task := c.newTask(kind, sourceID, sinkID, at)
	if err := c.begin(entity(sourceID, sinkID), task.ID); err != nil {
		return Task{}, err
	}
	err := c.check(sourceID, p, at)
	if err == nil {
		err = c.store.Commit(map[string][]byte{taskKey(task.ID): encode(task)})
	}
	if err != nil {
		var refused *Error
		if !errors.As(err, &refused) && !errors.Is(err, ErrNotCommitted) {
			c.owe(taskKey(task.ID), nil) // nobody will ask for it
		}
		c.end(entity(sourceID, sinkID))
		return Task{}, err
	}
	c.mu.Lock()
	c.tasks[task.ID] = &running{task: task, done: make(chan struct{})}
	c.mu.Unlock()
	go func() {
		ctx, cancel := context.WithTimeout(c.ctx, taskTimeout)
		defer cancel()
		c.run(ctx, task, p)
	}()
	return task, nil
}

// busy refuses a change of what another has; task is empty when that has none.
func busy(entity, task string) *Error {
	e := refuse(Busy, "Another change of %q is running; wait until it has ended and try again.", entity)
	if task != "" {
		e.Task, e.Message = task, fmt.Sprintf("Task %q is changing %q; wait until it has ended and try again.", task, entity)
	}
	return e
}

// begin reserves an entity for a task; [Busy] when another has it.
func (c *Catalog) begin(entity, taskID string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	if other, ok := c.busy[entity]; ok {
		return busy(entity, other)
	}
	c.busy[entity] = taskID
	c.work.Add(1)
	return nil
}

func (c *Catalog) end(entity string) {
	c.mu.Lock()
	delete(c.busy, entity)
	c.mu.Unlock()
	c.work.Done()
}

// check answers whether a change is possible as things are.
func (c *Catalog) check(sourceID string, p plan, at time.Time) error {
	ch, err := p(at, c.tree(sourceID))
	if err != nil {
		return err
	}
	if !ch.next.live() {
		return nil
	}
	if _, err := c.compile(ch.next); err != nil {
		return err
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	if table, task := c.erasureOf(newTables(c.trees[sourceID], ch.next)); task != "" {
		return &Error{Code: Busy, Task: task, Message: fmt.Sprintf("Task %q is erasing table %q; wait until it has ended and try again.", task, table)}
	}
	return nil
}

// run makes the change of a task and records how it ended.
func (c *Catalog) run(ctx context.Context, task Task, p plan) {
	done := task
	var rest *erasure
	err := c.change(ctx, task, p, func(ch *change) (string, []byte) {
		if rest = ch.erasure; rest != nil {
			rest.Task = task
			return erasureKey(task), encode(rest)
		}
		done.Status, done.Result, done.FinishedAt = Succeeded, ch.result, now()
		done.Warnings = ch.warnings
		return taskKey(task.ID), encode(done)
	})
	if err == nil && rest != nil {
		c.finishErasure(ctx, rest)
		return
	}
	if err != nil {
		var unknown *unknownError
		done.Status, done.Result, done.FinishedAt, done.Failure = Failed, "", now(), c.failure(ctx, err)
		done.Code = codeOf(err)
		c.log.Warn("task failed", "task", task.ID, "error", err)
		if !errors.As(err, &unknown) { // else the record in the store is the truth
			record := encode(done)
			if err := c.store.Commit(map[string][]byte{taskKey(task.ID): record}); err != nil {
				c.owe(taskKey(task.ID), record)
			}
		}
	}
	c.ended(done, nil)
}

// ended lets those go on who wait for a task. With an error it has not ended: the catalog was closed before.
func (c *Catalog) ended(task Task, err error) {
	c.mu.Lock()
	delete(c.busy, entity(task.SourceID, task.SinkID)) // who sees the end of the task can start the next one
	r := c.tasks[task.ID]
	r.task, r.err = task, err
	c.mu.Unlock()
	close(r.done)
	c.work.Done() // and who sees the end of Close sees that of the task
}

// codeOf returns the code of a failure; empty when the request is not at fault.
func codeOf(err error) Code {
	if refused, ok := errors.AsType[*Error](err); ok {
		return refused.Code
	}
	switch {
	case buffer.IsPermanent(err):
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
	c.mu.RLock()
	r := c.tasks[id]
	c.mu.RUnlock()
	if r == nil {
		return Task{}, refuse(TaskNotFound, "Task %q not found.", id)
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	return r.task, nil
}

// Wait returns a task when it has ended, or when ctx does. [ErrClosed] is the end of the catalog during a deletion that
// the next Open goes on with.
func (c *Catalog) Wait(ctx context.Context, id string) (Task, error) {
	c.mu.RLock()
	r := c.tasks[id]
	c.mu.RUnlock()
	if r == nil {
		return Task{}, refuse(TaskNotFound, "Task %q not found.", id)
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		return Task{}, context.Cause(ctx)
	}
	c.mu.RLock()
	err := r.err
	c.mu.RUnlock()
	if err != nil {
		return Task{}, err
	}
	return c.Task(id)
}

// running is a task in memory. done is closed when it has ended, or when err says that it has not.
type running struct {
	task Task
	err  error
	done chan struct{}
}

// loadTasks reads the tasks of earlier openings. Those that had not ended never will, but for those of erasures.
func (c *Catalog) loadTasks(erasures []*erasure) error {
	ended := map[string][]byte{}
	err := c.store.Scan(taskPrefix, func(key string, record []byte) error {
		var t Task
		if err := json.Unmarshal(record, &t); err != nil {
			return fmt.Errorf("record %s: %w", key, err)
		}
		r := &running{task: t, done: make(chan struct{})}
		c.tasks[t.ID] = r
		if slices.ContainsFunc(erasures, func(e *erasure) bool { return e.Task.ID == t.ID }) {
			return nil
		}
		if !t.Finished() {
			t.Status, t.Failure, t.FinishedAt = Failed, interrupted, now()
			ended[key], r.task = encode(t), t
		}
		close(r.done)
		return nil
	})
	if err != nil || len(ended) == 0 {
		return err
	}
	return c.store.Commit(ended)
}

// deleteOldTasks ends the retention of tasks. Their records go with the next repair.
func (c *Catalog) deleteOldTasks(now time.Time) {
	old := map[string][]byte{}
	c.mu.Lock()
	for id, r := range c.tasks {
		keep := keepSuccess
		if r.task.Status == Failed {
			keep = keepFailure
		}
		if r.task.Finished() && now.Sub(r.task.FinishedAt) > keep {
			old[taskKey(id)] = nil
			delete(c.tasks, id)
		}
	}
	maps.Copy(c.owed, old) // also in the place of an end that could not be written
	c.mu.Unlock()
}

// Tasks returns all tasks that are kept, oldest first.
func (c *Catalog) Tasks() []Task {
	c.mu.RLock()
	defer c.mu.RUnlock()
	list := make([]Task, 0, len(c.tasks))
	for _, r := range c.tasks {
		list = append(list, r.task)
	}
	slices.SortFunc(list, func(a, b Task) int { return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), strings.Compare(a.ID, b.ID)) })
	return list
}
