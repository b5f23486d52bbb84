package streamapi

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/internal/intake"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream/internal/wire"
)

// sinkTask is an operation of one sink without a body.
func (a *api) sinkTask(do func(by catalog.By, source, id string) (catalog.Task, error)) func(*call) (any, error) {
	return func(c *call) (any, error) { return a.task(c)(do(c.by, c.source, c.sink)) }
}

// sinkSpec adds to the problems what breaks a rule that a schema cannot say. at is the place of the sink in the body.
func (a *api) sinkSpec(b sinkCreate, at string, p *problems) catalog.SinkSpec {
	spec := catalog.SinkSpec{ID: b.SinkID, Name: b.Name, Description: b.Description, Signals: b.AllowedSignals}
	if b.Table == nil {
		p.add("badRequest", "body.%stable is missing, a sink of type table needs it", at)
		return spec
	}
	a.checkTableType(b.Table.Type, at, p)
	spec.TableID, spec.Columns = b.Table.TableID, requestColumns(b.Table.Mapping.Columns, at, p)
	return spec
}

func (a *api) checkTableType(given, at string, p *problems) {
	if given != a.opts.TableType {
		p.add("invalidEnumValue", "body.%stable.type must be %q but got %q", at, a.opts.TableType, given)
	}
}

// requestColumns demands the fields that the type of a column needs. A column without them is of a type that needs none,
// so that the rest can be checked too.
func requestColumns(list []column, at string, p *problems) mapping.Columns {
	cols := catalogColumns(list)
	for i, c := range list {
		field := "body." + at + "table.mapping.columns[" + strconv.Itoa(i) + "]"
		switch {
		case mapping.Type(c.Type) == mapping.TypePath && c.Path == nil:
			p.add("missingField", "%s.path is missing", field)
			cols[i] = mapping.UUID(c.Name)
		case mapping.Type(c.Type) == mapping.TypeTemplate && c.Template == nil:
			p.add("missingField", "%s.template is missing", field)
			cols[i] = mapping.UUID(c.Name)
		}
	}
	return cols
}

func (a *api) createSink(c *call) (any, error) {
	if _, err := a.cat.Source(c.source); err != nil {
		return nil, err
	}
	var p problems
	spec := a.sinkSpec(*c.body.(*sinkCreate), "", &p)
	if spec.Columns != nil { // else there is no table to check
		p.refused(a.cat.ValidateSink(c.source, spec))
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	return a.task(c)(a.cat.CreateSink(c.by, c.source, spec))
}

func (a *api) updateSink(c *call) (any, error) {
	if _, _, err := a.cat.Sink(c.source, c.sink); err != nil {
		return nil, err
	}
	b := c.body.(*sinkUpdate)
	patch := catalog.SinkPatch{Name: b.Name, Description: b.Description, Signals: b.AllowedSignals, ChangeDescription: b.ChangeDescription}
	var p problems
	if t := b.Table; t != nil {
		if t.Type != nil {
			a.checkTableType(*t.Type, "", &p)
		}
		patch.TableID = t.TableID
		if t.Mapping != nil {
			patch.Columns = requestColumns(t.Mapping.Columns, "", &p)
		}
	}
	p.refused(a.cat.ValidateSinkPatch(c.source, c.sink, patch))
	if err := p.err(); err != nil {
		return nil, err
	}
	return a.task(c)(a.cat.UpdateSink(c.by, c.source, c.sink, patch))
}

func (a *api) getSink(c *call) (any, error) {
	source, s, err := a.cat.Sink(c.source, c.sink)
	if err != nil {
		return nil, err
	}
	return a.sinkBody(source, s), nil
}

func (a *api) sinkBody(source catalog.Source, s catalog.Sink) sinkBody {
	return sinkBody{
		ProjectID: a.opts.Ingest.ProjectID, BranchID: a.opts.Ingest.BranchID, SourceID: source.ID, SinkID: s.ID, Type: "table",
		Name: s.Name, Description: s.Description, AllowedSignals: s.Signals,
		Table:   tableBody{Type: a.opts.TableType, TableID: s.TableID, Mapping: columns{Columns: bodyColumns(s.Columns)}},
		Version: newVersionBody(s.Version), Created: newCreated(s.Created), Deleted: newDeleted(s.Deleted),
		Disabled: newDisabled(s.DisabledWith(source)),
	}
}

func (a *api) listSinks(deleted bool) func(*call) (any, error) {
	return func(c *call) (any, error) {
		source, all, err := a.cat.Sinks(c.source, deleted)
		if err != nil {
			return nil, err
		}
		list, page := cut(c.page, all, func(s catalog.Sink) string { return s.ID })
		b := sinksBody{
			ProjectID: a.opts.Ingest.ProjectID, BranchID: a.opts.Ingest.BranchID, SourceID: source.ID, Page: page, Sinks: make([]sinkBody, 0, len(list)),
		}
		for _, s := range list {
			b.Sinks = append(b.Sinks, a.sinkBody(source, s))
		}
		return b, nil
	}
}

func (a *api) sinkSettings(c *call) (any, error) {
	list, err := a.cat.SinkSettings(c.source, c.sink)
	if err != nil {
		return nil, err
	}
	return newSettings(list), nil
}

func (a *api) updateSinkSettings(c *call) (any, error) {
	b := c.body.(*settingsUpdate)
	return a.task(c)(a.cat.ChangeSinkSettings(c.by, c.source, c.sink, b.ChangeDescription, b.changes()))
}

func (a *api) sinkTotal(c *call) (any, error) {
	s, err := a.cat.SinkStatistics(c.source, c.sink)
	if err != nil {
		return nil, err
	}
	return newTotal(s), nil
}

func (a *api) sinkFiles(c *call) (any, error) {
	s, err := a.cat.SinkStatistics(c.source, c.sink)
	if err != nil {
		return nil, err
	}
	failed, _ := strconv.ParseBool(c.query("failedFiles"))
	return filesBody{Files: newFiles(s.Files, failed)}, nil
}

// newFiles returns the files in the order of the service: those that have ended, then those that wait, then those that
// have failed; each by the time of opening.
func newFiles(files []buffer.FileStats, onlyFailed bool) []fileBody {
	rank := func(f buffer.FileStats) int {
		switch {
		case f.State == buffer.FileImported:
			return 0
		case f.Attempt > 0:
			return 2
		}
		return 1
	}
	files = slices.Clone(files)
	slices.SortStableFunc(files, func(a, b buffer.FileStats) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), a.OpenedAt.Compare(b.OpenedAt))
	})
	list := []fileBody{}
	for _, f := range files {
		if !onlyFailed || f.State != buffer.FileImported && f.Attempt > 0 {
			list = append(list, newFile(f))
		}
	}
	return list
}

func (a *api) clearSink(c *call) (any, error) {
	return nil, a.cat.ClearSinkStatistics(c.ctx, c.source, c.sink)
}

func (a *api) retrySink(c *call) (any, error) { return nil, a.cat.RetrySink(c.ctx, c.source, c.sink) }

func (a *api) discardFile(c *call) (any, error) {
	return nil, a.cat.DiscardFile(c.ctx, c.source, c.sink, c.r.PathValue("fileId"))
}

func (a *api) sinkVersions(c *call) (any, error) {
	list, err := a.cat.SinkVersions(c.source, c.sink)
	if err != nil {
		return nil, err
	}
	return versionPage(c.page, list), nil
}

func (a *api) sinkVersion(c *call) (any, error) {
	v, content, err := a.cat.SinkVersion(c.source, c.sink, c.number)
	if err != nil {
		return nil, err
	}
	b := newVersionBody(v)
	b.Content = content
	return b, nil
}

func (a *api) rollbackSink(c *call) (any, error) {
	return a.task(c)(a.cat.RollbackSink(c.by, c.source, c.sink, c.number))
}

// testSource renders the body of the request as one event, by the same rules as ingestion does.
func (a *api) testSource(c *call) (any, error) {
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
		if signal == "" {
			signal = "logs"
		}
		if rec.Body, err = flattenedRecord(body); err != nil {
			return nil, err
		}
		rec.Format = mapping.FormatJSON
	}
	rendered, err := a.cat.Render(c.source, signal, &rec)
	if err != nil {
		return nil, err
	}
	b := testBody{ProjectID: a.opts.Ingest.ProjectID, BranchID: a.opts.Ingest.BranchID, SourceID: c.source, Tables: make([]testTable, 0, len(rendered))}
	var failed problems
	for _, r := range rendered {
		row := testRow{Columns: make([]testColumn, 0, len(r.Cells))}
		for _, cell := range r.Cells {
			column := testColumn{Name: cell.Column, Value: cell.Value}
			if cell.Err != nil {
				column.Error = cell.Err.Error()
				failed.add("unprocessableContent", "sink %q: %v", r.SinkID, cell.Err)
			}
			row.Columns = append(row.Columns, column)
		}
		b.Tables = append(b.Tables, testTable{SinkID: r.SinkID, TableID: r.TableID, Rows: []testRow{row}})
	}
	if err := failed.err(); err != nil {
		e := err.(*wire.Error)
		e.Status = http.StatusUnprocessableEntity
		return &testFailure{testBody: b}, e
	}
	return b, nil
}

// flattenedRecord checks the sample of an OTLP source: one object, or nothing for the empty one.
func flattenedRecord(body []byte) ([]byte, error) {
	if len(body) == 0 {
		return []byte("{}"), nil
	}
	if !jsonObject(body) {
		return nil, names.Errorf(http.StatusBadRequest, "badRequest", "The body must be one flattened record: a JSON object.")
	}
	return body, nil
}
