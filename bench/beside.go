package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/mapping"
)

// A beside is ingestion with a second receiver of each record, the archive of the source, or a shadow of its sink.
type beside struct {
	ingestion
	archive bool
	// sample, if not 0, is the share of the records that a shadow compares.
	sample float64
}

func (b beside) run(ctx context.Context, e *env) (_ *sample, err error) {
	s, sinks := setup{source: forebay.Source{Settings: b.settings}}, 1
	if b.archive {
		s.options.Archive = dir.Archive(filepath.Join(e.dir, "archive"), dir.ArchiveOptions{})
		s.source.Archive, sinks = &forebay.ArchiveSettings{}, 2
	}
	eng, err := s.open(ctx, e)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	var shadow *forebay.Shadow
	if b.sample > 0 {
		changed := append(columns(), mapping.Path("amount", "amount"))
		shadow, err = eng.Sink(sourceID, sinkID).Shadow(ctx, forebay.Sink{ID: sinkID, Table: forebay.Table{ID: "in.c-web.events", Columns: changed}}, forebay.ShadowOptions{Sample: b.sample})
		if err != nil {
			return nil, err
		}
	}
	m, err := b.measure(ctx, e, eng)
	if err != nil {
		return nil, err
	}
	if shadow != nil {
		report := shadow.Close()
		if report.Seen != m.Total || report.Compared == 0 || report.Different > 0 {
			return nil, fmt.Errorf("the shadow has seen %d of %d records and compared %d, of which %d differ", report.Seen, m.Total, report.Compared, report.Different)
		}
		m.Figures = map[string]float64{"shadow_compared": float64(report.Compared) / float64(report.Seen), "shadow_dropped": float64(report.Dropped) / float64(report.Seen)}
	}
	all := m.Total * int64(sinks)
	_, err = countStored(ctx, eng, sinks, span{all, all})
	return m, err
}

// ofBeside returns what an archive and a shadow add to the ingestion of events of one size.
func ofBeside(w workload) (all []scenario) {
	for _, c := range []struct {
		name string
		ingestion
	}{
		{"sync", ingestion{workload: w, callers: 64}},
		{"sync-batch", ingestion{workload: w, callers: 64, batch: 100}},
		{"nosync", ingestion{workload: w, callers: 64, settings: forebay.Settings{Sync: forebay.SyncUnsafe}}},
	} {
		plain := "ingest/" + c.name + "/" + w.name
		add := func(variant string, b beside) {
			all = append(all, scenario{name: plain + "/" + variant, group: w.name, against: []baseline{{"plain", plain}}, fsync: c.name != "nosync", run: b.run})
		}
		add("archive", beside{c.ingestion, true, 0})
		add("shadow", beside{c.ingestion, false, 1})
		add("shadow=1%", beside{c.ingestion, false, 0.01})
	}
	return all
}
