package storageapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/forebay/forebay/driverkit/ctxio"
)

// The states of a queue job.
const (
	QueueCreated     = "created"
	QueueWaiting     = "waiting"
	QueueProcessing  = "processing"
	QueueTerminating = "terminating"
	QueueSuccess     = "success"
	QueueError       = "error"
	QueueWarning     = "warning"
	QueueCancelled   = "cancelled"
	QueueTerminated  = "terminated"
)

// QueueJobCreate says what to run.
type QueueJobCreate struct {
	// Component is required.
	Component string `json:"component"`
	// Config is the configuration; ConfigData, if not nil, is used instead of its content.
	Config     string          `json:"config,omitempty"`
	ConfigData json.RawMessage `json:"configData,omitempty"`
	// ConfigRowIDs runs only these rows, even disabled ones.
	ConfigRowIDs []string `json:"configRowIds,omitempty"`
	// Mode is "run", the default, "forceRun", which runs a disabled configuration too, or "debug", which stores nothing.
	Mode string `json:"mode"`
	// BranchID is the default branch if empty.
	BranchID string `json:"branchId,omitempty"`
	// Tag is a release of the component.
	Tag string `json:"tag,omitempty"`
	// VariableValuesID and VariableValuesData are for configurations with variables.
	VariableValuesID   string          `json:"variableValuesId,omitempty"`
	VariableValuesData json.RawMessage `json:"variableValuesData,omitempty"`
	// Parallelism is how many rows run at once, a number, or "infinity".
	Parallelism string `json:"parallelism,omitempty"`
}

// QueueJob is one run of a component.
type QueueJob struct {
	// ID is unique in the stack.
	ID ID `json:"id"`
	// RunID is the parent's run id, a dot and the id; ParentRunID is "" without a parent.
	RunID       string `json:"runId"`
	ParentRunID string `json:"parentRunId"`
	// Project and Token say for whom the job runs.
	Project QueueProject `json:"project"`
	Token   JobToken     `json:"token"`
	// Status is where the job is, DesiredStatus is "processing" or "terminating".
	Status        string `json:"status"`
	DesiredStatus string `json:"desiredStatus"`
	// Mode, Component, Config, ConfigData, ConfigRowIDs, Tag and the variables are as in [QueueJobCreate].
	Mode               string               `json:"mode"`
	Component          string               `json:"component"`
	Config             ID                   `json:"config"`
	ConfigData         Map[json.RawMessage] `json:"configData"`
	ConfigRowIDs       []string             `json:"configRowIds"`
	Tag                string               `json:"tag"`
	VariableValuesID   ID                   `json:"variableValuesId"`
	VariableValuesData json.RawMessage      `json:"variableValuesData"`
	// CreatedTime, StartTime and EndTime are zero until they are reached.
	CreatedTime Time `json:"createdTime"`
	StartTime   Time `json:"startTime"`
	EndTime     Time `json:"endTime"`
	// DurationSeconds is the time in which the job was processing.
	DurationSeconds float64 `json:"durationSeconds"`
	// Result is absent before the end.
	Result Optional[QueueResult] `json:"result"`
	// UsageData and Metrics are numbers of some components.
	UsageData json.RawMessage `json:"usageData"`
	Metrics   json.RawMessage `json:"metrics"`
	// IsFinished says that Status is final.
	IsFinished bool `json:"isFinished"`
	// URL is the address of the job.
	URL string `json:"url"`
	// BranchID is the branch of the job. Some servers leave it empty for the default branch.
	BranchID ID `json:"branchId"`
	// Backend, Behavior and Parallelism are as requested.
	Backend     json.RawMessage `json:"backend"`
	Behavior    json.RawMessage `json:"behavior"`
	Parallelism ID              `json:"parallelism"`
	// Type is "standard", or another type for a job with children.
	Type string `json:"type"`
}

// QueueProject names the project of a job.
type QueueProject struct {
	// ID and Name of the project.
	ID   ID     `json:"id"`
	Name string `json:"name"`
}

// QueueResult is the result of a job.
type QueueResult struct {
	// Message is for people.
	Message string `json:"message"`
	// ConfigVersion is the version of the configuration that ran.
	ConfigVersion ID `json:"configVersion"`
	// Input and Output are the tables that were read and written.
	Input  Optional[QueueTables] `json:"input"`
	Output Optional[QueueTables] `json:"output"`
}

// QueueTables are tables that a job has read or written.
type QueueTables struct {
	// Tables are in the order in which they were used.
	Tables []QueueTable `json:"tables"`
}

// QueueTable is a table that a job has read or written.
type QueueTable struct {
	// ID, Name and DisplayName of the table.
	ID          string `json:"id"`
	Name        string `json:"name"`
	DisplayName string `json:"displayName"`
	// Columns have names only.
	Columns []Column `json:"columns"`
}

// QueueJobError is the end of a queue job that is not a success.
type QueueJobError struct {
	// Job is the job as it was read last.
	Job QueueJob
}

func (e *QueueJobError) Error() string {
	text := fmt.Sprintf("storage api: job %s of component %q: %s", e.Job.ID, e.Job.Component, e.Job.Status)
	if r := e.Job.Result.Value; r != nil && r.Message != "" {
		text += ": " + r.Message
	}
	return text
}

func (c *Client) queueURL(ctx context.Context) (string, error) {
	if u := c.queue.Load(); u != nil {
		return *u, nil
	}
	index, err := c.Services(ctx)
	if err != nil {
		return "", err
	}
	u := strings.TrimRight(index.Service("queue"), "/")
	if u == "" {
		return "", errors.New("storage api: the stack has no queue")
	}
	c.queue.Store(&u)
	return u, nil
}

func (c *Client) queueJob(ctx context.Context, r request) (*QueueJob, error) {
	base, err := c.queueURL(ctx)
	if err != nil {
		return nil, err
	}
	r.base = base
	return fetch[QueueJob](ctx, c, r)
}

// CreateQueueJob asks for a run. Defaults: Mode is "run", BranchID is the client's branch.
func (c *Client) CreateQueueJob(ctx context.Context, in QueueJobCreate) (*QueueJob, error) {
	in.Mode = cmp.Or(in.Mode, "run")
	if in.BranchID == "" && c.branch != "default" {
		in.BranchID = c.branch
	}
	return c.queueJob(ctx, post(path("jobs"), in))
}

// QueueJob reads a job.
func (c *Client) QueueJob(ctx context.Context, id ID) (*QueueJob, error) {
	return c.queueJob(ctx, get(path("jobs", string(id))))
}

// KillQueueJob terminates a job, or cancels one that has not started.
func (c *Client) KillQueueJob(ctx context.Context, id ID) (*QueueJob, error) {
	return c.queueJob(ctx, post(path("jobs", string(id), "kill"), struct{}{}))
}

// WaitForQueueJob polls a job until it has ended. Any end but success is a [*QueueJobError]. ctx bounds the wait. The job
// continues after its end.
func (c *Client) WaitForQueueJob(ctx context.Context, id ID) (*QueueJob, error) {
	job, err := poll(ctx, ctxio.Pause{First: 100 * time.Millisecond, Last: 5 * time.Second}, func() (*QueueJob, bool, error) {
		job, err := c.QueueJob(ctx, id)
		return job, err == nil && (job.IsFinished || job.Status == QueueSuccess), err
	})
	switch {
	case err == nil && job.Status != QueueSuccess:
		return job, &QueueJobError{*job}
	case err != nil && job != nil:
		return job, fmt.Errorf("storage api: job %s is %s: %w", id, job.Status, err)
	}
	return job, err
}

// QueueQuery selects jobs. Empty fields select all.
type QueueQuery struct {
	// Component, Config and Status are compared as a whole.
	Component, Config, Status string
}

// QueueJobs lists jobs, the newest first. The list may lag a little.
func (c *Client) QueueJobs(ctx context.Context, q QueueQuery) iter.Seq2[QueueJob, error] {
	base, err := c.queueURL(ctx)
	if err != nil {
		return failed[QueueJob](err)
	}
	query := params("component", q.Component, "config", q.Config, "status", q.Status)
	return pages[QueueJob](ctx, c, request{base: base, path: path("search", "jobs"), query: query})
}
