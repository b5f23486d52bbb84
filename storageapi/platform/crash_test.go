package platform_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay/internal/proctest"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/storageapi"
	"github.com/forebay/forebay/storageapi/platform"
)

func asError(err error, e **storageapi.Error) bool { return errors.As(err, e) }

func asJobError(err error, e **storageapi.JobError) bool { return errors.As(err, e) }

const childEnv = "PLATFORM_TEST_CHILD_DIR"

func isChild() bool { return os.Getenv(childEnv) != "" }

// runChild is the process that is killed, a server that says where it listens.
func runChild() {
	server, err := platform.Open(os.Getenv(childEnv), platform.Options{
		Token: masterToken, AnyComponent: true,
		Components: []platform.Component{{
			Component: storageapi.Component{ID: "counter"},
			Runner: platform.RunnerFunc(func(_ context.Context, run *platform.Run) error {
				return run.SetState(raw(fmt.Sprintf(`{"row":%q}`, run.RowID)))
			}),
		}, {
			Component: storageapi.Component{ID: "holder"},
			Runner:    platform.RunnerFunc(hold),
		}, {
			Component: storageapi.Component{ID: "saver"},
			Runner:    platform.RunnerFunc(save),
		}},
	})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	fmt.Println("ready", l.Addr())
	_ = http.Serve(l, server)
}

const holdEnv = "PLATFORM_TEST_CHILD_HOLD"

// hold is a component that does not come to the end of the row that the environment names.
func hold(ctx context.Context, run *platform.Run) error {
	run.Logger.Info("at work on "+run.RowID, "configuration", string(run.Configuration))
	if run.RowID == os.Getenv(holdEnv) {
		<-ctx.Done()
	}
	out, err := run.CreateOutput(run.RowID + ".csv")
	if err == nil {
		_, err = io.WriteString(out, "row\n"+run.RowID+"\n")
	}
	return errors.Join(err, run.SetState(raw(`{"ran":true}`)))
}

// child is a running server in a separate process.
type child struct {
	*proctest.Process
	client *storageapi.Client
	http   *http.Client
}

func startChild(t *testing.T, dir string, env ...string) *child {
	t.Helper()
	p := proctest.Run(t, proctest.Self(append(env, childEnv+"="+dir)...))
	line := p.Line()
	addr, ok := strings.CutPrefix(line, "ready ")
	if !ok {
		t.Fatalf("child says %q", line)
	}
	h := &http.Client{Transport: &http.Transport{}}
	client, err := storageapi.New(storageapi.Options{
		URL: "http://" + addr, Token: masterToken, HTTP: h, Retry: storageapi.RetryOptions{Attempts: 1},
	})
	check(t, err)
	return &child{p, client, h}
}

// kill ends the process at once. It may be called again.
func (c *child) kill() {
	c.Kill()
	c.http.CloseIdleConnections()
}

// startAndKill starts a server on a folder and kills it, some rounds long, each time at a moment of span after the first
// tenth of a second. prepare meets the first server, which has the bucket in.c-k and nothing else. Then work starts in group the
// load of each round, which runs until the server is gone. It returns the server of the last start, which lives on.
func startAndKill(t *testing.T, dir string, rounds int, span time.Duration, prepare func(c *child),
	work func(ctx context.Context, group *sync.WaitGroup, c *child, rng *rand.Rand),
) *child {
	t.Helper()
	rng := seedtest.Rand(t)
	if testing.Short() {
		rounds = 2
	}
	for round := range rounds {
		c := startChild(t, dir)
		if round == 0 {
			_, err := c.client.CreateBucket(t.Context(), storageapi.BucketCreate{Name: "k"})
			check(t, err)
			prepare(c)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		work(ctx, &group, c, rng)
		<-time.NewTimer(100*time.Millisecond + time.Duration(rng.Int64N(int64(span)))).C
		c.kill()
		cancel()
		group.Wait()
	}
	return startChild(t, dir)
}

// acknowledged has the changes that the server has acknowledged.
type acknowledged struct {
	mu       sync.Mutex
	versions map[string]map[int]string // by configuration, from version to content
	deleted  map[string]bool
	jobs     []storageapi.IntID
	queue    []storageapi.ID
	imports  int             // that returned a job
	asked    int             // imports that may have been taken
	ids      map[string]bool // of everything
}

func (a *acknowledged) id(t *testing.T, id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ids[id] {
		t.Errorf("id %s was given twice", id)
	}
	a.ids[id] = true
}

// Whatever was acknowledged is there after the process was killed, at any point. Nothing is there twice, and jobs
// that were accepted come to their end.
func TestKill(t *testing.T) {
	a := &acknowledged{versions: make(map[string]map[int]string), ids: make(map[string]bool), deleted: make(map[string]bool)}
	workers := 0
	c := startAndKill(t, t.TempDir(), 6, 500*time.Millisecond, func(c *child) {
		_, err := c.client.CreateTable(t.Context(), "in.c-k", storageapi.TableCreate{Name: "t", Columns: storageapi.TextColumns("a")})
		check(t, err)
		_, err = c.client.CreateConfiguration(t.Context(), "counter", storageapi.ConfigurationCreate{ConfigurationID: "c", Name: "c"})
		check(t, err)
	}, func(ctx context.Context, group *sync.WaitGroup, c *child, rng *rand.Rand) {
		a.verify(t, c)
		for range 4 {
			worker, name := rand.New(rand.NewPCG(rng.Uint64(), 0)), fmt.Sprint("w", workers)
			workers++
			group.Go(func() { a.edit(ctx, t, c, worker, name) })
		}
		group.Go(func() { a.load(ctx, t, c) })
	})
	a.verify(t, c)
	a.verifyJobs(t, c)
	t.Logf("%d configurations, %d storage jobs, %d queue jobs were acknowledged", len(a.versions), len(a.jobs), len(a.queue))
}

// edit changes one configuration until the server is gone.
func (a *acknowledged) edit(ctx context.Context, t *testing.T, c *child, rng *rand.Rand, name string) {
	conf, err := c.client.CreateConfiguration(ctx, component, storageapi.ConfigurationCreate{Name: name})
	if err != nil {
		return
	}
	a.id(t, conf.ID)
	a.mu.Lock()
	history := map[int]string{1: `{}`}
	a.versions[conf.ID] = history
	a.mu.Unlock()
	note := func(version int, content string) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if _, twice := history[version]; twice {
			t.Errorf("version %d of %s was given twice", version, conf.ID)
		}
		history[version] = content
	}
	for i := 0; ; i++ {
		switch rng.IntN(4) {
		case 0:
			row, err := c.client.CreateRow(ctx, component, conf.ID, storageapi.RowCreate{Name: "row"})
			if err != nil {
				return
			}
			a.id(t, row.ID)
		case 1:
			version := 1
			a.mu.Lock()
			for v := range history {
				version = v
				break
			}
			content := history[version]
			a.mu.Unlock()
			n, err := c.client.RollbackConfiguration(ctx, component, conf.ID, version, "")
			if err != nil {
				return
			}
			note(n, content)
		default:
			content := fmt.Sprintf(`{"i":%d,"name":%q}`, i, name)
			out, err := c.client.UpdateConfiguration(ctx, component, conf.ID, storageapi.ConfigurationUpdate{Configuration: raw(content)})
			if err != nil {
				return
			}
			note(out.Version, content)
		}
	}
}

// load imports files and runs a component until the server is gone.
func (a *acknowledged) load(ctx context.Context, t *testing.T, c *child) {
	for i := 0; ; i++ {
		f, err := c.client.Upload(ctx, storageapi.FilePrepare{Name: "f"}, storageapi.BytesSource([]byte(fmt.Sprintf("a\n%d\n", i))))
		if err != nil {
			return
		}
		a.id(t, f.ID.String())
		a.mu.Lock()
		a.asked++
		a.mu.Unlock()
		job, err := c.client.StartImport(ctx, "in.c-k.t", storageapi.Import{FileID: f.ID, Incremental: true})
		if err != nil {
			return
		}
		a.id(t, job.ID.String())
		a.mu.Lock()
		a.imports++
		a.jobs = append(a.jobs, job.ID)
		a.mu.Unlock()
		run, err := c.client.CreateQueueJob(ctx, storageapi.QueueJobCreate{Component: "counter", Config: "c"})
		if err != nil {
			return
		}
		a.id(t, string(run.ID))
		a.mu.Lock()
		a.queue = append(a.queue, run.ID)
		a.mu.Unlock()
	}
}

// verify compares the histories with the acknowledged changes.
func (a *acknowledged) verify(t *testing.T, c *child) {
	t.Helper()
	for id, history := range a.versions {
		have := make(map[int]bool)
		last := 0
		for v, err := range c.client.ConfigurationVersions(t.Context(), component, id) {
			check(t, err)
			have[v.Version] = true
			last = max(last, v.Version)
		}
		if len(have) != last {
			t.Errorf("configuration %s has %d versions, the last is %d", id, len(have), last)
		}
		for version, content := range history {
			if !have[version] {
				t.Errorf("configuration %s: acknowledged version %d is gone", id, version)
				continue
			}
			// Not every one, to be quick.
			if version%7 != 0 && version != last {
				continue
			}
			v, err := c.client.ConfigurationVersion(t.Context(), component, id, version)
			check(t, err)
			if string(v.Configuration) != content {
				t.Errorf("configuration %s, version %d: %s, want %s", id, version, v.Configuration, content)
			}
		}
	}
}

// verifyJobs waits for every job and counts their effects.
func (a *acknowledged) verifyJobs(t *testing.T, c *child) {
	t.Helper()
	for _, id := range a.jobs {
		if _, err := c.client.WaitForJob(t.Context(), id); err != nil {
			t.Errorf("acknowledged job: %v", err)
		}
	}
	for _, id := range a.queue {
		if _, err := c.client.WaitForQueueJob(t.Context(), id); err != nil {
			t.Errorf("acknowledged job of the queue: %v", err)
		}
	}
	// A job that was not acknowledged may have been taken, so all there are must have ended.
	for job, err := range c.client.Jobs(t.Context(), storageapi.JobQuery{}) {
		check(t, err)
		_, err := c.client.WaitForJob(t.Context(), job.ID)
		check(t, err)
	}
	table, err := c.client.Table(t.Context(), "in.c-k.t")
	check(t, err)
	if n := int(table.RowsCount); n < a.imports || n > a.asked {
		t.Errorf("the table has %d rows, %d imports were acknowledged and %d asked for", n, a.imports, a.asked)
	}
}

// Jobs of a killed process resume in the next one, first the running job at its current row and with the
// version of its configuration, then the jobs that waited after it. Jobs that had ended stay unchanged. The log has all.
func TestKillWithRunningJob(t *testing.T) {
	dir := t.TempDir()
	ctx := t.Context()
	c := startChild(t, dir, holdEnv+"=b")
	_, err := c.client.CreateConfiguration(ctx, "holder", storageapi.ConfigurationCreate{
		ConfigurationID: "c", Name: "c", Configuration: raw(`{"parameters":{"v":1},"storage":{"output":{"default_bucket":"out.c-k"}}}`),
	})
	check(t, err)
	for _, id := range []string{"a", "b", "c"} {
		_, err := c.client.CreateRow(ctx, "holder", "c", storageapi.RowCreate{RowID: id})
		check(t, err)
	}
	log := func(job *storageapi.QueueJob) (lines []string) {
		for e, err := range c.client.Events(ctx, storageapi.EventQuery{RunID: job.RunID}) {
			check(t, err)
			lines = append(lines, e.Message)
		}
		slices.Reverse(lines)
		return lines
	}
	run := func() *storageapi.QueueJob {
		job, err := c.client.CreateQueueJob(ctx, storageapi.QueueJobCreate{Component: "holder", Config: "c"})
		check(t, err)
		return job
	}
	running, waiting, cancelled := run(), run(), run()
	_, err = c.client.KillQueueJob(ctx, cancelled.ID)
	check(t, err)
	for tick := time.NewTicker(5 * time.Millisecond); !slices.Contains(log(running), "at work on b"); <-tick.C {
		if ctx.Err() != nil {
			t.Fatal("the job has not come to row b")
		}
	}
	// The job continues with its original configuration.
	_, err = c.client.UpdateConfiguration(ctx, "holder", "c", storageapi.ConfigurationUpdate{Configuration: raw(`{"parameters":{"v":2},"storage":{"output":{"default_bucket":"out.c-k"}}}`)})
	check(t, err)
	c.kill()

	c = startChild(t, dir, holdEnv+"=b")
	got, err := c.client.QueueJob(ctx, running.ID)
	check(t, err)
	if got.Status != "processing" || got.IsFinished || got.StartTime.IsZero() || !got.EndTime.IsZero() {
		t.Errorf("job that ran when the process was killed: %+v", got)
	}
	if got, err = c.client.QueueJob(ctx, waiting.ID); err != nil || got.Status != "waiting" {
		t.Errorf("job that waited when the process was killed: %+v, %v", got, err)
	}
	c.kill()

	c = startChild(t, dir)
	first, err := c.client.WaitForQueueJob(ctx, running.ID)
	check(t, err)
	second, err := c.client.WaitForQueueJob(ctx, waiting.ID)
	check(t, err)
	if first.Result.Value.ConfigVersion != "4" || second.Result.Value.ConfigVersion != "5" || second.StartTime.Before(first.EndTime.Time) {
		t.Errorf("versions %s and %s, the second began at %s, the first ended at %s",
			first.Result.Value.ConfigVersion, second.Result.Value.ConfigVersion, second.StartTime, first.EndTime)
	}
	if tables := first.Result.Value.Output.Value.Tables; len(tables) != 3 {
		t.Errorf("tables of all rows: %+v", tables)
	}
	if got, err = c.client.QueueJob(ctx, cancelled.ID); err != nil || got.Status != "cancelled" {
		t.Errorf("job that was cancelled: %+v, %v", got, err)
	}
	// Row b was begun in each process that reached it, but row a had ended in the first.
	lines := log(first)
	count := func(line string) (n int) {
		for _, l := range lines {
			if l == line {
				n++
			}
		}
		return n
	}
	if count("at work on a") != 1 || count("at work on b") < 2 || count("at work on c") != 1 || count("Component finished") != 3 {
		t.Errorf("log %q", lines)
	}
	for _, id := range []string{"a", "b", "c"} {
		rc, err := c.client.Preview(ctx, "out.c-k."+id, storageapi.RowQuery{})
		check(t, err)
		data, err := io.ReadAll(rc)
		if want := "\"row\"\n\"" + id + "\"\n"; errors.Join(err, rc.Close()) != nil || string(data) != want {
			t.Errorf("table of row %s: %q, want %q", id, data, want)
		}
	}
	for row, err := range c.client.Rows(ctx, "holder", "c") {
		check(t, err)
		expectJSON(t, "state of row "+row.ID, row.State, `{"ran":true}`)
	}
}
