package platform_test

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/storageapi"
	"github.com/forebay/forebay/storageapi/platform"
)

// log reads the log of a job, the oldest line first.
func (w *world) log(job *storageapi.QueueJob) (lines []string) {
	w.t.Helper()
	for e, err := range w.Events(w.t.Context(), storageapi.EventQuery{RunID: job.RunID}) {
		check(w.t, err)
		lines = append(lines, e.Type+": "+e.Message)
	}
	slices.Reverse(lines)
	return lines
}

// A program that panics or ends its goroutine fails its job, which says so in its log, and leaves the queue as it was.
func TestProgramsThatEndOddly(t *testing.T) {
	t.Parallel()
	w, rec := newQueueWorld(t)
	for name, do := range map[string]func(ctx context.Context, run *platform.Run) error{
		"panic":  func(context.Context, *platform.Run) error { panic("a bug") },
		"goexit": func(context.Context, *platform.Run) error { runtime.Goexit(); return nil },
		"panic with an open table": func(_ context.Context, run *platform.Run) error {
			out, err := run.CreateOutput("x.csv")
			if err == nil {
				_, err = io.WriteString(out, "a\n1\n")
			}
			panic(err)
		},
	} {
		rec.set(do)
		_, err := w.runJob(storageapi.QueueJobCreate{ConfigData: raw(`{}`)})
		var bad *storageapi.QueueJobError
		if !errors.As(err, &bad) || bad.Job.Status != "error" || strings.Contains(err.Error(), "a bug") || !strings.Contains(err.Error(), "exception") {
			t.Errorf("%s: got %v, want a failed job with an exception and no cause", name, err)
			continue
		}
		if got, want := w.log(&bad.Job), []string{"info: Running component", "error: Component failed"}; !slices.Equal(got, want) {
			t.Errorf("%s: log %q, want %q", name, got, want)
		}
	}
	rec.set(nil)
	must(w.runJob(storageapi.QueueJobCreate{ConfigData: raw(`{}`)}))(t)
}

// A program that ignores the end of its context holds up neither its job nor the jobs after it nor the server.
func TestProgramThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	release, late := make(chan struct{}), make(chan error, 2)
	begun := make(chan struct{}, 2)
	rec := &recorder{}
	w := newWorld(t, func(o *platform.Options) {
		o.Grace = time.Millisecond
		o.Components = []platform.Component{{Component: storageapi.Component{ID: component}, Runner: rec}}
	})
	ctx := t.Context()
	must(w.CreateConfiguration(ctx, component, storageapi.ConfigurationCreate{ConfigurationID: "c", Name: "c"}))(t)
	deaf := func(_ context.Context, run *platform.Run) error {
		begun <- struct{}{}
		<-release
		run.Logger.Info("too late")
		_, err := run.Client.CreateConfiguration(context.Background(), component, storageapi.ConfigurationCreate{Name: "too late"})
		if out, err := run.CreateOutput("late.csv"); err == nil {
			_, _ = io.WriteString(out, "a\n1\n")
		}
		late <- errors.Join(err, run.SetState(raw(`{"late":true}`)))
		return nil
	}
	rec.set(deaf)
	job := must(w.CreateQueueJob(ctx, storageapi.QueueJobCreate{Component: component, Config: "c"}))(t)
	<-begun
	behind := must(w.CreateQueueJob(ctx, storageapi.QueueJobCreate{Component: component, Config: "c"}))(t)
	rec.set(nil)
	must(w.KillQueueJob(ctx, job.ID))(t)
	_, err := w.WaitForQueueJob(ctx, job.ID)
	var bad *storageapi.QueueJobError
	if !errors.As(err, &bad) || bad.Job.Status != "terminated" {
		t.Fatalf("job of a program that does not end: %v", err)
	}
	must(w.WaitForQueueJob(ctx, behind.ID))(t)

	rec.set(deaf)
	again := must(w.CreateQueueJob(ctx, storageapi.QueueJobCreate{Component: component, Config: "c"}))(t)
	<-begun
	rec.set(nil)
	w.restart()
	must(w.WaitForQueueJob(ctx, again.ID))(t)
	close(release)
	for range 2 {
		if err := <-late; err == nil {
			t.Error("a call after the end of the run had an effect")
		}
	}
	if lines := w.log(&bad.Job); slices.Contains(lines, "info: too late") {
		t.Errorf("log %q", lines)
	}
	if all := must(storageapi.Collect(w.Configurations(ctx, component)))(t); len(all) != 1 || string(all[0].State) != `{}` {
		t.Errorf("configurations %+v", all)
	}
}

// A program that leaves the responses to its calls unread does not keep the server from closing.
func TestProgramLeavesAnswersOpen(t *testing.T) {
	t.Parallel()
	w, rec := newQueueWorld(t)
	ctx := t.Context()
	w.table(ctx, "in.c-a.t", nil, "a")
	check(t, importCSV(w, ctx, "in.c-a.t", storageapi.Import{}, "f", "a\n"+strings.Repeat(strings.Repeat("x", 1000)+"\n", 500)))
	var left io.ReadCloser
	rec.set(func(_ context.Context, run *platform.Run) (err error) {
		left, err = run.Client.Preview(context.Background(), "in.c-a.t", storageapi.RowQuery{Limit: 500})
		return err
	})
	must(w.runJob(storageapi.QueueJobCreate{ConfigData: raw(`{}`)}))(t)
	w.restart()
	if _, err := io.Copy(io.Discard, left); err == nil {
		t.Error("an answer goes on after the end of the run")
	}
}

// A row that fails ends the job. The rows before it have had their effect. It and the rows after it have none.
func TestRowFails(t *testing.T) {
	t.Parallel()
	w, rec := newQueueWorld(t)
	ctx := t.Context()
	must(w.CreateConfiguration(ctx, component, storageapi.ConfigurationCreate{ConfigurationID: "c", Name: "c"}))(t)
	for _, id := range []string{"a", "b", "c"} {
		must(w.CreateRow(ctx, component, "c", storageapi.RowCreate{RowID: id, Configuration: raw(`{"storage":{"output":{"default_bucket":"out.c-` + id + `"}}}`)}))(t)
	}
	rec.set(func(_ context.Context, run *platform.Run) error {
		out, err := run.CreateOutput("t.csv")
		if err == nil {
			err = csv.NewWriter(out).WriteAll([][]string{{"row"}, {run.RowID}})
		}
		if run.RowID == "b" {
			err = errors.Join(err, platform.UserError(errors.New("no luck")))
		}
		return errors.Join(err, run.SetState(raw(`{"ran":true}`)))
	})
	_, err := w.runJob(storageapi.QueueJobCreate{Config: "c"})
	var bad *storageapi.QueueJobError
	if !errors.As(err, &bad) || bad.Job.Status != "error" || bad.Job.Result.Value.Message != "row b: no luck" {
		t.Fatalf("job with a row that fails: %v", err)
	}
	if got := rec.rows(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("ran %q", got)
	}
	if out := bad.Job.Result.Value.Output.Value.Tables; len(out) != 1 || out[0].ID != "out.c-a.t" {
		t.Errorf("tables %+v", out)
	}
	if got := w.preview("out.c-a.t", storageapi.RowQuery{}); got != "\"row\"\n\"a\"\n" {
		t.Errorf("table of row a: %q", got)
	}
	_, err = w.Table(ctx, "out.c-b.t")
	if !storageapi.IsNotFound(err) {
		t.Errorf("table of row b: %v", err)
	}
	for i, r := range must(w.Configuration(ctx, component, "c"))(t).Rows {
		expectJSON(t, "state of row "+r.ID, r.State, []string{`{"ran":true}`, `{}`, `{}`}[i])
	}
}

// The log keeps every line, groups by their names, and no attribute that is too long.
func TestLogOfRuns(t *testing.T) {
	t.Parallel()
	w, rec := newQueueWorld(t)
	const lines = 300
	rec.set(func(_ context.Context, run *platform.Run) error {
		for i := range lines {
			run.Logger.Info("line", "i", i)
		}
		run.Logger.With("a", 1).WithGroup("g").With("b", errors.New("bad")).Warn("groups", "c", time.Second)
		run.Logger.Info("long", "x", strings.Repeat("x", 1<<20))
		run.Logger.Debug("not kept")
		return nil
	})
	job := must(w.runJob(storageapi.QueueJobCreate{ConfigData: raw(`{}`)}))(t)
	var n int
	for e, err := range w.Events(t.Context(), storageapi.EventQuery{RunID: job.RunID}) {
		check(t, err)
		switch e.Message {
		case "line":
			n++
			expectJSON(t, "line", e.Params, fmt.Sprintf(`{"i":%d}`, lines-n))
		case "groups":
			expectJSON(t, "groups", e.Params, `{"a":1,"g.b":"bad","g.c":"1s"}`)
		case "long":
			expectJSON(t, "long", e.Params, `{}`)
		case "not kept":
			t.Error("a line for debugging is kept")
		}
	}
	if n != lines {
		t.Errorf("got %d lines, want %d", n, lines)
	}
}
