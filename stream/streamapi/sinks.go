package streamapi

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/mapping"
)

// sinkSpec adds to the problems what breaks a rule that a schema cannot say. at is the place of the sink in the body.
func (a *api) sinkSpec(b sinkCreate, at string, p *problems) catalog.SinkSpec {
	spec := catalog.SinkSpec{ID: b.SinkID, Name: b.Name, Description: b.Description, Signals: b.AllowedSignals, AckLocal: b.AckLocal}
	spec.OnReject, spec.Quarantine = onReject(b.OnReject), b.Quarantine.bounds(at, p)
	if b.Table == nil {
		p.add("badRequest", "body.%stable is missing, add it: a sink of type table needs it", at)
		return spec
	}
	a.checkTableType(b.Table.Type, at, p)
	spec.TableID, spec.Target, spec.Extend = b.Table.TableID, b.Table.Target, b.Table.Extend
	spec.Columns = requestColumns(b.Table.Mapping.Columns, at, p)
	return spec
}

func (a *api) checkTableType(given, at string, p *problems) {
	if given != a.opts.TableType && given != plainTableType {
		p.add("invalidEnumValue", "body.%stable.type must be %q but got %q", at, a.opts.TableType, given)
	}
}

// requestColumns adds a problem for each setting that the type of a column requires and the request has left out.
func requestColumns(list []mappedColumn, at string, p *problems) mapping.Columns {
	cols := make(mapping.Columns, 0, len(list))
	for i, c := range list {
		if c.missing != "" {
			p.add("missingField", "body.%stable.mapping.columns[%d].%s is missing, add it", at, i, c.missing)
		}
		cols = append(cols, c.Column)
	}
	return cols
}

func (a *api) createSink(c *request) (any, error) {
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

func (a *api) updateSink(c *request) (any, error) {
	if _, _, err := a.cat.Sink(c.source, c.sink); err != nil {
		return nil, err
	}
	b := c.body.(*sinkUpdate)
	patch := catalog.SinkPatch{Name: b.Name, Description: b.Description, Signals: b.AllowedSignals, AckLocal: b.AckLocal, ChangeDescription: b.ChangeDescription}
	var p problems
	if b.OnReject != nil {
		o := onReject(*b.OnReject)
		patch.OnReject = &o
	}
	if b.Quarantine != nil {
		q := b.Quarantine.bounds("", &p)
		patch.Quarantine = &q
	}
	if t := b.Table; t != nil {
		if t.Type != nil {
			a.checkTableType(*t.Type, "", &p)
		}
		patch.TableID, patch.Target, patch.Extend = t.TableID, t.Target, t.Extend
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

func (a *api) switchSink(c *request) (any, error) {
	return a.task(c)(a.cat.SwitchToCopy(c.by, c.source, c.sink, c.r.PathValue("copyId")))
}

func (a *api) getSink(c *request) (any, error) {
	source, s, err := a.cat.Sink(c.source, c.sink)
	if err != nil {
		return nil, err
	}
	return a.sinkBody(source, s), nil
}

func (a *api) sinkBody(source catalog.Source, s catalog.Sink) sinkBody {
	return sinkBody{
		ProjectID: a.project, BranchID: a.branch, SourceID: source.ID, SinkID: s.ID, Type: "table",
		Name: s.Name, Description: s.Description, AllowedSignals: s.Signals, AckLocal: s.AckLocal,
		OnReject: onRejectWord(s.OnReject), Quarantine: newBounds(s.Quarantine),
		Table:   tableBody{Type: a.opts.TableType, TableID: s.TableID, Target: s.Target, Mapping: columns{Columns: convert(s.Columns, bodyColumn)}, Extend: s.Extend},
		Version: newVersionBody(s.Version), Created: newCreated(s.Created), Deleted: newDeleted(s.Deleted),
		Disabled: newDisabled(s.DisabledWith(source)),
	}
}

func (a *api) listSinks(deleted bool) func(*request) (any, error) {
	return func(c *request) (any, error) {
		source, all, err := a.cat.Sinks(c.source, deleted)
		if err != nil {
			return nil, err
		}
		list, page := cut(c.page, all, func(s catalog.Sink) string { return s.ID })
		b := sinksBody{SourceID: source.ID, Page: page, ProjectID: a.project, BranchID: a.branch}
		b.Sinks = convert(list, func(s catalog.Sink) sinkBody { return a.sinkBody(source, s) })
		return b, nil
	}
}

func (a *api) sinkTotal(c *request) (any, error) {
	s, err := a.on.Handle(c.source, c.sink).Statistics(c.ctx)
	if err != nil {
		return nil, err
	}
	return newTotal(s), nil
}

func (a *api) sinkFiles(c *request) (any, error) {
	s, err := a.on.Handle(c.source, c.sink).Statistics(c.ctx)
	if err != nil {
		return nil, err
	}
	failed, _ := strconv.ParseBool(c.query("failedFiles"))
	return filesBody{Files: newFiles(s.Files, failed), Missing: newMissing(s.Missing)}, nil
}

// newFiles returns the files in the order of the service, imported files, then waiting files, then failed
// files, each group by the time of opening.
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

// maxFailedFiles is the length of a page of failedFiles.
const maxFailedFiles = 1_000

// failedFiles finds the sinks that need help among thousands, whose metrics do not name them. A page begins after a place and not after a file,
// because a file may have left the list meanwhile.
func (a *api) failedFiles(c *request) (any, error) {
	source, after := c.query("sourceId"), c.query("afterId")
	b := failedFilesBody{Files: []failedFileBody{}}
	type failed struct {
		place, source, sink string
		file                buffer.FileStats
	}
	if after != "" && (len(after) < 15 || after[13] != '-') {
		return nil, names.Errorf(http.StatusBadRequest, "badRequest", "The list has no place %.80q: take it from the page before.", after)
	}
	var all []failed
	_, known := a.on.Engine().Source(source)
	if a.cat != nil && !known { // it may be disabled
		_, err := a.cat.Source(source)
		known = err == nil
	}
	for _, s := range a.on.Engine().Stats().Sinks {
		if source != "" && s.Source != source {
			continue
		}
		known = true
		for _, f := range s.Files {
			if f.Attempt > 0 && f.FinishedAt.IsZero() {
				all = append(all, failed{fmt.Sprintf("%013d-%s", f.OpenedAt.UnixMilli(), f.ID), s.Source, s.Sink, f})
			}
		}
	}
	if source != "" && !known {
		return nil, names.Errorf(http.StatusNotFound, "sourceNotFound", "Source %.80q not found.", source)
	}
	slices.SortFunc(all, func(x, y failed) int { return cmp.Compare(x.place, y.place) })
	b.TotalCount = len(all)
	from, found := slices.BinarySearchFunc(all, after, func(f failed, place string) int { return cmp.Compare(f.place, place) })
	if found {
		from++
	}
	page := all[from:min(len(all), from+maxFailedFiles)]
	for _, f := range page {
		b.Files = append(b.Files, failedFileBody{f.source, f.sink, newFile(f.file)})
	}
	if from+len(page) < len(all) {
		b.NextID = page[len(page)-1].place
	}
	return b, nil
}

func (a *api) retryFile(c *request) (any, error) {
	return nil, a.on.Handle(c.source, c.sink).RetryFile(c.ctx, c.r.PathValue("fileId"))
}

func (a *api) splitFile(c *request) (any, error) {
	return nil, a.on.Handle(c.source, c.sink).SplitFile(c.ctx, c.r.PathValue("fileId"))
}

func (a *api) quarantineFile(c *request) (any, error) {
	return nil, a.on.Handle(c.source, c.sink).QuarantineFile(c.ctx, c.r.PathValue("fileId"))
}

func (a *api) discardFile(c *request) (any, error) {
	return nil, a.on.Handle(c.source, c.sink).DiscardFile(c.ctx, c.r.PathValue("fileId"))
}
