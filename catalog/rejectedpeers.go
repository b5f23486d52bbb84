package catalog

import (
	"cmp"
	"errors"
	"net/http"
	"net/netip"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/mapping"
)

// rejectsRequest is the part of a [request] about the quarantine of a sink.
type rejectsRequest struct {
	// Instance is the only one to respond. Empty means all.
	Instance string `json:"instance,omitempty"`
	// IDs are record ids. Without a Filter, a replay or discard applies to the records that the instance has.
	IDs    []string      `json:"ids,omitempty"`
	Filter *filterRecord `json:"filter,omitempty"`
	// After is the last record before, by instance, and Limit the length of a page.
	After map[string]string `json:"after,omitempty"`
	Limit int               `json:"limit,omitempty"`
	// Revision and Body are of an edit. The body is compressed by gzip.
	Revision int    `json:"revision,omitempty"`
	Body     []byte `json:"body,omitempty"`
	// By and Reason are the [forebay.QuarantineNote] of an edit or a discard. Earlier releases ignore them.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// rejectsResponse is the result of a rejectsRequest.
type rejectsResponse struct {
	Total   int64            `json:"total,omitempty"`
	Records []rejectedRecord `json:"records,omitempty"`
	// More is set if there are more records after the page or the step. Last is then the last record that it has examined, and LastAt when that
	// was rejected. A step has examined the records before Until.
	More    bool           `json:"more,omitempty"`
	Last    string         `json:"last,omitempty"`
	LastAt  time.Time      `json:"lastAt,omitzero"`
	Until   time.Time      `json:"until,omitzero"`
	Content *contentRecord `json:"content,omitempty"`
	Cells   []TestedCell   `json:"cells,omitempty"`
	Result  RejectsResult  `json:"result,omitzero"`
	// Refused says why the edit is invalid.
	Refused string `json:"refused,omitempty"`
}

// filterRecord is a [forebay.RejectedFilter] without After.
type filterRecord struct {
	Reason  string    `json:"reason,omitempty"`
	Column  string    `json:"column,omitempty"`
	Version int       `json:"version,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	Until   time.Time `json:"until,omitzero"`
	Text    string    `json:"text,omitempty"`
	Content string    `json:"content,omitempty"`
}

func newFilterRecord(f forebay.RejectedFilter) *filterRecord {
	return &filterRecord{Reason: f.Reason, Column: f.Column, Version: f.Version, Since: f.Since, Until: f.Until, Text: f.Text, Content: f.Content}
}

// filter selects everything for nil.
func (f *filterRecord) filter() forebay.RejectedFilter {
	if f == nil {
		return forebay.RejectedFilter{}
	}
	return forebay.RejectedFilter{Reason: f.Reason, Column: f.Column, Version: f.Version, Since: f.Since, Until: f.Until, Text: f.Text, Content: f.Content}
}

// rejectedRecord is a [forebay.RejectedRecord] without its sink.
type rejectedRecord struct {
	ID       string    `json:"id"`
	Place    string    `json:"place,omitempty"` // if empty, the ID
	At       time.Time `json:"at"`
	Reason   string    `json:"reason,omitempty"`
	Column   string    `json:"column,omitempty"`
	Message  string    `json:"message,omitempty"`
	Mapping  string    `json:"mapping,omitempty"`
	Version  int       `json:"version,omitempty"`
	Failed   int       `json:"failed,omitempty"`
	TriedAt  time.Time `json:"triedAt,omitzero"`
	Edited   bool      `json:"edited,omitempty"`
	Revision int       `json:"revision,omitempty"`
	Size     int64     `json:"size"`
	EditedAt time.Time `json:"editedAt,omitzero"`
	EditedBy string    `json:"editedBy,omitempty"`
	// Poison is set for a row that the target has refused.
	Poison *poisonRecord `json:"poison,omitempty"`
}

// poisonRecord says where a refused row comes from. Its columns and reason are in the record.
type poisonRecord struct {
	File string `json:"file"`
	Row  int64  `json:"row"`
}

func newRejectedRecord(r forebay.RejectedRecord) rejectedRecord {
	var poison *poisonRecord
	if p := r.Poison; p != nil {
		poison = &poisonRecord{p.FileID, p.Row}
	}
	place := r.Place
	if place == r.ID {
		place = ""
	}
	return rejectedRecord{
		Poison: poison, Place: place,
		ID: r.ID, At: r.At, Reason: r.Reason, Column: r.Column, Message: r.Message, Mapping: r.Mapping, Version: r.Version, Failed: r.Failed, TriedAt: r.TriedAt,
		Edited: r.Edited, Revision: r.Revision, Size: r.Size, EditedAt: r.EditedAt, EditedBy: r.EditedBy,
	}
}

func (r rejectedRecord) record(source, sink string) forebay.RejectedRecord {
	var poison *buffer.Poison
	if p := r.Poison; p != nil {
		poison = &buffer.Poison{FileID: p.File, RowError: driver.RowError{Row: p.Row, Column: r.Column, Reason: r.Reason, Message: r.Message}}
	}
	return forebay.RejectedRecord{
		Poison: poison, Place: cmp.Or(r.Place, r.ID),
		ID: r.ID, Source: source, Sink: sink, At: r.At, Reason: r.Reason, Column: r.Column, Message: r.Message, Mapping: r.Mapping, Version: r.Version,
		Failed: r.Failed, TriedAt: r.TriedAt, Edited: r.Edited, Revision: r.Revision, Size: r.Size, EditedAt: r.EditedAt, EditedBy: r.EditedBy,
	}
}

// contentRecord is a [forebay.RejectedContent].
type contentRecord struct {
	rejectedRecord
	Body     []byte         `json:"body"`
	Came     []byte         `json:"came"`
	Format   mapping.Format `json:"format,omitempty"`
	Header   http.Header    `json:"header,omitempty"`
	Removed  []string       `json:"removed,omitempty"`
	Host     string         `json:"host,omitempty"`
	Method   string         `json:"method,omitempty"`
	Path     string         `json:"path,omitempty"`
	Query    string         `json:"query,omitempty"`
	ClientIP netip.Addr     `json:"clientIP,omitzero"`
	Received time.Time      `json:"received,omitzero"`
}

func newContentRecord(c forebay.RejectedContent) *contentRecord {
	r := c.Record
	return &contentRecord{
		rejectedRecord: newRejectedRecord(c.RejectedRecord), Body: r.Body, Came: c.Came, Format: r.Format, Header: r.Header, Removed: c.Removed,
		Host: r.Host, Method: r.Request.Method, Path: r.Request.Path, Query: r.Request.Query, ClientIP: r.ClientIP, Received: r.Received,
	}
}

func (r *contentRecord) content(source, sink string) forebay.RejectedContent {
	return forebay.RejectedContent{
		RejectedRecord: r.record(source, sink), Came: r.Came, Removed: r.Removed,
		Record: &mapping.Record{
			Body: r.Body, Format: r.Format, Header: r.Header, Host: r.Host, Request: mapping.RequestLine{Method: r.Method, Path: r.Path, Query: r.Query},
			ClientIP: r.ClientIP, Received: r.Received,
		},
	}
}

func testedCells(cells []mapping.Cell) []TestedCell {
	list := make([]TestedCell, 0, len(cells))
	for _, cell := range cells {
		r := TestedCell{Column: cell.Column, Type: cell.Type, Value: cell.Value, Null: cell.Null}
		if cell.Err != nil {
			r.Error = cell.Err.Error()
			if e, ok := errors.AsType[*mapping.Error](cell.Err); ok {
				r.Reason = e.Reason.String()
			}
		}
		list = append(list, r)
	}
	return list
}

func newQuarantineStatistics(q buffer.QuarantineStats) QuarantineStatistics {
	return QuarantineStatistics{
		Records: q.Records, Bytes: q.Bytes, OldestAt: q.OldestAt, Added: q.Added, Replayed: q.Replayed, Discarded: q.Discarded, Expired: q.Expired,
		Lost: q.Lost,
	}
}

func (q *QuarantineStatistics) add(o QuarantineStatistics) {
	q.Records += o.Records
	q.Bytes += o.Bytes
	q.Added += o.Added
	q.Replayed += o.Replayed
	q.Discarded += o.Discarded
	q.Expired += o.Expired
	q.Lost += o.Lost
	if !o.OldestAt.IsZero() && (q.OldestAt.IsZero() || o.OldestAt.Before(q.OldestAt)) {
		q.OldestAt = o.OldestAt
	}
}
