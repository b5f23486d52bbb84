package platform_test

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay/storageapi"
	"github.com/forebay/forebay/storageapi/platform"
)

// recorder is a component that notes its runs and acts as the test says.
type recorder struct {
	mu   sync.Mutex
	runs []platform.Run
	do   func(ctx context.Context, run *platform.Run) error
}

func (r *recorder) Run(ctx context.Context, run *platform.Run) error {
	r.mu.Lock()
	r.runs = append(r.runs, *run)
	do := r.do
	r.mu.Unlock()
	if do != nil {
		return do(ctx, run)
	}
	return nil
}

func (r *recorder) set(do func(ctx context.Context, run *platform.Run) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.do, r.runs = do, nil
}

func (r *recorder) rows() (ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, run := range r.runs {
		ids = append(ids, run.RowID)
	}
	return ids
}

func newQueueWorld(t *testing.T) (*world, *recorder) {
	rec := &recorder{}
	return newWorld(t, func(o *platform.Options) {
		o.Components = []platform.Component{{Component: storageapi.Component{ID: component}, Runner: rec, ImageParameters: raw(`{"i":1}`)}}
	}), rec
}

func (w *world) runJob(in storageapi.QueueJobCreate) (*storageapi.QueueJob, error) {
	w.t.Helper()
	if in.Component == "" {
		in.Component = component
	}
	job, err := w.CreateQueueJob(w.t.Context(), in)
	if err != nil {
		return nil, err
	}
	return w.WaitForQueueJob(w.t.Context(), job.ID)
}

// What a component gets to see is the root with the row laid over it, without processors.
func TestEffectiveConfiguration(t *testing.T) {
	t.Parallel()
	w, rec := newQueueWorld(t)
	ctx := t.Context()
	const added = `"action":"run","image_parameters":{"i":1}`
	for i, c := range []struct{ root, row, want string }{
		{`{"parameters":{"a":1,"b":{"c":1.10}},"storage":{},"processors":{"after":[]},"x":[]}`, ``, `{` + added + `,"parameters":{"a":1,"b":{"c":1.10}},"storage":{},"x":[]}`},
		{`{"parameters":{"a":1,"b":{"c":1,"d":2}}}`, `{"parameters":{"b":{"c":3}},"processors":{}}`, `{` + added + `,"parameters":{"a":1,"b":{"c":3,"d":2}}}`},
		{`{"parameters":{"a":[1,{"b":1},3]}}`, `{"parameters":{"a":[9,{"c":2}]}}`, `{` + added + `,"parameters":{"a":[9,{"b":1,"c":2},3]}}`},
		{`{"parameters":{"a":{"b":1},"n":12345678901234567890}}`, `{"parameters":{"a":null}}`, `{` + added + `,"parameters":{"a":null,"n":12345678901234567890}}`},
		{`{"parameters":{"a":1}}`, `{"parameters":{"a":{"b":1}}}`, `{` + added + `,"parameters":{"a":{"b":1}}}`},
		{`[]`, `{"parameters":{"a":1}}`, `{` + added + `,"parameters":{"a":1}}`},
		{`{"parameters":{"a":1,"l":[1]}}`, `{"parameters":[]}`, `{` + added + `,"parameters":{"a":1,"l":[1]}}`},
		{`{"parameters":{"a":{"b":1},"l":[1,2]}}`, `{"parameters":{"a":[],"l":[]}}`, `{` + added + `,"parameters":{"a":{"b":1},"l":[1,2]}}`},
		{`{"parameters":{"a":[1,2]}}`, `{"parameters":{"a":{}}}`, `{` + added + `,"parameters":{"a":{}}}`},
		{`{"parameters":{"processors":{"kept":1}},"processors":{"a":1}}`, `{"processors":{"b":1}}`, `{` + added + `,"parameters":{"processors":{"kept":1}}}`},
		{`{"configuration":{"parameters":{"a":1}}}`, ``, `{"action":"run","configuration":{"parameters":{"a":1}},"image_parameters":{"i":1}}`},
		{`{"authorization":{"id":1}}`, `[]`, `{"action":"run","authorization":{"id":1},"image_parameters":{"i":1}}`},
	} {
		id := fmt.Sprint("c", i)
		must(w.CreateConfiguration(ctx, component, storageapi.ConfigurationCreate{ConfigurationID: id, Name: id, Configuration: raw(c.root)}))(t)
		if c.row != "" {
			must(w.CreateRow(ctx, component, id, storageapi.RowCreate{RowID: "r", Configuration: raw(c.row)}))(t)
		}
		rec.set(nil)
		must(w.runJob(storageapi.QueueJobCreate{Config: id}))(t)
		if len(rec.runs) != 1 || string(rec.runs[0].Configuration) != c.want {
			t.Errorf("%s with %s: got %s, want %s", c.root, c.row, rec.runs[0].Configuration, c.want)
		}
	}
}

func TestRunRows(t *testing.T) {
	t.Parallel()
	w, rec := newQueueWorld(t)
	ctx := t.Context()
	must(w.CreateConfiguration(ctx, component, storageapi.ConfigurationCreate{ConfigurationID: "c", Name: "c"}))(t)
	for _, id := range []string{"a", "b", "c"} {
		must(w.CreateRow(ctx, component, "c", storageapi.RowCreate{RowID: id, IsDisabled: id == "b"}))(t)
	}
	must(w.UpdateConfiguration(ctx, component, "c", storageapi.ConfigurationUpdate{RowsSortOrder: []string{"c", "b", "a"}}))(t)
	run := func(in storageapi.QueueJobCreate, want ...string) {
		t.Helper()
		rec.set(nil)
		in.Config = "c"
		must(w.runJob(in))(t)
		if got := rec.rows(); !slices.Equal(got, want) {
			t.Errorf("%+v ran rows %q, want %q", in, got, want)
		}
	}
	run(storageapi.QueueJobCreate{}, "c", "a")
	run(storageapi.QueueJobCreate{ConfigRowIDs: []string{"a", "b"}}, "b", "a")

	disabled := true
	must(w.UpdateConfiguration(ctx, component, "c", storageapi.ConfigurationUpdate{IsDisabled: &disabled}))(t)
	rec.set(nil)
	_, err := w.runJob(storageapi.QueueJobCreate{Config: "c"})
	var bad *storageapi.QueueJobError
	if !errors.As(err, &bad) || bad.Job.Status != "error" || len(rec.rows()) != 0 {
		t.Errorf("run of a disabled configuration: %v", err)
	}
	run(storageapi.QueueJobCreate{Mode: "forceRun"}, "c", "a")

	// A job may bring its own content.
	rec.set(nil)
	must(w.runJob(storageapi.QueueJobCreate{ConfigData: raw(`{"parameters":{"own":1}}`)}))(t)
	if len(rec.runs) != 1 || !strings.Contains(string(rec.runs[0].Configuration), `"own":1`) {
		t.Errorf("runs %+v", rec.runs)
	}
}

// State is kept for each row, and {} makes the next run begin again.
func TestStateOfRuns(t *testing.T) {
	t.Parallel()
	w, rec := newQueueWorld(t)
	ctx := t.Context()
	must(w.CreateConfiguration(ctx, component, storageapi.ConfigurationCreate{ConfigurationID: "c", Name: "c"}))(t)
	next := func(_ context.Context, run *platform.Run) error {
		var s struct {
			N int `json:"n"`
		}
		if err := json.Unmarshal(run.State, &s); err != nil {
			return err
		}
		return run.SetState(raw(fmt.Sprintf(`{"n":%d}`, s.N+1)))
	}
	rec.set(next)
	for range 2 {
		must(w.runJob(storageapi.QueueJobCreate{Config: "c"}))(t)
	}
	version := must(w.Configuration(ctx, component, "c"))(t)
	expectJSON(t, "state", version.State, `{"n":2}`)
	if version.Version != 1 {
		t.Errorf("runs made version %d", version.Version)
	}
	must(w.UpdateConfigurationState(ctx, component, "c", raw(`{}`)))(t)
	must(w.runJob(storageapi.QueueJobCreate{Config: "c"}))(t)
	expectJSON(t, "state after the reset", must(w.Configuration(ctx, component, "c"))(t).State, `{"n":1}`)

	for _, id := range []string{"a", "b"} {
		must(w.CreateRow(ctx, component, "c", storageapi.RowCreate{RowID: id}))(t)
	}
	must(w.runJob(storageapi.QueueJobCreate{Config: "c"}))(t)
	must(w.runJob(storageapi.QueueJobCreate{Config: "c", ConfigRowIDs: []string{"b"}}))(t)
	c := must(w.Configuration(ctx, component, "c"))(t)
	expectJSON(t, "state of the root", c.State, `{"n":1}`)
	expectJSON(t, "state of row a", c.Rows[0].State, `{"n":1}`)
	expectJSON(t, "state of row b", c.Rows[1].State, `{"n":2}`)

	// A run that fails leaves the state as it was.
	rec.set(func(ctx context.Context, run *platform.Run) error {
		return errors.Join(next(ctx, run), platform.UserError(errors.New("no luck")))
	})
	_, err := w.runJob(storageapi.QueueJobCreate{Config: "c", ConfigRowIDs: []string{"a"}})
	if err == nil || !strings.Contains(err.Error(), "row a: no luck") {
		t.Errorf("failed run: %v", err)
	}
	expectJSON(t, "state after a failure", must(w.Row(ctx, component, "c", "a"))(t).State, `{"n":1}`)
}

// What a row writes is there for the next row to read.
func TestTablesOfRuns(t *testing.T) {
	t.Parallel()
	w, rec := newQueueWorld(t)
	ctx := t.Context()
	must(w.CreateConfiguration(ctx, component, storageapi.ConfigurationCreate{ConfigurationID: "c", Name: "c"}))(t)
	must(w.CreateRow(ctx, component, "c", storageapi.RowCreate{RowID: "1", Configuration: raw(`{"storage":{"output":{"tables":[{"source":"out.csv","destination":"out.c-runs.first","primary_key":["id"]}]}}}`)}))(t)
	must(w.CreateRow(ctx, component, "c", storageapi.RowCreate{RowID: "2", Configuration: raw(`{"storage":{
		"input":{"tables":[{"source":"out.c-runs.first","destination":"in.csv","columns":["v"]}]},
		"output":{"tables":[{"source":"out.csv","destination":"out.c-runs.second","incremental":true}]}}}`)}))(t)
	rec.set(func(ctx context.Context, run *platform.Run) error {
		values := [][]string{{"v"}}
		for _, name := range run.Inputs() {
			rc, err := run.OpenInput(ctx, name)
			if err != nil {
				return err
			}
			all, err := csv.NewReader(rc).ReadAll()
			if err := errors.Join(err, rc.Close()); err != nil {
				return err
			}
			values = all
		}
		if run.RowID == "1" {
			values = [][]string{{"id", "v"}, {"1", "one"}, {"2", "two"}}
		}
		out, err := run.CreateOutput("out.csv")
		if err != nil {
			return err
		}
		return csv.NewWriter(out).WriteAll(values)
	})
	for i := range 2 {
		job := must(w.runJob(storageapi.QueueJobCreate{Config: "c"}))(t)
		r := job.Result.Value
		if r == nil || r.Output.Value == nil || len(r.Output.Value.Tables) != 2 || len(r.Input.Value.Tables) != 1 || r.Output.Value.Tables[0].ID != "out.c-runs.first" || r.ConfigVersion != "3" {
			t.Fatalf("result %+v", r)
		}
		want := "\"v\"\n" + strings.Repeat("\"one\"\n\"two\"\n", i+1)
		if got := w.preview("out.c-runs.second", storageapi.RowQuery{}); got != want {
			t.Errorf("rows %q, want %q", got, want)
		}
	}
	if got := must(w.Table(ctx, "out.c-runs.first"))(t); got.RowsCount != 2 || !slices.Equal(got.PrimaryKey, []string{"id"}) {
		t.Errorf("table %+v", got)
	}

	// A table that the mapping names must be written, and one that was written needs a destination.
	rec.set(nil)
	_, err := w.runJob(storageapi.QueueJobCreate{Config: "c"})
	if err == nil || !strings.Contains(err.Error(), `has not written a table "out.csv"`) {
		t.Errorf("output is missing: %v", err)
	}
	rec.set(func(_ context.Context, run *platform.Run) error {
		out, err := run.CreateOutput("x.csv")
		if err == nil {
			_, err = io.WriteString(out, "a\n1\n")
		}
		return err
	})
	if _, err = w.runJob(storageapi.QueueJobCreate{ConfigData: raw(`{}`)}); err == nil || !strings.Contains(err.Error(), "no destination") {
		t.Errorf("output without a destination: %v", err)
	}
	must(w.runJob(storageapi.QueueJobCreate{ConfigData: raw(`{}`), Mode: "debug"}))(t)
}

func TestQueueJobLife(t *testing.T) {
	t.Parallel()
	w, rec := newQueueWorld(t)
	ctx := t.Context()
	must(w.CreateConfiguration(ctx, component, storageapi.ConfigurationCreate{ConfigurationID: "c", Name: "c"}))(t)
	begun, release := make(chan struct{}, 8), make(chan struct{})
	rec.set(func(ctx context.Context, run *platform.Run) error {
		run.Logger.Warn("halfway", "n", 1)
		begun <- struct{}{}
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	first := must(w.WithRunID("55").CreateQueueJob(ctx, storageapi.QueueJobCreate{Component: component, Config: "c"}))(t)
	if first.Status != "created" || first.RunID != "55."+string(first.ID) || first.IsFinished || first.Mode != "run" || first.Result.Value != nil {
		t.Errorf("created %+v", first)
	}
	<-begun
	// The second job of a configuration waits for the first.
	second := must(w.CreateQueueJob(ctx, storageapi.QueueJobCreate{Component: component, Config: "c"}))(t)
	if second = must(w.QueueJob(ctx, second.ID))(t); second.Status != "waiting" {
		t.Errorf("second job is %s", second.Status)
	}
	if first = must(w.QueueJob(ctx, first.ID))(t); first.Status != "processing" || first.StartTime.IsZero() {
		t.Errorf("first job %+v", first)
	}
	// One that has not begun is cancelled, one that runs is terminated.
	if killed := must(w.KillQueueJob(ctx, second.ID))(t); killed.Status != "cancelled" || !killed.IsFinished {
		t.Errorf("killed %+v", killed)
	}
	if killed := must(w.KillQueueJob(ctx, first.ID))(t); killed.DesiredStatus != "terminating" {
		t.Errorf("killed %+v", killed)
	}
	_, err := w.WaitForQueueJob(ctx, first.ID)
	var bad *storageapi.QueueJobError
	if !errors.As(err, &bad) || bad.Job.Status != "terminated" {
		t.Errorf("terminated job: %v", err)
	}
	_, err = w.KillQueueJob(ctx, first.ID)
	expectError(t, err, 400, "")

	close(release)
	third := must(w.runJob(storageapi.QueueJobCreate{Config: "c"}))(t)
	if third.Status != "success" || third.DurationSeconds < 0 || third.EndTime.IsZero() {
		t.Errorf("third %+v", third)
	}
	list := must(storageapi.Collect(w.QueueJobs(ctx, storageapi.QueueQuery{Component: component, Status: "success"})))(t)
	if len(list) != 1 || list[0].ID != third.ID {
		t.Errorf("jobs %+v", list)
	}
	var messages []string
	for e, err := range w.Events(ctx, storageapi.EventQuery{RunID: third.RunID}) {
		check(t, err)
		messages = append(messages, e.Type+": "+e.Message)
	}
	if want := []string{"info: Component finished", "warn: halfway", "info: Running component"}; !slices.Equal(messages, want) {
		t.Errorf("log %q, want %q", messages, want)
	}
	a := w.raw("GET", "/jobs/"+string(third.ID), "", "")
	at, _ := a.decode(t)["createdTime"].(string)
	if _, err := time.Parse(time.RFC3339, at); err != nil || strings.HasSuffix(at, "Z") {
		t.Errorf("createdTime %q has no offset with a colon", at)
	}
}

// A job that the end of the server interrupts resumes at the next opening, without the rows that had ended.
func TestQueueJobGoesOnAfterRestart(t *testing.T) {
	t.Parallel()
	w, rec := newQueueWorld(t)
	ctx := t.Context()
	must(w.CreateConfiguration(ctx, component, storageapi.ConfigurationCreate{ConfigurationID: "c", Name: "c"}))(t)
	for _, id := range []string{"a", "b", "c"} {
		must(w.CreateRow(ctx, component, "c", storageapi.RowCreate{RowID: id}))(t)
	}
	inB := make(chan struct{})
	rec.set(func(ctx context.Context, run *platform.Run) error {
		if run.RowID != "b" {
			return nil
		}
		close(inB)
		<-ctx.Done()
		return ctx.Err()
	})
	job := must(w.CreateQueueJob(ctx, storageapi.QueueJobCreate{Component: component, Config: "c"}))(t)
	<-inB
	rec.mu.Lock()
	rec.do = nil
	rec.mu.Unlock()
	w.restart()
	job = must(w.WaitForQueueJob(ctx, job.ID))(t)
	if got := rec.rows(); !slices.Equal(got, []string{"a", "b", "b", "c"}) || job.Status != "success" {
		t.Errorf("ran rows %q, job %s", got, job.Status)
	}
}

func TestQueueRefusals(t *testing.T) {
	t.Parallel()
	w, rec := newQueueWorld(t)
	ctx := t.Context()
	rec.set(func(context.Context, *platform.Run) error { return errors.New("a secret of the component") })
	for _, in := range []storageapi.QueueJobCreate{
		{Config: "c"},
		{Component: component},
		{Component: component, Config: "none"},
		{Component: "not.runnable", Config: "c"},
		{Component: component, ConfigData: raw(`{}`), Mode: "fast"},
		{Component: component, ConfigData: raw(`{}`), Parallelism: "much"},
	} {
		_, err := w.CreateQueueJob(ctx, in)
		expectError(t, err, 400, "")
	}
	_, err := w.QueueJob(ctx, "1")
	expectError(t, err, 404, "")
	a := w.raw("GET", "/jobs/1", "", "")
	if body := a.decode(t); body["code"] != 404.0 || body["status"] != "error" || body["exceptionId"] == "" {
		t.Errorf("error body of the queue %s", a.body)
	}
	if a = w.raw("GET", "/jobs/1", "", "", storageapi.TokenHeader, "wrong"); a.status != 401 {
		t.Errorf("wrong token: %d", a.status)
	}
	// The text of an error that is not for users stays inside.
	_, err = w.runJob(storageapi.QueueJobCreate{ConfigData: raw(`{}`)})
	if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "exception") {
		t.Errorf("internal error: %v", err)
	}
	rec.set(func(context.Context, *platform.Run) error { panic("a bug") })
	if _, err = w.runJob(storageapi.QueueJobCreate{ConfigData: raw(`{}`)}); err == nil || strings.Contains(err.Error(), "a bug") {
		t.Errorf("panic: %v", err)
	}
}
