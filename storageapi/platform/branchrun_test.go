package platform_test

import (
	"context"
	"testing"

	"github.com/forebay/forebay/storageapi"
	"github.com/forebay/forebay/storageapi/platform"
)

// A job of a branch runs the configuration as it is there, calls the server in the branch, and leaves its state there.
func TestRunInBranch(t *testing.T) {
	t.Parallel()
	w, rec := newQueueWorld(t)
	ctx := t.Context()
	must(w.CreateConfiguration(ctx, component, storageapi.ConfigurationCreate{ConfigurationID: "c", Name: "c", Configuration: raw(`{"parameters":{"in":"main"}}`)}))(t)
	must(w.CreateRow(ctx, component, "c", storageapi.RowCreate{RowID: "r", State: raw(`{"of":"main"}`)}))(t)
	b := must(w.CreateDevBranch(ctx, "dev", ""))(t)
	dev := w.Branch(b.ID.String())
	must(dev.UpdateConfiguration(ctx, component, "c", storageapi.ConfigurationUpdate{Configuration: raw(`{"parameters":{"in":"dev"}}`)}))(t)
	rec.set(func(ctx context.Context, run *platform.Run) error {
		if _, err := run.Client.CreateConfiguration(ctx, component, storageapi.ConfigurationCreate{ConfigurationID: "made", Name: "made"}); err != nil {
			return err
		}
		return run.SetState(raw(`{"of":"dev"}`))
	})
	job := must(dev.CreateQueueJob(ctx, storageapi.QueueJobCreate{Component: component, Config: "c"}))(t)
	job = must(w.WaitForQueueJob(ctx, job.ID))(t)
	if job.BranchID != storageapi.ID(b.ID.String()) || rec.runs[0].BranchID != b.ID.String() {
		t.Errorf("job %+v of branch %s", job, rec.runs[0].BranchID)
	}
	expectJSON(t, "configuration of the run", rec.runs[0].Configuration, `{"action":"run","image_parameters":{"i":1},"parameters":{"in":"dev"}}`)
	expectJSON(t, "state of the run", rec.runs[0].State, `{}`) // a copy begins again
	expectJSON(t, "state in the branch", must(dev.Row(ctx, component, "c", "r"))(t).State, `{"of":"dev"}`)
	expectJSON(t, "state in the default branch", must(w.Row(ctx, component, "c", "r"))(t).State, `{"of":"main"}`)
	must(dev.Configuration(ctx, component, "made"))(t)
	_, err := w.Configuration(ctx, component, "made")
	expectError(t, err, 404, "storage.configuration.notFound")
	a := w.raw("GET", "/search/jobs?branchId=null", "", "")
	if string(a.body) != "[]" {
		t.Errorf("jobs of the default branch %s", a.body)
	}
	check(t, w.DeleteDevBranch(ctx, b.ID))
	_, err = dev.CreateQueueJob(ctx, storageapi.QueueJobCreate{Component: component, Config: "c"})
	expectError(t, err, 400, "")
}
