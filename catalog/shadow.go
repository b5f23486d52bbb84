package catalog

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/mapping"
)

// shadows are the last shadows of sinks, oldest first. They are in memory alone.
type shadows struct {
	mu   sync.Mutex
	list []sinkShadow
}

type sinkShadow struct {
	ref    Ref
	shadow *forebay.Shadow
}

// keptShadows is how many reports are kept, more than an engine has shadows at a time. A report may have some 100 KB.
const keptShadows = 16

// add makes s the shadow of a sink, and forgets the oldest that has ended if there are too many.
func (l *shadows) add(ref Ref, s *forebay.Shadow) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = slices.DeleteFunc(l.list, func(o sinkShadow) bool { return o.ref == ref })
	ended := func(o sinkShadow) bool { return o.shadow.Report().End != forebay.ShadowRuns }
	if i := slices.IndexFunc(l.list, ended); i >= 0 && len(l.list) >= keptShadows {
		l.list = slices.Delete(l.list, i, i+1)
	}
	l.list = append(l.list, sinkShadow{ref, s})
}

// of returns the shadow of a sink, or nil if there is none.
func (l *shadows) of(ref Ref) *forebay.Shadow {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.IndexFunc(l.list, func(o sinkShadow) bool { return o.ref == ref }); i >= 0 {
		return l.list[i].shadow
	}
	return nil
}

// keep drops the reports of a source that is erased, because they have cells of its records.
func (l *shadows) keep(source string, t *tree) {
	if t != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = slices.DeleteFunc(l.list, func(o sinkShadow) bool { return o.ref.Source == source })
}

func (c *Catalog) shadow(ctx context.Context, ref Ref, change shadowChange, opts forebay.ShadowOptions) (forebay.ShadowReport, error) {
	if err := c.maps(ref); err != nil {
		return forebay.ShadowReport{}, err
	}
	t, err := c.liveTree(ref.Source)
	if err != nil {
		return forebay.ShadowReport{}, err
	}
	def, err := t.definition(c.keys)
	if err != nil {
		return forebay.ShadowReport{}, err
	}
	return c.shadows.begin(ctx, c.eng, def, ref, change, opts)
}

// shadowChange gives a sink of a source what its shadow has.
type shadowChange func(sink *forebay.Sink, of forebay.Source) error

func withColumns(columns mapping.Columns) shadowChange {
	return func(sink *forebay.Sink, _ forebay.Source) error {
		sink.Table.Columns = columns
		return nil
	}
}

func withTableOf(copyID string) shadowChange {
	return func(sink *forebay.Sink, of forebay.Source) error {
		at := slices.IndexFunc(of.Sinks, func(s forebay.Sink) bool { return s.ID == copyID })
		if at < 0 {
			return notFound(Ref{of.ID, copyID})
		}
		sink.Table = of.Sinks[at].Table
		return validated(checkCopy(of.ID, sink.ID, copyID, of.Sinks[at].Disabled))
	}
}

// checkCopy refuses a sink that cannot be the copy of another sink.
func checkCopy(source, sink, copyID string, disabled bool) *Error {
	switch {
	case sink == copyID:
		return refuse(BadRequest, "Sink %q of source %q is no copy of itself. Name another sink of the source.", sink, source)
	case disabled:
		return refuse(SinkDisabled, "Sink %q of source %q is disabled, so its table lacks rows. Enable it first, or name another sink.", copyID, source)
	}
	return nil
}

// begin starts a shadow of a sink of a source, and adds it.
func (l *shadows) begin(ctx context.Context, eng *forebay.Engine, source forebay.Source, ref Ref, change shadowChange, opts forebay.ShadowOptions) (forebay.ShadowReport, error) {
	if err := checkShadow(opts); err != nil {
		return forebay.ShadowReport{}, err
	}
	at := slices.IndexFunc(source.Sinks, func(s forebay.Sink) bool { return s.ID == ref.Sink })
	if at < 0 { // deleted since
		return forebay.ShadowReport{}, notFound(ref)
	}
	changed := source.Sinks[at]
	if err := change(&changed, source); err != nil {
		return forebay.ShadowReport{}, err
	}
	s, err := eng.Sink(ref.Source, ref.Sink).Shadow(ctx, changed, opts)
	if err != nil {
		return forebay.ShadowReport{}, refusedShadow(ref, err)
	}
	l.add(ref, s)
	return s.Report(), nil
}

func checkShadow(opts forebay.ShadowOptions) error {
	if err := opts.Validate(); err != nil {
		return refuse(BadRequest, "%s", sentence(errors.New(strings.ReplaceAll(err.Error(), "ShadowOptions.", ""))))
	}
	return nil
}

// refusedShadow is an error of [forebay.SinkHandle.Shadow] for users.
func refusedShadow(ref Ref, err error) error {
	wrong, invalid := errors.AsType[*forebay.DefinitionError](err)
	switch {
	case invalid:
		return refuse(BadRequest, "%s", sentence(wrong))
	case errors.Is(err, forebay.ErrShadowed):
		return refuse(ShadowRuns, "Sink %q of source %q has a shadow already: end it, or wait for its end.", ref.Sink, ref.Source)
	case errors.Is(err, forebay.ErrTooManyShadows):
		return refuse(ShadowLimit, "There are as many shadows as may run at a time. End one of them.")
	}
	return err
}

func noShadow(ref Ref) *Error {
	return refuse(ShadowNotFound, "Sink %q of source %q has had no shadow since the service was started. Start one first.", ref.Sink, ref.Source)
}

func (c *Catalog) shadowReport(ref Ref) (forebay.ShadowReport, error) {
	s, err := c.shadowOf(ref)
	if err != nil {
		return forebay.ShadowReport{}, err
	}
	return s.Report(), nil
}

func (c *Catalog) endShadow(ref Ref) (forebay.ShadowReport, error) {
	s, err := c.shadowOf(ref)
	if err != nil {
		return forebay.ShadowReport{}, err
	}
	return s.Close(), nil
}

func (c *Catalog) shadowOf(ref Ref) (*forebay.Shadow, error) {
	if _, _, err := c.find(ref); err != nil {
		return nil, err
	}
	if s := c.shadows.of(ref); s != nil {
		return s, nil
	}
	return nil, noShadow(ref)
}
