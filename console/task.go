package console

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"
)

// A task is work that continues when its page is closed, such as a replay, a flush. Its state is a part of every message to viewers with Changes.

const (
	maxTasks = 8 // of one kind that run at once
	// Ended tasks are listed for taskAge, maxEnded at most.
	taskAge  = 10 * time.Minute
	maxEnded = 20
)

// taskKind bounds tasks apart, so that shadows, which run for hours, and flushes of tables that are away leave room for the others.
type taskKind string

const (
	flushTask   taskKind = "flushes"
	discardTask taskKind = "discards"
	bulkTask    taskKind = "changes of quarantines"
	shadowTask  taskKind = "shadows"
	saveTask    taskKind = "changes of definitions"
	verifyTask  taskKind = "checks"
)

// task is one of them. Its fields are guarded by tasks.mu.
type task struct {
	ID    int    `json:"id"`
	Title string `json:"title"`
	User  string `json:"user"`
	// State is running, done, failed or cancelled.
	State string `json:"state"`
	// Progress is a sentence, Error why it failed.
	Progress string `json:"progress,omitempty"`
	Error    string `json:"error,omitempty"`

	kind   taskKind
	ended  time.Time
	cancel context.CancelFunc
}

type tasks struct {
	mu     sync.Mutex
	last   int
	list   []*task
	closed bool
}

// startTask runs fn in the background, under a context that ends with [Console.Close] or when a user cancels the task. Cancelling ends the
// waiting of fn. Work that the engine has begun continues. progress replaces the sentence of the task. The error is a refusal if too many of the kind
// run.
func (c *request) startTask(kind taskKind, title string, fn func(ctx context.Context, progress func(sentence string)) error) (id int, err error) {
	ts := &c.tasks
	ts.mu.Lock()
	defer ts.mu.Unlock()
	running := 0
	for _, t := range ts.list {
		if t.State == taskRunning && t.kind == kind {
			running++
		}
	}
	if ts.closed || running >= maxTasks {
		return 0, refuse(http.StatusTooManyRequests, "%d %s are running. Wait for one to end, or stop waiting for one.", running, kind)
	}
	ts.last++
	ctx, cancel := context.WithCancel(c.Console.ctx)
	t := &task{ID: ts.last, Title: title, User: c.who.user, State: taskRunning, kind: kind, cancel: cancel}
	ts.list = append(ts.list, t)
	log, user := c.opts.Logger, c.who.user
	c.background.Go(func() {
		defer cancel()
		err := fn(ctx, func(sentence string) {
			ts.mu.Lock()
			defer ts.mu.Unlock()
			t.Progress = sentence
		})
		ts.mu.Lock()
		defer ts.mu.Unlock()
		t.ended = time.Now()
		switch {
		case err == nil:
			t.State = "done"
		case ctx.Err() != nil:
			t.State = "cancelled"
		default:
			t.State, t.Error = "failed", visible(err.Error())
			log.Warn("console task failed", "task", title, "user", user, "cause", err, "next", "fix the cause that the page shows, and restart the task")
		}
	})
	return t.ID, nil
}

const taskRunning = "running"

// current returns copies of the tasks that run or have ended lately, oldest first.
func (ts *tasks) current(now time.Time) []task {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ended := 0
	for _, t := range slices.Backward(ts.list) {
		if t.State != taskRunning {
			ended++
		}
		if t.State != taskRunning && (ended > maxEnded || now.Sub(t.ended) > taskAge) {
			t.cancel = nil // marks it
		}
	}
	ts.list = slices.DeleteFunc(ts.list, func(t *task) bool { return t.cancel == nil })
	list := make([]task, len(ts.list))
	for i, t := range ts.list {
		list[i] = *t
	}
	return list
}

func (ts *tasks) close() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.closed = true
}

// cancelTask ends the waiting of a task.
func (c *request) cancelTask() (any, error) {
	var asked struct{ ID int }
	if err := c.body(&asked); err != nil {
		return nil, err
	}
	ts := &c.tasks
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, t := range ts.list {
		if t.ID == asked.ID && t.State == taskRunning {
			t.cancel()
			c.note("task", t.Title)
			return nil, nil
		}
	}
	return nil, refuse(http.StatusNotFound, "This task is not running.")
}
