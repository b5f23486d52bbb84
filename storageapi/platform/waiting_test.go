package platform_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay/storageapi"
	"github.com/forebay/forebay/storageapi/platform"
)

// held is a program that runs until it is released or its context ends.
func held(begun chan<- string, release <-chan struct{}) func(ctx context.Context, run *platform.Run) error {
	return func(ctx context.Context, run *platform.Run) error {
		begun <- run.ConfigID
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// A job waits for other jobs of its configuration, and while the queue is full. A job whose time has not come is not waiting.
func TestJobsWait(t *testing.T) {
	t.Parallel()
	w, rec := newQueueWorld(t)
	ctx := t.Context()
	for _, id := range []string{"a", "b", "c", "d"} {
		must(w.CreateConfiguration(ctx, component, storageapi.ConfigurationCreate{ConfigurationID: id, Name: id}))(t)
	}
	begun, release := make(chan string, 8), make(chan struct{})
	rec.set(held(begun, release))
	jobs := make(map[string]*storageapi.QueueJob)
	for _, id := range []string{"a", "b"} { // as many as run at once
		jobs[id] = must(w.CreateQueueJob(ctx, storageapi.QueueJobCreate{Component: component, Config: id}))(t)
		<-begun
	}
	jobs["c"] = must(w.CreateQueueJob(ctx, storageapi.QueueJobCreate{Component: component, Config: "c"}))(t)
	delayed := w.raw("POST", "/jobs", jsonType, `{"component":"`+component+`","config":"d","delay":3600}`).decode(t)
	expect := func(id, status string) {
		t.Helper()
		if got := must(w.QueueJob(ctx, storageapi.ID(id)))(t); got.Status != status {
			t.Errorf("job %s is %s, want %s", id, got.Status, status)
		}
	}
	later, _ := delayed["id"].(string)
	expect(string(jobs["c"].ID), "waiting")
	expect(later, "created")
	if delayed["delayedStartTime"] == nil {
		t.Errorf("delayed job %v", delayed)
	}
	list := must(storageapi.Collect(w.QueueJobs(ctx, storageapi.QueueQuery{Status: "waiting"})))(t)
	if len(list) != 1 || list[0].ID != jobs["c"].ID {
		t.Errorf("waiting jobs %+v", list)
	}
	w.restart() // the delayed job is not forgotten, the running jobs resume
	slices.Sort([]string{<-begun, <-begun})
	expect(later, "created")
	if killed := must(w.KillQueueJob(ctx, storageapi.ID(later)))(t); killed.Status != "cancelled" {
		t.Errorf("delayed job after its end: %s", killed.Status)
	}
	close(release)
	for _, job := range jobs {
		must(w.WaitForQueueJob(ctx, job.ID))(t)
	}
	for _, body := range []string{`"delay":-1`, `"delay":99999999999`, `"delay":1,"delayedStartTime":"2030-01-01T00:00:00+00:00"`, `"delayedStartTime":"soon"`} {
		if a := w.raw("POST", "/jobs", jsonType, `{"component":"`+component+`","config":"d",`+body+`}`); a.status != 400 {
			t.Errorf("%s: got %d %s, want 400", body, a.status, a.body)
		}
	}
}

// A job that ran when the server was stopped, and has not gone on yet because of others, ends when it is killed. It once
// was left as it was, neither running nor ended.
func TestKillJobThatHasNotGoneOn(t *testing.T) {
	t.Parallel()
	w, rec := newQueueWorld(t)
	ctx := t.Context()
	begun, release := make(chan string, 8), make(chan struct{})
	defer close(release)
	rec.set(held(begun, release))
	var jobs []*storageapi.QueueJob
	for _, id := range []string{"a", "b"} {
		must(w.CreateConfiguration(ctx, component, storageapi.ConfigurationCreate{ConfigurationID: id, Name: id}))(t)
		jobs = append(jobs, must(w.CreateQueueJob(ctx, storageapi.QueueJobCreate{Component: component, Config: id}))(t))
		<-begun
	}
	w.opts.QueueJobs = 1
	w.restart()
	if got := <-begun; got != "a" {
		t.Fatalf("%s goes on first, want \"a\"", got)
	}
	if killed := must(w.KillQueueJob(ctx, jobs[1].ID))(t); killed.Status != "terminated" || !killed.IsFinished || killed.EndTime.IsZero() {
		t.Errorf("killed %+v", killed)
	}
	must(w.KillQueueJob(ctx, jobs[0].ID))(t)
	_, err := w.WaitForQueueJob(ctx, jobs[0].ID)
	var bad *storageapi.QueueJobError
	if !errors.As(err, &bad) || bad.Job.Status != "terminated" {
		t.Errorf("first job: %v", err)
	}
}

// The result of a job that was interrupted has the tables of all its rows.
func TestResultOverRestart(t *testing.T) {
	t.Parallel()
	w, rec := newQueueWorld(t)
	ctx := t.Context()
	must(w.CreateConfiguration(ctx, component, storageapi.ConfigurationCreate{ConfigurationID: "c", Name: "c", Configuration: raw(`{"storage":{"output":{"default_bucket":"out.c-r"}}}`)}))(t)
	for _, id := range []string{"a", "b"} {
		must(w.CreateRow(ctx, component, "c", storageapi.RowCreate{RowID: id}))(t)
	}
	inB, write := make(chan struct{}), func(run *platform.Run) error {
		out, err := run.CreateOutput(run.RowID + ".csv")
		if err == nil {
			_, err = io.WriteString(out, "x\n1\n")
		}
		return err
	}
	rec.set(func(ctx context.Context, run *platform.Run) error {
		if run.RowID == "b" {
			close(inB)
			<-ctx.Done()
		}
		return write(run)
	})
	job := must(w.CreateQueueJob(ctx, storageapi.QueueJobCreate{Component: component, Config: "c"}))(t)
	<-inB
	rec.set(func(_ context.Context, run *platform.Run) error { return write(run) })
	w.restart()
	job = must(w.WaitForQueueJob(ctx, job.ID))(t)
	var tables []string
	for _, table := range job.Result.Value.Output.Value.Tables {
		tables = append(tables, table.ID)
	}
	if want := []string{"out.c-r.a", "out.c-r.b"}; !slices.Equal(tables, want) {
		t.Errorf("tables %q, want %q", tables, want)
	}
	a := w.raw("GET", "/jobs/"+string(job.ID), "", "")
	if !strings.Contains(string(a.body), `"input":{"tables":[]}`) {
		t.Errorf("no tables are not an empty list: %s", a.body)
	}
}

// The mappings of a configuration are read as other clients write them.
func TestMappings(t *testing.T) {
	t.Parallel()
	w, rec := newQueueWorld(t)
	ctx := t.Context()
	w.table(ctx, "in.c-a.t", nil, "a")
	check(t, importCSV(w, ctx, "in.c-a.t", storageapi.Import{}, "f", "a\n1\n2\n2\n"))
	rec.set(func(ctx context.Context, run *platform.Run) error {
		for _, name := range run.Inputs() {
			in, err := run.OpenInput(ctx, name)
			if err != nil {
				return err
			}
			out, err := run.CreateOutput(name)
			if err == nil {
				_, err = io.Copy(out, in)
			}
			if err := errors.Join(err, in.Close()); err != nil {
				return err
			}
		}
		return nil
	})
	for _, storage := range []string{`[]`, `{}`, `null`, `{"input":[],"output":[]}`, `{"input":{"tables":[]},"output":{"tables":[]}}`} {
		if _, err := w.runJob(storageapi.QueueJobCreate{ConfigData: raw(`{"storage":` + storage + `}`)}); err != nil {
			t.Errorf("storage %s: %v", storage, err)
		}
	}
	must(w.runJob(storageapi.QueueJobCreate{ConfigData: raw(`{"storage":{
		"input":{"tables":[{"source":"in.c-a.t","destination":"x.csv","where_column":"a","where_values":[2],"limit":"1"}]},
		"output":{"tables":[{"source":"x.csv","destination":"out.c-a.one"},{"source":"x.csv","destination":"out.c-a.two"}]}}}`)}))(t)
	for _, table := range []string{"out.c-a.one", "out.c-a.two"} {
		if got := w.preview(table, storageapi.RowQuery{}); got != "\"a\"\n\"2\"\n" {
			t.Errorf("table %s: %q", table, got)
		}
	}
	for _, c := range []struct{ data, want string }{
		{`{"storage":{"input":7}}`, "node storage"},
		{`{"storage":{"input":{"tables":[{"source":"in.c-none.t"}]}}}`, "not found"},
		{`[1]`, "configData: want a JSON object, got an array"},
	} {
		if _, err := w.runJob(storageapi.QueueJobCreate{ConfigData: raw(c.data)}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", c.data, err, c.want)
		}
	}
}

// A job that names rows does not pass over one that was deleted before it began.
func TestNamedRowIsGone(t *testing.T) {
	t.Parallel()
	w, rec := newQueueWorld(t)
	ctx := t.Context()
	for _, id := range []string{"a", "b"} {
		must(w.CreateConfiguration(ctx, component, storageapi.ConfigurationCreate{ConfigurationID: id, Name: id}))(t)
		must(w.CreateRow(ctx, component, id, storageapi.RowCreate{RowID: "r"}))(t)
	}
	begun, release := make(chan string, 8), make(chan struct{})
	rec.set(held(begun, release))
	first := must(w.CreateQueueJob(ctx, storageapi.QueueJobCreate{Component: component, Config: "a"}))(t)
	<-begun
	second := must(w.CreateQueueJob(ctx, storageapi.QueueJobCreate{Component: component, Config: "a", ConfigRowIDs: []string{"r"}}))(t)
	check(t, w.DeleteRow(ctx, component, "a", "r"))
	close(release)
	must(w.WaitForQueueJob(ctx, first.ID))(t)
	_, err := w.WaitForQueueJob(ctx, second.ID)
	if err == nil || !strings.Contains(err.Error(), `row "r" is no longer there`) {
		t.Errorf("job of a deleted row: %v", err)
	}
	if n := len(rec.rows()); n != 1 {
		t.Errorf("got %d runs, want 1", n)
	}
	_, err = w.CreateQueueJob(ctx, storageapi.QueueJobCreate{Component: component, Config: "b", ConfigRowIDs: []string{"none"}})
	expectError(t, err, 400, "")
	for _, branch := range []string{"99", "0" + must(w.DefaultBranch(ctx))(t).ID.String(), "x"} {
		_, err = w.CreateQueueJob(ctx, storageapi.QueueJobCreate{Component: component, Config: "b", BranchID: branch})
		expectError(t, err, 400, "")
	}
	_, err = w.WithRunID(fmt.Sprintf("%0250d", 1)).CreateQueueJob(ctx, storageapi.QueueJobCreate{Component: component, Config: "b"})
	if err == nil {
		t.Error("a run id that is too long")
	}
}
