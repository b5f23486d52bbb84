package platform

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/storageapi"
)

// A server that stops between the imports of a component and the end of its row imports nothing twice, and does not run
// the program again, whose rows are on disk.
func TestImportOnceOverRestart(t *testing.T) {
	var runs atomic.Int64
	opts := Options{Token: "secret-of-the-test", Components: []Component{{Component: storageapi.Component{ID: "writer"}, Runner: RunnerFunc(func(ctx context.Context, run *Run) error {
		n := runs.Add(1)
		for _, name := range []string{"a", "b", "new"} {
			w, err := run.CreateOutputTable(name, OutputTable{Destination: "in.c-x." + name, Incremental: true})
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(w, "run\n%d\n", n); err != nil {
				return err
			}
		}
		return run.SetState([]byte(fmt.Sprintf(`{"run":%d}`, n)))
	})}}}
	dir := t.TempDir()
	s, err := Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	var current atomic.Pointer[Server]
	current.Store(s)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { current.Load().ServeHTTP(w, r) }))
	t.Cleanup(func() {
		web.Close()
		if err := current.Load().Close(); err != nil {
			t.Error(err)
		}
	})
	c, err := storageapi.New(storageapi.Options{URL: web.URL, QueueURL: web.URL, Token: opts.Token, HTTP: web.Client()})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err = c.CreateBucket(ctx, storageapi.BucketCreate{Stage: "in", Name: "x"})
	must(err)
	for _, name := range []string{"a", "b"} {
		_, err := c.CreateTable(ctx, "in.c-x", storageapi.TableCreate{Name: name, Columns: storageapi.TextColumns("run")})
		must(err)
	}
	_, err = c.CreateConfiguration(ctx, "writer", storageapi.ConfigurationCreate{ConfigurationID: "c", Name: "c"})
	must(err)

	// The import into b comes to its end and no further.
	release := s.store.locks.Hold(tableLock(s.defaultBranch.key(), "in.c-x.b"))
	job, err := c.CreateQueueJob(ctx, storageapi.QueueJobCreate{Component: "writer", Config: "c"})
	must(err)
	imports := func(table string) (n int) {
		for job, err := range c.Jobs(ctx, storageapi.JobQuery{}) {
			must(err)
			if job.TableID != nil && *job.TableID == table && job.OperationName == "tableImport" {
				n++
			}
		}
		return n
	}
	for tick := time.NewTicker(5 * time.Millisecond); imports("in.c-x.b") == 0; <-tick.C {
		must(ctx.Err())
	}
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	<-s.queue.ctx.Done()
	release()
	must(<-closed)
	if s, err = Open(dir, opts); err != nil {
		t.Fatal(err)
	}
	current.Store(s)

	done, err := c.WaitForQueueJob(ctx, job.ID)
	must(err)
	if tables := done.Result.Value.Output.Value.Tables; len(tables) != 3 {
		t.Errorf("the job has written %+v, want three tables", tables)
	}
	for _, name := range []string{"a", "b", "new"} {
		table, err := c.Table(ctx, "in.c-x."+name)
		must(err)
		if table.RowsCount != 1 {
			t.Errorf("table %s has %d rows, want 1", name, table.RowsCount)
		}
	}
	if n := imports("in.c-x.a"); n != 1 || runs.Load() != 1 {
		t.Errorf("got %d imports into a, the program ran %d times, want 1 of each", n, runs.Load())
	}
	conf, err := c.Configuration(ctx, "writer", "c")
	must(err)
	if string(conf.State) != `{"run":1}` {
		t.Errorf("state %s", conf.State)
	}
	id, err := strconv.ParseInt(string(job.ID), 10, 64)
	must(err)
	record, err := s.queue.update(id, func(*txn, *queueRecord) error { return nil })
	must(err)
	if record.Written != nil {
		t.Errorf("the record still has %+v", record.Written)
	}
}
