package streamapi

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/catalog"
)

func (a *api) createSource(c *request) (any, error) {
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

func (a *api) updateSource(c *request) (any, error) {
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

func (a *api) deleteSource(c *request) (any, error) {
	if cascade, _ := strconv.ParseBool(c.query("cascade")); cascade {
		return a.task(c)(a.cat.EraseSource(c.source))
	}
	return a.task(c)(a.cat.Delete(c.by, c.ref()))
}

func (a *api) getSource(c *request) (any, error) {
	s, err := a.cat.Source(c.source)
	if err != nil {
		return nil, err
	}
	return a.sourceBody(s), nil
}

func (a *api) sourceBody(s catalog.Source) sourceBody {
	b := sourceBody{
		ProjectID: a.project, BranchID: a.branch, SourceID: s.ID, Type: string(s.Type), Name: s.Name, Description: s.Description,
		Version: newVersionBody(s.Version), Created: newCreated(s.Created), Deleted: newDeleted(s.Deleted), Disabled: newDisabled(s.Disabled),
	}
	if time.Now().Before(s.OldSecretUntil) {
		b.OldSecretUntil = catalog.Time(s.OldSecretUntil)
	}
	address := func(kind string) string {
		return fmt.Sprintf("%s/%s/%d/%s", a.opts.IngestURL, kind, a.project, s.ID)
	}
	switch s.Type {
	case forebay.HTTP:
		b.HTTP = &httpBody{URL: address("stream") + "/" + s.Secret}
	case forebay.OTLP:
		b.OTLP = &otlpBody{URL: address("otlp") + "/" + s.Secret, BaseURL: address("otlp"), Secret: s.Secret}
	}
	return b
}

func (a *api) listSources(deleted bool) func(*request) (any, error) {
	return func(c *request) (any, error) {
		list, page := cut(c.page, a.cat.Sources(deleted), func(s catalog.Source) string { return s.ID })
		return sourcesBody{
			ProjectID: a.project, BranchID: a.branch, Page: page, Sources: convert(list, a.sourceBody),
		}, nil
	}
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

func (a *api) rotateSecret(c *request) (any, error) {
	overlap, _ := time.ParseDuration(c.query(overlapParameter)) // it was checked
	s, err := a.cat.RotateSecret(c.ctx, c.by, c.source, overlap)
	if err != nil {
		return nil, err
	}
	return a.sourceBody(s), nil
}

func (a *api) aggregate(c *request) (any, error) {
	list, page := cut(c.page, a.cat.Sources(false), func(s catalog.Source) string { return s.ID })
	b := aggregationBody{ProjectID: a.project, BranchID: a.branch, Page: page, Sources: make([]aggregatedBody, 0, len(list))}
	ids := make([]string, 0, len(list))
	for _, s := range list {
		ids = append(ids, s.ID)
	}
	stats, err := a.cat.Statistics(c.ctx, ids)
	if err != nil {
		return nil, err
	}
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
