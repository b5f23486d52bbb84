package extractor

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/forebay/forebay/extractor/internal/tree"

	"github.com/forebay/forebay/driverkit/warnlog"
)

// Options of [Run]. The zero value works and throws the records away.
type Options struct {
	// Emit takes the records of a page, in order, one page at a time. Pages of jobs that run in parallel are mixed. When it returns nil the records are kept, and a
	// checkpoint after them may be saved. An error ends the run and is returned as it is. Default: nothing is kept.
	Emit func(ctx context.Context, p *Page) error
	// Checkpoint is called with the new state after every page of a top-level job, when its records and the records of its
	// children were emitted. A program that saves it durably, and passes it to the next Run after a crash, loses no
	// page. The page at which it crashed is emitted again, see [Page.ID]. While the cursors of incremental jobs remember more than 1024
	// records, it is not called after every page but once a second, or as often as keeps its cost at a tenth of the run. The pages
	// after the last call are then emitted again. A request that fails, or a ctx that ends, calls it first. It is also called before the first page, and when an OAuth
	// server has replaced a refresh token. An error ends the run. Emit, Checkpoint and Progress are never called at the
	// same time. Default: none.
	Checkpoint func(ctx context.Context, s State) error
	// Progress is called after every page, before the pause of every retry, and at the end of the run, even after an
	// error. It must return soon. Default: none.
	Progress func(p Progress)
	// Strict ends the run with a *DataError where it would warn that records may be missing, as when a job ends although the response says that there
	// is more, the field of limitStop is not in the response, or there is no data on the first page.
	Strict bool
	// Logger gets requests, retries and identical pages at level debug, stop rules at info, missing data at warning.
	// No secret is in it. Default: warnings and errors go to [slog.Default]; [slog.DiscardHandler] silences them.
	Logger *slog.Logger
	// Transport sends the requests. Default: a separate one with the timeouts of the configuration and the proxy of the
	// environment.
	Transport http.RoundTripper
	// PublicOnly refuses connections to loopback, private, link-local and other addresses that are not public, even
	// after redirects and with changing names, and uses no proxy. For services that run configurations of strangers. It
	// cannot be combined with Transport.
	PublicOnly bool
	// MaxResponseBytes bounds the decompressed body of one response. A longer one ends the run. A run holds the text of one
	// page and a few megabytes, and for a moment the text twice if its length was not announced. Objects with very many
	// members may take up to two times this bound in addition. More end the run. Default: 100 MiB.
	MaxResponseBytes int64
	// Spool is the file in which [RunTables] keeps the pages of a run until its tables are written. With it, and Checkpoint, a run that
	// did not succeed resumes after its last checkpoint. The file has records of the API, and is removed when the next run begins
	// from the start. It is for one run at a time. Default: RunTables begins from the start every time.
	Spool string
	// MaxRetryDelay bounds the pauses before retries. When a server asks for a longer one the request fails at once.
	// Default: 24 hours.
	MaxRetryDelay time.Duration
}

// Validate reports every breach at once.
func (o Options) Validate() error {
	var errs []error
	if o.PublicOnly && o.Transport != nil {
		errs = append(errs, errors.New("PublicOnly needs the default Transport"))
	}
	if o.MaxResponseBytes < 0 {
		errs = append(errs, errors.New("MaxResponseBytes is negative"))
	}
	if o.MaxRetryDelay < 0 {
		errs = append(errs, errors.New("MaxRetryDelay is negative"))
	}
	return errors.Join(errs...)
}

func (o Options) withDefaults() Options {
	if o.Emit == nil {
		o.Emit = func(context.Context, *Page) error { return nil }
	}
	if o.Checkpoint == nil {
		o.Checkpoint = func(context.Context, State) error { return nil }
	}
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	o.Logger = warnlog.Or(o.Logger)
	o.MaxResponseBytes = cmp.Or(o.MaxResponseBytes, 100<<20)
	o.MaxRetryDelay = cmp.Or(o.MaxRetryDelay, 24*time.Hour)
	return o
}

// Progress says how far a run is.
type Progress struct {
	// Job is the id of the job at work, "" at the end of a run that succeeded.
	Job string
	// Requests counts attempts, logins and retries included; Retries the repeated attempts.
	Requests, Retries int64
	// Pages and Records count emitted pages and records, Bytes the decompressed bodies of responses.
	Pages, Records, Bytes int64
	// Elapsed is the time since the start of the run.
	Elapsed time.Duration
}

// BytesPerSecond returns the average rate since the start.
func (p Progress) BytesPerSecond() float64 {
	if p.Elapsed <= 0 {
		return 0
	}
	return float64(p.Bytes) / p.Elapsed.Seconds()
}

// Run runs all jobs of a configuration, one after another, and returns the state for the next run. The first error
// ends it; [ExitStatus] distinguishes errors of the user from others. The state that is returned with an error has the last
// checkpoint. Another Run with it resumes there.
//
// When ctx ends, Run returns its cause as soon as the request or the callback at work does, which is at once for
// requests and pauses. Only the response to a request with a refresh token is awaited, up to 10 seconds, and a new token saved.
func Run(ctx context.Context, cfg *Config, state State, opts Options) (State, error) {
	if err := opts.Validate(); err != nil {
		return state, err
	}
	if state.Spooled > 0 {
		opts.withDefaults().Logger.WarnContext(ctx, "the pages before the checkpoint are in the spool of another run, the run begins from the start")
		state.Checkpoint, state.Spooled = nil, 0
	}
	return run(ctx, cfg, state, opts, nil)
}

// run is Run, or a run for samples.
func run(ctx context.Context, cfg *Config, state State, opts Options, pv *preview) (State, error) {
	r := &runner{preview: pv, cfg: cfg, opts: opts.withDefaults(), state: state, began: time.Now(), paces: make(map[paceConfig]*pace)}
	r.start = r.began.Unix()
	r.tokens = tokens{byID: state.Tokens, save: r.saveTokens}
	at := Checkpoint{}
	goesOn := false
	if cp := state.Checkpoint; cp != nil {
		if cp.Config == cfg.identity && cp.Iteration < len(cfg.plans) {
			at, r.start, r.id, goesOn = *cp, cp.Start, cp.Run, true
			r.opts.Logger.InfoContext(ctx, "the run continues after a checkpoint", "iteration", at.Iteration, "job", at.Job, "pages", at.Pages)
		} else {
			r.opts.Logger.WarnContext(ctx, "the checkpoint belongs to another configuration, the run begins anew")
		}
	}
	if r.id == "" {
		r.id = rand.Text()
	}
	if !goesOn {
		r.state.Checkpoint = &Checkpoint{Config: cfg.identity, Run: r.id, Start: r.start}
	}
	if !goesOn || at.Run == "" { // the ID of the run is saved before a page has it
		cp := *r.state.Checkpoint
		cp.Run = r.id
		r.state.Checkpoint = &cp
		if err := r.opts.Checkpoint(ctx, r.state); err != nil {
			return state, err
		}
	}
	for i, pl := range cfg.plans {
		if i < at.Iteration {
			continue
		}
		if err := r.runPlan(ctx, pl, i, at); err != nil {
			r.progress()
			return r.state, err
		}
		at = Checkpoint{}
	}
	r.atWork = ""
	r.progress()
	r.state.Time.PreviousStart, r.state.Checkpoint = r.start, nil
	return r.state, nil
}

// A runner is one call of Run.
type runner struct {
	cfg     *Config
	opts    Options
	began   time.Time
	start   int64 // of the first run, when this one resumes it
	id      string
	preview *preview
	traffic traffic
	tokens  tokens
	paces   map[paceConfig]*pace

	// mu guards the fields below, and the callbacks, which are called one at a time.
	mu      sync.Mutex
	state   State
	pages   int64
	records int64
	// atWork is the id of the job whose page was asked for last.
	atWork string
	// saved is when the state was saved last, saving how long that took.
	saved  time.Time
	saving time.Duration
}

func (r *runner) progress() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tell()
}

// tell is progress for callers that hold the lock.
func (r *runner) tell() {
	r.opts.Progress(Progress{
		Job: r.atWork, Requests: r.traffic.requests.Load(), Retries: r.traffic.retries.Load(), Pages: r.pages, Records: r.records,
		Bytes: r.traffic.bytes.Load(), Elapsed: time.Since(r.began),
	})
}

func (r *runner) runPlan(ctx context.Context, pl *plan, iteration int, at Checkpoint) error {
	own := *pl
	own.secrets = pl.secrets.fork()
	pl = &own
	if err := pl.evalHeaders(); err != nil {
		return err
	}
	c, closeIdle, err := newClient(pl, r.opts, &r.traffic, &r.tokens)
	if err != nil {
		return err
	}
	defer closeIdle()
	pr := &planRun{
		runner: r, plan: pl, client: c, iteration: iteration, log: redactingLogger(r.opts.Logger, pl.secrets), positions: make(map[int]Checkpoint),
	}
	if c.pace = r.paces[pl.pace]; c.pace == nil {
		c.pace = newPace(pl.pace)
		r.paces[pl.pace] = c.pace
	}
	c.log, c.retrying = pr.log, r.progress
	userData, err := pl.userData.eval(pr.scope())
	if err != nil {
		return err
	}
	for i := range at.Job {
		pr.positions[i] = Checkpoint{Done: true}
	}
	for _, cp := range append([]Checkpoint{at}, at.Others...) {
		if cp.Others = nil; cp.begun() {
			pr.positions[cp.Job] = cp
		}
	}
	if pl.parallel == 1 {
		for i := range pl.jobs {
			if err := pr.runJob(ctx, i, userData); err != nil {
				return err
			}
		}
		return nil
	}
	return pr.runParallel(ctx, userData)
}

// runParallel runs the jobs in their order, as many at the same time as the plan allows. The first error stops the others.
func (pr *planRun) runParallel(ctx context.Context, userData tree.Node) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	free := make(chan struct{}, pr.plan.parallel)
	for i := range pr.plan.jobs {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-free }()
			if err := pr.runJob(ctx, i, userData); err != nil {
				cancel(err) // the first counts
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// runJob runs a top-level job that is not done.
func (pr *planRun) runJob(ctx context.Context, i int, userData tree.Node) error {
	pr.mu.Lock()
	from, begun := pr.positions[i]
	pr.mu.Unlock()
	if from.Done {
		return nil
	}
	j := pr.plan.jobs[i]
	run := &jobRun{planRun: pr, job: j, index: i, userData: userData, origin: fmt.Sprintf("%s/%d/%d", pr.id, pr.iteration, i)}
	if begun {
		run.from = &from
	}
	if j.userData != nil {
		var err error
		if run.userData, err = j.userData.eval(pr.scope()); err != nil {
			return err
		}
	}
	return pr.preview.failed(ctx, j, run.runTop(ctx))
}

// saveTokens makes the state durable with new refresh tokens because the old ones no longer work.
func (r *runner) saveTokens(ctx context.Context, all map[string]string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.Tokens = all
	return r.opts.Checkpoint(ctx, r.state)
}

// A planRun is one iteration at work.
type planRun struct {
	*runner
	plan      *plan
	client    *client
	iteration int
	log       *slog.Logger
	// positions has a place for each job that has begun, or is done, by their place in the list. The runner's lock guards them.
	positions map[int]Checkpoint
}

// name returns the name of a position in the state. Iterations have their own.
func (pr *planRun) name(position string) string {
	if len(pr.cfg.plans) > 1 {
		return fmt.Sprintf("%d/%s", pr.iteration, position)
	}
	return position
}

// scope returns the values that params and userData can refer to.
func (pr *planRun) scope() *scope {
	return &scope{now: time.Now(), found: pr.plan.secrets, values: map[string]map[string]tree.Node{
		familyAttr: pr.plan.attrs,
		familyTime: {
			"previousStart": tree.OfInt(pr.state.Time.PreviousStart),
			"currentStart":  tree.OfInt(pr.start),
		},
	}}
}

// manyRemembered is the number of records in the cursors of a state above which the state is not saved after every page.
const manyRemembered = 1024

// due reports whether the position after a page must be saved. The state of incremental jobs grows with the records that they remember, so
// a large one is saved at intervals. Saving takes about a tenth of the time of the run, however many records there are.
func (pr *planRun) due(remembered int) bool {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	for _, c := range pr.state.Cursors {
		remembered += len(c.Seen)
	}
	for _, cp := range pr.positions {
		if cp.Cursor != nil {
			remembered += len(cp.Cursor.Seen)
		}
	}
	return remembered <= manyRemembered || time.Since(pr.saved) >= max(time.Second, 10*pr.saving)
}

// checkpoint saves the position of a top-level job. change, if not nil, changes the state together with it.
func (pr *planRun) checkpoint(ctx context.Context, cp Checkpoint, change func(*State)) error {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	began := time.Now()
	defer func() { pr.saved, pr.saving = time.Now(), time.Since(began) }()
	pr.positions[cp.Job] = cp
	first := 0
	for pr.positions[first].Done {
		first++
	}
	now, ok := pr.positions[first]
	if !ok {
		now = Checkpoint{Job: first}
	}
	for _, i := range slices.Sorted(maps.Keys(pr.positions)) {
		if i > first {
			other := pr.positions[i]
			other.Job = i
			now.Others = append(now.Others, other)
		}
	}
	now.Config, now.Run, now.Start, now.Iteration = pr.cfg.identity, pr.id, pr.start, pr.iteration
	pr.state.Checkpoint = &now
	if change != nil {
		change(&pr.state)
	}
	return pr.opts.Checkpoint(ctx, pr.state)
}
