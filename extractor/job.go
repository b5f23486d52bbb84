package extractor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/forebay/forebay/extractor/internal/datetext"
	"github.com/forebay/forebay/extractor/internal/tree"
)

// A jobRun is one run of a job over its pages: a top-level job, or a child for one item of its parent.
type jobRun struct {
	*planRun
	job *jobConfig
	// index is the position of a top-level job, depth 0.
	index, depth int
	// userData and parents are the extra columns of every record: own ones, and values of ancestors.
	userData, parents tree.Node
	extra             []tree.Member // both
	// items of the ancestors, the parent first, and placeholders are the values in their endpoints and in this one.
	items        []tree.Node
	placeholders map[string]string
	// from is where the job resumes, nil at its start.
	from *Checkpoint
	// origin identifies the job run for pages.
	origin string
	// window is the time that the run is for, follow the records that an incremental job delivers, or nil without.
	window *window
	follow *follower
	// turn, if not nil, is closed when everything before this run in order has been emitted.
	turn <-chan struct{}
}

// await returns when it is the run's turn to have effects.
func (jr *jobRun) await(ctx context.Context) error {
	if jr.turn == nil {
		return nil
	}
	select {
	case <-jr.turn:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// runTop runs a top-level job, once, or once for each of its windows. What the state knows of it changes together with the
// checkpoints that say that it is done.
func (jr *jobRun) runTop(ctx context.Context) error {
	done := Checkpoint{Job: jr.index, Done: true}
	if ic := jr.job.incremental; ic != nil {
		jr.mu.Lock()
		committed, ok := jr.state.Cursors[jr.name(ic.name)]
		jr.mu.Unlock()
		var before, pending *Cursor
		if ok {
			before = &committed
		}
		if jr.from != nil {
			pending = jr.from.Cursor
		}
		var err error
		if jr.follow, err = newFollower(ic, before, pending); err != nil {
			return err
		}
		if err := jr.run(ctx); err != nil {
			return err
		}
		cursor := *jr.follow.cursor()
		if jr.follow.forgot {
			jr.log.WarnContext(ctx, "more records lie within lookback than are remembered; the next run delivers some again", "job", jr.job.id, "endpoint", jr.plan.endpointName(jr.job.endpoint))
		}
		return jr.checkpoint(ctx, done, func(s *State) {
			s.Cursors = maps.Clone(s.Cursors)
			if s.Cursors == nil {
				s.Cursors = make(map[string]Cursor)
			}
			s.Cursors[jr.name(ic.name)] = cursor
		})
	}
	if jr.job.windows != nil {
		return jr.runWindows(ctx)
	}
	if err := jr.run(ctx); err != nil {
		return err
	}
	return jr.checkpoint(ctx, done, nil)
}

// runWindows runs the job for each window up to now, the time of the run's start.
func (jr *jobRun) runWindows(ctx context.Context) error {
	wc := jr.job.windows
	name := jr.name(wc.name)
	now := time.Unix(jr.start, 0).UTC()
	end, ok := datetext.Parse(wc.to, now)
	if !ok {
		return jr.dataError(0, fmt.Errorf("the end of the windows %q is not understood", wc.to))
	}
	jr.mu.Lock()
	from := wc.begin(jr.state.Windows[name])
	jr.mu.Unlock()
	if jr.from != nil && jr.from.Window != 0 {
		from = time.Unix(jr.from.Window, 0).UTC()
	}
	origin := jr.origin
	for {
		w, ok := wc.next(from, end)
		if !ok {
			return jr.checkpoint(ctx, Checkpoint{Job: jr.index, Done: true}, nil)
		}
		run := *jr
		run.window, run.origin = &w, fmt.Sprintf("%s@%d", origin, w.from.Unix())
		jr.log.InfoContext(ctx, "window", "job", jr.job.id, "endpoint", jr.plan.endpointName(jr.job.endpoint), "from", w.from, "to", w.to)
		if err := run.run(ctx); err != nil {
			return err
		}
		if jr.preview.enough(jr.job) {
			return nil
		}
		jr.from, from = nil, w.to
		err := jr.checkpoint(ctx, Checkpoint{Job: jr.index, Window: w.to.Unix()}, func(s *State) {
			s.Windows = maps.Clone(s.Windows)
			if s.Windows == nil {
				s.Windows = make(map[string]int64)
			}
			s.Windows[name] = max(s.Windows[name], w.to.Unix())
		})
		if err != nil {
			return err
		}
	}
}

// jobScope returns the values that the parameters of the job can refer to.
func (jr *jobRun) jobScope() *scope {
	s := jr.scope()
	if jr.follow != nil {
		s.values[familyIncremental] = map[string]tree.Node{"start": jr.follow.bottom.node()}
	}
	if jr.window != nil {
		s.values[familyWindow] = jr.window.values()
	}
	return s
}

func (jr *jobRun) run(ctx context.Context) error {
	if !jr.preview.begin(jr.job) {
		return nil
	}
	extra := jr.userData
	for _, m := range jr.parents.Members() {
		extra = extra.With(m.Key, m.Value)
	}
	jr.extra = extra.Members()
	params, err := jr.job.params.eval(jr.jobScope())
	if err != nil {
		return err
	}
	base := apiCall{
		endpoint: jr.endpoint(), method: jr.job.method, params: params, headers: jr.job.headers, home: jr.plan.home(jr.job.endpoint),
	}
	sc, conditions, delimiter := jr.plan.pagination.choose(jr.job)
	base.delimiter = delimiter
	st := &stopper{configs: conditions, Started: time.Now()}
	last, made := "", new(requestsMade)
	unsaved := false
	if jr.from != nil && jr.from.Pages > 0 && sc != nil {
		st.Pages, st.Items, st.Volume = jr.from.Pages, jr.from.Items, jr.from.Volume
		st.Started = st.Started.Add(-jr.from.Elapsed)
		last = jr.from.Last
		position, err := tree.Parse(jr.from.Position)
		if err != nil {
			return fmt.Errorf("the position of the checkpoint cannot be read: %w", err)
		}
		sc.resume(position)
	}
	for {
		number := int(st.Pages) + 1
		p, err := jr.fetch(ctx, sc, base, number, made)
		waits := time.Now()
		if turn := jr.await(ctx); turn != nil {
			return turn
		}
		st.Started = st.Started.Add(time.Since(waits)) // only the time at work counts
		if errors.Is(err, errNoPage) {
			jr.log.InfoContext(ctx, "job finished: a response matched http.answerRules", "job", jr.job.id, "endpoint", jr.plan.endpointName(jr.job.endpoint), "pages", st.Pages)
			jr.preview.ends(jr.job, "a response matched http.answerRules", true)
			return nil
		}
		if err != nil {
			if unsaved { // the next run need not ask for the pages again
				if save := jr.savePosition(context.WithoutCancel(ctx), sc, st, last); save != nil {
					return errors.Join(err, save)
				}
			}
			return err
		}
		if sc != nil {
			this := p.fingerprint(sc)
			if this == last {
				// The wording is known to users, who look for it in logs.
				jr.log.DebugContext(ctx, fmt.Sprintf("Job '%s' finished when last response matched the previous!", jr.job.id), "job", jr.job.id, "endpoint", jr.plan.endpointName(jr.job.endpoint))
				const reason = "a page equals the previous one"
				jr.preview.ends(jr.job, reason, true)
				st.told = false
				return jr.doubtEnd(ctx, st, p, reason)
			}
			if made.repeated != nil && p.items.Len() > 0 {
				return jr.dataError(number, made.repeated)
			}
			last = this
		}
		if err := jr.store(ctx, p, number); err != nil {
			return err
		}
		if more, err := jr.next(ctx, sc, base, st, p); !more || err != nil || jr.preview.enough(jr.job) {
			return err
		}
		unsaved = jr.depth == 0
		if unsaved && jr.due(jr.follow.remembered()) {
			if err := jr.savePosition(ctx, sc, st, last); err != nil {
				return err
			}
			unsaved = false
		}
	}
}

// savePosition saves the position after a page of a top-level job.
func (jr *jobRun) savePosition(ctx context.Context, sc scroller, st *stopper, last string) error {
	cp := Checkpoint{
		Iteration: jr.iteration, Job: jr.index, Pages: st.Pages, Items: st.Items, Volume: st.Volume, Elapsed: time.Since(st.Started),
		Last: last, Position: json.RawMessage(sc.position().AppendJSON(nil, tree.Plain)),
	}
	if jr.window != nil {
		cp.Window = jr.window.from.Unix()
	}
	if jr.follow != nil {
		cp.Cursor = jr.follow.cursor()
	}
	return jr.checkpoint(ctx, cp, nil)
}

func (jr *jobRun) dataError(page int, err error) error {
	return &DataError{Job: jr.job.id, Endpoint: jr.plan.endpointName(jr.job.endpoint), Page: page, Err: jr.plan.secrets.cleanError(err)}
}

// endpoint returns the endpoint with the values of the placeholders.
func (jr *jobRun) endpoint() string {
	if len(jr.placeholders) == 0 {
		return jr.job.endpoint
	}
	var pairs []string
	for key, value := range jr.placeholders {
		pairs = append(pairs, "{"+key+"}", value)
	}
	return strings.NewReplacer(pairs...).Replace(jr.job.endpoint)
}

// fetch reads the page at the scroller's position and notes its request in made.
func (jr *jobRun) fetch(ctx context.Context, sc scroller, base apiCall, number int, made *requestsMade) (*page, error) {
	call := base
	if sc != nil {
		var err error
		if call, err = sc.call(base, jr.plan); err != nil {
			return nil, jr.dataError(number, err)
		}
	}
	jr.mu.Lock()
	jr.atWork = jr.job.id
	jr.mu.Unlock()
	r, err := jr.plan.apiRequest(call)
	if err != nil {
		return nil, err
	}
	if sc != nil && sc.source() != "" {
		if err := made.add(r, jr.plan.shown(r.url), sc.source(), number); err != nil {
			return nil, jr.dataError(number, err)
		}
	}
	p, err := jr.client.fetch(ctx, r, &jr.job.format)
	if err != nil {
		return nil, err
	}
	jr.job.dataField.find(p)
	return p, nil
}

// store emits the items of a page and runs the children.
func (jr *jobRun) store(ctx context.Context, p *page, number int) error {
	if p.problem != nil {
		return jr.dataError(number, p.problem)
	}
	if p.warning != "" {
		doubt := jr.doubt
		if number > 1 { // some APIs leave an empty list out, as their last page
			doubt = jr.warn
		}
		if err := doubt(ctx, number, p.warning); err != nil {
			return err
		}
	}
	var err error
	if len(jr.job.filters) > 0 {
		p.sum = nil
		p.items, err = p.items.MapItems(func(i int, item tree.Node) (tree.Node, error) {
			if ctx.Err() != nil {
				return item, context.Cause(ctx)
			}
			item, err := jr.job.filtered(item)
			if err != nil {
				err = jr.dataError(number, fmt.Errorf("item %d: %w", i, err))
			}
			return item, err
		})
		if err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	out := &Page{
		Job: jr.job.id, DataType: jr.job.dataType, Bucket: jr.plan.output.bucket, Number: number, items: p.items, sum: p.sum, extra: jr.extra, origin: jr.origin,
		endpoint: jr.plan.endpointName(jr.job.endpoint),
	}
	if jr.follow != nil {
		if out.skip, err = jr.follow.skip(ctx, p.items); ctx.Err() != nil {
			return context.Cause(ctx)
		} else if err != nil {
			return jr.dataError(number, err)
		}
	}
	if err := jr.emit(ctx, out); err != nil {
		return err
	}
	if len(jr.job.children) == 0 {
		return context.Cause(ctx)
	}
	if err := jr.runAllChildren(ctx, out); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// emit gives a page to the receiver.
func (jr *jobRun) emit(ctx context.Context, out *Page) error {
	jr.mu.Lock()
	defer jr.mu.Unlock()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if jr.preview != nil {
		jr.preview.take(jr.job, out)
	} else if err := jr.opts.Emit(ctx, out); err != nil {
		return err
	}
	jr.pages++
	jr.records += int64(out.Len())
	jr.tell()
	return nil
}

// runAllChildren runs the children for all records of a page, in order, for each record each child, for each child all
// combinations of its placeholders.
//
// Up to parallel of them ask for their first page at the same time. Each waits with it until all before it have ended, and only then
// emits it and continues. So pages come in the same order as one after another, and no more than so many are in memory.
func (jr *jobRun) runAllChildren(ctx context.Context, out *Page) error {
	if jr.job.parallel == 1 {
		for child, err := range jr.childRuns(ctx, out) {
			if err != nil {
				return err
			}
			if err := jr.preview.failed(ctx, child.job, child.run(ctx)); err != nil {
				return err
			}
		}
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	defer wg.Wait()
	free := make(chan struct{}, jr.job.parallel)
	before := make(chan struct{})
	close(before)
	for child, err := range jr.childRuns(ctx, out) {
		if err != nil { // of this record. Earlier records are emitted first
			wg.Wait()
			return cmp.Or(context.Cause(ctx), err)
		}
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			wg.Wait()
			return context.Cause(ctx)
		}
		ended := make(chan struct{})
		child.turn, before = before, ended
		wg.Go(func() {
			defer func() { <-free }()
			err := jr.preview.failed(ctx, child.job, child.run(ctx))
			if turn := child.await(ctx); turn != nil {
				return // an earlier one has failed
			}
			if err != nil { // the next one does not get its turn
				cancel(err)
				return
			}
			close(ended)
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// childRuns yields the runs of the children for the records of a page.
func (jr *jobRun) childRuns(ctx context.Context, out *Page) iter.Seq2[*jobRun, error] {
	return func(yield func(*jobRun, error) bool) {
		i := -1
		for m := range out.items.Each() {
			if i++; out.skip[i] {
				continue
			}
			for n, child := range jr.job.children {
				origin := fmt.Sprintf("%s/%d.%d.%d", jr.origin, out.Number, i, n)
				for run, err := range jr.runsOf(ctx, child, m.Value, out.Number, origin) {
					if !yield(run, err) || err != nil {
						return
					}
				}
			}
		}
	}
}

// runsOf yields the runs of a child for an item, one for every combination of placeholder values.
func (jr *jobRun) runsOf(ctx context.Context, child *jobConfig, item tree.Node, page int, origin string) iter.Seq2[*jobRun, error] {
	return func(yield func(*jobRun, error) bool) {
		if !child.filter.matches(item) {
			return
		}
		if len(child.placeholders) == 0 && !jr.fills(child.endpoint) {
			jr.log.WarnContext(ctx, "a child job without placeholders is not run", "job", child.id, "endpoint", jr.plan.endpointName(child.endpoint))
			return
		}
		items := append([]tree.Node{item}, jr.items...)
		values := make([][]string, len(child.placeholders))
		for i, ph := range child.placeholders {
			var err error
			if values[i], err = jr.placeholderValues(child, ph, items); err != nil {
				yield(nil, jr.dataError(page, err))
				return
			}
		}
		own, err := child.userData.eval(jr.scope())
		if err != nil {
			yield(nil, err)
			return
		}
		n := -1
		for combination := range combinations(values) {
			n++
			run := &jobRun{
				planRun: jr.planRun, job: child, depth: jr.depth + 1, items: items, userData: own, parents: jr.parents,
				origin: fmt.Sprintf("%s.%d", origin, n),
			}
			run.placeholders = make(map[string]string)
			maps.Copy(run.placeholders, jr.placeholders)
			for i, ph := range child.placeholders {
				run.placeholders[ph.key] = combination[i]
				run.parents = run.parents.With(ph.column(), tree.OfString(combination[i]))
			}
			if !yield(run, nil) {
				return
			}
		}
	}
}

// fills reports whether an endpoint has a placeholder that this job or an ancestor has a value for.
func (jr *jobRun) fills(endpoint string) bool {
	for key := range jr.placeholders {
		if strings.Contains(endpoint, "{"+key+"}") {
			return true
		}
	}
	return false
}

// placeholderValues returns the texts of a placeholder, several when the value is a list.
func (jr *jobRun) placeholderValues(child *jobConfig, ph placeholder, items []tree.Node) ([]string, error) {
	if ph.level > len(items) {
		return nil, fmt.Errorf("placeholder %q of job %q: there is no ancestor at level %d", ph.key, child.id, ph.level)
	}
	n, ok := items[ph.level-1].At(ph.path, ".")
	if !ok || n.Kind() == tree.Null {
		return nil, fmt.Errorf("placeholder %q of job %q: the item of the parent has no value at %q", ph.key, child.id, ph.path)
	}
	entries := n
	if n.Kind() != tree.List {
		entries = tree.OfList(n)
	}
	var values []string
	for m := range entries.Each() {
		e := m.Value
		if ph.value != nil {
			var err error
			s := &scope{now: time.Now(), values: map[string]map[string]tree.Node{familyPlaceholder: {"value": e}}}
			if e, err = ph.value.eval(s); err != nil {
				return nil, err
			}
		}
		if e.IsCollection() {
			return nil, fmt.Errorf("placeholder %q of job %q: the value at %q is %s, not text", ph.key, child.id, ph.path, e.Kind().Phrase())
		}
		values = append(values, e.Text())
	}
	return values, nil
}

// combinations yields one value of every list. The last list varies fastest. An empty list yields nothing.
func combinations(values [][]string) iter.Seq[[]string] {
	return func(yield func([]string) bool) { combine(nil, values, yield) }
}

// combine yields the combinations that begin with chosen. It reports false when yield asks for no more.
func combine(chosen []string, rest [][]string, yield func([]string) bool) bool {
	if len(rest) == 0 {
		return yield(chosen)
	}
	for _, v := range rest[0] {
		if !combine(append(slices.Clip(chosen), v), rest[1:], yield) {
			return false
		}
	}
	return true
}
