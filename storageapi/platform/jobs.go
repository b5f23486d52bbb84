package platform

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/forebay/forebay/driverkit/jsontext"
	"github.com/forebay/forebay/storageapi"
)

type jobRecord struct {
	ID        int64                  `json:"id"`
	Status    string                 `json:"status"`
	Branch    string                 `json:"branch"`
	Table     *string                `json:"table,omitempty"`
	Key       string                 `json:"lane"`
	Base      string                 `json:"base"`
	Operation string                 `json:"operation"`
	Params    json.RawMessage        `json:"params"`
	Created   storageapi.Time        `json:"created"`
	Started   storageapi.Time        `json:"started"`
	Ended     storageapi.Time        `json:"ended"`
	RunID     *string                `json:"runId,omitempty"`
	Results   json.RawMessage        `json:"results,omitempty"`
	Creator   storageapi.TokenRef    `json:"creator"`
	Metrics   storageapi.JobMetrics  `json:"metrics"`
	Failure   *storageapi.JobFailure `json:"failure,omitempty"`
}

// openJobKey marks a job that has not ended.
func openJobKey(id int64) string { return key("job-open", number(id)) }

// jobSpec describes a new job.
type jobSpec struct {
	operation string
	params    any
	// table is the id of the table that the job works on, if there is one.
	table string
	// key names what only one job at a time works on, if there is such a thing.
	key string
}

type jobRun struct {
	ctx    context.Context
	s      *Server
	record jobRecord
	over   bool

	// direct says that the caller waits for the operation. There is no job, and the results are the response.
	direct  bool
	results any
}

// operation adapts the function of an operation. It decodes the parameters of the job.
func operation[P any](do func(run *jobRun, p P) error) func(run *jobRun) error {
	return func(run *jobRun) error {
		var p P
		if err := json.Unmarshal(run.record.Params, &p); err != nil {
			return err
		}
		return do(run, p)
	}
}

// call is the job as a call of its creator. The rights were checked when the job was made.
func (r *jobRun) request() *request {
	return &request{
		s: r.s, branch: r.record.Branch, dev: r.record.Branch != r.s.defaultBranch.key(), jobBase: r.record.Base,
		token: &token{
			ID: int64(r.record.Creator.ID), Description: r.record.Creator.Description, CanManageBuckets: true, CanReadAllFileUploads: true,
		},
	}
}

// finish commits the effect of the job and its success in one change. So a job that runs again after a crash has had no
// effect.
func (r *jobRun) finish(lock string, effect func(tx *txn) (results any, err error)) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	if r.direct {
		return r.s.store.update(lock, func(tx *txn) (err error) {
			r.results, err = effect(tx)
			return err
		})
	}
	event, err := r.s.store.ids.take()
	if err != nil {
		return err
	}
	err = r.s.store.update(lock, func(tx *txn) error {
		results, err := effect(tx)
		if err != nil {
			return err
		}
		record := r.record
		if record.Results, err = jsontext.Marshal(results); err != nil {
			return err
		}
		record.Status, record.Ended = storageapi.JobSuccess, now()
		endJob(tx, record, event)
		return nil
	})
	r.over = err == nil
	return err
}

// endJob stores the end of a job. event is the id of the event that says so, if the job worked on a table.
func endJob(tx *txn, record jobRecord, event int64) {
	tx.delete(openJobKey(record.ID))
	if record.Table != nil {
		putTableEvent(tx, event, record)
	}
	tx.put(jobKey(record.ID), record)
}

// storageJobs runs operations after their call has returned.
type storageJobs struct {
	*keyedQueue
	s          *Server
	operations map[string]func(run *jobRun) error

	endMu sync.Mutex
	ended chan struct{} // closed and replaced at the end of each job, and guarded by endMu
}

func newStorageJobs(s *Server) *storageJobs {
	return &storageJobs{keyedQueue: newKeyedQueue(s.opts.StorageJobs), s: s, ended: make(chan struct{}), operations: map[string]func(*jobRun) error{
		"devBranchCreate":       operation(s.branchCreateJob),
		"devBranchDelete":       operation(s.branchDeleteJob),
		"bucketDelete":          operation(s.bucketDeleteJob),
		"bucketUpdate":          operation(s.bucketUpdateJob),
		"fileDelete":            operation(s.fileDeleteJob),
		"tableColumnAdd":        operation(s.columnAddJob),
		"tableColumnDelete":     operation(s.columnDeleteJob),
		"tableCreate":           operation(s.tableCreateJob),
		"tableDefinitionCreate": operation(s.tableDefinitionJob),
		"tableDrop":             operation(s.tableDropJob),
		"tableExport":           operation(s.tableExportJob),
		"tableImport":           operation(s.tableImportJob),
		"tablePrimaryKeyAdd":    operation(s.primaryKeyAddJob),
		"tablePrimaryKeyDelete": operation(s.primaryKeyDeleteJob),
		"tableRowsDelete":       operation(s.rowsDeleteJob),
		"tableUpdate":           operation(s.tableUpdateJob),
	}}
}

// resume queues the jobs that had not ended when the directory was used last.
func (j *storageJobs) resume() error {
	open, err := viewed(j.s.store, openJobs)
	for _, record := range open {
		j.queue(record)
	}
	return err
}

// openJobs reads the jobs that have not ended.
func openJobs(tx *txn) ([]jobRecord, error) {
	return slices.Collect(indexed[jobRecord](tx, key("job-open", ""), false, jobKey)), nil
}

func (j *storageJobs) queue(record jobRecord) {
	j.add(keyedJob{record.ID, record.Key, func(ctx context.Context) { j.run(ctx, record) }})
}

// run runs one job to its end. A job that is stopped by the end of the server stays open and runs again.
func (j *storageJobs) run(ctx context.Context, record jobRecord) {
	defer j.announce()
	record.Status, record.Started = storageapi.JobProcessing, now()
	run := &jobRun{ctx: ctx, s: j.s, record: record}
	err := j.attempt(run)
	for storeFailed(err) != nil && !run.over {
		// As after a crash, what became of the job stands in the store.
		var finished bool
		if finished, err = j.reread(ctx, run); finished {
			return
		}
		if err == nil {
			err = j.attempt(run)
		}
	}
	if err == nil && !run.over {
		err = fmt.Errorf("operation %q has not finished its job", record.Operation)
	}
	if err == nil || ctx.Err() != nil && !run.over {
		return
	}
	j.fail(ctx, run.record, err)
}

func (j *storageJobs) attempt(run *jobRun) error {
	record := run.record
	if err := j.s.store.update("", func(tx *txn) error { tx.put(jobKey(record.ID), record); return nil }); err != nil {
		return err
	}
	operation := j.operations[record.Operation]
	if operation == nil {
		return fmt.Errorf("unknown operation %q", record.Operation)
	}
	return guard(func() error { return operation(run) })
}

// reread waits until the store is open again and reads the record of the job from it. It reports whether the job has ended.
func (j *storageJobs) reread(ctx context.Context, run *jobRun) (finished bool, err error) {
	j.s.log.Warn("platform: the store has failed below a job, which runs again when it is open", "job", run.record.ID)
	if err := j.s.store.wait(ctx); err != nil {
		return false, err
	}
	record, err := j.read(run.record.ID)
	if err != nil {
		return false, err
	}
	finished = record.finished()
	record.Status, record.Started = storageapi.JobProcessing, now()
	run.record = record
	return finished, nil
}

func (j *storageJobs) read(id int64) (jobRecord, error) {
	return viewed(j.s.store, func(tx *txn) (jobRecord, error) { return find[jobRecord](tx, jobKey(id), nil) })
}

func (r jobRecord) finished() bool {
	return r.Status == storageapi.JobSuccess || r.Status == storageapi.JobFailed
}

// announce wakes all callers that wait for a job.
func (j *storageJobs) announce() {
	j.endMu.Lock()
	defer j.endMu.Unlock()
	close(j.ended)
	j.ended = make(chan struct{})
}

// wait waits for the end of a job, for calls that return its results.
func (j *storageJobs) wait(ctx context.Context, id int64) (record jobRecord, err error) {
	for {
		j.endMu.Lock()
		ended := j.ended
		j.endMu.Unlock()
		if record, err = j.read(id); err != nil || record.finished() {
			return record, err
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return record, ctx.Err()
		case <-j.ctx.Done():
			return record, refuse(http.StatusServiceUnavailable, "storage.unavailable", "The server is closing, the job %d continues when it is opened again", id)
		}
	}
}

func guard(run func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	return run()
}

func (j *storageJobs) fail(ctx context.Context, record jobRecord, err error) {
	e, internal := explain(err)
	id := newExceptionID()
	if internal {
		j.s.log.Error("platform: job failed", "job", record.ID, "operation", record.Operation, "exception", id, "error", err)
	}
	record.Status, record.Ended = storageapi.JobFailed, now()
	record.Failure = &storageapi.JobFailure{Code: e.code, Message: e.message, ExceptionID: id}
	if e.results != nil {
		record.Results, _ = jsontext.Marshal(e.results)
	}
	err = j.s.store.insist(ctx, func() error {
		event, err := j.s.store.ids.take()
		if err != nil {
			return err
		}
		return j.s.store.update("", func(tx *txn) error { endJob(tx, record, event); return nil })
	})
	if err != nil {
		j.s.log.Error("platform: the end of a job could not be stored, it runs again at the next opening", "job", record.ID, "error", err)
	}
}

// startJob makes a new job and returns it.
func (c *request) startJob(spec jobSpec) (any, error) {
	record, err := c.newJob(spec)
	return startedJob{c.jobAnswer(record)}, err
}

// perform runs the operation of a job at once and returns its results. With async=true in the query it makes the job.
func (c *request) perform(spec jobSpec) (any, error) {
	if c.queryFlag("async") {
		return c.startJob(spec)
	}
	record, err := c.describeJob(spec)
	if err != nil {
		return nil, err
	}
	run := &jobRun{ctx: c.r.Context(), s: c.s, record: record, direct: true}
	err = c.s.jobs.operations[spec.operation](run)
	return run.results, err
}

// describeJob makes the record of a new job, without its id.
func (c *request) describeJob(spec jobSpec) (jobRecord, error) {
	if err := c.fault(); err != nil {
		return jobRecord{}, err
	}
	params, err := jsontext.Marshal(spec.params)
	record := jobRecord{
		Status: storageapi.JobWaiting, Branch: c.branch, Key: spec.key, Operation: spec.operation, Params: params,
		Base: c.base(), Created: now(), RunID: c.runID(), Creator: c.creator(),
	}
	if spec.table != "" {
		record.Table = &spec.table
	}
	return record, err
}

// newJob stores a new job. From then on it is certain to run.
func (c *request) newJob(spec jobSpec) (jobRecord, error) {
	record, err := c.describeJob(spec)
	if err != nil {
		return jobRecord{}, err
	}
	id, given := c.r.Context().Value(newJobKey{}).(int64)
	if !given {
		if id, err = c.s.store.ids.take(); err != nil {
			return jobRecord{}, err
		}
	}
	record.ID = id
	err = c.s.store.update("", func(tx *txn) error {
		tx.put(openJobKey(id), id)
		tx.put(jobKey(id), record)
		return nil
	})
	if err != nil {
		return jobRecord{}, err
	}
	c.s.jobs.queue(record)
	return record, nil
}

func (c *request) jobAnswer(r jobRecord) storageapi.Job {
	results := r.Results
	if results == nil {
		results = json.RawMessage("null")
	}
	return storageapi.Job{
		ID: storageapi.IntID(r.ID), Status: r.Status, URL: c.base() + storagePath + "/jobs/" + strconv.FormatInt(r.ID, 10),
		TableID: r.Table, OperationName: r.Operation, OperationParams: r.Params, CreatedTime: r.Created, StartTime: r.Started,
		EndTime: r.Ended, RunID: r.RunID, Results: results,
		CreatorToken: storageapi.JobToken{ID: storageapi.ID(r.Creator.ID.String()), Description: r.Creator.Description},
		Metrics:      r.Metrics, Error: r.Failure,
	}
}

func (s *Server) jobRoutes() []route {
	return []route{
		{method: "GET", path: "/jobs", summary: "List storage jobs, the newest first", query: jobsQuery, result: []storageapi.Job{}, read: (*request).listJobs},
		{method: "GET", path: "/jobs/{id}", summary: "Storage job detail", result: storageapi.Job{}, read: (*request).getJob},
	}
}

// seesJob reports whether the caller may see a job. It may see its own jobs, and jobs of tables that it may read.
func (c *request) seesJob(r jobRecord) bool {
	return c.token.CanManageBuckets || int64(r.Creator.ID) == c.token.ID || r.Table != nil && c.token.mayRead(bucketOf(*r.Table))
}

func (c *request) getJob(tx *txn) (any, error) {
	record, err := pathRecord[jobRecord](c, tx, "Job", "storage.jobs.notFound", jobKey)
	if err == nil && !c.seesJob(record) {
		err = accessDenied("job %d", record.ID)
	}
	return c.jobAnswer(record), err
}

// timeRange is a bound on a time in the query, name_from and name_to, or name for both.
func (c *request) timeRange(name string) func(at storageapi.Time) bool {
	var bounds [2]time.Time
	for i, parameter := range []string{name + "_from", name + "_to"} {
		text := c.query(parameter)
		if text == "" {
			if text = c.query(name); text == "" {
				continue
			}
			parameter = name
		}
		at, err := parseTime(text)
		if err != nil {
			c.blame(refuse(http.StatusBadRequest, "storage.validation", "Parameter %s: want a time", parameter))
		}
		bounds[i] = at
	}
	return func(at storageapi.Time) bool {
		return (bounds[0].IsZero() || !at.Before(bounds[0])) && (bounds[1].IsZero() || !at.After(bounds[1]))
	}
}

func (c *request) listJobs(tx *txn) (any, error) {
	created, started, ended := c.timeRange("created_time"), c.timeRange("start_time"), c.timeRange("end_time")
	status, excluded := c.queryList("storage_job_status"), c.queryList("excluded_storage_job_status")
	wanted := func(r jobRecord) bool {
		return c.seesJob(r) && (len(status) == 0 || slices.Contains(status, r.Status)) && !slices.Contains(excluded, r.Status) &&
			created(r.Created) && started(r.Started) && ended(r.Ended)
	}
	return collect(c.page(1000), each[jobRecord](tx, key("job", ""), true), wanted, c.jobAnswer), nil
}
