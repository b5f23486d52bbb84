package extractor

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/forebay/forebay/extractor/internal/flatten"
)

// A Sample is the first records of a job.
type Sample struct {
	// Job is the id of the job, Endpoint its endpoint in the configuration without a password, DataType the name of its table.
	Job, Endpoint, DataType string
	// Depth is 0 for the jobs of the configuration, 1 for their children and so on.
	Depth int
	// Records are the first ones. A child has the records for the first records of its parent.
	Records []Record
	// End says when the job ends, such as: there is no link at "next_page" in the response. Ended is true if that is the case already.
	End   string
	Ended bool
	// Doubts say that the job may miss records because it ends although the response says that there is more, or a field of the configuration is
	// missing.
	Doubts []string
	// Err is why the job ended early, nil when it did not.
	Err error
}

// Columns returns the names of all fields in the records, below objects joined by dots, in the order in which they appear.
func (s *Sample) Columns() []string {
	var names []string
	for _, c := range s.fields() {
		names = append(names, c.path)
	}
	return names
}

// Rows returns a row of texts for each record, with the fields of [Sample.Columns], lists as JSON. A missing field is empty.
func (s *Sample) Rows() [][]string {
	fields := s.fields()
	rows := make([][]string, len(s.Records))
	for i, rec := range s.Records {
		rows[i] = make([]string, len(fields))
		record := rec.row()
		for j, f := range fields {
			if n, ok := f.in(record); ok {
				rows[i][j] = cellText(n)
			}
		}
	}
	return rows
}

// Preview asks for the first records of each job, at most so many of each, and returns them by job in the order of the configuration, each
// before its children. It takes one page of a job, and as many more as it needs. A job that fails has its error in its sample, and the
// others are asked all the same.
//
// The state says where incremental jobs begin. It does not change. Options.Emit and Progress are not called. Checkpoint is called with the
// given state when an OAuth server has replaced a refresh token, and only then. Without Checkpoint, a configuration with a refresh token is refused,
// because the server may replace the token, and the new one would be lost. The error is about that, the options or ctx.
func Preview(ctx context.Context, cfg *Config, state State, records int, opts Options) ([]Sample, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	given := state
	state.Checkpoint = nil
	if opts.Checkpoint == nil && cfg.UsesRefreshToken() {
		return nil, errTokenLost
	}
	pv := &preview{most: max(records, 1), counts: make(map[*jobConfig]int), runs: make(map[*jobConfig]int), errs: make(map[*jobConfig]error), ended: make(map[*jobConfig]Sample)}
	opts.Progress = nil
	save := opts.withDefaults().Checkpoint
	tokens := len(state.Tokens)
	opts.Checkpoint = func(ctx context.Context, s State) error {
		if len(s.Tokens) == tokens && sameTokens(s.Tokens, given.Tokens) {
			return nil
		}
		tokens, given.Tokens = len(s.Tokens), s.Tokens
		return save(ctx, given)
	}
	_, err := run(ctx, cfg, state, opts, pv)
	if err != nil {
		return nil, err
	}
	var samples []Sample
	var walk func(pl *plan, jobs []*jobConfig, depth int)
	walk = func(pl *plan, jobs []*jobConfig, depth int) {
		for _, j := range jobs {
			s := pv.ended[j]
			s.Job, s.Endpoint, s.DataType, s.Depth, s.Records, s.Err = j.id, pl.endpointName(j.endpoint), j.dataType, depth, pv.records[j], pv.errs[j]
			samples = append(samples, s)
			walk(pl, j.children, depth+1)
		}
	}
	for _, pl := range cfg.plans {
		walk(pl, pl.jobs, 0)
	}
	return samples, nil
}

func sameTokens(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return true
}

// Check logs in and asks for the first page of each job. The error joins the errors of the jobs; [ExitStatus] knows it. [Preview] also says
// what ends each job, and whether records may be missing.
func Check(ctx context.Context, cfg *Config, state State, opts Options) error {
	samples, err := Preview(ctx, cfg, state, 1, opts)
	if err != nil {
		return err
	}
	return Failures(samples)
}

// Failures joins the errors of a preview's jobs, each error once.
func Failures(samples []Sample) error {
	var errs []error
	for _, s := range samples {
		// A login that fails is the error of all jobs.
		if s.Err != nil && !slices.ContainsFunc(errs, func(e error) bool { return e.Error() == s.Err.Error() }) {
			errs = append(errs, s.Err)
		}
	}
	return errors.Join(errs...)
}

// A preview is the special behaviour of a run for samples, or nil in other runs.
type preview struct {
	most int

	mu      sync.Mutex
	counts  map[*jobConfig]int
	runs    map[*jobConfig]int
	records map[*jobConfig][]Record
	errs    map[*jobConfig]error
	ended   map[*jobConfig]Sample // how the first run of each job ended
}

// ends notes when a job ends, and whether it does. The first run of a child that ends counts.
func (pv *preview) ends(j *jobConfig, rule string, ended bool) {
	if pv == nil {
		return
	}
	pv.mu.Lock()
	defer pv.mu.Unlock()
	if s := pv.ended[j]; !s.Ended {
		s.End, s.Ended = rule, ended
		pv.ended[j] = s
	}
}

// doubt notes that a job may miss records.
func (pv *preview) doubt(j *jobConfig, text string) {
	if pv == nil {
		return
	}
	pv.mu.Lock()
	defer pv.mu.Unlock()
	if s := pv.ended[j]; !slices.Contains(s.Doubts, text) {
		s.Doubts = append(s.Doubts, text)
		pv.ended[j] = s
	}
}

var errTokenLost = errors.New("the configuration has a refresh token, which the server may replace when it is used: save the state, so that the new token is not lost")

// begin reports whether a job may run once more. Runs without records are bounded too.
func (pv *preview) begin(j *jobConfig) bool {
	if pv == nil {
		return true
	}
	pv.mu.Lock()
	defer pv.mu.Unlock()
	pv.runs[j]++
	return pv.runs[j] <= pv.most && pv.counts[j] < pv.most && pv.errs[j] == nil
}

// take keeps the records of a page, and reports whether the job has enough.
func (pv *preview) take(j *jobConfig, p *Page) {
	pv.mu.Lock()
	defer pv.mu.Unlock()
	if pv.records == nil {
		pv.records = make(map[*jobConfig][]Record)
	}
	for rec := range p.Records() {
		if pv.counts[j] >= pv.most {
			break
		}
		pv.counts[j]++
		pv.records[j] = append(pv.records[j], rec)
	}
}

// enough reports whether a job needs no further page.
func (pv *preview) enough(j *jobConfig) bool {
	if pv == nil {
		return false
	}
	pv.mu.Lock()
	defer pv.mu.Unlock()
	return pv.counts[j] >= pv.most
}

// failed keeps the error of a job, so that other jobs continue. Errors of ctx and errors that are not the user's are returned.
func (pv *preview) failed(ctx context.Context, j *jobConfig, err error) error {
	if pv == nil || err == nil || ctx.Err() != nil || ExitStatus(err) != 1 {
		return err
	}
	pv.mu.Lock()
	defer pv.mu.Unlock()
	if pv.errs[j] == nil {
		pv.errs[j] = err
	}
	return nil
}

// safeName makes a name of a column.
func safeName(path string) string { return flatten.SafeName(path) }
