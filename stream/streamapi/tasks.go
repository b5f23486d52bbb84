package streamapi

import (
	"fmt"

	"github.com/forebay/forebay/catalog"
)

func (a *api) index(c *request) (any, error) {
	return indexBody{API: "stream", Documentation: c.base + documentationPath}, nil
}

// task turns a started task into the response.
func (a *api) task(c *request) func(catalog.Task, error) (any, error) {
	return func(t catalog.Task, err error) (any, error) {
		if err != nil {
			return nil, err
		}
		return a.taskBody(c, t), nil
	}
}

func (a *api) taskBody(c *request, t catalog.Task) taskBody {
	b := taskBody{
		TaskID: t.ID, Type: t.Type, URL: c.base + "/v1/tasks/" + t.ID, Status: string(t.Status), IsFinished: t.Finished(),
		CreatedAt: catalog.Time(t.CreatedAt), Result: t.Result, Error: t.Failure,
	}
	for _, w := range t.Warnings {
		b.Warnings = append(b.Warnings, warning(w))
	}
	if t.Discard != nil {
		b.Discard = ptr(discardBody(*t.Discard))
	}
	if t.Rejects != nil {
		b.Rejects = ptr(rejectsResult(*t.Rejects))
	}
	if t.Replay != nil {
		b.Replay = ptr(newReplay(t.Replay.Progress))
	}
	if t.Code != "" {
		b.ErrorName, b.ErrorStatusCode = string(names)+string(t.Code), statusOf[t.Code]
	}
	if t.Finished() {
		ms := t.FinishedAt.Sub(t.CreatedAt).Milliseconds()
		b.FinishedAt, b.Duration = catalog.Time(t.FinishedAt), &ms
	}
	if t.Status == catalog.Succeeded || t.Partial {
		b.Outputs = &outputsBody{
			URL:       fmt.Sprintf("%s/v1/branches/%d/sources/%s", c.base, a.branch, t.SourceID),
			ProjectID: a.project, BranchID: a.branch, SourceID: t.SourceID, SinkID: t.SinkID,
		}
		if t.SinkID != "" {
			b.Outputs.URL += "/sinks/" + t.SinkID
		}
	}
	return b
}

func (a *api) getTask(c *request) (any, error) { return a.task(c)(a.on.Task(c.r.PathValue("taskId"))) }
