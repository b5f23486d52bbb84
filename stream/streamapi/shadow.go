package streamapi

import (
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/mapping"
)

type shadowStart struct {
	Mapping *columns `json:"mapping,omitempty" doc:"Columns to try. They replace all columns of the sink in the comparison, and nowhere else. Required without copy."`
	Copy    string   `json:"copy,omitempty" minLength:"1" maxLength:"48" doc:"Id of another sink of the source, to compare the rows of both tables in place of trying columns."`
	Seconds float64  `json:"seconds,omitempty" exclusiveMinimum:"0" maximum:"86400" doc:"How long records are taken. Default: 600."`
	Records int64    `json:"records,omitempty" minimum:"1" doc:"Ends the shadow when this many records were compared. Default: it ends by time alone."`
	Sample  float64  `json:"sample,omitempty" exclusiveMinimum:"0" maximum:"1" doc:"Share of the records that are compared, drawn at random. Default: 1, all."`
}

// shadowBody is a [forebay.ShadowReport].
type shadowBody struct {
	SourceID      string            `json:"sourceId" doc:"Id of the source."`
	SinkID        string            `json:"sinkId" doc:"Id of the sink."`
	BeganAt       string            `json:"beganAt" doc:"Time in UTC with milliseconds when it began."`
	EndedAt       string            `json:"endedAt,omitempty" doc:"Time in UTC with milliseconds when it took its last record; left out before."`
	End           string            `json:"end,omitempty" enum:"time,records,closed,redefined,failed" doc:"Why it has ended; left out while it runs."`
	Failure       string            `json:"failure,omitempty" doc:"What a mapping said that panicked, with the end failed."`
	Seen          int64             `json:"seen" doc:"Number of records that the sink has mapped meanwhile; unsampled, dropped, tooLarge, unreadable, waiting and compared are its parts."`
	Unsampled     int64             `json:"unsampled" doc:"Number of records that the sample left out."`
	Dropped       int64             `json:"dropped" doc:"Number of records that were not compared because too many waited, or because the shadow ended before."`
	TooLarge      int64             `json:"tooLarge" doc:"Number of records that are larger than all that may wait."`
	Unreadable    int64             `json:"unreadable" doc:"Number of records of structured data that have no JSON form."`
	Waiting       int64             `json:"waiting" doc:"Number of records that wait to be compared."`
	Compared      int64             `json:"compared" doc:"Number of records that were compared; equal, different, onlyCurrent, onlyChanged and neither are its parts."`
	Equal         int64             `json:"equal" doc:"Number of records that both mappings take, with equal cells in the columns that both have."`
	Different     int64             `json:"different" doc:"Number of records that both mappings take, with different cells."`
	OnlyCurrent   int64             `json:"onlyCurrent" doc:"Number of records that only the mapping of the sink takes."`
	OnlyChanged   int64             `json:"onlyChanged" doc:"Number of records that only the changed mapping takes."`
	Neither       int64             `json:"neither" doc:"Number of records that none of them takes."`
	Columns       []shadowColumn    `json:"columns" doc:"Columns of the changed mapping in their order, and after them the columns that it lacks."`
	Errors        []shadowRejection `json:"errors" doc:"Rejections that only one of the mappings has, by number of records."`
	OtherErrors   int64             `json:"otherErrors" doc:"Number of records with rejections of further kinds; 50 kinds are told apart."`
	CurrentMillis float64           `json:"currentMillis" doc:"Time that the mapping of the sink took for the records that were compared, in milliseconds."`
	ChangedMillis float64           `json:"changedMillis" doc:"Time that the changed mapping took for the same records, in milliseconds."`
	Problems      []string          `json:"problems" doc:"What the table could not follow, as far as it is known without asking the target."`
}

type shadowColumn struct {
	Name      string          `json:"name" doc:"Name in the changed mapping, or in the current one if only that has it."`
	New       bool            `json:"new,omitempty" doc:"Only the changed mapping has the column."`
	Missing   bool            `json:"missing,omitempty" doc:"Only the current mapping has the column."`
	Generated bool            `json:"generated,omitempty" doc:"Both make new values for each row, which are not compared."`
	Different int64           `json:"different" doc:"Number of records with different cells, among the records that both mappings accept."`
	Examples  []shadowExample `json:"examples" doc:"The first three of them."`
}

type shadowExample struct {
	ReceivedAt string  `json:"receivedAt" doc:"Time in UTC with milliseconds of the arrival of the record."`
	Current    *string `json:"current" doc:"Cell of the current mapping, up to 256 bytes; null for NULL, *** in columns that are secret in one of the mappings."`
	Changed    *string `json:"changed" doc:"Cell of the changed mapping, in the same form."`
}

type shadowRejection struct {
	Mapping string `json:"mapping" enum:"current,changed" doc:"Mapping that rejects the records."`
	Reason  string `json:"reason" doc:"Word for the reason."`
	Column  string `json:"column,omitempty" doc:"Column that rejects them; left out if none does."`
	Records int64  `json:"records" doc:"Number of records."`
	Message string `json:"message" doc:"Error of the first one in words, without values of secret columns."`
}

func newShadow(r forebay.ShadowReport) shadowBody {
	b := shadowBody{
		SourceID: r.Source, SinkID: r.Sink, BeganAt: timeText(r.Began), EndedAt: timeText(r.Ended), End: string(r.End), Failure: r.Failure,
		Seen: r.Seen, Unsampled: r.Unsampled, Dropped: r.Dropped, TooLarge: r.TooLarge, Unreadable: r.Unreadable, Waiting: r.Waiting, Compared: r.Compared,
		Equal: r.Equal, Different: r.Different, OnlyCurrent: r.OnlyCurrent, OnlyChanged: r.OnlyChanged, Neither: r.Neither,
		Columns: convert(r.Columns, newShadowColumn), Errors: convert(r.Errors, newShadowRejection), OtherErrors: r.OtherErrors,
		CurrentMillis: float64(r.CurrentTime) / float64(time.Millisecond), ChangedMillis: float64(r.ChangedTime) / float64(time.Millisecond),
		Problems: []string{},
	}
	for _, p := range r.Problems {
		b.Problems = append(b.Problems, p.Err.Error())
	}
	return b
}

func newShadowColumn(c forebay.ShadowColumn) shadowColumn {
	return shadowColumn{
		Name: c.Name, New: c.New, Missing: c.Missing, Generated: c.Generated, Different: c.Different,
		Examples: convert(c.Examples, func(e forebay.ShadowExample) shadowExample {
			return shadowExample{ReceivedAt: timeText(e.Received), Current: newShadowCell(e.Current), Changed: newShadowCell(e.Changed)}
		}),
	}
}

func newShadowCell(c forebay.ShadowCell) *string {
	if c.Null {
		return nil
	}
	return &c.Text
}

func newShadowRejection(r forebay.ShadowRejection) shadowRejection {
	b := shadowRejection{Mapping: "current", Reason: r.Reason, Column: r.Column, Records: r.Records, Message: r.Message}
	if r.Changed {
		b.Mapping = "changed"
	}
	return b
}

// shadow turns a report into the response.
func shadow(r forebay.ShadowReport, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return newShadow(r), nil
}

func (a *api) startShadow(c *request) (any, error) {
	b := c.body.(*shadowStart)
	var p problems
	var cols mapping.Columns
	switch {
	case b.Mapping != nil && b.Copy != "":
		p.add("badRequest", "body.mapping and body.copy exclude each other, leave out one of them")
	case b.Mapping != nil:
		cols = requestColumns(b.Mapping.Columns, "", &p)
	case b.Copy == "":
		p.add("missingField", "body.mapping is missing, give it or body.copy")
	}
	if a.cat != nil {
		if _, _, err := a.cat.Sink(c.source, c.sink); err != nil {
			return nil, err
		}
	}
	if a.cat != nil && cols != nil {
		p.refused(a.cat.ValidateSinkPatch(c.source, c.sink, catalog.SinkPatch{Columns: cols}))
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	a.noteChange(c.ctx, c, "a shadow is starting")
	opts := forebay.ShadowOptions{For: time.Duration(b.Seconds * float64(time.Second)), Records: b.Records, Sample: b.Sample}
	if b.Copy != "" {
		return shadow(a.on.Handle(c.source, c.sink).ShadowCopy(c.ctx, b.Copy, opts))
	}
	return shadow(a.on.Handle(c.source, c.sink).Shadow(c.ctx, cols, opts))
}

func (a *api) getShadow(c *request) (any, error) {
	return shadow(a.on.Handle(c.source, c.sink).ShadowReport())
}

func (a *api) endShadow(c *request) (any, error) {
	return shadow(a.on.Handle(c.source, c.sink).EndShadow())
}
