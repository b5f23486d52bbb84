package extractor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

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
	// items of the ancestors, the parent first; placeholders are the values in their endpoints and in this one.
	items        []tree.Node
	placeholders map[string]string
	// from is where the job goes on, nil at its start.
	from *Checkpoint
}

func (jr *jobRun) run(ctx context.Context) error {
	extra := jr.userData
	for _, m := range jr.parents.Members() {
		extra = extra.With(m.Key, m.Value)
	}
	jr.extra = extra.Members()
	params, err := jr.job.params.eval(jr.scope())
	if err != nil {
		return err
	}
	base := apiCall{
		endpoint: jr.endpoint(), method: jr.job.method, params: params, headers: jr.job.headers, home: jr.plan.home(jr.job.endpoint),
	}
	sc, conditions, delimiter := jr.plan.pagination.choose(jr.job)
	base.delimiter = delimiter
	st := &stopper{configs: conditions, Started: time.Now()}
	last := ""
	if jr.from != nil && sc != nil {
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
		p, err := jr.fetch(ctx, sc, base, number)
		if errors.Is(err, errNoPage) {
			jr.log.InfoContext(ctx, "job finished: an answer matched http.answerRules", "job", jr.job.id, "pages", st.Pages)
			return nil
		}
		if err != nil {
			return err
		}
		if sc != nil {
			var this string
			this, st.scratch = fingerprintIn(st.scratch, p.response)
			if this == last {
				// The wording is known to users, who look for it in logs.
				jr.log.DebugContext(ctx, fmt.Sprintf("Job '%s' finished when last response matched the previous!", jr.job.id))
				return nil
			}
			last = this
		}
		if err := jr.store(ctx, p, number); err != nil {
			return err
		}
		if sc == nil {
			return nil
		}
		if reason := st.stop(p, time.Now()); reason != "" {
			level := slog.LevelInfo
			if st.misled {
				level = slog.LevelWarn
			}
			jr.log.Log(ctx, level, "job stopped", "job", jr.job.id, "reason", reason)
			return nil
		}
		more, err := sc.advance(base, p)
		if err != nil {
			return jr.dataError(number, err)
		}
		if !more {
			jr.log.InfoContext(ctx, "job finished: there is no next page", "job", jr.job.id, "pages", st.Pages)
			return nil
		}
		if jr.depth == 0 {
			cp := Checkpoint{
				Iteration: jr.iteration, Job: jr.index, Pages: st.Pages, Items: st.Items, Volume: st.Volume, Elapsed: time.Since(st.Started),
				Last: last, Position: json.RawMessage(sc.position().AppendJSON(nil, tree.Plain)),
			}
			if err := jr.checkpoint(ctx, cp); err != nil {
				return err
			}
		}
	}
}

func (jr *jobRun) dataError(page int, err error) error {
	return &DataError{Job: jr.job.id, Page: page, Err: jr.plan.secrets.cleanError(err)}
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

// fetch reads the page at the scroller's position.
func (jr *jobRun) fetch(ctx context.Context, sc scroller, base apiCall, number int) (*page, error) {
	call := base
	if sc != nil {
		var err error
		if call, err = sc.call(base, jr.plan); err != nil {
			return nil, jr.dataError(number, err)
		}
	}
	jr.atWork = jr.job.id
	r, err := jr.plan.apiRequest(call)
	if err != nil {
		return nil, err
	}
	response, header, err := jr.client.fetch(ctx, r, &jr.job.format)
	if err != nil {
		return nil, err
	}
	return &page{response: response, header: header}, nil
}

// store finds the items of a page, emits them and runs the children.
func (jr *jobRun) store(ctx context.Context, p *page, number int) error {
	items, warning, err := jr.job.dataField.items(p.response)
	if err != nil {
		return jr.dataError(number, err)
	}
	if warning != "" {
		jr.log.WarnContext(ctx, warning, "job", jr.job.id, "page", number)
	}
	if len(jr.job.filters) > 0 {
		items, err = items.MapItems(func(i int, item tree.Node) (tree.Node, error) {
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
	p.items = items
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	out := &Page{
		Job: jr.job.id, DataType: jr.job.dataType, Bucket: jr.plan.output.bucket, Number: number, items: items, extra: jr.extra,
	}
	if err := jr.opts.Emit(ctx, out); err != nil {
		return err
	}
	jr.pages++
	jr.records += int64(items.Len())
	jr.progress()
	if len(jr.job.children) == 0 {
		return context.Cause(ctx)
	}
	for m := range items.Each() {
		for _, child := range jr.job.children {
			if err := jr.runChildren(ctx, child, m.Value, number); err != nil {
				return err
			}
		}
	}
	return context.Cause(ctx)
}

// runChildren runs a child job for an item, once for every combination of placeholder values.
func (jr *jobRun) runChildren(ctx context.Context, child *jobConfig, item tree.Node, page int) error {
	if !child.filter.matches(item) {
		return nil
	}
	if len(child.placeholders) == 0 && !jr.fills(child.endpoint) {
		jr.log.WarnContext(ctx, "a child job without placeholders is not run", "job", child.id)
		return nil
	}
	items := append([]tree.Node{item}, jr.items...)
	values := make([][]string, len(child.placeholders))
	for i, ph := range child.placeholders {
		var err error
		if values[i], err = jr.placeholderValues(child, ph, items); err != nil {
			return jr.dataError(page, err)
		}
	}
	own, err := child.userData.eval(jr.scope())
	if err != nil {
		return err
	}
	for combination := range combinations(values) {
		run := &jobRun{
			planRun: jr.planRun, job: child, depth: jr.depth + 1, items: items, userData: own, parents: jr.parents,
		}
		run.placeholders = make(map[string]string)
		maps.Copy(run.placeholders, jr.placeholders)
		for i, ph := range child.placeholders {
			run.placeholders[ph.key] = combination[i]
			run.parents = run.parents.With(ph.column(), tree.OfString(combination[i]))
		}
		if err := run.run(ctx); err != nil {
			return err
		}
	}
	return nil
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

// placeholderValues returns the texts of a placeholder: several when the value is a list.
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

// combinations yields one value of every list; the last list varies fastest. An empty list yields nothing.
func combinations(values [][]string) iter.Seq[[]string] {
	return func(yield func([]string) bool) { combine(nil, values, yield) }
}

// combine yields the combinations that begin with what was chosen. It reports false when yield asks for no more.
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
