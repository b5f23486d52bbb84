package streamapi

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/internal/intake"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream/internal/wire"
)

// testSource renders the body of the request as one event, by the same rules as ingestion does.
func (a *api) testSource(c *request) (any, error) {
	source, err := a.cat.Source(c.source)
	if err != nil {
		return nil, err
	}
	var buffer intake.Body
	defer a.bodies.Release(&buffer)
	body, e := a.bodies.Decode(&buffer, c.r.Header, c.raw, a.opts.Ingest.MaxBodyBytes)
	if e != nil {
		return nil, e
	}
	rec := mapping.Record{Body: body, Header: c.r.Header.Clone(), ClientIP: wire.ClientIP(c.r, a.opts.Ingest.TrustedProxies), Received: time.Now()}
	rec.Header.Set("Host", c.r.Host)
	rec.Header.Del(tokenHeader)
	if c.r.Header.Get(tokenHeader) == "" || source.Type == forebay.OTLP {
		rec.Header.Del("Authorization") // it was the token of this request, or is where telemetry may have its secret
	}
	for _, name := range a.opts.Ingest.HiddenHeaders {
		rec.Header.Del(name)
	}
	signal := c.query("signal")
	if source.Type == forebay.OTLP {
		signal = cmp.Or(signal, "logs")
		if rec.Body, err = flattenedRecord(body); err != nil {
			return nil, err
		}
		rec.Format = mapping.FormatJSON
	}
	rendered, err := a.cat.Render(c.source, signal, &rec)
	if err != nil {
		return nil, err
	}
	b := testBody{ProjectID: a.project, BranchID: a.branch, SourceID: c.source, Tables: make([]testTable, 0, len(rendered))}
	var failed problems
	for _, r := range rendered {
		row := testRow{Columns: make([]testColumn, 0, len(r.Cells))}
		for _, cell := range r.Cells {
			column := testColumn{Name: cell.Column, DataType: string(cell.Type), Value: &cell.Value}
			if cell.Null {
				column.Value = nil
			}
			if cell.Err != nil {
				column.Error = cell.Err.Error()
				if e, ok := errors.AsType[*mapping.Error](cell.Err); ok {
					column.Reason = e.Reason.String()
				}
				failed.add("unprocessableContent", "sink %q: %v", r.SinkID, cell.Err)
			}
			row.Columns = append(row.Columns, column)
		}
		b.Tables = append(b.Tables, testTable{SinkID: r.SinkID, TableID: r.TableID, Target: r.Target, Rows: []testRow{row}, Refused: r.Refused})
	}
	if err := failed.err(); err != nil {
		e := err.(*wire.Error)
		e.Status = http.StatusUnprocessableEntity
		return &testFailure{testBody: b}, e
	}
	return b, nil
}

// flattenedRecord checks the sample of an OTLP source, which is one object, or nothing for the empty one.
func flattenedRecord(body []byte) ([]byte, error) {
	if len(body) == 0 {
		return []byte("{}"), nil
	}
	if !jsonObject(body) {
		return nil, names.Errorf(http.StatusBadRequest, "badRequest", "The body must be one flattened record: a JSON object.")
	}
	return body, nil
}
