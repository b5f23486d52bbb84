package storageapi

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/tidwall/gjson"

	"github.com/forebay/forebay/driverkit/ctxio"
)

// The states of a storage job.
const (
	JobWaiting    = "waiting"
	JobProcessing = "processing"
	JobSuccess    = "success"
	JobFailed     = "error"
)

// Job is an operation of the Storage API that runs after its call has returned.
type Job struct {
	// ID is unique in the stack.
	ID IntID `json:"id"`
	// Status is [JobWaiting], [JobProcessing], [JobSuccess] or [JobFailed].
	Status string `json:"status"`
	// URL is the address of the job.
	URL string `json:"url"`
	// TableID is the table that the job works on, or nil.
	TableID *string `json:"tableId"`
	// OperationName is the operation, such as "tableImport", and OperationParams are its parameters.
	OperationName   string          `json:"operationName"`
	OperationParams json.RawMessage `json:"operationParams"`
	// CreatedTime, StartTime and EndTime are zero until they are reached.
	CreatedTime Time `json:"createdTime"`
	StartTime   Time `json:"startTime"`
	EndTime     Time `json:"endTime"`
	// RunID is the run id of the call, or nil.
	RunID *string `json:"runId"`
	// Results depend on the operation. They are null or [] until the end.
	Results json.RawMessage `json:"results"`
	// CreatorToken is the token of the call.
	CreatorToken JobToken `json:"creatorToken"`
	// Metrics are the bytes that were moved.
	Metrics JobMetrics `json:"metrics"`
	// Error is given when Status is JobFailed.
	Error *JobFailure `json:"error,omitempty"`
}

// JobToken names the token that made a job.
type JobToken struct {
	// ID is the token's id.
	ID ID `json:"id"`
	// Description is the token's description.
	Description string `json:"description"`
}

// JobMetrics are the bytes that a job has read and written.
type JobMetrics struct {
	// InCompressed and InBytes describe the input, InBytesUncompressed is its size without compression.
	InCompressed        bool  `json:"inCompressed"`
	InBytes             int64 `json:"inBytes"`
	InBytesUncompressed int64 `json:"inBytesUncompressed"`
	// OutCompressed, OutBytes and OutBytesUncompressed are the same for the output.
	OutCompressed        bool  `json:"outCompressed"`
	OutBytes             int64 `json:"outBytes"`
	OutBytesUncompressed int64 `json:"outBytesUncompressed"`
}

// JobFailure says why a job failed.
type JobFailure struct {
	// Code is the platform's code, such as "csvImport.columnsNotMatch".
	Code string `json:"code"`
	// Message is the text for people.
	Message string `json:"message"`
	// ExceptionID identifies the failure for support.
	ExceptionID string `json:"exceptionId"`
}

// Finished reports whether the job has ended, well or not.
func (j *Job) Finished() bool { return j.Status == JobSuccess || j.Status == JobFailed }

// JobError is a storage job that has failed.
type JobError struct {
	// Job is the job as it was read last.
	Job Job
}

func (e *JobError) Error() string {
	text := fmt.Sprintf("storage api: job %d (%s) failed", e.Job.ID, e.Job.OperationName)
	if f := e.Job.Error; f != nil {
		text += ": " + f.Message
		if f.Code != "" {
			text += " (" + f.Code + ")"
		}
		if f.ExceptionID != "" {
			text += " [exception " + f.ExceptionID + "]"
		}
	}
	return text
}

// Code returns the platform's code of the failure, or "".
func (e *JobError) Code() string {
	if e.Job.Error == nil {
		return ""
	}
	return e.Job.Error.Code
}

// Job reads a storage job. A failed job is a result and not an error here.
func (c *Client) Job(ctx context.Context, id IntID) (*Job, error) {
	return fetch[Job](ctx, c, get(path("jobs", id.String())))
}

// JobQuery selects storage jobs. Empty fields select all.
type JobQuery struct {
	// Status and ExcludedStatus are states.
	Status, ExcludedStatus []string
	// CreatedFrom is the earliest time of creation.
	CreatedFrom time.Time
}

// Jobs lists the storage jobs of the project, the newest first.
func (c *Client) Jobs(ctx context.Context, q JobQuery) iter.Seq2[Job, error] {
	query := url.Values{"storage_job_status[]": q.Status, "excluded_storage_job_status[]": q.ExcludedStatus}
	if !q.CreatedFrom.IsZero() {
		query.Set("created_time_from", q.CreatedFrom.Format(time.RFC3339))
	}
	return pages[Job](ctx, c, request{path: path("jobs"), query: query})
}

// WaitForJob polls a storage job until it has ended. A failed job is a [*JobError]. ctx bounds the wait. The job continues after
// its end.
func (c *Client) WaitForJob(ctx context.Context, id IntID) (*Job, error) {
	job, err := poll(ctx, ctxio.Pause{First: 20 * time.Millisecond, Last: 3 * time.Second}, func() (*Job, bool, error) {
		job, err := c.Job(ctx, id)
		return job, err == nil && job.Finished(), err
	})
	switch {
	case err == nil && job.Status == JobFailed:
		return job, &JobError{*job}
	case err != nil && job != nil:
		return job, fmt.Errorf("storage api: job %d is %s: %w", id, job.Status, err)
	}
	return job, err
}

// poll reads a job until it is finished, with delays that grow. At the end of ctx it returns the job as it was read last,
// with the cause.
func poll[T any](ctx context.Context, pause ctxio.Pause, read func() (job *T, finished bool, err error)) (*T, error) {
	for {
		job, finished, err := read()
		if err != nil {
			return nil, err
		}
		if finished {
			return job, nil
		}
		if err := pause.Wait(ctx); err != nil {
			return job, err
		}
	}
}

// start makes a call that returns a job. If the server did the work at once, the job is nil and the response is in out.
func (c *Client) start(ctx context.Context, r request, out any) (*Job, error) {
	var raw json.RawMessage
	retried, err := c.do(ctx, r, &raw)
	if retried && r.method == http.MethodDelete && IsNotFound(err) {
		return nil, nil // an earlier attempt has deleted it
	}
	if err != nil {
		return nil, err
	}
	if len(raw) == 0 {
		return nil, nil
	}
	if gjson.GetBytes(raw, "operationName").String() != "" {
		var job Job
		if err := json.Unmarshal(raw, &job); err == nil {
			return &job, nil
		}
	}
	if out == nil {
		return nil, nil
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return nil, fmt.Errorf("storage api: %s %s: read response: %w", r.method, r.path, err)
	}
	return nil, nil
}

// fetchResults makes a call that returns a job, waits for it, and returns its decoded results.
func fetchResults[T any](ctx context.Context, c *Client, r request) (*T, error) {
	var out T
	if err := c.job(ctx, r, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// job makes a call that returns a job, waits for it, and decodes its results into out unless that is nil.
func (c *Client) job(ctx context.Context, r request, out any) error {
	job, err := c.start(ctx, r, out)
	if err != nil || job == nil {
		return err
	}
	return c.results(ctx, job.ID, out)
}

// results waits for a job and decodes its results into out unless that is nil.
func (c *Client) results(ctx context.Context, id IntID, out any) error {
	job, err := c.WaitForJob(ctx, id)
	if err != nil || out == nil || isEmpty(job.Results) {
		return err
	}
	if err := json.Unmarshal(job.Results, out); err != nil {
		return fmt.Errorf("storage api: job %d: read results: %w", id, err)
	}
	return nil
}
