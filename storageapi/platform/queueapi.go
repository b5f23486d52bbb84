package platform

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forebay/forebay/storageapi"
)

func (s *Server) queueRoutes() []route {
	return []route{
		{method: "POST", path: "/jobs", summary: "Run a component", api: queueAPI, body: "component! mode config configRowIds configData tag branchId variableValuesId variableValuesData backend parallelism delay delayedStartTime *", status: http.StatusCreated, result: queueJob{}, run: (*request).createQueueJob},
		{method: "GET", path: "/jobs", summary: "List jobs, the newest first", api: queueAPI, query: queueQuery, result: []queueJob{}, read: (*request).listQueueJobs},
		{method: "GET", path: "/search/jobs", summary: "Search jobs, the newest first", api: queueAPI, query: queueQuery, result: []queueJob{}, read: (*request).listQueueJobs},
		{method: "GET", path: "/jobs/{id}", summary: "Job detail", api: queueAPI, result: queueJob{}, read: (*request).getQueueJob},
		{method: "POST", path: "/jobs/{id}/kill", summary: "Terminate a job", api: queueAPI, status: http.StatusAccepted, result: queueJob{}, run: (*request).killQueueJob},
	}
}

var modes = []string{"run", "debug", "forceRun"}

const (
	// maxDelay is a year, in seconds.
	maxDelay = 365 * 24 * 60 * 60
	// maxRunID leaves room for the ids of a job and its descendants in a run id.
	maxRunID = 200
)

func (c *request) createQueueJob() (any, error) {
	in := c.input("")
	r := queueRecord{
		Status: storageapi.QueueCreated, Desired: storageapi.QueueProcessing, Component: in.required("component"), Mode: in.textOr("mode", "run"),
		Config: in.textOr("config", ""), ConfigData: in.object("configData", ""), Tag: in.textOr("tag", ""), Branch: c.branch,
		Parallelism: in.textOr("parallelism", ""), VariablesID: in.textOr("variableValuesId", ""), Variables: in.object("variableValuesData", ""),
		Created: now(), Rights: *c.token, Base: c.base(),
	}
	r.Rights.Hash = ""
	if !slices.Contains(modes, r.Mode) {
		in.fail("mode", "want one of %s", strings.Join(modes, ", "))
	}
	if r.Config == "" && r.ConfigData == nil {
		in.fail("config", "want config or configData")
	}
	if n, err := strconv.Atoi(r.Parallelism); r.Parallelism != "" && r.Parallelism != "infinity" && (err != nil || n < 0) {
		in.fail("parallelism", "want a number or infinity")
	}
	if in.has("backend") {
		r.Backend = in.fields["backend"] // an object, or the bare name of its type
		if r.Backend[0] == '"' {
			r.Backend = json.RawMessage(`{"type":` + string(r.Backend) + `}`)
		}
	}
	if seconds := in.integer("delay"); seconds != nil {
		if *seconds < 0 || *seconds > maxDelay {
			in.fail("delay", "want 0 to %d seconds", maxDelay)
		} else if *seconds > 0 {
			r.NotBefore = storageapi.Time{Time: r.Created.Add(time.Duration(*seconds) * time.Second)}
		}
	}
	if text := in.text("delayedStartTime"); text != nil && *text != "" {
		at, err := parseTime(*text)
		if err != nil || in.has("delay") {
			in.fail("delayedStartTime", "want a time, and no delay in addition")
		}
		r.NotBefore = storageapi.Time{Time: at}
	}
	r.RowIDs, _ = in.texts("configRowIds")
	if r.ConfigData != nil {
		r.RowIDs = nil
	}
	if branch := in.textOr("branchId", ""); branch != "" && r.ConfigData == nil {
		if branch != "default" {
			r.Branch = branch
		}
	}
	if err := c.fault(); err != nil {
		return nil, err
	}
	if err := checkVariables(r); err != nil {
		return nil, err
	}
	if parent := c.runID(); parent != nil {
		if !validID(*parent) || len(*parent) > maxRunID {
			return nil, refuse(http.StatusBadRequest, "", "Header %s: want the run id of a job", storageapi.RunIDHeader)
		}
		r.ParentRunID = *parent
	}
	if err := c.checkQueueJob(r); err != nil {
		return nil, err
	}
	r.ID = c.newID()
	answer, err := c.change("", func(tx *txn) (any, error) {
		tx.put(openQueueJobKey(r.ID), r.ID)
		tx.put(queueJobKey(r.ID), r)
		return c.queueAnswer(r), nil
	})
	if err == nil {
		c.s.queue.enqueue(r)
	}
	return answer, err
}

// checkQueueJob refuses a job that cannot run.
func (c *request) checkQueueJob(r queueRecord) error {
	component, err := c.s.component(r.Component)
	if err != nil {
		return refuse(http.StatusBadRequest, "", "Component %q not found", cut(r.Component, 255))
	}
	if component.Runner == nil {
		return refuse(http.StatusBadRequest, "", "Component %q cannot be run", r.Component)
	}
	if !c.token.mayUse(r.Component) {
		return accessDenied("component %q", r.Component)
	}
	return c.s.store.view(func(tx *txn) error {
		if r.Branch != c.branch {
			id, _ := strconv.ParseInt(r.Branch, 10, 64)
			if b, err := getBranch(tx, id); isNotFound(err) || err == nil && b.key() != r.Branch {
				return refuse(http.StatusBadRequest, "", "Branch %q not found", cut(r.Branch, 40))
			} else if err != nil {
				return err
			}
		}
		if r.Config == "" {
			return nil
		}
		if !validID(r.Config) {
			return refuse(http.StatusBadRequest, "", "Configuration %q not found", cut(r.Config, 255))
		}
		conf, err := openConfiguration(tx, configID{r.Branch, r.Component, r.Config}, c.creator(), false)
		if isNotFound(err) && r.ConfigData != nil {
			return nil // it names the default bucket alone
		}
		if isNotFound(err) {
			return refuse(http.StatusBadRequest, "", "Configuration %q of component %q not found", r.Config, r.Component)
		}
		if err != nil {
			return err
		}
		for _, row := range r.RowIDs {
			if conf.head.Latest.find(row) < 0 {
				return refuse(http.StatusBadRequest, "", "Row %q not found", cut(row, 255))
			}
		}
		return nil
	})
}

// queueTimeFormat always writes the offset in digits. time.RFC3339 would write Z for +00:00.
const queueTimeFormat = "2006-01-02T15:04:05-07:00"

// queueTime is a time in the form of the queue, whose offset has a colon.
type queueTime storageapi.Time

func (t queueTime) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return []byte(t.Format(`"` + queueTimeFormat + `"`)), nil
}

// queueJob is the response that describes a job.
type queueJob struct {
	storageapi.QueueJob
	Branch    string                                      `json:"branchId"`
	Created   queueTime                                   `json:"createdTime"`
	Started   queueTime                                   `json:"startTime"`
	Ended     queueTime                                   `json:"endTime"`
	NotBefore queueTime                                   `json:"delayedStartTime"`
	Result    storageapi.Optional[storageapi.QueueResult] `json:"result"`
}

func (c *request) queueAnswer(r queueRecord) queueJob {
	id := strconv.FormatInt(r.ID, 10)
	out := queueJob{
		Branch: r.Branch, Created: queueTime(r.Created), Started: queueTime(r.Started), Ended: queueTime(r.Ended), NotBefore: queueTime(r.NotBefore),
		Result: storageapi.Optional[storageapi.QueueResult]{Value: r.Result},
		QueueJob: storageapi.QueueJob{
			ID: storageapi.ID(id), RunID: r.runID(), ParentRunID: r.ParentRunID,
			Project: storageapi.QueueProject{ID: storageapi.ID(strconv.FormatInt(c.s.opts.ProjectID, 10)), Name: c.s.opts.ProjectName},
			Token:   storageapi.JobToken{ID: storageapi.ID(strconv.FormatInt(r.Rights.ID, 10)), Description: r.Rights.Description},
			Status:  c.queueStatus(r), DesiredStatus: r.Desired, Mode: r.Mode, Component: r.Component, Config: storageapi.ID(r.Config),
			ConfigRowIDs: notNil(r.RowIDs), Tag: r.Tag, VariableValuesID: storageapi.ID(r.VariablesID), VariableValuesData: orEmpty(r.Variables),
			UsageData: json.RawMessage("[]"), Metrics: json.RawMessage("[]"), IsFinished: r.finished(), URL: c.base() + "/jobs/" + id,
			Backend: orEmpty(r.Backend), Behavior: json.RawMessage(`{"onError":null}`), Parallelism: storageapi.ID(r.Parallelism), Type: "standard",
		},
	}
	if r.ConfigData != nil {
		_ = json.Unmarshal(r.ConfigData, &out.ConfigData) // an array is shown as empty
	}
	end := r.Ended.Time
	if !r.finished() {
		end = time.Now()
	}
	if !r.Started.IsZero() {
		out.DurationSeconds = max(0, end.Sub(r.Started.Time).Truncate(time.Second).Seconds())
	}
	return out
}

// queueStatus is the status that clients see.
func (c *request) queueStatus(r queueRecord) string {
	switch {
	case r.Status == storageapi.QueueCreated && c.s.queue.waits(r.ID):
		return storageapi.QueueWaiting
	case r.Status == storageapi.QueueProcessing && r.Desired == storageapi.QueueTerminating:
		return storageapi.QueueTerminating
	}
	return r.Status
}

func orEmpty(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return json.RawMessage("[]")
	}
	return raw
}

func (c *request) seesQueueJob(r queueRecord) bool {
	return c.token.mayUse(r.Component) || r.Rights.ID == c.token.ID
}

func (c *request) getQueueJob(tx *txn) (any, error) {
	absent := refuse(http.StatusNotFound, "", "Job %q not found", cut(c.r.PathValue("id"), 40))
	r, err := find[queueRecord](tx, queueJobKey(c.pathID("id")), absent)
	if err == nil && !c.seesQueueJob(r) {
		err = absent
	}
	if err != nil {
		return nil, err
	}
	return c.queueAnswer(r), nil
}

func (c *request) listQueueJobs(tx *txn) (any, error) {
	query := c.r.URL.Query()
	// one accepts a filter that is given once or as a list.
	one := func(name, value string) bool {
		wanted := slices.Concat(query[name], query[name+"[]"])
		return len(wanted) == 0 || slices.Contains(wanted, value)
	}
	wanted := func(r queueRecord) bool {
		inBranch := one("branchId", r.Branch) ||
			r.Branch == c.s.defaultBranch.key() && (one("branchId", "null") || one("branchId", "default"))
		return inBranch && c.seesQueueJob(r) && one("component", r.Component) && one("config", r.Config) &&
			one("status", c.queueStatus(r)) && one("id", strconv.FormatInt(r.ID, 10)) && one("runId", r.runID())
	}
	newestFirst := !strings.EqualFold(query.Get("sortOrder"), "asc")
	return collect(c.page(500), each[queueRecord](tx, key("queue-job", ""), newestFirst), wanted, c.queueAnswer), nil
}

// killQueueJob cancels a job that has not begun and terminates one that runs.
func (c *request) killQueueJob() (any, error) {
	id := c.pathID("id")
	r, err := c.s.queue.update(id, func(_ *txn, r *queueRecord) error {
		if !c.seesQueueJob(*r) {
			return refuse(http.StatusNotFound, "", "Job %d not found", id)
		}
		if r.finished() {
			return refuse(http.StatusBadRequest, "", "Job %d has ended", id)
		}
		r.Desired = storageapi.QueueTerminating
		// One that is withdrawn has not begun, or ran until the server was stopped and has not gone on yet.
		if c.s.queue.withdraw(id) || r.Status == storageapi.QueueCreated {
			r.terminate()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	c.s.queue.mu.Lock()
	if cancel := c.s.queue.running[id]; cancel != nil {
		cancel()
	}
	c.s.queue.mu.Unlock()
	return c.queueAnswer(r), nil
}
