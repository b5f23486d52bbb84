package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/driverkit/textcut"
	"github.com/forebay/forebay/mapping"
)

const (
	// bodyShown is how much of a body is shown at first, maxBodyShown at most, in bytes. What is longer cannot be edited here.
	bodyShown, maxBodyShown = 64 << 10, 1 << 20
	// maxHeaders of a record are shown.
	maxHeaders = 100
	// maxBulk is how many records one task replays or discards, bulkStep how many between two reports of its progress.
	maxBulk, bulkStep = 100_000, 256
)

// rejectRecord is one record with its content.
type rejectRecord struct {
	rejectLine
	// Request is method, path and query, or empty if unknown.
	Request  string      `json:"request"`
	Host     string      `json:"host"`
	Client   string      `json:"client"`
	Received *moment     `json:"received"`
	Headers  [][2]string `json:"headers"`
	// MoreHeaders are not shown. Removed were never kept, because they may hold a secret.
	MoreHeaders int        `json:"moreHeaders"`
	Removed     []string   `json:"removed"`
	Body        rejectBody `json:"body"`
	// Came is the original body, if it was edited.
	Came *rejectBody `json:"came"`
	// File and Row are where a row comes from that the target has refused.
	File string `json:"file"`
	Row  *int64 `json:"row"`

	rejectTest
}

// rejectBody is a body as text. Its line breaks and its characters without a glyph are unchanged. The page marks them.
type rejectBody struct {
	Text string `json:"text"`
	Size cell   `json:"size"`
	// Rest is the number of bytes that are not shown.
	Rest int `json:"rest"`
	// Binary is set if it is not UTF-8. The bytes that are not are marked in Text.
	Binary bool `json:"binary"`
}

func bodyOf(b []byte, most int) rejectBody {
	out := rejectBody{Size: size(int64(len(b))), Binary: !utf8.Valid(b)}
	whole := len(b)
	b = textcut.Head(b, most)
	out.Rest = whole - len(b)
	if !out.Binary {
		out.Text = string(b)
		return out
	}
	var text strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&text, "‹%02X›", b[0])
		} else {
			text.WriteRune(r)
		}
		b = b[n:]
	}
	out.Text = text.String()
	return out
}

// rejectTest is the result of the current definition for a record.
type rejectTest struct {
	// Passes is set if a replay would store it. Problem is why it cannot be tested.
	Passes  bool         `json:"passes"`
	Problem string       `json:"problem"`
	Cells   []rejectCell `json:"cells"`
}

type rejectCell struct {
	Column string `json:"column"`
	Type   string `json:"type"`
	Value  string `json:"value"`
	Null   bool   `json:"null"`
	Error  string `json:"error"`
}

// testOf returns an error if err says nothing about the record or its sink.
func testOf(cells []mapping.Cell, err error) (rejectTest, error) {
	if errors.Is(err, buffer.ErrUnknownRejected) || errors.Is(err, forebay.ErrClosed) || errors.Is(err, context.Canceled) {
		return rejectTest{}, err
	}
	t := rejectTest{Passes: err == nil, Cells: []rejectCell{}}
	if err != nil {
		t.Problem = visible(err.Error())
	}
	for _, cell := range cells {
		shown := rejectCell{Column: visible(cell.Column), Type: cmp.Or(string(cell.Type), "untyped"), Value: visible(cell.Value), Null: cell.Null}
		if cell.Err != nil {
			shown.Error, t.Passes = visible(cell.Err.Error()), false
		}
		t.Cells = append(t.Cells, shown)
	}
	return t, nil
}

// recordRef names a record in a request.
type recordRef struct {
	Sink string `json:"sink"`
	ID   string `json:"id"`
}

// record returns one record. The query has "sink", "id", and with "whole" more of its body.
func (q *quarantine) record(c *request) (any, error) {
	in := c.ofSink(c.query.Get("sink"))
	content, err := in.Get(c.ctx, c.query.Get("id"))
	if err != nil {
		return nil, err
	}
	most := bodyShown
	if c.query.Get("whole") != "" {
		most = maxBodyShown
	}
	rec := content.Record
	out := rejectRecord{rejectLine: lineOf(&content.RejectedRecord), Headers: [][2]string{}, Removed: []string{}, Body: bodyOf(rec.Body, most)}
	if content.Edited {
		came := bodyOf(content.Came, most)
		out.Came = &came
	}
	if rec.Request.Method != "" || rec.Request.Path != "" {
		out.Request = rec.Request.Method + " " + rec.Request.Path
		if rec.Request.Query != "" {
			out.Request += "?" + rec.Request.Query
		}
		out.Request = visible(out.Request)
	}
	out.Host = visible(rec.Host)
	if rec.ClientIP.IsValid() {
		out.Client = visible(rec.ClientIP.String())
	}
	if !rec.Received.IsZero() {
		at := moment(rec.Received)
		out.Received = &at
	}
	for _, name := range slices.Sorted(maps.Keys(rec.Header)) {
		for _, v := range rec.Header[name] {
			if len(out.Headers) == maxHeaders {
				out.MoreHeaders++
				continue
			}
			out.Headers = append(out.Headers, [2]string{visible(name), visible(v)})
		}
	}
	for _, name := range content.Removed[:min(len(content.Removed), maxHeaders)] {
		out.Removed = append(out.Removed, visible(name))
	}
	if p := content.Poison; p != nil {
		out.File = p.FileID
		if p.Row >= 0 {
			out.Row = &p.Row
		}
	}
	cells, err := in.Test(c.ctx, content.ID)
	if out.rejectTest, err = testOf(cells, err); err != nil {
		return nil, err
	}
	return out, nil
}

// test maps a record with another body. It stores nothing.
func (q *quarantine) test(c *request) (any, error) {
	var asked struct {
		recordRef
		Body string `json:"body"`
	}
	if err := c.body(&asked); err != nil {
		return nil, err
	}
	cells, err := c.ofSink(asked.Sink).TestBody(c.ctx, asked.ID, []byte(asked.Body))
	return testOf(cells, err)
}

func (q *quarantine) edit(c *request) (any, error) {
	var asked struct {
		recordRef
		Revision int    `json:"revision"`
		Body     string `json:"body"`
	}
	if err := c.body(&asked); err != nil {
		return nil, err
	}
	c.note("sink", asked.Sink, "record", asked.ID, "revision", asked.Revision, "bytes", len(asked.Body))
	err := c.ofSink(asked.Sink).With(forebay.QuarantineNote{By: c.who.user}).Edit(c.ctx, asked.ID, asked.Revision, []byte(asked.Body))
	if _, invalid := errors.AsType[*forebay.EditError](err); invalid {
		err = refuse(http.StatusUnprocessableEntity, "%v", err)
	}
	return nil, err
}

// replay of one record reports its outcome.
func (q *quarantine) replay(c *request) (any, error) {
	var asked recordRef
	if err := c.body(&asked); err != nil {
		return nil, err
	}
	c.note("sink", asked.Sink, "record", asked.ID)
	res, err := c.ofSink(asked.Sink).Replay(c.ctx, asked.ID)
	if err != nil {
		return nil, err
	}
	c.note("replayed", res.Replayed, "rejected", res.Rejected, "gone", res.Gone)
	return map[string]int{"replayed": res.Replayed, "rejected": res.Rejected, "gone": res.Gone}, nil
}

func (q *quarantine) discard(c *request) (any, error) {
	var asked struct {
		recordRef
		// Why may be empty. It is for the log.
		Why string `json:"why"`
	}
	if err := c.body(&asked); err != nil {
		return nil, err
	}
	if err := checkWhy(asked.Why); err != nil {
		return nil, err
	}
	c.note("sink", asked.Sink, "record", asked.ID, "why", asked.Why)
	n, err := c.ofSink(asked.Sink).Discard(c.ctx, asked.ID)
	if err != nil {
		return nil, err
	}
	c.note("discarded", n)
	return map[string]int{"discarded": n}, nil
}

// maxWhy is the greatest length of the reason of a discard in characters, as in the Stream API.
const maxWhy = 1000

func checkWhy(why string) error {
	if n := utf8.RuneCountInString(why); n > maxWhy {
		return refuse(http.StatusBadRequest, "The reason has %d characters, at most %d are allowed.", n, maxWhy)
	}
	return nil
}

// bulkSet are records of one sink.
type bulkSet struct {
	sink string
	ids  []string
}

// bulkKind is a change of many records.
type bulkKind struct {
	// title of the task begins with it.
	title string
	// step changes some records, and adds to the counts.
	step func(ctx context.Context, in forebay.SinkQuarantine, ids []string, done *bulkCounts) error
	// said describes counts.
	said func(done bulkCounts) string
}

type bulkCounts struct {
	forebay.ReplayResult
	discarded, steps int
}

var (
	replayBulk = bulkKind{
		title: "Replay of ",
		step: func(ctx context.Context, in forebay.SinkQuarantine, ids []string, done *bulkCounts) error {
			res, err := in.Replay(ctx, ids...)
			done.Replayed += res.Replayed
			done.Rejected += res.Rejected
			done.Gone += res.Gone
			return err
		},
		said: func(d bulkCounts) string {
			return fmt.Sprintf("%s replayed, %s rejected again, %s gone before", grouped(int64(d.Replayed)), grouped(int64(d.Rejected)), grouped(int64(d.Gone)))
		},
	}
	discardBulk = bulkKind{
		title: "Discard of ",
		step: func(ctx context.Context, in forebay.SinkQuarantine, ids []string, done *bulkCounts) error {
			n, err := in.Discard(ctx, ids...)
			done.discarded += n
			if err == nil {
				done.Gone += len(ids) - n
			}
			return err
		},
		said: func(d bulkCounts) string {
			return fmt.Sprintf("%s discarded, %s gone before", grouped(int64(d.discarded)), grouped(int64(d.Gone)))
		},
	}
)

// bulk starts a task about the records of a filter. It takes the records that were there at its until, the oldest first, and never more than
// count, which is the number that the user has agreed to.
func (q *quarantine) bulk(c *request, kind bulkKind) (any, error) {
	var asked struct {
		rejectFilter
		Count int `json:"count"`
		// Why is the reason of a discard. It may be empty.
		Why string `json:"why"`
	}
	if err := c.body(&asked); err != nil {
		return nil, err
	}
	if err := checkWhy(asked.Why); err != nil {
		return nil, err
	}
	c.note("filter", fmt.Sprintf("%+v", asked.rejectFilter), "count", asked.Count, "why", asked.Why)
	if asked.Count < 1 || asked.Count > maxBulk {
		return nil, refuse(http.StatusBadRequest, "count is %d, not 1 to %d.", asked.Count, maxBulk)
	}
	if asked.Until == "" {
		asked.Until = rfc3339(time.Now().Add(time.Millisecond))
	}
	sets, n, err := q.matching(c, &asked.rejectFilter, asked.Count)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, refuse(http.StatusNotFound, "No record matches now.")
	}
	title, why := kind.title+recordsOf(n), visible(asked.Why)
	if len(sets) == 1 {
		title += " of " + visible(sets[0].sink)
	} else {
		title += " of " + strconv.Itoa(len(sets)) + " sinks"
	}
	c.note("records", n)
	console, log, user := c.Console, c.opts.Logger, c.who.user
	id, err := c.startTask(bulkTask, title, func(ctx context.Context, progress func(string)) error {
		var done bulkCounts
		tell := func() string {
			return fmt.Sprintf("%s of %s: %s", grouped(int64(done.steps)), grouped(int64(n)), kind.said(done))
		}
		defer func() { log.Info("console task ended", "task", title, "user", user, "outcome", tell(), "why", why) }()
		for _, set := range sets {
			in := console.ofSink(set.sink)
			for ids := range slices.Chunk(set.ids, bulkStep) {
				progress(tell())
				err := ctx.Err()
				if err == nil {
					err = kind.step(ctx, in, ids, &done)
				}
				if err != nil {
					progress(tell())
					return fmt.Errorf("%w (%s)", err, tell())
				}
				done.steps += len(ids)
			}
		}
		progress(tell())
		return nil
	})
	if err != nil {
		return nil, err
	}
	return map[string]any{"task": id, "count": n}, nil
}

// recordsOf is a number of records with its noun.
func recordsOf(n int) string {
	if n == 1 {
		return "1 record"
	}
	return grouped(int64(n)) + " records"
}
