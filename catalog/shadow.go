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

// of returns the shadow of a sink; nil if there is none.
func (l *shadows) of(ref Ref) *forebay.Shadow {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.IndexFunc(l.list, func(o sinkShadow) bool { return o.ref == ref }); i >= 0 {
		return l.list[i].shadow
	}
	return nil
}

// keep drops the reports of a source that is erased: they have cells of its records.
func (l *shadows) keep(source string, t *tree) {
	if t != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = slices.DeleteFunc(l.list, func(o sinkShadow) bool { return o.ref.Source == source })
}

// Shadow runs other columns of a sink beside those that it has, on the records that arrive at the engine of this catalog: see
// [forebay.SinkHandle.Shadow]. Nothing is stored. The report is for those who may see records.
//
// Errors: [BadRequest] for columns or options that break a rule, [SinkDisabled], [ShadowRuns], [ShadowLimit].
func (c *Catalog) Shadow(ctx context.Context, sourceID, id string, columns mapping.Columns, opts forebay.ShadowOptions) (forebay.ShadowReport, error) {
	ref := Ref{sourceID, id}
	if err := c.maps(ref); err != nil {
		return forebay.ShadowReport{}, err
	}
	if err := checkShadow(opts); err != nil {
		return forebay.ShadowReport{}, err
	}
	t, err := c.liveTree(sourceID)
	if err != nil {
		return forebay.ShadowReport{}, err
	}
	def, err := t.definition(c.keys)
	if err != nil {
		return forebay.ShadowReport{}, err
	}
	at := slices.IndexFunc(def.Sinks, func(s forebay.Sink) bool { return s.ID == id })
	if at < 0 { // deleted since
		return forebay.ShadowReport{}, notFound(ref)
	}
	changed := def.Sinks[at]
	changed.Table.Columns = columns
	s, err := c.eng.Sink(sourceID, changed.ID).Shadow(ctx, changed, opts)
	if err != nil {
		return forebay.ShadowReport{}, refusedShadow(ref, err)
	}
	c.shadows.add(ref, s)
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

// ShadowReport returns what the last shadow of a sink has found so far. Without one since [Open] the error is [ShadowNotFound].
func (c *Catalog) ShadowReport(sourceID, id string) (forebay.ShadowReport, error) {
	s, err := c.shadowOf(Ref{sourceID, id})
	if err != nil {
		return forebay.ShadowReport{}, err
	}
	return s.Report(), nil
}

// EndShadow ends the shadow of a sink, waits until the records that wait are compared, and returns the last report, which [Catalog.ShadowReport]
// has from then on. It may be repeated. Without a shadow since [Open] the error is [ShadowNotFound].
func (c *Catalog) EndShadow(sourceID, id string) (forebay.ShadowReport, error) {
	s, err := c.shadowOf(Ref{sourceID, id})
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
