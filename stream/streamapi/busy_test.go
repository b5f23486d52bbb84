package streamapi

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/driver"
)

// gatedTarget lets checks of tables wait while it is shut.
type gatedTarget struct {
	*buffertest.Memory
	shut atomic.Bool
	gate chan struct{}
}

func (g *gatedTarget) Ensure(ctx context.Context, t driver.Table) error {
	if g.shut.Load() {
		select {
		case <-g.gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return g.Memory.Ensure(ctx, t)
}

// TestBusyOperations sends every operation that changes a source, or a sink, while a task has it. Each that makes a task
// is refused with the id of that one, and nothing of them is lost or done later.
func TestBusyOperations(t *testing.T) {
	target := &gatedTarget{Memory: buffertest.NewMemory(), gate: make(chan struct{})}
	s := newService(t, serviceOptions{engine: forebay.Options{Target: target}})
	s.done("POST", b+"/sources", webSource)
	s.done("PUT", b+"/sources/web/disable", "")
	// The sink of a disabled source has no table yet that would be checked. Enabling it waits at the gate.
	target.shut.Store(true)
	held := s.want(202, "", testToken, "PUT", b+"/sources/web/enable", "").body["taskId"].(string)
	refused := func(sinks bool, held string) {
		for _, op := range s.api.operations() {
			if op.access != admin || strings.Contains(op.path, "{sinkId}") != sinks || strings.Contains(op.path, "/statistics/") || strings.HasPrefix(op.path, rejectsPath) || strings.HasPrefix(op.path, archivePath) || strings.HasPrefix(op.path, shadowPath) || op.id == "createSink" || strings.HasPrefix(op.path, damagesPath) ||
				op.id == "rotateSecret" || // it waits for the task
				slices.Contains([]string{"retrySource", "retrySink", "retryFile", "discardFile", "splitFile", "quarantineFile", "eraseRecords"}, op.id) { // these change no definition

				continue
			}
			body := sample(&op)
			if op.id == "createSource" {
				body = `{"type":"http","name":"Web"}`
			}
			if !slices.Contains(op.codes, catalog.Busy) {
				t.Errorf("%s does not say that it may be refused", op.id)
			}
			if a := s.want(409, "stream.api.taskIsRunning", testToken, op.method, pathOf(&op, "3", "web", "events", "1", ""), body); !strings.Contains(a.text, held) {
				t.Errorf("%s: %s does not name the task", op.id, a.text)
			}
		}
	}
	refused(false, held)
	if a := s.get("/v1/tasks/" + held); a.body["status"] != "processing" || a.body["isFinished"] != false || a.body["finishedAt"] != nil || a.body["duration"] != nil || a.body["outputs"] != nil {
		t.Errorf("running task is %s", a.text)
	}
	if source := s.get(b + "/sources/web"); source.at("disabled.reason") != "API" || source.at("version.number") != 2.0 {
		t.Errorf("while the task runs the source is %s", source.text)
	}
	target.gate <- struct{}{}
	if task, err := s.ended(held); err != nil || task.Status != catalog.Succeeded {
		t.Fatalf("got %+v, %v, want no error and task.Status == %v", task, err, catalog.Succeeded)
	}
	if source := s.get(b + "/sources/web"); source.at("disabled") != nil || source.at("version.number") != 3.0 {
		t.Errorf("after the task the source is %s", source.text)
	}

	held = s.want(202, "", testToken, "PATCH", b+"/sources/web/sinks/events", `{"table":{"tableId":"in.c-web.other"}}`).body["taskId"].(string)
	refused(true, held)
	s.want(409, "stream.api.taskIsRunning", testToken, "POST", b+"/sources/web/sinks", webSink)
	target.gate <- struct{}{}
	if task, err := s.ended(held); err != nil || task.Status != catalog.Succeeded {
		t.Fatalf("got %+v, %v, want no error and task.Status == %v", task, err, catalog.Succeeded)
	}
	if sink := s.get(b + "/sources/web/sinks/events"); sink.at("table.tableId") != "in.c-web.other" || sink.at("version.number") != 2.0 {
		t.Errorf("after the task the sink is %s", sink.text)
	}
}

// TestOrderOfFiles checks the order that both lists of files have.
func TestOrderOfFiles(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 1, 2, 3, minute, 0, 0, time.UTC) }
	files := []buffer.FileStats{
		{State: buffer.FileImporting, OpenedAt: at(1), Attempt: 2, RetryReason: "away"},
		{State: buffer.FileImported, OpenedAt: at(3)},
		{State: buffer.FileWriting, OpenedAt: at(5)},
		{State: buffer.FileImported, OpenedAt: at(2)},
		{State: buffer.FileClosing, OpenedAt: at(4)},
	}
	order := func(list []fileBody) string {
		var minutes []string
		for _, f := range list {
			minutes = append(minutes, f.OpenedAt[15:16])
		}
		return strings.Join(minutes, "")
	}
	if got := order(newFiles(files, false)); got != "23451" {
		t.Errorf("files are in the order %s, want 23451", got)
	}
	if got := order(newFiles(files, true)); got != "1" {
		t.Errorf("failed files are %s, want 1", got)
	}
}
