package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/internal/proctest"
	"github.com/forebay/forebay/internal/seedtest"
)

// movable is a server with the Stream API and two SQLite files as targets.
type movable struct {
	*serving
	app, lake string
}

// startMovable starts the server on a folder, which may have the files of an earlier one.
func startMovable(t *testing.T, folder string) movable {
	t.Helper()
	file, m := filepath.Join(folder, "forebay.yaml"), movable{app: filepath.Join(folder, "app.db"), lake: filepath.Join(folder, "lake.db")}
	write(t, file, `
target: sqlite:`+m.app+`
targets: {lake: "sqlite:`+m.lake+`"}
dir: `+filepath.Join(folder, "data")+`
token: `+clusterToken+`
`)
	m.serving = launch(t, nil, "serve", "-config", file)
	m.awaitReady()
	return m
}

const movedSink = "/v1/branches/default/sources/web/sinks/events"

// sinkBody is a sink with the table of events. target is the member with its target.
func sinkBody(id, target string) string {
	return `{"type":"table","sinkId":"` + id + `","name":"` + id + `","table":{"type":"table","tableId":"in.c-web.events",` + target +
		`"mapping":{"columns":[{"type":"path","name":"n","path":"n","dataType":"string","required":true}]}}}`
}

// create makes the source, and returns its address when the source accepts events.
func (m movable) create(target string) string {
	m.t.Helper()
	m.done(http.MethodPost, "/v1/branches/default/sources", `{"type":"http","sourceId":"web","name":"web","sinks":[`+sinkBody("events", target)+`]}`)
	return sourceAddress(m.t, m.serving, clusterToken)
}

// done makes a change and waits until its task has succeeded.
func (m movable) done(method, path, body string) {
	m.t.Helper()
	var task struct{ TaskID, Status, Error string }
	if err := m.apiCall(method, path, body, &task); err != nil {
		m.t.Fatal(err)
	}
	eventually(m.t, "the end of a task", func() error {
		if err := m.apiCall(http.MethodGet, "/v1/tasks/"+task.TaskID, "", &task); err != nil {
			return err
		}
		if task.Status == "processing" {
			return fmt.Errorf("task %s is running", task.TaskID)
		}
		return nil
	})
	if task.Status != "success" {
		m.t.Fatalf("task %s: %s %s", task.TaskID, task.Status, task.Error)
	}
}

// ended makes a change, waits until its task has ended or the server is gone, and reports whether it has succeeded.
func (m movable) ended(method, path, body string) bool {
	var task struct{ TaskID, Status string }
	for err := m.apiCall(method, path, body, &task); ; err = m.apiCall(http.MethodGet, "/v1/tasks/"+task.TaskID, "", &task) {
		if err != nil || task.Status != "processing" {
			return err == nil && task.Status == "success"
		}
	}
}

// The Stream API moves a sink to a named target, and back. A target that does not exist is refused.
func TestAPIMovesASink(t *testing.T) {
	m := startMovable(t, t.TempDir())
	address := m.create(`"target":"lake",`)
	event := func(n int) {
		t.Helper()
		if status, text := m.post("ingest", address, fmt.Sprintf(`{"n":"%d"}`, n)); status != http.StatusOK {
			t.Fatalf("event %d: %d %s", n, status, text)
		}
	}
	event(1)
	m.done(http.MethodPatch, movedSink, `{"table":{"target":""}}`)
	event(2)
	event(3)
	if err := m.apiCall(http.MethodPatch, movedSink, `{"table":{"target":"sea"}}`, nil); err == nil || !strings.Contains(err.Error(), `must be one of [\"lake\"] or left out`) {
		t.Errorf("an unknown target: %v", err)
	}
	m.stop()
	if a, b := rowsOf(t, m.app, `"in.c-web.events"`), rowsOf(t, m.lake, `"in.c-web.events"`); a != 2 || b != 1 {
		t.Errorf("the default target has %d rows and the lake has %d, want 2 and 1\n%s", a, b, &m.logs)
	}
}

// A server is killed repeatedly while the Stream API moves a sink between two databases and a client sends. Each confirmed event is in one of the
// databases, once. An event that was not confirmed is there at most once.
func TestKillsWhileTheAPIMovesASink(t *testing.T) {
	var moved atomic.Int64
	once := func(n string, in [2]int) {
		if in[0]+in[1] > 1 {
			t.Errorf("event %s is in the databases %d and %d times", n, in[0], in[1])
		}
	}
	killWhile(t, once, func(m movable) { // the previous change may be in progress, and then the API refuses this one
		target := []string{"lake", ""}[moved.Load()%2]
		if m.apiCall(http.MethodPatch, movedSink, fmt.Sprintf(`{"table":{"target":%q}}`, target), new(any)) == nil {
			moved.Add(1)
		}
	})
	t.Logf("%d changes accepted", moved.Load())
}

// A server is killed repeatedly while the Stream API copies a table to the other database and switches to the copy, there and back. Each confirmed event is
// in one of the databases at least, and in none of them twice.
func TestKillsWhileTheAPISwitchesToACopy(t *testing.T) {
	var copied, switched atomic.Int64
	once := func(n string, in [2]int) {
		if in[0] > 1 || in[1] > 1 {
			t.Errorf("event %s is in the databases %d and %d times", n, in[0], in[1])
		}
	}
	killWhile(t, once, func(m movable) {
		var sink struct{ Table struct{ Target string } }
		if m.apiCall(http.MethodGet, movedSink, "", &sink) != nil {
			return
		}
		target := map[string]string{"": "lake", "lake": ""}[sink.Table.Target]
		// Each change waits for the end of the previous one because a copy in the target that the sink has by then would store each event twice.
		if m.ended(http.MethodPost, "/v1/branches/default/sources/web/sinks", sinkBody("copy", fmt.Sprintf(`"target":%q,`, target))) {
			copied.Add(1)
		}
		if m.ended(http.MethodPut, movedSink+"/copies/copy/switch", "") {
			switched.Add(1)
		}
	})
	t.Logf("%d copies and %d switches succeeded", copied.Load(), switched.Load())
}

// killWhile kills a server repeatedly while a client sends events and change is called, and checks that each confirmed event is in one of its two
// databases. once gets for each event in how many rows of both it is.
func killWhile(t *testing.T, once func(event string, in [2]int), change func(movable)) {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts processes")
	}
	folder, rng := t.TempDir(), seedtest.Rand(t)
	m := startMovable(t, folder)
	address := m.create("")
	var sent atomic.Int64
	var confirmed sync.Map
	for range 3 * proctest.Kills(t) {
		ctx, stop := context.WithCancel(t.Context())
		var clients sync.WaitGroup
		reached, enough := make(chan struct{}), 1+rng.IntN(80)
		clients.Go(func() {
			for i := 1; ctx.Err() == nil; i++ {
				n := sent.Add(1)
				if status, _ := m.post("ingest", address, fmt.Sprintf(`{"n":"%d"}`, n)); status == http.StatusOK {
					confirmed.Store(fmt.Sprint(n), true)
				}
				if i == enough {
					close(reached)
				}
			}
		})
		clients.Go(func() {
			for ctx.Err() == nil {
				change(m)
			}
		})
		<-reached
		select {
		case <-time.After(time.Duration(rng.Int64N(int64(30 * time.Millisecond)))):
		case <-t.Context().Done():
		}
		if err := m.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = m.cmd.Wait()
		stop()
		clients.Wait()
		http.DefaultClient.CloseIdleConnections()
		m = startMovable(t, folder)
	}
	m.stop()
	rows := map[string][2]int{}
	for i, file := range []string{m.app, m.lake} {
		list := textsOf(t, file, `SELECT n FROM "in.c-web.events"`)
		if len(list) == 0 {
			t.Errorf("%s has no rows", filepath.Base(file))
		}
		for _, n := range list {
			in := rows[n]
			in[i]++
			rows[n] = in
		}
	}
	total := 0
	confirmed.Range(func(n, _ any) bool {
		total++
		if rows[n.(string)] == [2]int{} {
			t.Errorf("event %s was confirmed and is lost", n)
		}
		return true
	})
	for n, in := range rows {
		once(n, in)
	}
	t.Logf("%d events were sent, %d confirmed", sent.Load(), total)
}

// textsOf returns the first column of a query of a SQLite file.
func textsOf(t *testing.T, file, query string) (list []string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file+"?mode=ro&_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		list = append(list, text)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}
