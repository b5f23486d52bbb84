package catalog

import (
	"slices"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/mapping"
)

// Rendered is the row that a sink would store for a record.
type Rendered struct {
	// SinkID, TableID and Target say for which sink, and where it would go.
	SinkID, TableID, Target string
	// Cells are the columns in the order of the table. A cell that has no value has an error.
	Cells []mapping.Cell
	// Refused says why the columns were refused, so that events are stored with earlier ones; "" if they were not.
	Refused string
}

// Render maps a record by all live sinks of a source, including disabled ones, and stores nothing. For an OTLP source
// signal chooses the sinks: "logs", "metrics" or "traces". The mappings are compiled by the engine, so the cells are the cells
// that an event would give.
func (c *Catalog) Render(sourceID, signal string, rec *mapping.Record) ([]Rendered, error) {
	t, err := c.liveTree(sourceID)
	if err != nil {
		return nil, err
	}
	def, err := c.compile(t)
	if err != nil {
		return nil, err
	}
	var all []Rendered
	refused := map[string]string{}
	for _, st := range c.eng.Stats().Sinks {
		if st.Source == sourceID {
			refused[st.Sink] = st.Refused
		}
	}
	for _, s := range t.sorted(false) {
		if t.source.Type == forebay.OTLP && len(s.Signals) > 0 && !slices.Contains(s.Signals, signal) {
			continue
		}
		all = append(all, Rendered{SinkID: s.ID, TableID: s.TableID, Target: s.Target, Cells: def.Mapper(s.ID).Cells(rec), Refused: refused[s.ID]})
	}
	return all, nil
}
