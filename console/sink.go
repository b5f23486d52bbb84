package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/trigger"
)

// sinkPage is about one sink: "#/sink/SOURCE/SINK".
func (c *Console) sinkPage() page {
	return page{
		name: "sink", title: "Sink", hidden: true, right: Numbers, live: c.sinkView,
		endpoints: []endpoint{
			{name: "sink.flush", method: http.MethodPost, right: Changes, change: true, run: (*request).flushSink},
			{name: "sink.retry", method: http.MethodPost, right: Changes, change: true, run: (*request).retrySink},
			{name: "sink.query", method: http.MethodGet, right: Records, run: (*request).sinkQuery},
			{name: "sink.split", method: http.MethodPost, right: Changes, change: true, run: (*request).splitFile},
			{name: "sink.quarantine", method: http.MethodPost, right: Changes, change: true, run: (*request).quarantineFile},
			{name: "sink.discard", method: http.MethodPost, right: Changes, change: true, run: (*request).discardFile},
		},
	}
}

// sinkHead is the part of the page above the files.
type sinkHead struct {
	ID      string   `json:"id"`
	Found   bool     `json:"found"`
	Defined bool     `json:"defined"`
	State   string   `json:"state"`
	Why     sentence `json:"why"`
	Picture *picture `json:"picture,omitempty"`
	Ledger  sentence `json:"ledger"`
	Facts   []fact   `json:"facts"`
	// Failing is set if Retry has something to repeat.
	Failing bool     `json:"failing"`
	List    fileList `json:"list"`
	// Quarantined is the number of rejected records that are kept.
	Quarantined cell `json:"quarantined"`
}

// fact is a setting, with a note such as its default.
type fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Note  string `json:"note,omitempty"`
}

// sinkView shows the sink that the query names by "source" and "sink". Its rows are files. See listFiles.
func (c *Console) sinkView(s *sample, q url.Values) view {
	i, ok := s.find(q.Get("source"), q.Get("sink"))
	if !ok {
		return view{head: sinkHead{ID: visible(q.Get("source") + "/" + q.Get("sink"))}}
	}
	k := s.sink(i)
	head := sinkHead{ID: s.stats.Sinks[i].ID, Found: true, State: k.state().word(), Why: k.why(), Ledger: k.ledger(c.health.checked(s.stats.Sinks[i].ID))}
	drawn := k.picture()
	head.Picture = &drawn
	failing, _, _ := k.failing()
	head.Failing = failing != nil
	head.Quarantined = count(s.stats.Sinks[i].Quarantine.Records)
	var sync forebay.SyncMode
	sync, head.Defined = c.definition(s.stats.Sinks[i].Source, s.stats.Sinks[i].Sink)
	head.Facts = k.facts(sync, head.Defined, c.targetName(s.stats.Sinks[i].Table.Target))
	list, rows := k.listFiles(q)
	head.List = list
	return view{head: head, rows: rows}
}

// targetName names the target of a table. It is empty if the engine has one target. A name has no space, so no target has the name "default target".
func (c *Console) targetName(name string) string {
	if len(c.eng.Options().Targets) == 0 {
		return ""
	}
	return cmp.Or(name, "default target")
}

// find returns the position of a sink in s.stats.Sinks.
func (s *sample) find(source, sink string) (i int, ok bool) {
	for i := range s.stats.Sinks {
		if s.stats.Sinks[i].Source == source && s.stats.Sinks[i].Sink == sink {
			return i, true
		}
	}
	return 0, false
}

// definition returns what an acknowledgement of a sink means, SyncDefault for an archive, and whether the sink is defined.
func (c *Console) definition(source, sink string) (sync forebay.SyncMode, defined bool) {
	def, ok := c.eng.Source(source)
	if !ok {
		return sync, false
	}
	if sink == forebay.ArchiveSink {
		return sync, def.Archive != nil
	}
	for _, s := range def.Sinks {
		if s.ID == sink {
			return cmp.Or(s.Settings.Sync, def.Settings.Sync, forebay.SyncWait), true
		}
	}
	return sync, false
}

// ledger is the equation of the counters, by which every accepted row is somewhere. verified is the result of the last recount of the sink.
func (k sinkNow) ledger(verified sentence) sentence {
	s := &k.stats.Sinks[k.i]
	waiting := s.Local.Rows + s.Staging.Rows
	text := grouped(s.Accepted) + " accepted = " + grouped(s.Target.Rows) + " in table + " + grouped(waiting) + " waiting + " +
		grouped(s.Expired.Rows) + " expired + " + grouped(s.Discarded.Rows) + " discarded + " + grouped(s.Damaged.Rows) + " damaged + " +
		grouped(s.Poison.Rows) + " refused by the target"
	rest := s.Accepted - s.Target.Rows - waiting - s.Expired.Rows - s.Discarded.Rows - s.Damaged.Rows - s.Poison.Rows
	return said(text+" (difference "+grouped(rest), verified, ")")
}

func (k sinkNow) facts(sync forebay.SyncMode, defined bool, target string) []fact {
	s := &k.stats.Sinks[k.i]
	facts := []fact{{Name: "Table", Value: visible(cmp.Or(s.Table.ID, unknown))}}
	if n := len(s.Table.Columns); n > 0 {
		facts[0].Note = grouped(int64(n)) + verb(int64(n), " column", " columns")
		if s.Version > 1 {
			facts[0].Note += ", version " + grouped(int64(s.Version))
		}
	}
	if target != "" {
		facts = append(facts, fact{Name: "Target", Value: target})
	}
	step := func(name string, c, usual trigger.Conditions) {
		if c == (trigger.Conditions{}) {
			return
		}
		f := fact{Name: name, Value: conditions(c)}
		if c != usual {
			f.Note = "default: " + conditions(usual)
		}
		facts = append(facts, f)
	}
	step("Upload after", s.Upload, trigger.Upload().Default)
	step("Import after", s.Import, trigger.Import().Default)
	switch sync {
	case forebay.SyncWait:
		facts = append(facts, fact{Name: "Acknowledged", Value: "when the row is on disk"})
	case forebay.SyncUnsafe:
		facts = append(facts, fact{Name: "Acknowledged", Value: "when the row is in memory", Note: "default: when it is on disk"})
	}
	if !defined {
		facts = append(facts, fact{Name: "Definition", Value: "removed", Note: "waiting rows still go to the table"})
	}
	if s.Unstored > 0 {
		facts = append(facts, fact{Name: "Not stored", Value: rowsOf(s.Unstored), Note: "since the start, because the disk failed"})
	}
	for _, reason := range slices.Sorted(maps.Keys(s.Rejected)) {
		facts = append(facts, fact{Name: "Rejected: " + visible(reason), Value: count(s.Rejected[reason]).Text, Note: "since the start"})
	}
	return facts
}

func conditions(c trigger.Conditions) string {
	return coarse(c.Interval) + ", " + size(c.Size).Text + " or " + rowsOf(c.Count)
}

// fileRow has the cells state, rows, bytes, slices, opened, closed because, sentence, the number of rows if the file can be discarded, else -1,
// and the other possible decisions: "", "quarantine" or "split quarantine".
func (k sinkNow) fileRow(f *buffer.FileStats) row {
	opened := any("")
	if !f.OpenedAt.IsZero() {
		opened = moment(f.OpenedAt)
	}
	left, more := f.Level.Rows, ""
	switch {
	case !f.FinishedAt.IsZero():
		left = -1
	case f.State != buffer.FileImporting:
	case f.Refused != nil:
		more = "split quarantine"
	case f.Permanent:
		more = "quarantine"
	}
	waits := k.whyFile(f)
	if failed(f) { // the cause is above, with all files that have it
		waits = said(stepOf(f), " fails, ", attempts(f))
		if f.RetryAfter.After(k.at) {
			waits = said(waits, ", the next one in ", until{f.RetryAfter, k.at})
		}
		waits = said(waits, ".")
	}
	return row{f.ID, []any{
		string(f.State), count(f.Level.Rows), size(f.Level.StoredBytes), strconv.Itoa(f.Slices), opened, visible(f.Reason), waits, left, more,
	}}
}

// whyFile says why a file waits, or when it ended.
func (k sinkNow) whyFile(f *buffer.FileStats) sentence {
	switch {
	case !f.FinishedAt.IsZero():
		return said("Ended at ", f.FinishedAt, ".")
	case failed(f):
		return k.whyFailing(f, 1, f.Level.Rows)
	case f.RetryReason != "" && !k.words:
		return said("It has failed.", needsRecords)
	case f.RetryReason != "":
		return said(visible(f.RetryReason))
	case f.Leased:
		return said("Another node imports into the table.")
	case !f.UploadAt.IsZero():
		return said("Next upload in ", until{f.UploadAt, k.at}, ".")
	case !f.ImportAt.IsZero():
		return said("Next import in ", until{f.ImportAt, k.at}, ".")
	}
	return nil
}

// sinkQuery is the query for the table of a sink, of the columns that it has now.
func (c *request) sinkQuery() (any, error) {
	s := sample{stats: c.eng.Stats()}
	i, ok := s.find(c.query.Get("source"), c.query.Get("sink"))
	if !ok {
		return nil, forebay.ErrUnknownSink
	}
	return c.queryOf(s.stats.Sinks[i].Table), nil
}

// tableQuery is a query that shows more of a table, to copy. Both members are empty if the target has none.
type tableQuery struct {
	// Language is the program or language that Query is for.
	Language string `json:"language"`
	Query    string `json:"query"`
}

func (c *Console) queryOf(t driver.Table) (out tableQuery) {
	if q, ok := c.eng.Options().TargetNamed(t.Target).(driver.Querier); ok && t.ID != "" {
		out.Language, out.Query = q.Query(t)
	}
	return out
}

// sinkAsked is the body of the acts.
type sinkAsked struct{ Source, Sink, File string }

func (a sinkAsked) name() string { return visible(a.Source + "/" + a.Sink) }

func (c *request) sinkAsked() (a sinkAsked, err error) {
	if err = c.body(&a); err == nil {
		c.note("source", a.Source, "sink", a.Sink)
		if a.File != "" {
			c.note("file", a.File)
		}
	}
	return a, err
}

// started is the response of acts that are tasks.
type started struct {
	Task int `json:"task"`
}

// flushSink moves waiting rows to the table.
func (c *request) flushSink() (any, error) {
	asked, err := c.sinkAsked()
	if err != nil {
		return nil, err
	}
	if _, ok := c.definition(asked.Source, asked.Sink); !ok {
		return nil, refuse(http.StatusNotFound, "There is no sink %s. Waiting rows of a removed sink move by themselves.", asked.name())
	}
	eng, sampler := c.eng, &c.sampler
	id, err := c.startTask(flushTask, "Flush "+asked.name(), func(ctx context.Context, progress func(string)) error {
		done := make(chan error, 1)
		go func() { done <- eng.Flush(ctx, asked.Source, asked.Sink) }()
		tick := time.NewTicker(sampleEvery)
		defer tick.Stop()
		for {
			select {
			case err := <-done:
				if err == nil {
					progress("all rows are in the table")
				}
				return err
			case <-tick.C:
				if s := sampler.current(); s != nil {
					if i, ok := s.find(asked.Source, asked.Sink); ok {
						progress(rowsOf(s.stats.Sinks[i].Local.Rows+s.stats.Sinks[i].Staging.Rows) + " left")
					}
				}
			}
		}
	})
	return started{id}, err
}

// retrySink repeats at once the failed work of one file or of the sink.
func (c *request) retrySink() (any, error) {
	asked, err := c.sinkAsked()
	switch {
	case err != nil:
		return nil, err
	case asked.File != "":
		return nil, c.eng.Sink(asked.Source, asked.Sink).RetryFile(c.ctx, asked.File)
	}
	return nil, c.eng.Sink(asked.Source, asked.Sink).Retry(c.ctx)
}

// splitFile imports a file that is held without the rows that the target refuses.
func (c *request) splitFile() (any, error) {
	asked, err := c.sinkAsked()
	if err != nil {
		return nil, err
	}
	return nil, c.eng.Sink(asked.Source, asked.Sink).SplitFile(c.ctx, asked.File)
}

// quarantineFile moves the rows of a file that are not in its table to the quarantine.
func (c *request) quarantineFile() (any, error) {
	asked, err := c.sinkAsked()
	if err != nil {
		return nil, err
	}
	return nil, c.eng.Sink(asked.Source, asked.Sink).QuarantineFile(c.ctx, asked.File)
}

// discardFile gives up the rows of a file. The user has confirmed a number of rows. A file that has taken more since then stays.
func (c *request) discardFile() (any, error) {
	var asked struct {
		sinkAsked
		Rows int64
	}
	if err := c.body(&asked); err != nil {
		return nil, err
	}
	c.note("source", asked.Source, "sink", asked.Sink, "file", asked.File, "rows", asked.Rows)
	f, err := c.waitingFile(asked.sinkAsked)
	if err != nil {
		return nil, err
	}
	if f.Level.Rows > asked.Rows {
		return nil, refuse(http.StatusConflict, "The file has %s now. Nothing was discarded.", rowsOf(f.Level.Rows))
	}
	eng := c.eng
	id, err := c.startTask(discardTask, "Discard "+rowsOf(f.Level.Rows)+" of "+asked.name(), func(ctx context.Context, _ func(string)) error {
		err := eng.Sink(asked.Source, asked.Sink).DiscardUpTo(ctx, asked.File, asked.Rows)
		if grew, ok := errors.AsType[*buffer.FileGrewError](err); ok {
			return fmt.Errorf("the file has %s now; nothing was discarded", rowsOf(grew.Rows))
		}
		if errors.Is(err, buffer.ErrUnknownFile) {
			return errors.New("the file has ended before it could be discarded")
		}
		return err
	})
	return started{id}, err
}

// waitingFile returns a file that has not ended, as the engine knows it now.
func (c *request) waitingFile(asked sinkAsked) (buffer.FileStats, error) {
	s := sample{stats: c.eng.Stats()}
	i, ok := s.find(asked.Source, asked.Sink)
	if !ok {
		return buffer.FileStats{}, forebay.ErrUnknownSink
	}
	for _, f := range s.stats.Sinks[i].Files {
		if f.ID == asked.File && f.FinishedAt.IsZero() {
			return f, nil
		}
	}
	return buffer.FileStats{}, buffer.ErrUnknownFile
}
