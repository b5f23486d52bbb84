package streamapi

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/forebay/forebay"
)

// eraseRequest is a [forebay.Match].
type eraseRequest struct {
	Path        string   `json:"path,omitempty" doc:"Path in the body, as in a mapping."`
	Value       string   `json:"value,omitempty" doc:"What the body has there: the text of a string, or the JSON of another value. Required with path."`
	Header      string   `json:"header,omitempty" doc:"Name of a request header."`
	HeaderValue string   `json:"headerValue,omitempty" doc:"Value of the header. Required with header."`
	Text        string   `json:"text,omitempty" doc:"Part of the record in any case of letters, at least 3 bytes with a letter or digit: of its body, a header as name: value, host, path, query or address of the sender."`
	SourceIDs   []string `json:"sourceIds,omitempty" maxItems:"10000" doc:"Sources that are searched, also deleted ones. Default: all."`
	Wait        string   `json:"wait,omitempty" doc:"How long to wait for rows on their way, for example 30s. Default: 30s."`
	DryRun      bool     `json:"dryRun,omitempty" doc:"Find and report, and change nothing."`
	Reason      string   `json:"reason,omitempty" maxLength:"1000" doc:"Why it is erased, for people: the log has it."`
}

// eraseBody is a [forebay.EraseReport].
type eraseBody struct {
	Match    string        `json:"match" doc:"Hash that names the conditions in the log."`
	DryRun   bool          `json:"dryRun" doc:"Nothing was changed."`
	Places   []erasedPlace `json:"places" doc:"What was found in each place, sorted by place and name."`
	Tables   []erasedTable `json:"tables" doc:"Tables that may have rows of the person. They are not changed."`
	Problems []string      `json:"problems,omitempty" doc:"Why a place was not searched or erased to its end; left out if there are none. Send the request again when the causes are removed."`
}

type erasedPlace struct {
	Place      string `json:"place" enum:"archive,copy,damage,keys,quarantine,waiting" doc:"Kind of the place."`
	Name       string `json:"name,omitempty" doc:"Source and sink with a slash, name of an archive, or path below the data directory."`
	Searched   int64  `json:"searched" doc:"Number of records or rows that were read."`
	Found      int64  `json:"found" doc:"Number of records or rows that match."`
	Erased     int64  `json:"erased" doc:"Number of records or rows that are gone from the place."`
	Left       int64  `json:"left" doc:"Number of records or rows that are still there."`
	Moved      int64  `json:"moved,omitempty" doc:"Number of rows that have come into their table meanwhile."`
	Unreadable int64  `json:"unreadable,omitempty" doc:"Number of records whose body has no fields, so that only text finds them."`
	At         string `json:"at,omitempty" doc:"Time in UTC with milliseconds when a copy was made."`
	Note       string `json:"note,omitempty" doc:"What else to know, for people."`
}

type erasedTable struct {
	SourceID string `json:"sourceId" doc:"Id of the source."`
	SinkID   string `json:"sinkId" doc:"Id of the sink."`
	Target   string `json:"target,omitempty" doc:"Name of the target; left out for the default target."`
	TableID  string `json:"tableId" doc:"Id of the table."`
	SQL      string `json:"sql,omitempty" doc:"Statement that deletes the rows; left out for a target without SQL."`
	Exact    bool   `json:"exact,omitempty" doc:"The mapping tells the columns. Otherwise the statement searches in all columns with text."`
	Note     string `json:"note,omitempty" doc:"What else to know, for people."`
}

func newErasedPlace(p forebay.ErasedPlace) erasedPlace {
	return erasedPlace{
		Place: p.Place, Name: p.Name, Searched: p.Searched, Found: p.Found, Erased: p.Erased, Left: p.Left, Moved: p.Moved,
		Unreadable: p.Unreadable, At: timeText(p.At), Note: p.Note,
	}
}

func newErasedTable(t forebay.ErasedTable) erasedTable {
	return erasedTable{SourceID: t.Source, SinkID: t.Sink, Target: t.Target, TableID: t.Table, SQL: t.SQL, Exact: t.Exact, Note: t.Note}
}

func (a *api) erase(c *request) (any, error) {
	b := c.body.(*eraseRequest)
	m := forebay.Match{
		Path: b.Path, Value: b.Value, Header: b.Header, HeaderValue: b.HeaderValue, Text: b.Text, Sources: b.SourceIDs, DryRun: b.DryRun,
		By: c.by.TokenID, Reason: b.Reason,
	}
	if b.Wait != "" {
		var err error
		if m.Wait, err = time.ParseDuration(b.Wait); err != nil {
			return nil, names.Errorf(http.StatusBadRequest, "invalidFieldType", "wait is %q, must be a duration such as 30s", b.Wait)
		}
	}
	if err := m.Validate(); err != nil {
		return nil, names.Errorf(http.StatusBadRequest, "badRequest", "%s.", strings.ReplaceAll(err.Error(), "Match.", ""))
	}
	r, err := a.on.Engine().Erase(c.ctx, m)
	switch {
	case errors.Is(err, forebay.ErrUnknownSource):
		return nil, names.Errorf(http.StatusNotFound, "sourceNotFound", "%s.", err)
	case errors.Is(err, forebay.ErrReplayRuns):
		return nil, names.Errorf(http.StatusConflict, "taskIsRunning", "%s.", err)
	case r.Match == "": // nothing was searched
		return nil, err
	}
	body := eraseBody{Match: r.Match, DryRun: r.DryRun, Places: convert(r.Places, newErasedPlace), Tables: convert(r.Tables, newErasedTable)}
	if err != nil {
		body.Problems = strings.Split(err.Error(), "\n")
	}
	return body, nil
}
