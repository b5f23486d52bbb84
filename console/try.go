package console

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driverkit/textcut"
	"github.com/forebay/forebay/mapping"
)

// The playground maps an event with unsaved columns, and stores nothing.

const (
	// maxEvent bounds the body of an event. The engine takes larger ones.
	maxEvent = 1 << 20
	// tryTime bounds one row. A template that has begun ends by its budget.
	tryTime = 2 * time.Second
	// trySlots bounds the rows that are mapped at the same time, for all users together because the engine needs the processors.
	trySlots = 2
	// maxValue bounds the bytes sent of a cell and of the row.
	maxValue = 64 << 10
	// maxNames bounds the sinks in a list to choose from, maxPicked the events.
	maxNames  = 200
	maxPicked = 20
)

// playground is the state of the page on the server.
type playground struct {
	slots chan struct{}
	// within is tryTime.
	within time.Duration
	runs   shadowRuns
}

func (p *playground) init() { p.slots, p.within = make(chan struct{}, trySlots), tryTime }

func (c *Console) tryPage() page {
	return page{name: "try", title: "Playground", key: "t", right: Records, endpoints: []endpoint{
		{name: "try.sinks", method: http.MethodGet, right: Records, run: (*request).trySinks},
		{name: "try.open", method: http.MethodGet, right: Records, defs: true, run: (*request).tryOpen},
		{name: "try.event", method: http.MethodGet, right: Records, run: (*request).tryEvent},
		{name: "try.columns", method: http.MethodPost, right: Records, run: (*request).tryColumns},
		{name: "try.run", method: http.MethodPost, right: Records, run: (*request).tryRun},
		{name: "try.diff", method: http.MethodPost, right: Records, run: (*request).tryDiff},
		{name: "try.report", method: http.MethodGet, right: Records, run: (*request).tryReport},
		{name: "try.shadow", method: http.MethodPost, right: Records | Changes, change: true, run: (*request).tryShadow},
		{name: "try.stop", method: http.MethodPost, right: Records | Changes, change: true, run: (*request).tryStop},
		{name: "try.save", method: http.MethodPost, right: Records | Changes, change: true, run: (*request).trySave},
	}}
}

// draftColumn is a column as the page edits it, its JSON form, but with program and default as texts. A browser would change the numbers of
// a default that it has parsed.
type draftColumn struct {
	Type mapping.Type `json:"type"`
	Name string       `json:"name"`
	// Path, Default, DefaultOnNull, RawString and Template count for the kinds that have them. Default is a JSON text, empty for none.
	Path          string        `json:"path"`
	Default       string        `json:"default"`
	DefaultOnNull bool          `json:"defaultOnNull"`
	RawString     bool          `json:"rawString"`
	Template      string        `json:"template"`
	DataType      datatype.Type `json:"dataType"`
	mapping.TypeOptions
	Secret bool `json:"secret"`
}

func draftOf(columns mapping.Columns) []draftColumn {
	drafts := make([]draftColumn, len(columns))
	for i, c := range columns {
		drafts[i] = draftColumn{
			Type: c.Type, Name: c.Name, Path: c.Path, Default: string(c.Default), DefaultOnNull: c.DefaultOnNull, RawString: c.RawString,
			Template: c.Template.Content, DataType: c.DataType, TypeOptions: c.TypeOptions, Secret: c.Secret,
		}
	}
	return drafts
}

func (d draftColumn) column() mapping.Column {
	c := mapping.Column{Type: d.Type, Name: d.Name, DataType: d.DataType, TypeOptions: d.TypeOptions, Secret: d.Secret}
	switch d.Type {
	case mapping.TypePath:
		c.Path, c.RawString, c.DefaultOnNull = d.Path, d.RawString, d.DefaultOnNull
		if strings.TrimSpace(d.Default) != "" {
			c.Default = json.RawMessage(d.Default)
		}
	case mapping.TypeTemplate:
		c.Template, c.RawString = mapping.TemplateSource{Language: "jsonnet", Content: d.Template}, d.RawString
	}
	return c
}

func columnsOf(drafts []draftColumn) mapping.Columns {
	columns := make(mapping.Columns, len(drafts))
	for i, d := range drafts {
		columns[i] = d.column()
	}
	return columns
}

// placed is a problem at its place in the columns.
type placed struct {
	// Column is the position of the column, -1 for the mapping as a whole; Field is the member of its JSON form.
	Column int    `json:"column"`
	Field  string `json:"field,omitempty"`
	// Line and Col count from 1, in characters. 0 means that the problem has no place.
	Line int    `json:"line,omitempty"`
	Col  int    `json:"col,omitempty"`
	Text string `json:"text"`
}

// problemsOf returns the places of the errors of [forebay.Engine.Compile].
func problemsOf(err error) []placed {
	if all, ok := errors.AsType[mapping.DefinitionErrors](err); ok {
		problems := make([]placed, len(all))
		for i, e := range all {
			problems[i] = placed{e.Index, e.Field, e.Line, e.Col, visible(e.Err.Error())}
		}
		return problems
	}
	return []placed{{Column: -1, Text: visible(err.Error())}}
}

// sinkNamed returns a sink, also a disabled one, as the catalog has it or else the engine, and the number of its version, 0 without a catalog.
func (c *request) sinkNamed(sourceID, sinkID string) (source forebay.Source, sink forebay.Sink, version int, err error) {
	source, ok := c.eng.Source(sourceID)
	if ok {
		if i := slices.IndexFunc(source.Sinks, func(s forebay.Sink) bool { return s.ID == sinkID }); i >= 0 {
			sink = source.Sinks[i]
		}
	}
	if c.opts.Catalog != nil {
		// The definition of the catalog counts because the engine may have refused its columns.
		of, s, err := c.opts.Catalog.Sink(sourceID, sinkID)
		if err != nil {
			return source, sink, 0, refuse(http.StatusNotFound, "There is no sink %s/%s.", visible(sourceID), visible(sinkID))
		}
		source.ID, source.Type = sourceID, of.Type
		sink.ID, sink.Disabled = sinkID, s.DisabledWith(of) != nil
		sink.Table = forebay.Table{ID: s.TableID, Target: s.Target, Columns: s.Columns, Extend: s.Extend}
		return source, sink, s.Version.Number, nil
	}
	if sink.ID == "" {
		return source, sink, 0, refuse(http.StatusNotFound, "There is no sink %s/%s.", visible(sourceID), visible(sinkID))
	}
	sink.Disabled = sink.Disabled || source.Disabled
	return source, sink, 0, nil
}

// trySinks lists the sinks whose names have a part, maxNames at most.
func (c *request) trySinks() (any, error) {
	part := strings.ToLower(c.query.Get("filter"))
	var answer struct {
		Sinks []string `json:"sinks"`
		More  bool     `json:"more"`
	}
	for _, source := range c.eng.Sources() {
		for _, s := range source.Sinks {
			name := source.ID + "/" + s.ID
			if !strings.Contains(name, part) {
				continue
			}
			if answer.More = len(answer.Sinks) == maxNames; answer.More {
				return answer, nil
			}
			answer.Sinks = append(answer.Sinks, name)
		}
	}
	return answer, nil
}

// pick is an event of the quarantine to choose.
type pick struct {
	ID      string `json:"id"`
	At      moment `json:"at"`
	Column  string `json:"column"`
	Message string `json:"message"`
}

// opened has the data of a sink that the page needs.
type opened struct {
	Source string `json:"source"`
	Sink   string `json:"sink"`
	Table  string `json:"table"`
	// Telemetry says that events are flat records of OTLP.
	Telemetry bool          `json:"telemetry"`
	Columns   []draftColumn `json:"columns"`
	Text      string        `json:"text"`
	// Example is a body that the columns take.
	Example string `json:"example"`
	// Version is 0 where definitions are not kept in a catalog.
	Version int    `json:"version"`
	Picks   []pick `json:"picks"`
	// Why the columns cannot be saved, or run as a shadow. Empty if they can.
	NoSave   string `json:"noSave"`
	NoShadow string `json:"noShadow"`
}

func (c *request) tryOpen() (any, error) {
	source, sink, version, err := c.sinkNamed(c.query.Get("source"), c.query.Get("sink"))
	if err != nil {
		return nil, err
	}
	o := opened{
		Source: source.ID, Sink: sink.ID, Table: sink.Table.ID, Telemetry: source.Type == forebay.OTLP, Columns: draftOf(sink.Table.Columns),
		Text: textOf(sink.Table.Columns), Example: exampleOf(sink.Table.Columns, source.Type == forebay.OTLP), Version: version, Picks: []pick{},
	}
	switch {
	case c.opts.Catalog == nil:
		o.NoSave = "The program defines this sink itself. Copy the columns into it."
	case c.who.rights&Changes == 0:
		o.NoSave = "Your token has no right to change anything."
	}
	switch {
	case c.who.rights&Changes == 0:
		o.NoShadow = "Your token has no right to change anything."
	case sink.Disabled:
		o.NoShadow = "The sink is disabled: no event would arrive."
	}
	for r, err := range c.eng.Sink(source.ID, sink.ID).Quarantine().List(c.ctx, forebay.RejectedFilter{}) {
		if errors.Is(err, forebay.ErrUnknownSink) {
			break // it has none before its first definition
		}
		if err != nil {
			return nil, err
		}
		if r.Poison != nil {
			continue // its event is gone
		}
		if len(o.Picks) == maxPicked {
			o.Picks = o.Picks[1:]
		}
		o.Picks = append(o.Picks, pick{r.ID, moment(r.At), visible(r.Column), visible(r.Message)})
	}
	slices.Reverse(o.Picks)
	return o, nil
}

// textOf is the JSON form of columns, as a definition has it.
func textOf(columns mapping.Columns) string {
	text, err := json.MarshalIndent(columns, "", "  ")
	if err != nil {
		return "" // a default that is no JSON, which the compiler reports
	}
	return string(text)
}

// tryColumns reads columns from their JSON form.
func (c *request) tryColumns() (any, error) {
	var asked struct{ Text string }
	if err := c.body(&asked); err != nil {
		return nil, err
	}
	var columns mapping.Columns
	if err := json.Unmarshal([]byte(asked.Text), &columns); err != nil {
		p := placed{Column: -1, Text: visible(err.Error())}
		if e, ok := errors.AsType[*json.SyntaxError](err); ok {
			p.Line, p.Col = place(asked.Text, int(e.Offset))
		}
		return nil, &refusal{http.StatusUnprocessableEntity, p.Text, map[string]any{"problems": []placed{p}}}
	}
	return map[string]any{"columns": draftOf(columns), "text": textOf(columns)}, nil
}

// place is the line and column of the last byte before an offset, in characters.
func place(text string, offset int) (line, col int) {
	before := text[:max(0, min(offset-1, len(text)))]
	start := strings.LastIndexByte(before, '\n') + 1
	return strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[start:]) + 1
}

// triedCell is a cell as the table will have it.
type triedCell struct {
	Name string `json:"name"`
	// Type is the data type, "untyped" if it has none; Kind is where the value comes from.
	Type     string       `json:"type"`
	Kind     mapping.Type `json:"kind"`
	Required bool         `json:"required,omitempty"`
	Value    string       `json:"value"`
	// Cut says that Value is only the beginning.
	Cut  bool `json:"cut,omitempty"`
	Null bool `json:"null,omitempty"`
	// Bytes is the size of the whole value, -1 for a secret one.
	Bytes int     `json:"bytes"`
	Why   *placed `json:"why,omitempty"`
}

// triedRow is the response of try.run. Problems are of the columns. With one there are no cells.
type triedRow struct {
	Problems []placed    `json:"problems,omitempty"`
	Cells    []triedCell `json:"cells,omitempty"`
	// CSV is the row as it is stored. Secret values are *** in it.
	CSV      string `json:"csv,omitempty"`
	CSVCut   bool   `json:"csvCut,omitempty"`
	CSVBytes int    `json:"csvBytes,omitempty"`
	// Rejected says why the event would become no row, Reason is its word.
	Rejected string `json:"rejected,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Text     string `json:"text"`
}

// sinkDraft is a sink with unsaved columns.
type sinkDraft struct {
	Source, Sink string
	Columns      []draftColumn
}

// tryRun maps an event.
func (c *request) tryRun() (any, error) {
	var asked struct {
		sinkDraft
		Event tried
	}
	if err := c.body(&asked); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.try.within)
	defer cancel()
	select {
	case c.try.slots <- struct{}{}:
		defer func() { <-c.try.slots }()
	case <-ctx.Done():
		return nil, refuse(http.StatusTooManyRequests, "Others use the playground. Try again.")
	}
	columns := columnsOf(asked.Columns)
	answer := triedRow{Text: textOf(columns)}
	m, err := c.tryCompile(asked.Source, asked.Sink, columns)
	if err != nil {
		answer.Problems = problemsOf(err)
		return answer, nil
	}
	rec, err := asked.Event.record(time.Now())
	if err != nil {
		return nil, err
	}
	err = c.mapEvent(ctx, &answer, m, columns, rec)
	return answer, err
}

// tryCompile compiles columns as the engine does, with the limits of the target of the sink. The mapper is not the sink's own, even for the same columns, so that the UUIDs of the sink do
// not depend on the playground.
func (c *request) tryCompile(source, sink string, columns mapping.Columns) (*mapping.Mapper, error) {
	table := forebay.Table{Columns: columns}
	if _, s, _, err := c.sinkNamed(source, sink); err == nil {
		table.Target = s.Table.Target
	}
	return c.eng.Sink(source, sink+" playground").Compile(table)
}

// mapEvent fills in the row.
func (c *request) mapEvent(ctx context.Context, answer *triedRow, m *mapping.Mapper, columns mapping.Columns, rec *mapping.Record) error {
	inTable := m.Columns()
	var row []byte
	unseen := 0 // bytes by which secret values exceed their marks in the row
	for i, column := range columns {
		if ctx.Err() != nil {
			if c.ctx.Err() != nil {
				return c.ctx.Err()
			}
			return refuse(http.StatusUnprocessableEntity, "The row takes more than %v: stopped before column %q, %d of %d.", c.try.within, visible(column.Name), i+1, len(columns))
		}
		cell := m.Cell(i, rec)
		out := triedCell{Name: column.Name, Type: cmp.Or(string(inTable[i].Type), "untyped"), Kind: column.Type, Required: inTable[i].Required, Null: cell.Null, Bytes: len(cell.Value)}
		out.Value, out.Cut = head(cell.Value)
		if cell.Err != nil {
			out.Why = &placed{Column: i, Text: visible(cell.Err.Error())}
			if e, ok := errors.AsType[*mapping.Error](cell.Err); ok {
				out.Why.Line, out.Why.Col, out.Why.Text = e.At.Line, e.At.Col, visible(causeOf(e))
				if answer.Rejected == "" {
					answer.Reason = e.Reason.String()
				}
			}
			if answer.Rejected == "" { // the first one rejects the row
				answer.Rejected = visible(cell.Err.Error())
			}
		}
		if column.Secret && !cell.Null && cell.Err == nil {
			out.Bytes = -1
			text, err := m.AppendCell(nil, i, rec)
			if err == nil {
				unseen += len(quoted(nil, string(text))) - len(quoted(nil, cell.Value))
			}
		}
		if i > 0 {
			row = append(row, ',')
		}
		if !cell.Null {
			row = quoted(row, cell.Value)
		}
		answer.Cells = append(answer.Cells, out)
	}
	row = append(row, '\n')
	if answer.Rejected != "" {
		return nil
	}
	if limit := c.eng.Stats().MaxRowBytes; len(row)+unseen > limit {
		err := &forebay.RowTooLargeError{Size: len(row) + unseen, Limit: limit}
		answer.Rejected, answer.Reason = visible(err.Error()), "rowTooLarge"
		return nil
	}
	answer.CSVBytes = len(row) + unseen
	answer.CSV, answer.CSVCut = head(string(row))
	return nil
}

// causeOf is the text of an error without its column and place, which the page shows next to it.
func causeOf(e *mapping.Error) string {
	text := e.Err.Error()
	if e.At.Expr != "" {
		text += ", in " + e.At.Expr
	}
	return text
}

// quoted appends a cell that is not NULL as rows have it.
func quoted(row []byte, text string) []byte {
	row = append(row, '"')
	row = append(row, strings.ReplaceAll(text, `"`, `""`)...)
	return append(row, '"')
}

// head is the beginning of a text, of whole characters, and cut says that there is more. Bytes that are not UTF-8 become U+FFFD in JSON.
func head(text string) (beginning string, cut bool) { return headOf(text, maxValue) }

func headOf(text string, most int) (beginning string, cut bool) {
	beginning = textcut.Head(text, most)
	return beginning, len(beginning) < len(text)
}
