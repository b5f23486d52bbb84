package catalog

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/datatype"
)

// QuarantineStatistics are the counters of the quarantine of a sink:
//
//	Added = Records + Replayed + Discarded + Expired + Lost
type QuarantineStatistics struct {
	// Records is the current number, Bytes their size as the bounds count it, OldestAt when the oldest was rejected. On a store that
	// several catalogs share each node has the bounds for itself.
	Records  int64     `json:"records,omitempty"`
	Bytes    int64     `json:"bytes,omitempty"`
	OldestAt time.Time `json:"oldestAt,omitzero"`
	// Added counts the records of all time. Lost counts the records that could not be read from a disk.
	Added     int64 `json:"added,omitempty"`
	Replayed  int64 `json:"replayed,omitempty"`
	Discarded int64 `json:"discarded,omitempty"`
	Expired   int64 `json:"expired,omitempty"`
	Lost      int64 `json:"lost,omitempty"`
}

// RejectedPage is a part of the quarantine of a sink. It may be short or empty and have a Next. See [forebay.SinkQuarantine.Page].
type RejectedPage struct {
	// Records are in the order of their rejections, as far as the clocks of the nodes agree.
	Records []forebay.RejectedRecord
	// Next is the RejectedFilter.After of the page after this one. It is empty on the last page.
	Next string
	// Total is the number of records in the quarantine, whatever the filter.
	Total int64
	// Missing are the instances whose records are not in the list, because no node has responded for them.
	Missing []Missing
}

// TestedCell is a [mapping.Cell] of a rejected record.
type TestedCell struct {
	// Column and Type come from the definition.
	Column string        `json:"column"`
	Type   datatype.Type `json:"type,omitempty"`
	// Value is empty for Null and for a cell with an Error. The value of a secret column is hidden.
	Value string `json:"value,omitempty"`
	Null  bool   `json:"null,omitempty"`
	// Error is why there is no value, and Reason the same as a word.
	Error  string `json:"error,omitempty"`
	Reason string `json:"reason,omitempty"`
}

func (c *Catalog) listRejected(ctx context.Context, ref Ref, f forebay.RejectedFilter, limit int) (RejectedPage, error) {
	if _, _, err := c.Sink(ref.Source, ref.Sink); err != nil {
		return RejectedPage{}, err
	}
	after, bad := c.positions(f.After)
	if bad != nil {
		return RejectedPage{}, bad
	}
	r := request{Op: opRejects, Source: ref.Source, Sinks: []string{ref.Sink}, Rejects: &rejectsRequest{After: after, Filter: newFilterRecord(f), Limit: max(limit, 1)}}
	all := c.co.carryOut(ctx, r)
	if _, _, err := outcomeOf(all); err != nil {
		return RejectedPage{}, err
	}
	got := c.co.ask(ctx, statisticsTimeout, r, nil)
	pages := map[string]instanceResponse{}
	for _, i := range append(all, got.instances...) {
		if known, ok := pages[i.Instance]; i.Rejects != nil && i.Outcome != outcomeFailed && (!ok || i.Epoch > known.Epoch) {
			pages[i.Instance] = i
		}
	}
	page := RejectedPage{Missing: got.missing(ctx, func(instance string) bool { _, ok := pages[instance]; return ok })}
	lives := c.co.instances()
	maps.DeleteFunc(pages, func(instance string, _ instanceResponse) bool { _, ok := lives[instance]; return !ok })
	page.merge(ref.Source, ref.Sink, pages, after, max(limit, 1))
	return page, nil
}

// merge takes the first records of all instances, and notes how far it got in each. Records that were rejected later than the last record
// that some instance has examined wait for the next page, in which that instance continues.
func (p *RejectedPage) merge(source, sink string, pages map[string]instanceResponse, after map[string]string, limit int) {
	names := slices.Sorted(maps.Keys(pages))
	more, at := false, maps.Clone(after)
	if at == nil {
		at = map[string]string{}
	}
	for _, name := range names {
		p.Total += pages[name].Rejects.Total
	}
	for len(p.Records) < limit {
		first, found, reached := "", false, time.Time{}
		for _, name := range names {
			a := pages[name].Rejects
			switch {
			case len(a.Records) > 0:
				if !found || a.Records[0].At.Before(pages[first].Rejects.Records[0].At) {
					first, found = name, true
				}
			case a.More && (reached.IsZero() || a.LastAt.Before(reached)):
				reached = a.LastAt
			}
		}
		if !found {
			break
		}
		list := pages[first].Rejects.Records
		if !reached.IsZero() && list[0].At.After(reached) {
			break
		}
		p.Records = append(p.Records, list[0].record(source, sink))
		at[first] = cmp.Or(list[0].Place, list[0].ID)
		pages[first].Rejects.Records = list[1:]
	}
	for _, name := range names {
		a := pages[name].Rejects
		more = more || a.More || len(a.Records) > 0
		if a.More && len(a.Records) == 0 {
			at[name] = a.Last
		}
	}
	if !more {
		return
	}
	var entries []string
	for _, name := range slices.Sorted(maps.Keys(at)) {
		if _, lives := pages[name]; lives || len(p.Missing) > 0 { // a returning node continues where it was
			entries = append(entries, strings.TrimPrefix(name+placeMark+at[name], placeMark))
		}
	}
	p.Next = strings.Join(entries, ",")
}

// placeMark is between an instance, unless it has no name, and the last record of it that was listed.
const placeMark = "~"

// maxPositions bounds a RejectedFilter.After that a caller passes, in bytes.
const maxPositions = 64 << 10

// positions reads the Next of a page.
func (c *Catalog) positions(next string) (map[string]string, error) {
	if next == "" {
		return nil, nil
	}
	at := map[string]string{}
	for entry := range strings.SplitSeq(next, ",") {
		instance, id, named := strings.Cut(entry, placeMark)
		if !named {
			instance, id = "", entry
		}
		if _, ok := rejectNumber(id); !ok || named != c.co.isShared() || at[instance] != "" || len(next) > maxPositions {
			return nil, noPlace(next)
		}
		at[instance] = id
	}
	return at, nil
}

// rejectNumber returns the number in the id of a record, in whose order an engine lists them.
func rejectNumber(id string) (uint64, bool) {
	i := strings.LastIndex(id, "-x")
	if i < 0 {
		return 0, false
	}
	n, err := strconv.ParseUint(id[i+2:], 16, 64)
	return n, err == nil
}

func (c *Catalog) rejectedRecord(ctx context.Context, ref Ref, recordID string) (forebay.RejectedContent, error) {
	a, err := c.onRejected(ctx, request{Op: opRejected, Source: ref.Source, Sinks: []string{ref.Sink}, Rejects: &rejectsRequest{IDs: []string{recordID}}})
	if err != nil || a.Content == nil {
		return forebay.RejectedContent{}, err
	}
	return a.Content.content(ref.Source, ref.Sink), nil
}

func (c *Catalog) editRejected(ctx context.Context, by By, ref Ref, recordID string, revision int, body []byte) error {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(body); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	_, err := c.onRejected(ctx, request{
		Op: opEditReject, Source: ref.Source, Sinks: []string{ref.Sink},
		Rejects: &rejectsRequest{IDs: []string{recordID}, Revision: revision, Body: packed.Bytes(), By: by.who()},
	})
	return err
}

// unpack reads the body of an edit.
func unpack(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(r, maxEdit+1))
	if err == nil && len(body) > maxEdit {
		err = fmt.Errorf("the body has more than %d bytes", maxEdit)
	}
	return body, err
}

// maxEdit bounds what an edit may unpack to, in bytes. A larger body is no event.
const maxEdit = 256 << 20

func (c *Catalog) testRejected(ctx context.Context, ref Ref, recordID string) ([]TestedCell, error) {
	if err := c.maps(ref); err != nil {
		return nil, err
	}
	a, err := c.onRejected(ctx, request{Op: opTestReject, Source: ref.Source, Sinks: []string{ref.Sink}, Rejects: &rejectsRequest{IDs: []string{recordID}}})
	if err != nil {
		return nil, err
	}
	return a.Cells, nil
}

func (c *Catalog) replayRejected(ctx context.Context, ref Ref, recordID string) (RejectsResult, error) {
	if err := c.maps(ref); err != nil {
		return RejectsResult{}, err
	}
	a, err := c.onRejected(ctx, request{Op: opReplayRejects, Source: ref.Source, Sinks: []string{ref.Sink}, Rejects: &rejectsRequest{IDs: []string{recordID}}})
	return a.Result, err
}

func (c *Catalog) discardRejected(ctx context.Context, by By, ref Ref, recordID, reason string) error {
	_, err := c.onRejected(ctx, request{Op: opDropRejects, Source: ref.Source, Sinks: []string{ref.Sink}, Rejects: &rejectsRequest{
		IDs: []string{recordID}, By: by.who(), Reason: reason,
	}})
	return err
}

// maps refuses a sink that is disabled.
func (c *Catalog) maps(ref Ref) error {
	t, s, err := c.find(ref)
	if err == nil && s.DisabledWith(t.source) != nil {
		err = refuse(SinkDisabled, "Sink %q of source %q is disabled, so it maps nothing: enable it first.", ref.Sink, ref.Source)
	}
	return err
}

// onRejected carries out a request about one record, where it is.
func (c *Catalog) onRejected(ctx context.Context, r request) (a rejectsResponse, err error) {
	for range c.co.rounds() {
		a, err = c.tryRejected(ctx, r)
		if gone, refused := errors.AsType[*Error](err); !refused || gone.Code != RecordNotFound {
			break
		}
	}
	return a, err
}

// tryRejected is one attempt of onRejected.
func (c *Catalog) tryRejected(ctx context.Context, r request) (rejectsResponse, error) {
	if _, _, err := c.Sink(r.Source, r.Sinks[0]); err != nil {
		return rejectsResponse{}, err
	}
	found := func(i instanceResponse) bool { return i.Outcome != outcomeNotFound && i.Outcome != outcomeFailed }
	all := c.co.carryOut(ctx, r)
	if !slices.ContainsFunc(all, func(i instanceResponse) bool { return i.Outcome != outcomeNotFound }) {
		got := c.co.ask(ctx, filesTimeout, r, found)
		all = append(all, got.instances...)
		if !slices.ContainsFunc(all, found) {
			knows := func(instance string) bool {
				return slices.ContainsFunc(all, func(i instanceResponse) bool { return i.Instance == instance && i.Outcome != outcomeFailed })
			}
			if missing := got.missing(ctx, knows); len(missing) > 0 {
				return rejectsResponse{}, &MissingError{missing}
			}
		}
	}
	for _, i := range all {
		switch i.Outcome {
		case outcomeDone:
			if i.Rejects == nil {
				i.Rejects = &rejectsResponse{}
			}
			return *i.Rejects, nil
		case outcomeChanged:
			return rejectsResponse{}, recordChanged(r.Rejects.IDs[0])
		case outcomeInvalid:
			return rejectsResponse{}, refuse(BadRequest, "%s", i.Rejects.Refused)
		case outcomeOverloaded:
			return rejectsResponse{}, cmp.Or(i.err, error(&buffer.OverloadError{Resource: "quarantine", RetryAfter: time.Minute}))
		}
	}
	if _, _, err := outcomeOf(all); err != nil {
		return rejectsResponse{}, err
	}
	return rejectsResponse{}, recordNotFound(Ref{r.Source, r.Sinks[0]}, r.Rejects.IDs[0])
}

func recordChanged(recordID string) *Error {
	return refuse(RecordChanged, "Record %.80q was edited or tried since it was read; read it again.", recordID)
}

func recordNotFound(ref Ref, recordID string) *Error {
	return refuse(RecordNotFound, "The quarantine of sink %q of source %q has no record %.80q: it was replayed or discarded, has expired, or never was. List the quarantine to see the ids.",
		ref.Sink, ref.Source, recordID)
}

// noPlace is the error for a RejectedFilter.After that no page had as its Next.
func noPlace(after string) *Error {
	return refuse(BadRequest, "The list has no place %.80q: take it from the page before.", after)
}

// refusedEdit is the error for cells that do not fit.
func refusedEdit(e *forebay.EditError) string {
	return sentence(errors.New(strings.TrimPrefix(e.Error(), "forebay: ")))
}

// onRejects carries out a request about a quarantine in one engine.
func (c *Catalog) onRejects(ctx context.Context, p place, r request) instanceResponse {
	out := instanceResponse{Instance: p.instance, Outcome: outcomeDone, Rejects: &rejectsResponse{}}
	q := p.eng.Sink(r.Source, r.Sinks[0]).Quarantine().With(forebay.QuarantineNote{By: r.Rejects.By, Reason: r.Rejects.Reason})
	id := ""
	if len(r.Rejects.IDs) > 0 {
		id = r.Rejects.IDs[0]
	}
	var err error
	switch r.Op {
	case opRejects:
		err = out.Rejects.list(ctx, p, r)
	case opRejected:
		var content forebay.RejectedContent
		if content, err = q.Get(ctx, id); err == nil {
			out.Rejects.Content = newContentRecord(content)
		}
	case opEditReject:
		var body []byte
		if body, err = unpack(r.Rejects.Body); err == nil {
			err = q.Edit(ctx, id, r.Rejects.Revision, body)
		}
	case opTestReject:
		if !q.Has(id) {
			err = buffer.ErrUnknownRejected
			break
		}
		err = p.asDefined(ctx, r, func() error {
			cells, err := q.Test(ctx, id)
			out.Rejects.Cells = testedCells(cells)
			return err
		})
	case opReplayRejects, opDropRejects:
		err = moveRejects(ctx, p, r, out.Rejects)
		if err == nil && r.Rejects.Filter == nil && out.Rejects.Result == (RejectsResult{}) {
			err = buffer.ErrUnknownRejected
		}
	}
	over, full := errors.AsType[*buffer.OverloadError](err)
	invalid, wrong := errors.AsType[*forebay.EditError](err)
	switch {
	case err == nil:
	case errors.Is(err, forebay.ErrUnknownSink) && !q.Has(id), errors.Is(err, buffer.ErrUnknownRejected):
		out.Outcome = outcomeNotFound // this engine never had a record of the sink, or has this one no more
	case errors.Is(err, buffer.ErrRejectedChanged):
		out.Outcome = outcomeChanged
	case full:
		out.Outcome, out.err = outcomeOverloaded, over
	case wrong:
		out.Outcome, out.Rejects.Refused = outcomeInvalid, refusedEdit(invalid)
	default:
		out.Outcome, out.err = outcomeFailed, err
	}
	return out
}

// list fills a page.
func (out *rejectsResponse) list(ctx context.Context, p place, r request) error {
	for _, st := range p.eng.Stats().Sinks {
		if st.Source == r.Source && st.Sink == r.Sinks[0] {
			out.Total = st.Quarantine.Records
		}
	}
	f := r.Rejects.Filter.filter()
	f.After = r.Rejects.After[p.instance]
	page, err := p.eng.Sink(r.Source, r.Sinks[0]).Quarantine().Page(ctx, f, r.Rejects.Limit)
	if errors.Is(err, forebay.ErrUnknownSink) {
		return nil
	}
	for _, rec := range page.Records {
		out.Records = append(out.Records, newRejectedRecord(rec))
	}
	out.More, out.Last, out.LastAt = page.Next != "", page.Next, page.NextAt
	return err
}

// rejectsAtOnce is how many records one step of a task replays or discards.
const rejectsAtOnce = 100

// moveRejects replays or discards the records of the request that the engine has, or the next records that its filter selects.
func moveRejects(ctx context.Context, p place, r request, out *rejectsResponse) error {
	q := p.eng.Sink(r.Source, r.Sinks[0]).Quarantine().With(forebay.QuarantineNote{By: r.Rejects.By, Reason: r.Rejects.Reason})
	ids := r.Rejects.IDs
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !q.Has(id) })
	if r.Rejects.Filter != nil {
		f := r.Rejects.Filter.filter()
		f.After = r.Rejects.After[p.instance]
		// Records that are rejected from now on wait for the next task. Otherwise a task whose definition rejects new rows would never end.
		if now := time.Now().Add(time.Millisecond); f.Until.IsZero() || now.Before(f.Until) {
			f.Until = now
		}
		out.Until = f.Until
		page, err := q.Page(ctx, f, rejectsAtOnce)
		if err != nil && !errors.Is(err, forebay.ErrUnknownSink) {
			return err
		}
		for _, rec := range page.Records {
			ids = append(ids, rec.ID)
		}
		out.More, out.Last = page.Next != "", page.Next
	}
	if len(ids) == 0 {
		return nil
	}
	if r.Op == opDropRejects {
		n, err := q.Discard(ctx, ids...)
		out.Result.Discarded = n
		return err
	}
	return p.asDefined(ctx, r, func() error {
		res, err := q.Replay(ctx, ids...)
		out.Result = RejectsResult{Replayed: res.Replayed, Rejected: res.Rejected, Gone: res.Gone}
		return err
	})
}

// asDefined calls run while the engine has the sink as it is defined now.
func (p place) asDefined(ctx context.Context, r request, run func() error) error {
	if p.define == nil {
		return run()
	}
	return p.define(ctx, Ref{r.Source, r.Sinks[0]}, run)
}
