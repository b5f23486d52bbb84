package streamapi

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/catalog"
)

func (a *api) index(c *call) (any, error) {
	return indexBody{API: "stream", Documentation: c.base + documentationPath}, nil
}

// sourceTask is an operation of one source without a body.
func (a *api) sourceTask(do func(by catalog.By, id string) (catalog.Task, error)) func(*call) (any, error) {
	return func(c *call) (any, error) { return a.task(c)(do(c.by, c.source)) }
}

// task turns a started task into the answer.
func (a *api) task(c *call) func(catalog.Task, error) (any, error) {
	return func(t catalog.Task, err error) (any, error) {
		if err != nil {
			return nil, err
		}
		return a.taskBody(c, t), nil
	}
}

func (a *api) taskBody(c *call, t catalog.Task) taskBody {
	b := taskBody{
		TaskID: t.ID, Type: t.Type, URL: c.base + "/v1/tasks/" + t.ID, Status: string(t.Status), IsFinished: t.Finished(),
		CreatedAt: catalog.Time(t.CreatedAt), Result: t.Result, Error: t.Failure,
	}
	for _, w := range t.Warnings {
		b.Warnings = append(b.Warnings, warning(w))
	}
	if t.Code != "" {
		b.ErrorName, b.ErrorStatusCode = string(names)+string(t.Code), statusOf[t.Code]
	}
	if t.Finished() {
		ms := t.FinishedAt.Sub(t.CreatedAt).Milliseconds()
		b.FinishedAt, b.Duration = catalog.Time(t.FinishedAt), &ms
	}
	if t.Status == catalog.Succeeded || t.Partial {
		b.Outputs = &outputsBody{
			URL: a.sourceURL(c, t.SourceID), ProjectID: a.opts.Ingest.ProjectID, BranchID: a.opts.Ingest.BranchID, SourceID: t.SourceID, SinkID: t.SinkID,
		}
		if t.SinkID != "" {
			b.Outputs.URL += "/sinks/" + t.SinkID
		}
	}
	return b
}

func (a *api) sourceURL(c *call, id string) string {
	return fmt.Sprintf("%s/v1/branches/%d/sources/%s", c.base, a.opts.Ingest.BranchID, id)
}

func (a *api) getTask(c *call) (any, error) { return a.task(c)(a.cat.Task(c.r.PathValue("taskId"))) }

func (a *api) createSource(c *call) (any, error) {
	b := c.body.(*sourceCreate)
	spec := catalog.SourceSpec{ID: b.SourceID, Type: forebay.SourceType(b.Type), Name: b.Name, Description: b.Description}
	var p problems
	for i, s := range b.Sinks {
		spec.Sinks = append(spec.Sinks, a.sinkSpec(s, fmt.Sprintf("sinks[%d].", i), &p))
	}
	if !slices.ContainsFunc(b.Sinks, func(s sinkCreate) bool { return s.Table == nil }) {
		p.refused(a.cat.ValidateSource(spec))
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	return a.task(c)(a.cat.CreateSource(c.by, spec))
}

func (a *api) updateSource(c *call) (any, error) {
	if _, err := a.cat.Source(c.source); err != nil {
		return nil, err
	}
	b := c.body.(*sourceUpdate)
	patch := catalog.SourcePatch{
		Type: (*forebay.SourceType)(b.Type), Name: b.Name, Description: b.Description, ChangeDescription: b.ChangeDescription,
	}
	if err := patch.Validate(); err != nil {
		return nil, err
	}
	return a.task(c)(a.cat.UpdateSource(c.by, c.source, patch))
}

func (a *api) deleteSource(c *call) (any, error) {
	if cascade, _ := strconv.ParseBool(c.query("cascade")); cascade {
		return a.task(c)(a.cat.EraseSource(c.source))
	}
	return a.task(c)(a.cat.DeleteSource(c.by, c.source))
}

func (a *api) getSource(c *call) (any, error) {
	s, err := a.cat.Source(c.source)
	if err != nil {
		return nil, err
	}
	return a.sourceBody(s), nil
}

func (a *api) sourceBody(s catalog.Source) sourceBody {
	b := sourceBody{
		ProjectID: a.opts.Ingest.ProjectID, BranchID: a.opts.Ingest.BranchID, SourceID: s.ID, Type: string(s.Type), Name: s.Name, Description: s.Description,
		Version: newVersionBody(s.Version), Created: newCreated(s.Created), Deleted: newDeleted(s.Deleted), Disabled: newDisabled(s.Disabled),
	}
	if time.Now().Before(s.OldSecretUntil) {
		b.OldSecretUntil = catalog.Time(s.OldSecretUntil)
	}
	address := func(kind string) string {
		return fmt.Sprintf("%s/%s/%d/%s", a.opts.IngestURL, kind, a.opts.Ingest.ProjectID, s.ID)
	}
	switch s.Type {
	case forebay.HTTP:
		b.HTTP = &httpBody{URL: address("stream") + "/" + s.Secret}
	case forebay.OTLP:
		b.OTLP = &otlpBody{URL: address("otlp") + "/" + s.Secret, BaseURL: address("otlp"), Secret: s.Secret}
	}
	return b
}

func (a *api) listSources(deleted bool) func(*call) (any, error) {
	return func(c *call) (any, error) {
		list, page := cut(c.page, a.cat.Sources(deleted), func(s catalog.Source) string { return s.ID })
		b := sourcesBody{ProjectID: a.opts.Ingest.ProjectID, BranchID: a.opts.Ingest.BranchID, Page: page, Sources: make([]sourceBody, 0, len(list))}
		for _, s := range list {
			b.Sources = append(b.Sources, a.sourceBody(s))
		}
		return b, nil
	}
}

func (a *api) sourceSettings(c *call) (any, error) {
	list, err := a.cat.SourceSettings(c.source)
	if err != nil {
		return nil, err
	}
	return newSettings(list), nil
}

func (a *api) updateSourceSettings(c *call) (any, error) {
	b := c.body.(*settingsUpdate)
	return a.task(c)(a.cat.ChangeSourceSettings(c.by, c.source, b.ChangeDescription, b.changes()))
}

func (b *settingsUpdate) changes() []catalog.SettingChange {
	list := make([]catalog.SettingChange, 0, len(b.Settings))
	for _, s := range b.Settings {
		list = append(list, catalog.SettingChange{Key: s.Key, Value: s.Value})
	}
	return list
}

// overlapParameter is a duration in the form of the settings.
const overlapParameter = "overlap"

func checkOverlap(p *problems, text string) {
	switch d, err := time.ParseDuration(text); {
	case err != nil:
		p.add("invalidFieldType", "%s is %q, must be a duration such as 30m or 24h", overlapParameter, text)
	case d < 0 || d > catalog.MaxSecretOverlap:
		p.add("invalidRange", "%s is %s, must be from 0s to %s", overlapParameter, d, catalog.MaxSecretOverlap)
	}
}

func (a *api) rotateSecret(c *call) (any, error) {
	overlap, _ := time.ParseDuration(c.query(overlapParameter)) // it was checked
	s, err := a.cat.RotateSecret(c.ctx, c.by, c.source, overlap)
	if err != nil {
		return nil, err
	}
	return a.sourceBody(s), nil
}

func (a *api) clearSource(c *call) (any, error) {
	return nil, a.cat.ClearSourceStatistics(c.ctx, c.source)
}

func (a *api) retrySource(c *call) (any, error) { return nil, a.cat.RetrySource(c.ctx, c.source) }

func (a *api) sourceVersions(c *call) (any, error) {
	list, err := a.cat.SourceVersions(c.source)
	if err != nil {
		return nil, err
	}
	return versionPage(c.page, list), nil
}

// versionPage pages by the number, which a client may give with or without the zeros that the service writes.
func versionPage(p page, list []catalog.Version) versionsBody {
	given := p.afterID
	if n, err := strconv.Atoi(given); err == nil {
		p.afterID = versionID(n)
	}
	list, page := cut(p, list, func(v catalog.Version) string { return versionID(v.Number) })
	page.AfterID = given
	b := versionsBody{Versions: make([]versionBody, 0, len(list)), Page: page}
	for _, v := range list {
		b.Versions = append(b.Versions, newVersionBody(v))
	}
	return b
}

func versionID(number int) string { return fmt.Sprintf("%010d", number) }

func (a *api) sourceVersion(c *call) (any, error) {
	v, content, err := a.cat.SourceVersion(c.source, c.number)
	if err != nil {
		return nil, err
	}
	b := newVersionBody(v)
	b.Content = content
	return b, nil
}

func (a *api) rollbackSource(c *call) (any, error) {
	return a.task(c)(a.cat.RollbackSource(c.by, c.source, c.number))
}

func (a *api) aggregate(c *call) (any, error) {
	list, page := cut(c.page, a.cat.Sources(false), func(s catalog.Source) string { return s.ID })
	b := aggregationBody{ProjectID: a.opts.Ingest.ProjectID, BranchID: a.opts.Ingest.BranchID, Page: page, Sources: make([]aggregatedBody, 0, len(list))}
	ids := make([]string, 0, len(list))
	for _, s := range list {
		ids = append(ids, s.ID)
	}
	stats := a.cat.Statistics(ids)
	for _, s := range list {
		_, sinks, err := a.cat.Sinks(s.ID, false)
		if err != nil {
			continue // deleted since the list was made
		}
		source := aggregatedBody{sourceBody: a.sourceBody(s), Sinks: make([]aggregatedSink, 0, len(sinks))}
		for _, sink := range sinks {
			st := stats[s.ID][sink.ID]
			source.Sinks = append(source.Sinks, aggregatedSink{
				sinkBody:   a.sinkBody(s, sink),
				Statistics: aggregatedStatistics{totalBody: newTotal(st), Files: newFiles(st.Files, false)},
			})
		}
		b.Sources = append(b.Sources, source)
	}
	return b, nil
}
