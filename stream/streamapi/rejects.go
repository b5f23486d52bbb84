package streamapi

import (
	"context"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/catalog"
)

type rejectsBody struct {
	SourceID string         `json:"sourceId" doc:"Id of the source."`
	SinkID   string         `json:"sinkId" doc:"Id of the sink."`
	Records  []rejectedBody `json:"records" doc:"Rejected records in the order of their rejections."`
	Page     rejectsPage    `json:"page" doc:"Which part of the list it is."`
	Missing  []missingBody  `json:"missing,omitempty" doc:"Parts of a cluster that did not respond: their records are not listed. Left out if there are none."`
}

type rejectsPage struct {
	Limit      int    `json:"limit" doc:"Greatest length of this page."`
	TotalCount int64  `json:"totalCount" doc:"Number of records in the quarantine, whatever the filter."`
	AfterID    string `json:"afterId" doc:"Place after which the page begins, as it was asked for."`
	NextID     string `json:"nextId" doc:"The afterId of the next page; empty on the last page. A page that a filter leaves short or empty may have one."`
}

type rejectedBody struct {
	RecordID string `json:"recordId" doc:"Id of the record."`
	At       string `json:"at" doc:"Time in UTC with milliseconds of the first rejection; the age counts from there."`
	Reason   string `json:"reason" doc:"Why it was rejected, as the word under which the statistics count it."`
	Column   string `json:"column,omitempty" doc:"Column that rejected it; left out if none did."`
	Message  string `json:"message" doc:"The same in words, of the first rejection or of the last replay that failed. Values of secret columns are not in it."`
	Mapping  string `json:"mapping,omitempty" doc:"Equal for equal columns: eight digits that name the columns that rejected it, or made the row that the table refused."`
	Version  int    `json:"version,omitempty" doc:"Version of the sink that had these columns."`
	Failed   int    `json:"failed" doc:"Number of replays that failed."`
	TriedAt  string `json:"triedAt,omitempty" doc:"Time in UTC with milliseconds of the last of them."`
	Edited   bool   `json:"edited" doc:"The body was edited."`
	Revision int    `json:"revision" doc:"Number of the edits and failed replays; an edit needs it."`
	Size     int64  `json:"size" doc:"Bytes that it counts in the bounds of the quarantine."`
	EditedAt string `json:"editedAt,omitempty" doc:"Time in UTC with milliseconds of the last edit; left out without one, or if it is unknown."`
	EditedBy string `json:"editedBy,omitempty" doc:"Name of the user or token that has made it."`
	// RefusedRow is set for a row that the target has refused.
	RefusedRow *refusedRow `json:"refusedRow,omitempty" doc:"Where a row comes from that the target has refused; left out for events. Its body is a JSON object with the cells, and so is an edit."`
}

type refusedRow struct {
	FileID string `json:"fileId" doc:"Id of the file, which was imported without the row."`
	Row    int64  `json:"row" doc:"Number of the row in the file, from 0; -1 if the target did not tell."`
}

type rejectedContent struct {
	Record         rejectedBody    `json:"record" doc:"The record as the list has it."`
	Request        rejectedRequest `json:"request" doc:"The request that brought it."`
	Body           *string         `json:"body,omitempty" doc:"Body that a replay maps; left out if it is not UTF-8."`
	BodyBase64     []byte          `json:"bodyBase64,omitempty" doc:"The same in base64, if it is not UTF-8."`
	Original       *string         `json:"original,omitempty" doc:"Original body; only after an edit, and if it is UTF-8."`
	OriginalBase64 []byte          `json:"originalBase64,omitempty" doc:"The same in base64, if it is not UTF-8."`
}

type rejectedRequest struct {
	ReceivedAt     string              `json:"receivedAt,omitempty" doc:"Time in UTC with milliseconds of the arrival, which a replay keeps."`
	Method         string              `json:"method,omitempty" doc:"Method of the request; left out for records that arrived another way."`
	Path           string              `json:"path,omitempty" doc:"Path without the secret of the source."`
	Query          string              `json:"query,omitempty" doc:"Query with *** in place of values that may be a secret."`
	Host           string              `json:"host,omitempty" doc:"Host that the request named."`
	ClientIP       string              `json:"clientIp,omitempty" doc:"Address of the sender."`
	Headers        map[string][]string `json:"headers,omitempty" doc:"Headers that are kept."`
	RemovedHeaders []string            `json:"removedHeaders,omitempty" doc:"Names of headers that are not kept, because they may hold a secret. A mapping that reads them gets nothing."`
}

type rejectedTest struct {
	Passes  bool         `json:"passes" doc:"No column has an error: a replay makes it a row."`
	Columns []testColumn `json:"columns" doc:"Columns in their order, each with its value or error."`
}

// rejectsResult is a [catalog.RejectsResult].
type rejectsResult struct {
	Replayed  int `json:"replayed" doc:"Number of records that have become rows."`
	Rejected  int `json:"rejected" doc:"Number of records that were rejected again and are still there."`
	Gone      int `json:"gone" doc:"Number of records that were no longer there."`
	Discarded int `json:"discarded" doc:"Number of records that were deleted."`
}

type rejectsSelection struct {
	RecordIDs []string       `json:"recordIds,omitempty" maxItems:"10000" doc:"Ids of records."`
	Filter    *rejectsFilter `json:"filter,omitempty" doc:"Records that have all of this when the task begins."`
	All       bool           `json:"all,omitempty" doc:"All records that are there when the task begins. Exactly one of recordIds, filter and all is given."`
}

type rejectsDiscard struct {
	RecordIDs []string       `json:"recordIds,omitempty" maxItems:"10000" doc:"Ids of records."`
	Filter    *rejectsFilter `json:"filter,omitempty" doc:"Records that have all of this when the task begins."`
	All       bool           `json:"all,omitempty" doc:"All records that are there when the task begins. Exactly one of recordIds, filter and all is given."`
	Reason    string         `json:"reason,omitempty" maxLength:"1000" doc:"Why they are discarded, for people: the task and the log have it."`
}

type rejectsFilter struct {
	Reason  string `json:"reason,omitempty" doc:"Word for the reason."`
	Column  string `json:"column,omitempty" doc:"Column that rejected it."`
	Version int    `json:"version,omitempty" minimum:"1" doc:"Version of the sink that rejected it, or made the row that the table refused."`
	Since   string `json:"since,omitempty" doc:"Earliest time of the rejection, such as 2026-11-23T12:00:00Z."`
	Until   string `json:"until,omitempty" doc:"Time before which it was rejected."`
	Text    string `json:"text,omitempty" doc:"Part of the message, in any case of letters."`
	// Content is for admins because it tells what senders have sent.
	Content string `json:"content,omitempty" doc:"Part of the body, a header as name: value, host, path or query, in any case of letters."`
}

type quarantineBody struct {
	Records   int64  `json:"records" doc:"Number of records that are in it."`
	Size      int64  `json:"size" doc:"Bytes that they count in its bounds."`
	OldestAt  string `json:"oldestAt,omitempty" doc:"Time in UTC with milliseconds of the first rejection of the oldest."`
	Added     int64  `json:"added" doc:"Number of records that ever came into it."`
	Replayed  int64  `json:"replayed" doc:"Number of records that have become rows."`
	Discarded int64  `json:"discarded" doc:"Number of records that were deleted on request."`
	Expired   int64  `json:"expired" doc:"Number of records that have expired, by their age or to make room."`
	Lost      int64  `json:"lost" doc:"Number of records that a disk did not give back."`
}

// newQuarantine returns nil for a sink that never kept a record.
func newQuarantine(q catalog.QuarantineStatistics) *quarantineBody {
	if q.Added == 0 {
		return nil
	}
	return &quarantineBody{
		Records: q.Records, Size: q.Bytes, OldestAt: timeText(q.OldestAt), Added: q.Added, Replayed: q.Replayed, Discarded: q.Discarded,
		Expired: q.Expired, Lost: q.Lost,
	}
}

func newRejected(r forebay.RejectedRecord) rejectedBody {
	var row *refusedRow
	if r.Poison != nil {
		row = &refusedRow{r.Poison.FileID, r.Poison.Row}
	}
	return rejectedBody{
		RefusedRow: row,
		RecordID:   r.ID, At: catalog.Time(r.At), Reason: r.Reason, Column: r.Column, Message: r.Message, Mapping: r.Mapping, Version: r.Version, Failed: r.Failed,
		TriedAt: timeText(r.TriedAt), Edited: r.Edited, Revision: r.Revision, Size: r.Size,
		EditedAt: timeText(r.EditedAt), EditedBy: r.EditedBy,
	}
}

func newRejectedContent(c forebay.RejectedContent) rejectedContent {
	r := c.Record
	b := rejectedContent{Record: newRejected(c.RejectedRecord), Request: rejectedRequest{
		ReceivedAt: timeText(r.Received), Method: r.Request.Method, Path: r.Request.Path, Query: r.Request.Query, Host: r.Host, Headers: r.Header,
		RemovedHeaders: c.Removed,
	}}
	if r.ClientIP.IsValid() {
		b.Request.ClientIP = r.ClientIP.String()
	}
	b.Body, b.BodyBase64 = textOrBytes(r.Body)
	if c.Edited {
		b.Original, b.OriginalBase64 = textOrBytes(c.Came)
	}
	return b
}

// textOrBytes returns one of the two: JSON cannot hold every text.
func textOrBytes(b []byte) (*string, []byte) {
	if !utf8.Valid(b) {
		return nil, b
	}
	text := string(b)
	return &text, nil
}

// revisionParameter names the revision that an edit has seen.
const revisionParameter = "revision"

// reasonParameter is why a record is discarded, and maxDiscardReason its greatest length, as in rejectsDiscard.
const (
	reasonParameter  = "reason"
	maxDiscardReason = 1000
)

// rejectsParameters are the filters of a list.
var rejectsParameters = []parameter{
	{name: "version", doc: "Version of the sink that rejected the record.", schema: 0},
	{name: "reason", doc: "Word for the reason, such as missingValue.", schema: ""},
	{name: "column", doc: "Column that rejected the record.", schema: ""},
	{name: "since", doc: "Earliest time of the rejection, such as 2026-11-23T12:00:00Z.", schema: "", check: checkTime("since")},
	{name: "until", doc: "Time before which the record was rejected.", schema: "", check: checkTime("until")},
	{name: "text", doc: "Part of the message, in any case of letters.", schema: ""},
	{name: "content", doc: "Part of the body, a header as name: value, host, path or query, in any case of letters; only for admins.", schema: "", admin: true},
}

func checkTime(name string) func(*problems, string) {
	return func(p *problems, text string) {
		if _, err := time.Parse(time.RFC3339, text); err != nil {
			p.add("invalidFieldType", "%s is %q, must be a time such as 2026-11-23T12:00:00Z", name, text)
		}
	}
}

// moment parses a time, zero for an empty text. It adds a problem for a text that is no time.
func moment(name, text string, p *problems) (t time.Time) {
	if text != "" {
		checkTime(name)(p, text)
		t, _ = time.Parse(time.RFC3339, text)
	}
	return t
}

// versionOf reads the number of a version; 0 if there is none.
func versionOf(text string, p *problems) (n int) {
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		p.add("invalidFieldType", "version is %q, must be the number of a version of the sink", text)
	}
	return n
}

// filter adds a problem for each bound that is no time.
func (f rejectsFilter) filter(at string, p *problems) forebay.RejectedFilter {
	return forebay.RejectedFilter{
		Reason: f.Reason, Column: f.Column, Version: f.Version, Text: f.Text, Content: f.Content, Since: moment(at+"since", f.Since, p), Until: moment(at+"until", f.Until, p),
	}
}

func (a *api) listRejected(c *request) (any, error) {
	var p problems
	f := rejectsFilter{
		Reason: c.query("reason"), Column: c.query("column"), Since: c.query("since"), Until: c.query("until"), Text: c.query("text"), Content: c.query("content"),
		Version: versionOf(c.query("version"), &p),
	}.filter("", &p)
	if err := p.err(); err != nil {
		return nil, err
	}
	f.After = c.page.afterID
	page, err := a.on.Handle(c.source, c.sink).Rejected(c.ctx, f, c.page.limit)
	if err != nil {
		return nil, err
	}
	return rejectsBody{
		SourceID: c.source, SinkID: c.sink, Records: convert(page.Records, newRejected), Missing: newMissing(page.Missing),
		Page: rejectsPage{Limit: c.page.limit, TotalCount: page.Total, AfterID: c.page.afterID, NextID: page.Next},
	}, nil
}

func (c *request) record() string { return c.r.PathValue("recordId") }

// noteChange logs which user changed a quarantine, without content.
func (a *api) noteChange(ctx context.Context, c *request, what string) {
	a.opts.Ingest.Logger.InfoContext(ctx, "changed by request", "change", what, "source", c.source, "sink", c.sink, "record", c.record(), "token", c.by.TokenID)
}

func (a *api) getRejected(c *request) (any, error) {
	content, err := a.on.Handle(c.source, c.sink).RejectedRecord(c.ctx, c.record())
	if err != nil {
		return nil, err
	}
	return newRejectedContent(content), nil
}

func (a *api) editRejected(c *request) (any, error) {
	text := c.query(revisionParameter)
	if text == "" {
		return nil, names.Errorf(http.StatusBadRequest, "missingField", "%q is missing from query: the revision of the record that was read", revisionParameter)
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return nil, names.Errorf(http.StatusBadRequest, "invalidRange", "%s must be greater or equal than 0 but got %s", revisionParameter, text)
	}
	if err := a.on.Handle(c.source, c.sink).EditRejected(c.ctx, c.by, c.record(), n, c.raw); err != nil {
		return nil, err
	}
	a.noteChange(c.ctx, c, "a rejected record was edited")
	return a.getRejected(c)
}

func (a *api) testRejected(c *request) (any, error) {
	cells, err := a.on.Handle(c.source, c.sink).TestRejected(c.ctx, c.record())
	if err != nil {
		return nil, err
	}
	b := rejectedTest{Passes: true, Columns: make([]testColumn, 0, len(cells))}
	for _, cell := range cells {
		column := testColumn{Name: cell.Column, DataType: string(cell.Type), Value: &cell.Value, Error: cell.Error, Reason: cell.Reason}
		if cell.Null {
			column.Value = nil
		}
		b.Passes = b.Passes && cell.Error == ""
		b.Columns = append(b.Columns, column)
	}
	return b, nil
}

func (a *api) replayRejected(c *request) (any, error) {
	result, err := a.on.Handle(c.source, c.sink).ReplayRejected(c.ctx, c.record())
	if err != nil {
		return nil, err
	}
	a.noteChange(c.ctx, c, "a rejected record was replayed")
	return rejectsResult(result), nil
}

func (a *api) discardRejected(c *request) (any, error) {
	reason := c.query(reasonParameter)
	if n := utf8.RuneCountInString(reason); n > maxDiscardReason {
		return nil, names.Errorf(http.StatusBadRequest, "invalidLength", "%s must be a maximum of %d characters in length but has %d", reasonParameter, maxDiscardReason, n)
	}
	if err := a.on.Handle(c.source, c.sink).DiscardRejected(c.ctx, c.by, c.record(), reason); err != nil {
		return nil, err
	}
	a.noteChange(c.ctx, c, "a rejected record was discarded")
	return nil, nil
}

func (a *api) replaySelected(c *request) (any, error) {
	s, err := c.body.(*rejectsSelection).selection()
	if err != nil {
		return nil, err
	}
	a.noteChange(c.ctx, c, "a task for rejected records is starting")
	return a.task(c)(a.on.Handle(c.source, c.sink).ReplayRejects(s))
}

func (a *api) cancelRejects(c *request) (any, error) {
	a.noteChange(c.ctx, c, "the replay of rejected records is cancelled")
	return a.task(c)(a.on.Handle(c.source, c.sink).CancelRejects(c.ctx))
}

func (a *api) discardSelected(c *request) (any, error) {
	b := c.body.(*rejectsDiscard)
	s, err := (&rejectsSelection{b.RecordIDs, b.Filter, b.All}).selection()
	if err != nil {
		return nil, err
	}
	a.noteChange(c.ctx, c, "a task for rejected records is starting")
	return a.task(c)(a.on.Handle(c.source, c.sink).DiscardRejects(c.by, s, b.Reason))
}

func (b *rejectsSelection) selection() (catalog.RejectedSelection, error) {
	given := 0
	for _, one := range []bool{len(b.RecordIDs) > 0, b.Filter != nil, b.All} {
		if one {
			given++
		}
	}
	var p problems
	if given != 1 {
		p.add("badRequest", "exactly one of body.recordIds, body.filter and body.all must be given")
	}
	s := catalog.RejectedSelection{IDs: b.RecordIDs}
	if b.Filter != nil {
		if *b.Filter == (rejectsFilter{}) {
			p.add("badRequest", "body.filter is empty: give body.all for all records")
		}
		s.Filter = b.Filter.filter("body.filter.", &p)
	}
	return s, p.err()
}
