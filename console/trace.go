package console

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/stream/requestid"
)

const (
	// traceTime bounds the search of rows, traceRows how many are shown, traceSlots how many users search at once.
	traceTime  = 2 * time.Second
	traceRows  = 10
	traceSlots = 2
	// requestWindow is how long after a request its rows are looked for, requestSinks at how many sinks, requestAge how old it may be. Other texts
	// look like ids too.
	requestWindow = time.Second
	requestSinks  = 20
	requestAge    = 365 * 24 * time.Hour
	// tracedCalls is how many calls of a trace are shown, keyCalls how many calls with a key, tracesAt how many traces of a call that is known by its time.
	tracedCalls = 20
	keyCalls    = 200
	tracesAt    = 3
	// tracedFiles is how many files are shown that may have a row, tracedSlices how many slices of each.
	tracedFiles  = 10
	tracedSlices = 20
	// traceIDLength is the number of hexadecimal digits of the id of a trace.
	traceIDLength = 32
	// maxTraced bounds the text to search for, maxCellTraced the sent part of a cell, in bytes.
	maxTraced     = 1 << 10
	maxCellTraced = 256
)

func (c *Console) tracePage() page {
	return page{name: "trace", title: "Trace", key: "e", right: Records, endpoints: []endpoint{
		{name: "trace.sources", method: http.MethodGet, right: Records, run: (*request).traceSources},
		// A POST, so that the searched text, which may be personal data, is in no address and no access log.
		{name: "trace.find", method: http.MethodPost, right: Records, run: (*request).traceFind},
	}}
}

// traced is the response of a search.
type traced struct {
	Request *tracedRequest `json:"request"` // nil if the text is no id of a request
	Calls   []tracedCall   `json:"calls"`
	Rows    []tracedRow    `json:"rows"`
	// MoreCalls is set if there may be more calls than are shown.
	MoreCalls bool `json:"moreCalls"`
	// Searched says how much was searched, Kept how long rows and calls can be found.
	Searched sentence `json:"searched"`
	Kept     sentence `json:"kept"`
}

// tracedRequest is the information in the id of a request, when it arrived, and so where the rows of that time are.
type tracedRequest struct {
	Text  sentence     `json:"text"`
	Sinks []tracedCall `json:"sinks"`
}

// tracedCall is the rows that calls with a key, or a call of a trace, have stored at one sink.
type tracedCall struct {
	Sink string `json:"sink"`
	// Quarantined is set if records are, or were, in the quarantine.
	Quarantined bool   `json:"quarantined"`
	Steps       []step `json:"steps"`
}

// tracedRow is a row that waits.
type tracedRow struct {
	Sink    string      `json:"sink"`
	Columns []string    `json:"columns"`
	Cells   []shownCell `json:"cells"`
	Steps   []step      `json:"steps"`
}

// step is a place on the way to the table, with the time of its beginning, nil if it is not reached or not known.
type step struct {
	Name string   `json:"name"`
	At   *moment  `json:"at"`
	Text sentence `json:"text"`
}

func stepAt(name string, at time.Time, parts ...any) step {
	s := step{Name: name, Text: said(parts...)}
	if !at.IsZero() {
		m := moment(at)
		s.At = &m
	}
	return s
}

// traceSources lists the sources whose names have a part, maxNames at most. One that was removed may have rows that wait.
func (c *request) traceSources() (any, error) {
	s := sample{stats: c.eng.Stats()}
	part := strings.ToLower(c.query.Get("filter"))
	var names []string
	for i := range s.stats.Sinks {
		name := s.stats.Sinks[i].Source
		if strings.Contains(strings.ToLower(name), part) && !slices.Contains(names, name) && len(names) < maxNames {
			names = append(names, name)
		}
	}
	return map[string]any{"sources": names}, nil
}

// traceFind finds requests by their id, calls by their key, and rows that wait by a value.
func (c *request) traceFind() (any, error) {
	var asked struct{ Source, Text string }
	if err := c.body(&asked); err != nil {
		return nil, err
	}
	text := strings.TrimSpace(asked.Text)
	switch {
	case text == "":
		return nil, refuse(http.StatusBadRequest, "Enter a request id, a trace id, an Idempotency-Key or a value.")
	case len(text) > maxTraced:
		return nil, refuse(http.StatusBadRequest, "The text has more than 1 KiB.")
	}
	select {
	case c.tracing <- struct{}{}:
		defer func() { <-c.tracing }()
	default:
		return nil, refuse(http.StatusServiceUnavailable, "%d searches run already. Try again.", traceSlots)
	}
	s := &sample{at: time.Now(), words: true, stats: c.eng.Stats()}
	var sinks []int
	for i := range s.stats.Sinks {
		if asked.Source == "" || s.stats.Sinks[i].Source == asked.Source {
			sinks = append(sinks, i)
		}
	}
	if asked.Source != "" && len(sinks) == 0 {
		return nil, refuse(http.StatusNotFound, "There is no source %s.", visible(asked.Source))
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.traceWithin)
	defer cancel()
	out := traced{Request: c.traceRequest(s, sinks, text), Calls: []tracedCall{}, Rows: []tracedRow{}}
	c.traceTrace(s, sinks, text, &out)
	if err := c.traceCalls(ctx, s, sinks, text, &out); err != nil {
		return nil, err
	}
	if err := c.traceRows(ctx, s, sinks, text, &out); err != nil {
		return nil, err
	}
	out.Kept = said("Keys are kept for ", hours(s.stats.KeyRetention), ". A value is found while its row waits; then look for it in the table. ",
		"Of the files that have ended, the last 30 of each sink are known.")
	if c.eng.Options().Tracer != nil {
		out.Kept = said(out.Kept, " Of traces, the last 256 sampled calls of each sink are known since the start.")
	}
	return out, nil
}

// hours is a retention, which usually is whole hours.
func hours(d time.Duration) string {
	if d%time.Hour == 0 {
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return d.String()
}

// traceTrace adds the sampled calls of a trace, the newest first, if the text is the id of one.
func (c *request) traceTrace(s *sample, sinks []int, text string, out *traced) {
	id := strings.ToLower(text)
	if len(id) != traceIDLength || c.eng.Options().Tracer == nil {
		return
	}
	for _, i := range sinks {
		k := s.sink(i)
		calls := c.eng.Sink(s.stats.Sinks[i].Source, s.stats.Sinks[i].Sink).TracedCalls()
		for _, call := range slices.Backward(calls) {
			if call.Span.TraceID().String() != id {
				continue
			}
			if out.MoreCalls = len(out.Calls) == tracedCalls; out.MoreCalls {
				return
			}
			t := tracedCall{Sink: s.stats.Sinks[i].ID}
			t.Steps = append(t.Steps, stepAt("Accepted", call.At, "Span ", call.Span.SpanID().String(), " of the trace."))
			t.Steps = append(t.Steps, c.placesOrEnd(k, call.At)...)
			out.Calls = append(out.Calls, t)
		}
	}
}

// tracesOf says which sampled calls put rows into a sink at a time.
func (c *request) tracesOf(source, sink string, at time.Time) string {
	var ids []string
	for _, call := range c.eng.Sink(source, sink).TracedCalls() {
		if id := call.Span.TraceID().String(); call.At.Equal(at) && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	switch n := len(ids); {
	case n == 0:
		return ""
	case n == 1:
		return " Trace " + ids[0] + "."
	case n > tracesAt:
		return fmt.Sprintf(" %d traces put rows into the sink in that millisecond.", n)
	}
	return " The traces of that millisecond are " + strings.Join(ids, ", ") + "."
}

// traceCalls adds the rows that calls with a key have stored.
func (c *request) traceCalls(ctx context.Context, s *sample, sinks []int, text string, out *traced) error {
	before := ""
	for n, i := range sinks {
		source := s.stats.Sinks[i].Source
		if n > 0 && source == before {
			continue
		}
		before = source
		def, ok := c.eng.Source(source)
		if !ok {
			def.ID = source
		}
		for _, key := range forebay.CallKeys(text) {
			receipts, err := c.eng.Receipts(ctx, source, key)
			if err != nil {
				return err
			}
			for _, r := range receipts {
				if len(out.Calls) >= keyCalls {
					out.MoreCalls = true
					return nil
				}
				if i, ok := s.find(source, r.Sink); ok {
					out.Calls = append(out.Calls, c.tracedCall(s.sink(i), r))
				}
			}
		}
	}
	return nil
}

// tracedCall says where the rows of a receipt are.
func (c *request) tracedCall(k sinkNow, r forebay.Receipt) tracedCall {
	sink := &k.stats.Sinks[k.i]
	t := tracedCall{Sink: sink.ID, Quarantined: r.Quarantined > 0}
	what := rowsOf(int64(r.Rows))
	if r.Quarantined > 0 {
		what += ", and " + count(int64(r.Quarantined)).Text + verb(int64(r.Quarantined), " record", " records") + " for the quarantine"
	}
	t.Steps = append(t.Steps, stepAt("Accepted", r.At, what, ".", c.tracesOf(sink.Source, sink.Sink, r.At)))
	if r.Rows == 0 {
		return t
	}
	t.Steps = append(t.Steps, c.placesOrEnd(k, r.At)...)
	return t
}

// placesOrEnd are the places of rows that were accepted at a time. Rows without a place have left it.
func (c *request) placesOrEnd(k sinkNow, at time.Time) []step {
	if steps := c.placesOf(k, at, at); len(steps) > 0 {
		return steps
	}
	return []step{k.endedStep()}
}

// placesOf are the slices and files that took rows between two times, first and last included, as far as they are still listed.
func (c *request) placesOf(k sinkNow, first, last time.Time) (steps []step) {
	sink := &k.stats.Sinks[k.i]
	has := func(l buffer.Level) bool { return l.Rows > 0 && !last.Before(l.FirstAt) && !first.After(l.LastAt) }
	var files []*buffer.FileStats
	for i := range sink.Files {
		if f := &sink.Files[i]; has(f.Level) {
			files = append(files, f)
		}
	}
	if len(files) == 0 {
		return nil
	}
	all := c.eng.Sink(sink.Source, sink.Sink).Slices()
	for i, f := range files[:min(len(files), tracedFiles)] {
		if len(files) > 1 {
			steps = append(steps, stepAt(fmt.Sprintf("Either (%d of %d)", i+1, len(files)), time.Time{},
				"More than one file took rows at that time. The rows are in one of them."))
		}
		more := int64(-tracedSlices)
		for _, sl := range all {
			if sl.FileID != f.ID || !has(sl.Level) {
				continue
			}
			if more++; more <= 0 {
				steps = append(steps, sliceStep(sl))
			}
		}
		if more > 0 {
			steps = append(steps, stepAt("Slice", time.Time{}, grouped(more), verb(more, " more slice", " more slices"), " of this file took rows at that time."))
		}
		steps = append(steps, k.fileSteps(f)...)
	}
	if more := int64(len(files) - tracedFiles); more > 0 {
		steps = append(steps, stepAt("Or", time.Time{}, grouped(more), verb(more, " more file", " more files"), " took rows at that time. The page of the sink lists all files."))
	}
	return steps
}

// traceRequest says where the rows are that were accepted when a request came, if the text is the id of a request. The id is stored nowhere, so
// whether the request has stored anything is not known.
func (c *request) traceRequest(s *sample, sinks []int, text string) *tracedRequest {
	at, ok := requestid.Time(text)
	if !ok || at.After(s.at.Add(time.Minute)) || s.at.Sub(at) > requestAge {
		return nil
	}
	out := &tracedRequest{Sinks: []tracedCall{}}
	more := false
	for _, i := range sinks {
		steps := c.placesOf(s.sink(i), at, at.Add(requestWindow))
		if more = len(steps) > 0 && len(out.Sinks) == requestSinks; more {
			break
		}
		if len(steps) > 0 {
			out.Sinks = append(out.Sinks, tracedCall{Sink: s.stats.Sinks[i].ID, Steps: steps})
		}
	}
	out.Text = said("A request with this id came at ", at, ". ")
	switch {
	case len(out.Sinks) == 0:
		out.Text = said(out.Text, "No file that is still listed took rows in the second after it.")
	case more:
		out.Text = said(out.Text, "If it got 200, its rows are among the rows that sinks accepted in the second after it. These are the first ",
			grouped(requestSinks), " sinks. Name the source.")
	default:
		out.Text = said(out.Text, "If it got 200, its rows are among the rows that these sinks accepted in the second after it.")
	}
	return out
}

// endedStep is about rows whose file is no longer listed.
func (k sinkNow) endedStep() step {
	s := &k.stats.Sinks[k.i]
	given := s.Expired.Rows + s.Discarded.Rows + s.Damaged.Rows + s.Poison.Rows
	if given == 0 {
		return stepAt("Table", time.Time{}, "In the table: their file is no longer listed, and this sink has never given up a row.")
	}
	return stepAt("Table", time.Time{}, "Their file is no longer listed. They are in the table unless they are among the ", rowsOf(given),
		" that this sink has given up.")
}

func sliceStep(sl buffer.SliceStats) step {
	where := map[buffer.SliceState]string{
		buffer.SliceWriting: "It accepts rows, on the local disk.", buffer.SliceUploading: "On the local disk, to be uploaded.",
		buffer.SliceUploaded: "In staging.", buffer.SliceImported: "Its file has ended, so it is about to be deleted.",
	}[sl.State]
	return stepAt("Slice", sl.OpenedAt, sl.ID, ", ", rowsOf(sl.Level.Rows), ". ", where)
}

// fileSteps are a file and its table.
func (k sinkNow) fileSteps(f *buffer.FileStats) []step {
	name, table := visible(f.ID), visible(cmp.Or(f.Table.ID, unknown))
	file := stepAt("File", f.OpenedAt, name, ", ", rowsOf(f.Level.Rows), ".")
	if !f.ClosedAt.IsZero() {
		file.Text = said(file.Text, " Closed at ", f.ClosedAt, " because of: ", visible(f.Reason), ".")
	}
	var end step
	switch f.State {
	case buffer.FileImported:
		end = stepAt("Table", f.FinishedAt, "In the table ", table, ".")
		if f.Poison > 0 {
			end.Text = said(end.Text, " It refused ", rowsOf(f.Poison), " of the file, which went to the quarantine.")
		}
	case buffer.FileExpired:
		end = stepAt("Given up", f.FinishedAt, "The file could not be imported within the retention time and has expired.")
	case buffer.FileDiscarded:
		end = stepAt("Given up", f.FinishedAt, "The file was discarded.")
	default:
		end = stepAt("Table", time.Time{}, "Not in the table ", table, " yet. ", k.whyFile(f))
	}
	return []step{file, end}
}

// traceRows adds rows that wait and have the text in a cell, of the newest slices first.
func (c *request) traceRows(ctx context.Context, s *sample, sinks []int, text string, out *traced) error {
	type part struct {
		buffer.SliceStats
		k    sinkNow
		file *buffer.FileStats
	}
	var parts []part
	for _, i := range sinks {
		k := &s.stats.Sinks[i]
		files := map[string]*buffer.FileStats{}
		for j := range k.Files {
			files[k.Files[j].ID] = &k.Files[j]
		}
		for _, sl := range c.eng.Sink(k.Source, k.Sink).Slices() {
			if f := files[sl.FileID]; f != nil && sl.State != buffer.SliceImported {
				parts = append(parts, part{sl, s.sink(i), f})
			}
		}
	}
	slices.SortStableFunc(parts, func(a, b part) int { return b.OpenedAt.Compare(a.OpenedAt) })
	var read int64
	var unread []string // why slices could not be read
	secret := map[string][]string{}
	wanted := []byte(text)
	enough := errors.New("enough rows")
	for n, p := range parts {
		hidden, ok := secret[p.file.Table.ID]
		if !ok {
			hidden = c.secretColumns(p.file.Table.ID)
			secret[p.file.Table.ID] = hidden
		}
		columns := p.file.Table.Columns
		isSecret := make([]bool, len(columns))
		for i := range columns {
			isSecret[i] = slices.ContainsFunc(hidden, func(name string) bool { return strings.EqualFold(name, columns[i].Name) })
		}
		err := c.eng.Buffer().ReadSlice(ctx, p.ID, func(cells [][]byte) error {
			read++
			found := false
			for i, cell := range cells {
				found = found || i < len(isSecret) && !isSecret[i] && bytes.Contains(cell, wanted)
			}
			if !found {
				return nil
			}
			if len(out.Rows) == traceRows {
				return enough
			}
			row := tracedRow{Sink: p.SinkID, Cells: make([]shownCell, len(cells))}
			for i, cell := range cells {
				if cell == nil {
					continue
				}
				value := "***"
				if i >= len(isSecret) || !isSecret[i] {
					value, row.Cells[i].Cut = headOf(string(cell), maxCellTraced)
				}
				row.Cells[i].Text = &value
			}
			for _, col := range columns {
				row.Columns = append(row.Columns, col.Name)
			}
			row.Steps = append([]step{
				stepAt("Accepted", p.Level.FirstAt, "Between this time and ", p.Level.LastAt, ", as all rows of its slice."), sliceStep(p.SliceStats),
			}, p.k.fileSteps(p.file)...)
			out.Rows = append(out.Rows, row)
			return nil
		})
		switch {
		case err == nil, errors.Is(err, buffer.ErrUnknownSlice): // its rows are in the table now
		case errors.Is(err, enough):
			out.Searched = said("There are more rows with this value. These are the first ", grouped(traceRows), ".")
			return nil
		case ctx.Err() != nil && c.ctx.Err() == nil:
			out.Searched = said("The search has ended after ", coarse(c.traceWithin), ": ", rowsOf(read), " of ", grouped(int64(n+1)), " of ",
				grouped(int64(len(parts))), verb(int64(len(parts)), " slice", " slices"), " were searched, the newest first. Name the source.")
			return nil
		case c.ctx.Err() != nil:
			return err
		default:
			unread = append(unread, visible(err.Error()))
		}
	}
	out.Searched = said(rowsOf(read), verb(read, " that waits was searched.", " that wait were searched."))
	if n := int64(len(unread)); n > 0 {
		out.Searched = said(out.Searched, " ", grouped(n), verb(n, " slice", " slices"), " could not be read: ", unread[0])
	}
	return nil
}
