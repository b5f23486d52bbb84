package platform_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/forebay/forebay/storageapi"
	"github.com/forebay/forebay/storageapi/platform"
)

// A state that a run saves at once is there when the run has failed, and the next run gets it. A run that succeeds leaves the state that it
// has set at last.
func TestSaveState(t *testing.T) {
	t.Parallel()
	w, rec := newQueueWorld(t)
	ctx := t.Context()
	must(w.CreateConfiguration(ctx, component, storageapi.ConfigurationCreate{ConfigurationID: "c", Name: "c"}))(t)
	state := func() string { return string(must(w.Configuration(ctx, component, "c"))(t).State) }
	fails := func(text string) func(context.Context, *platform.Run) error {
		return func(_ context.Context, run *platform.Run) error {
			err := errors.Join(run.SetState(raw(`{"lost":true}`)), run.SaveState(raw(text)))
			if got := state(); got != text {
				t.Errorf("the state is %s while the run goes on, want %s", got, text)
			}
			return errors.Join(err, platform.UserError(errors.New("no luck")))
		}
	}
	rec.set(fails(`{"token":"second"}`))
	if _, err := w.runJob(storageapi.QueueJobCreate{Config: "c"}); err == nil || state() != `{"token":"second"}` {
		t.Errorf("after a run that failed with %v the state is %s", err, state())
	}
	rec.set(fails(`{"token":"third"}`))
	if _, err := w.runJob(storageapi.QueueJobCreate{Config: "c", Mode: "debug"}); err == nil || state() != `{"token":"third"}` {
		t.Errorf("after a run in debug mode that failed with %v the state is %s", err, state())
	}
	if got := string(rec.runs[0].State); got != `{"token":"second"}` {
		t.Errorf("the next run got the state %s", got)
	}
	var late *platform.Run
	rec.set(func(_ context.Context, run *platform.Run) error {
		late = run
		return errors.Join(run.SaveState(raw(`{"token":"fourth"}`)), run.SetState(raw(`{"token":"fourth","n":1}`)))
	})
	must(w.runJob(storageapi.QueueJobCreate{Config: "c"}))(t)
	if state() != `{"token":"fourth","n":1}` {
		t.Errorf("after a run that succeeded the state is %s", state())
	}
	if err := late.SaveState(raw(`{}`)); err == nil || state() != `{"token":"fourth","n":1}` {
		t.Errorf("after its end a run saved %s, error %v", state(), err)
	}
	rec.set(func(_ context.Context, run *platform.Run) error {
		if err := run.SaveState(raw(`7`)); err == nil {
			t.Error("a number was saved as a state")
		}
		return nil
	})
	must(w.runJob(storageapi.QueueJobCreate{Config: "c"}))(t)

	// Rows have their own states, and a job with its own content has none.
	must(w.CreateRow(ctx, component, "c", storageapi.RowCreate{RowID: "r"}))(t)
	rec.set(func(_ context.Context, run *platform.Run) error {
		return errors.Join(run.SaveState(raw(`{"row":1}`)), errors.New("no luck"))
	})
	if _, err := w.runJob(storageapi.QueueJobCreate{Config: "c"}); err == nil {
		t.Error("the run has succeeded")
	}
	if _, err := w.runJob(storageapi.QueueJobCreate{ConfigData: raw(`{}`)}); err == nil {
		t.Error("the run has succeeded")
	}
	c := must(w.Configuration(ctx, component, "c"))(t)
	if string(c.Rows[0].State) != `{"row":1}` || string(c.State) != `{"token":"fourth","n":1}` {
		t.Errorf("states %s and %s", c.State, c.Rows[0].State)
	}
}

// save is a component that saves a state and does not come to its end. With a state it does.
func save(ctx context.Context, run *platform.Run) error {
	if string(run.State) == `{}` {
		if err := run.SaveState(raw(`{"token":"new"}`)); err != nil {
			return err
		}
		run.Logger.Info("saved")
		<-ctx.Done()
		return ctx.Err()
	}
	return run.SetState(raw(`{"got":` + string(run.State) + `}`))
}

// TestSavedStateAndKill kills the server when the state has been saved. The job runs again with it.
func TestSavedStateAndKill(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	c := startChild(t, dir)
	_, err := c.client.CreateConfiguration(ctx, "saver", storageapi.ConfigurationCreate{ConfigurationID: "c", Name: "c"})
	check(t, err)
	job, err := c.client.CreateQueueJob(ctx, storageapi.QueueJobCreate{Component: "saver", Config: "c"})
	check(t, err)
	tick := time.NewTicker(5 * time.Millisecond)
	for saved := false; !saved; <-tick.C {
		for e, err := range c.client.Events(ctx, storageapi.EventQuery{RunID: job.RunID}) {
			check(t, err)
			saved = saved || e.Message == "saved"
		}
	}
	c.kill()
	c = startChild(t, dir)
	_, err = c.client.WaitForQueueJob(ctx, job.ID)
	check(t, err)
	conf, err := c.client.Configuration(ctx, "saver", "c")
	check(t, err)
	if string(conf.State) != `{"got":{"token":"new"}}` {
		t.Errorf("the job has run again with the state that it left: %s", conf.State)
	}
}
