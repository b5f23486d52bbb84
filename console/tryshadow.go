package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/catalog"
)

// maxRuns bounds the shadows that are remembered. Ended shadows make room first.
const maxRuns = 32

// shadowRuns are the shadows that the page has started, the newest of each sink, by "source/sink".
type shadowRuns struct {
	mu   sync.Mutex
	last map[string]*shadowRun
}

// shadowRun is a shadow and the user who started it.
type shadowRun struct {
	shadow *forebay.Shadow
	user   string
	// until is when it ends by itself.
	until time.Time
}

// put remembers a run in place of the last one of its sink.
func (r *shadowRuns) put(name string, run *shadowRun) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last = make(map[string]*shadowRun)
	}
	delete(r.last, name)
	for len(r.last) >= maxRuns {
		oldest := ""
		for other, run := range r.last {
			// The engine has fewer shadows at a time than maxRuns, so some have ended.
			if isDone(run.shadow) && (oldest == "" || run.until.Before(r.last[oldest].until)) {
				oldest = other
			}
		}
		if oldest == "" {
			break
		}
		delete(r.last, oldest)
	}
	r.last[name] = run
}

func (r *shadowRuns) get(name string) *shadowRun {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last[name]
}

func isDone(s *forebay.Shadow) bool {
	select {
	case <-s.Done():
		return true
	default:
		return false
	}
}

// tryShadow runs the columns as a shadow of the sink's columns. The task ends with the shadow, and the shadow with the task.
func (c *request) tryShadow() (any, error) {
	var asked struct {
		sinkDraft
		// Minutes is how long, up to 24 hours; Records ends it earlier if it is not 0; Percent is the share of the records.
		Minutes int
		Records int64
		Percent float64
	}
	if err := c.body(&asked); err != nil {
		return nil, err
	}
	source, sink, _, err := c.sinkNamed(asked.Source, asked.Sink)
	if err != nil {
		return nil, err
	}
	c.note("source", source.ID, "sink", sink.ID)
	if asked.Minutes < 1 || asked.Minutes > 24*60 || asked.Records < 0 || !(asked.Percent > 0 && asked.Percent <= 100) {
		return nil, refuse(http.StatusUnprocessableEntity, "A shadow runs for 1 to 1,440 minutes, over more than 0 up to 100 percent of the records.")
	}
	columns := columnsOf(asked.Columns)
	if _, err := c.tryCompile(source.ID, sink.ID, columns); err != nil {
		return nil, refuseColumns(err)
	}
	sink.Table.Columns = columns
	opts := forebay.ShadowOptions{For: time.Duration(asked.Minutes) * time.Minute, Records: asked.Records, Sample: asked.Percent / 100}
	shadow, err := c.eng.Sink(source.ID, sink.ID).Shadow(c.ctx, sink, opts)
	if err != nil {
		return nil, refuseShadow(err)
	}
	name := source.ID + "/" + sink.ID
	run := &shadowRun{shadow: shadow, user: c.who.user, until: time.Now().Add(opts.For)}
	_, err = c.startTask(shadowTask, "Shadow of "+name, func(ctx context.Context, progress func(string)) error {
		defer shadow.Close()
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			r := shadow.Report()
			progress(fmt.Sprintf("%s compared, %s different", grouped(r.Compared), grouped(r.Compared-r.Equal-r.Neither)))
			select {
			case <-shadow.Done():
				return nil
			case <-ctx.Done():
				return ctx.Err()
			case <-tick.C:
			}
		}
	})
	if err != nil {
		shadow.Close()
		return nil, err
	}
	c.try.runs.put(name, run)
	return reportOf(run), nil
}

// refuseShadow maps the errors of [forebay.SinkHandle.Shadow].
func refuseShadow(err error) error {
	status := http.StatusInternalServerError
	var definition *forebay.DefinitionError
	switch {
	case errors.Is(err, forebay.ErrShadowed), errors.Is(err, forebay.ErrUnknownSink):
		status = http.StatusConflict
	case errors.Is(err, forebay.ErrTooManyShadows):
		status = http.StatusTooManyRequests
	case errors.As(err, &definition):
		status = http.StatusUnprocessableEntity
	default:
		return err
	}
	return refuse(status, "The shadow was not started: %s.", strings.TrimSuffix(err.Error(), "."))
}

func (c *request) tryStop() (any, error) {
	var asked struct{ Source, Sink string }
	if err := c.body(&asked); err != nil {
		return nil, err
	}
	c.note("source", asked.Source, "sink", asked.Sink)
	run := c.try.runs.get(asked.Source + "/" + asked.Sink)
	if run == nil {
		return nil, refuse(http.StatusNotFound, "The console has started no shadow of this sink.")
	}
	run.shadow.Close()
	return reportOf(run), nil
}

// tryReport returns {} if no shadow of the sink is known.
func (c *request) tryReport() (any, error) {
	run := c.try.runs.get(c.query.Get("source") + "/" + c.query.Get("sink"))
	if run == nil {
		return nil, nil
	}
	return reportOf(run), nil
}

// shadowReport is [forebay.ShadowReport] for the page.
type shadowReport struct {
	Runs  bool   `json:"runs"`
	User  string `json:"user"`
	Began moment `json:"began"`
	Until moment `json:"until"`
	// End is a sentence about why it has ended, empty while it runs.
	End string `json:"end"`
	// Counts cover all records. A count of records that were not compared names the reason.
	Counts []countOf `json:"counts"`
	// Compared are the records in the counts of Columns and Errors.
	Compared int64          `json:"compared"`
	Columns  []shadowColumn `json:"columns"`
	Errors   []shadowError  `json:"errors"`
	Problems []string       `json:"problems"`
	// Times are the means for one record of the two mappings, empty if none was compared.
	CurrentTime string `json:"currentTime"`
	ChangedTime string `json:"changedTime"`
}

// countOf is a number with its name. Bad marks a reason against the change.
type countOf struct {
	Name string `json:"name"`
	N    cell   `json:"n"`
	Bad  bool   `json:"bad,omitempty"`
}

type shadowColumn struct {
	Name string `json:"name"`
	// What is "new", "missing" or "generated". It is empty for a column of both mappings.
	What      string          `json:"what"`
	Different int64           `json:"different"`
	Examples  []shadowExample `json:"examples"`
}

type shadowExample struct {
	At moment `json:"at"`
	// Current and Changed are nil for NULL.
	Current *string `json:"current"`
	Changed *string `json:"changed"`
}

type shadowError struct {
	// Changed is set if the changed columns reject the records, else the current ones do.
	Changed bool   `json:"changed"`
	Reason  string `json:"reason"`
	Column  string `json:"column"`
	Records int64  `json:"records"`
	Message string `json:"message"`
}

func reportOf(run *shadowRun) shadowReport {
	r := run.shadow.Report()
	out := shadowReport{
		Runs: !isDone(run.shadow), User: run.user, Began: moment(r.Began), Until: moment(run.until), Compared: r.Compared,
		Columns: []shadowColumn{}, Errors: []shadowError{}, Problems: []string{},
	}
	if !r.Ended.IsZero() {
		out.Until = moment(r.Ended)
	}
	switch r.End {
	case forebay.ShadowRuns:
	case forebay.ShadowTime:
		out.End = "Its time is over."
	case forebay.ShadowRecords:
		out.End = "It has compared as many records as were asked for."
	case forebay.ShadowClosed:
		out.End = "It was stopped."
	case forebay.ShadowRedefined:
		out.End = "The sink got other columns."
	default:
		out.End = "A mapping failed: " + visible(r.Failure)
	}
	add := func(name string, n int64, bad, always bool) {
		if n > 0 || always {
			out.Counts = append(out.Counts, countOf{name, count(n), bad && n > 0})
		}
	}
	add("seen", r.Seen, false, true)
	add("compared", r.Compared, false, true)
	add("equal", r.Equal, false, true)
	add("different", r.Different, true, true)
	add("rejected by the changed columns only", r.OnlyCurrent, true, true)
	add("rejected by the current columns only", r.OnlyChanged, false, true)
	add("rejected by both", r.Neither, false, true)
	add("waiting", r.Waiting, false, false)
	add("not in the sample", r.Unsampled, false, false)
	add("left out, too many waited", r.Dropped, false, false)
	add("left out, too large", r.TooLarge, false, false)
	add("left out, no JSON form", r.Unreadable, false, false)
	for _, k := range r.Columns {
		col := shadowColumn{Name: k.Name, Different: k.Different, Examples: []shadowExample{}}
		switch {
		case k.New:
			col.What = "new"
		case k.Missing:
			col.What = "missing"
		case k.Generated:
			col.What = "generated"
		}
		for _, e := range k.Examples {
			col.Examples = append(col.Examples, shadowExample{moment(e.Received), cellText(e.Current), cellText(e.Changed)})
		}
		out.Columns = append(out.Columns, col)
	}
	for _, e := range r.Errors {
		out.Errors = append(out.Errors, shadowError{e.Changed, e.Reason, e.Column, e.Records, visible(e.Message)})
	}
	if r.OtherErrors > 0 {
		out.Errors = append(out.Errors, shadowError{Records: r.OtherErrors, Message: "of further kinds"})
	}
	for _, p := range r.Problems {
		out.Problems = append(out.Problems, visible(p.Err.Error()))
	}
	if r.Compared > 0 {
		out.CurrentTime = (r.CurrentTime / time.Duration(r.Compared)).Round(100 * time.Nanosecond).String()
		out.ChangedTime = (r.ChangedTime / time.Duration(r.Compared)).Round(100 * time.Nanosecond).String()
	}
	return out
}

func cellText(c forebay.ShadowCell) *string {
	if c.Null {
		return nil
	}
	return &c.Text
}

// saveWithin is how long a response waits for the change, which continues after that.
const saveWithin = 5 * time.Second

// saved is the response of try.save.
type saved struct {
	// State is done, running or failed; Text is a sentence.
	State    string   `json:"state"`
	Text     string   `json:"text"`
	Version  int      `json:"version"`
	Warnings []string `json:"warnings"`
}

// unseen is no version. A page that does not say which one its user has seen changes nothing.
const unseen = -1

// trySave makes the columns a new version of the sink, unless another user has made one that this user has not seen.
func (c *request) trySave() (any, error) {
	var asked struct {
		sinkDraft
		// Version is the version that the user has edited.
		Version     int
		Description string
	}
	if err := c.body(&asked); err != nil {
		return nil, err
	}
	c.note("source", asked.Source, "sink", asked.Sink, "before", asked.Version)
	cat := c.opts.Catalog
	if cat == nil {
		return nil, refuse(http.StatusConflict, "The program defines this sink itself.")
	}
	source, sink, _, err := c.sinkNamed(asked.Source, asked.Sink)
	if err != nil {
		return nil, err
	}
	columns := columnsOf(asked.Columns)
	if _, err := c.tryCompile(source.ID, sink.ID, columns); err != nil {
		return nil, refuseColumns(err)
	}
	by := catalog.By{Type: "user", TokenDesc: "console", UserName: c.who.user}
	newest := func() int {
		_, now, _ := cat.Sink(source.ID, sink.ID) // version 0 if it was deleted meanwhile
		return now.Version.Number
	}
	task, err := cat.UpdateSink(by, source.ID, sink.ID, catalog.SinkPatch{
		Columns: columns, ChangeDescription: asked.Description, Seen: cmp.Or(asked.Version, unseen),
	})
	if e, ok := errors.AsType[*catalog.Error](err); ok && e.Code == catalog.VersionChanged {
		version := newest()
		return nil, &refusal{
			http.StatusConflict, fmt.Sprintf("Version %d was saved meanwhile. Compare with it before you save.", version),
			map[string]any{"version": version},
		}
	}
	if err != nil {
		return nil, err
	}
	return c.saving(task, fmt.Sprintf("Saving %s/%s", source.ID, sink.ID), newest)
}

// saving waits for a change of the catalog, and makes it a task with a title if it takes longer than a response may. version returns the
// newest version.
func (c *request) saving(task catalog.Task, title string, version func() int) (any, error) {
	ctx, cancel := context.WithTimeout(c.ctx, saveWithin)
	defer cancel()
	task, err := task.Wait(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		_, err = c.startTask(saveTask, title, func(ctx context.Context, progress func(string)) error {
			task, err := task.Wait(ctx)
			progress(visible(task.Result))
			return err
		})
		return saved{State: "running", Text: "The target has not responded yet. The change continues; see the tasks below."}, err
	}
	if task.Status == catalog.Failed {
		return saved{State: "failed", Text: visible(task.Failure)}, nil
	}
	if err != nil {
		return nil, err
	}
	out := saved{State: "done", Text: visible(task.Result), Version: version()}
	for _, w := range task.Warnings {
		out.Warnings = append(out.Warnings, visible(w.Message))
	}
	c.note("after", out.Version)
	return out, nil
}

// unknownRecord refuses a record that is no longer in the quarantine.
func unknownRecord(err error) error {
	if errors.Is(err, buffer.ErrUnknownRejected) {
		return refuse(http.StatusNotFound, "The record is no longer in the quarantine.")
	}
	return err
}
