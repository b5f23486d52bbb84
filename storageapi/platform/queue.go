package platform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/forebay/forebay/storageapi"
)

type queueRecord struct {
	ID          int64           `json:"id"`
	ParentRunID string          `json:"parentRunId"`
	Status      string          `json:"status"`
	Desired     string          `json:"desired"`
	Mode        string          `json:"mode"`
	Component   string          `json:"component"`
	Config      string          `json:"config"`
	ConfigData  json.RawMessage `json:"configData,omitempty"`
	RowIDs      []string        `json:"rowIds,omitempty"`
	Branch      string          `json:"branch"`
	Tag         string          `json:"tag"`
	Parallelism string          `json:"parallelism"`
	Backend     json.RawMessage `json:"backend,omitempty"`
	VariablesID string          `json:"variablesId"`
	Variables   json.RawMessage `json:"variables,omitempty"`
	// Values are the variables as resolved when the job began. A run after a crash uses them too.
	Values    map[string]string `json:"values,omitempty"`
	Created   storageapi.Time   `json:"created"`
	NotBefore storageapi.Time   `json:"notBefore"`
	Started   storageapi.Time   `json:"started"`
	Ended     storageapi.Time   `json:"ended"`
	// Rights is a copy of the creator's token.
	Rights token                   `json:"rights"`
	Base   string                  `json:"base"`
	Result *storageapi.QueueResult `json:"result,omitempty"`
	// Version is the version of the configuration when the job began. A run after a crash uses it too. Done are the rows
	// that have ended.
	Version int      `json:"version"`
	Done    []string `json:"done,omitempty"`
	// Input and Output are the tables that these rows have read and written.
	Input  []storageapi.QueueTable `json:"input,omitempty"`
	Output []storageapi.QueueTable `json:"output,omitempty"`
	// Written is the output of the current row's program, from its end until the row is done.
	Written *written `json:"written,omitempty"`
}

func (r queueRecord) runID() string {
	id := strconv.FormatInt(r.ID, 10)
	if r.ParentRunID != "" {
		return r.ParentRunID + "." + id
	}
	return id
}

// queueKey keeps two jobs of one configuration from running at once.
func (r queueRecord) queueKey() string {
	if r.Config == "" {
		return ""
	}
	return configID{r.Branch, r.Component, r.Config}.lock()
}

// terminate ends a job that does not run. The job is cancelled if it never ran.
func (r *queueRecord) terminate() {
	r.Ended = now()
	if r.Started.IsZero() {
		r.Status, r.Result = storageapi.QueueCancelled, &storageapi.QueueResult{Message: "Job was cancelled"}
		return
	}
	r.Status = storageapi.QueueTerminated
	r.Result = r.result("Job was terminated", r.Input, r.Output)
}

// result describes the end of the job, and clears what only running rows need.
func (r *queueRecord) result(message string, input, output []storageapi.QueueTable) *storageapi.QueueResult {
	r.Input, r.Output, r.Written = nil, nil, nil
	out := &storageapi.QueueResult{
		Message: message,
		Input:   storageapi.Some(storageapi.QueueTables{Tables: notNil(input)}), Output: storageapi.Some(storageapi.QueueTables{Tables: notNil(output)}),
	}
	if r.Version > 0 {
		out.ConfigVersion = storageapi.ID(strconv.Itoa(r.Version))
	}
	return out
}

func (r queueRecord) finished() bool {
	return !slices.Contains([]string{storageapi.QueueCreated, storageapi.QueueProcessing}, r.Status)
}

// openQueueJobKey marks a job that has not ended.
func openQueueJobKey(id int64) string { return key("queue-open", number(id)) }

func queueLock(id int64) string { return "queue-job " + strconv.FormatInt(id, 10) }

// queue runs components.
type queue struct {
	*keyedQueue
	s *Server

	mu      sync.Mutex                   // guards the fields below, and keyedQueue.mu may be taken while it is held
	running map[int64]context.CancelFunc // to terminate a job
	delayed map[int64]*time.Timer        // to add a job whose time has not come
	stopped bool
}

func newQueue(s *Server) *queue {
	return &queue{
		keyedQueue: newKeyedQueue(s.opts.QueueJobs), s: s, running: make(map[int64]context.CancelFunc), delayed: make(map[int64]*time.Timer),
	}
}

// stop stops what runs and drops delayed jobs.
func (q *queue) stop() {
	q.mu.Lock()
	q.stopped = true
	for _, timer := range q.delayed {
		timer.Stop()
	}
	clear(q.delayed)
	q.mu.Unlock()
	q.keyedQueue.stop()
}

// resume queues the jobs that had not ended when the directory was used last.
func (q *queue) resume() error {
	open, err := viewed(q.s.store, func(tx *txn) ([]queueRecord, error) {
		return slices.Collect(indexed[queueRecord](tx, key("queue-open", ""), false, queueJobKey)), nil
	})
	for _, record := range open {
		q.enqueue(record)
	}
	return err
}

func (q *queue) enqueue(record queueRecord) {
	j := keyedJob{record.ID, record.queueKey(), func(ctx context.Context) { q.run(ctx, record.ID) }}
	delay := time.Until(record.NotBefore.Time)
	if delay <= 0 {
		q.add(j)
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped {
		return
	}
	q.delayed[j.id] = time.AfterFunc(delay, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if _, due := q.delayed[j.id]; due {
			delete(q.delayed, j.id)
			q.add(j)
		}
	})
}

// withdraw removes a job that has not started since the server was opened. It reports whether there was one.
func (q *queue) withdraw(id int64) bool {
	q.mu.Lock()
	timer := q.delayed[id]
	delete(q.delayed, id)
	q.mu.Unlock()
	if timer != nil {
		timer.Stop()
	}
	return q.remove(id) || timer != nil
}

// update changes the record of a job.
func (q *queue) update(id int64, change func(tx *txn, r *queueRecord) error) (queueRecord, error) {
	var record queueRecord
	err := q.s.store.update(queueLock(id), func(tx *txn) (err error) {
		if record, err = find[queueRecord](tx, queueJobKey(id), refuse(http.StatusNotFound, "", "Job %d not found", id)); err != nil {
			return err
		}
		if err := change(tx, &record); err != nil {
			return err
		}
		if record.finished() {
			tx.delete(openQueueJobKey(id))
		}
		tx.put(queueJobKey(id), record)
		return nil
	})
	return record, err
}

// insist is update that waits for the store when it fails.
func (q *queue) insist(ctx context.Context, id int64, change func(tx *txn, r *queueRecord) error) (record queueRecord, err error) {
	err = q.s.store.insist(ctx, func() (err error) {
		record, err = q.update(id, change)
		return err
	})
	return record, err
}

// run runs one job to its end. A job that is stopped by the end of the server stays open and runs again.
func (q *queue) run(ctx context.Context, id int64) {
	stopped := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	q.mu.Lock()
	q.running[id] = cancel
	q.mu.Unlock()
	defer func() {
		q.mu.Lock()
		delete(q.running, id)
		q.mu.Unlock()
	}()

	record, err := q.insist(stopped, id, func(_ *txn, r *queueRecord) error {
		switch {
		case r.finished():
		case r.Desired == storageapi.QueueTerminating:
			r.terminate() // when the server was stopped while it ended
		default:
			r.Status = storageapi.QueueProcessing
			if r.Started.IsZero() {
				r.Started = now()
			}
		}
		return nil
	})
	if err != nil {
		q.s.log.Error("platform: a job could not be begun, it runs at the next opening", "job", id, "error", err)
		return
	}
	if record.finished() {
		return
	}
	exec := &execution{q: q, ctx: ctx, record: record, input: record.Input, output: record.Output}
	err = guard(exec.run)
	if stopped.Err() != nil {
		return
	}
	if _, err := q.insist(stopped, id, func(_ *txn, r *queueRecord) error {
		exec.end(r, err)
		return nil
	}); err != nil {
		q.s.log.Error("platform: the end of a job could not be stored, it runs again at the next opening", "job", id, "error", err)
	}
}

func (e *execution) end(r *queueRecord, err error) {
	r.Ended = now()
	result := r.result("Component processing finished.", e.input, e.output)
	r.Result = result
	switch {
	case r.Desired == storageapi.QueueTerminating && err != nil:
		r.Status, result.Message = storageapi.QueueTerminated, "Job was terminated"
	case err == nil:
		r.Status = storageapi.QueueSuccess
	case forUser(err):
		r.Status, result.Message = storageapi.QueueError, e.mask.apply(err.Error())
	default:
		id := newExceptionID()
		e.q.s.log.Error("platform: component failed", "job", r.ID, "component", r.Component, "exception", id, "error", e.mask.apply(err.Error()))
		r.Status, result.Message = storageapi.QueueError, "Internal error, exception "+id
	}
}

// forUser reports whether the text of an error is for the user of the API.
func forUser(err error) bool {
	var user *userError
	var api *storageapi.Error
	var job *storageapi.JobError
	_, internal := explain(err)
	return errors.As(err, &user) || errors.As(err, &api) || errors.As(err, &job) || !internal
}

var errNoRunner = fmt.Errorf("the component no longer has a program")
