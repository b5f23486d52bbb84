package forebay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/mapping"
)

// Define creates a source or replaces its definition, with all its sinks. It takes effect at once and without a gap:
// a record is mapped by the old or by the new definition, and its row goes to the table it was mapped for. Where the
// table, columns or settings of a sink have changed, rows that wait are imported at once.
//
// The table of a new or changed sink is created, or compared if it exists:
//
//   - A table that cannot take the rows of a new sink, or of one whose table or columns change, refuses the definition. The
//     error joins, for each such sink, a [*driver.SchemaError] for different columns, or what the target has marked as
//     [driver.Permanent]. No source or sink is changed. Tables that the call had created by then stay; to have them removed
//     use [Engine.Apply] with a Creation, and [Engine.Uncreate].
//   - What refuses the definition without the target, each a [*buffer.ChangeError], comes first: the error has nothing else then,
//     and no table is touched.
//   - A table that a sink gets with Table.Extend for the first time grows last, when nothing has refused the definition. Otherwise
//     rows that wait for the table as it was would be held back until a definition of the sink with Extend is accepted. This remains
//     if several tables grow for the first time and one of them is refused.
//   - The table of a sink that had it with the same columns before refuses nothing. The problem is logged, rows of this sink
//     wait in staging until the table is fixed, and the other sinks go on.
//   - With Table.Extend, other columns that the table cannot follow refuse nothing if the sink had the table before: the columns
//     that were accepted last go on.
//   - A target that does not answer within 10 seconds refuses nothing either. It is logged, and the import creates the table
//     later.
//
// Definitions of one source wait for each other, and never for the target of another source. Other errors:
// [*DefinitionError], [ErrTooManySources], [ErrClosed].
func (e *Engine) Define(ctx context.Context, def Source) error {
	compiled, err := e.Compile(def)
	if err != nil {
		return err
	}
	_, err = e.Apply(ctx, compiled, ApplyOptions{})
	return err
}

// ApplyOptions are the choices of [Engine.Apply]. The zero value is what [Engine.Define] does.
type ApplyOptions struct {
	// Refuse reports whether a problem refuses the definition. Otherwise the sink goes on with the columns that were accepted last
	// if TableProblem.Kept is set, or else is defined anyway, and its rows wait in staging until the table is fixed. Default: a
	// problem refuses unless TableProblem.Known or Kept is set.
	Refuse func(TableProblem) bool
	// Creation marks the tables that the call creates, if the target is a [driver.Uncreator]. [Engine.Uncreate] removes those
	// that turn out to be unneeded. Store the mark durably before the call, so that a crash does not lose it. Default:
	// tables are not marked.
	Creation string
}

// TableProblem is a table that cannot take the rows of a sink as it is.
type TableProblem struct {
	// Source and Sink are ids, Table is the table's.
	Source, Sink, Table string
	// Known is set when the sink had this table with these columns before.
	Known bool
	// Kept is set when the columns that were accepted last for a table with Extend can go on in place of the new ones.
	Kept bool
	// Err is a [*driver.SchemaError], a [*buffer.ChangeError] or marked by [driver.Permanent].
	Err error
}

// Apply is [Engine.Define] for a compiled definition. It returns the problems that did not refuse it, in the order of the
// sinks.
func (e *Engine) Apply(ctx context.Context, d *Definition, opts ApplyOptions) ([]TableProblem, error) {
	if d == nil || d.engine != e {
		return nil, errors.New("forebay: the definition was not compiled by this engine")
	}
	id := d.source.ID
	unlock, err := e.defining.Lock(ctx, id, "")
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := e.admits(id); err != nil { // before tables are made for it
		return nil, err
	}
	problems, kept, err := e.ensureTables(ctx, d, opts)
	if err != nil {
		return nil, err
	}
	if err := e.lockDefinitions(ctx); err != nil {
		return nil, err
	}
	defer func() { <-e.define }()
	if err := e.admits(id); err != nil {
		return nil, err
	}
	old := e.sources.get(id)
	next, err := e.link(ctx, d, kept)
	if err != nil {
		return nil, err
	}
	e.sources.put(id, next)
	e.endShadows(old, next)
	return problems, e.endSinks(ctx, old, next)
}

// admits refuses a source above Options.MaxSources, and every source after Close.
func (e *Engine) admits(sourceID string) error {
	if e.closed.Load() {
		return ErrClosed
	}
	if e.sources.get(sourceID) == nil && e.sources.len() >= e.opts.MaxSources {
		return fmt.Errorf("define source %q: %w: Options.MaxSources is %d: remove a source, or raise it", sourceID, ErrTooManySources, e.opts.MaxSources)
	}
	return nil
}

// link defines the enabled sinks in the buffer, those in kept as they were accepted last, and returns what Ingest needs of the
// source. The caller has e.define.
func (e *Engine) link(ctx context.Context, d *Definition, kept map[string]keptSink) (*source, error) {
	def := d.source
	next := &source{def: def, compiled: d, secrets: newSecrets(def), kept: keptPartsOf(&def, d.sinks), dropped: load[atomic.Int64](&e.dropped, def.ID)}
	for i := range d.sinks {
		c := &d.sinks[i]
		if c.Disabled {
			continue
		}
		id, refused := bufferID(def.ID, c.ID), ""
		if k, ok := kept[c.ID]; ok {
			c, refused = &k.compiledSink, k.refused.Error()
		}
		cfg := bufferConfig(def.ID, c)
		cfg.Refused = refused
		renames := e.renames(id, c.Table)
		handle, err := e.buf.Define(ctx, cfg)
		if err != nil {
			return nil, fmt.Errorf("define sink %q: %w", id, err)
		}
		if len(renames) > 0 {
			e.log.Info("renamed column added as a new one", "sink", id, "table", c.Table.ID, "columns", renames, "next", "copy its values in the table if you need them")
		}
		next.add(&sink{
			id: c.ID, mapper: c.mapper, handle: handle, sync: c.settings.sync, count: load[rejections](&e.counts, id), reject: e.rejectHook(def.ID, c.ID),
			refused: refused != "", keeps: c.OnReject == Quarantine, name: nameOf(&c.Sink),
			columns: c.Table.Columns, target: c.Table.Target, shadow: load[atomic.Pointer[Shadow]](&e.slots, id),
		})
	}
	if def.Archive != nil {
		s, err := e.linkArchive(ctx, def)
		if err != nil {
			return nil, err
		}
		next.add(s)
	}
	next.makeViews()
	return next, nil
}

// add adds an enabled sink.
func (src *source) add(s *sink) {
	status := Stored
	if s.sync == SyncUnsafe {
		status = Queued
	}
	src.sinks = append(src.sinks, s)
	src.allStored = append(src.allStored, SinkResult{Sink: s.id, Status: status})
	src.wait = src.wait || status == Stored
}

// renames describes the columns of a table with Extend that differ from accepted ones in their name alone. Nothing else follows from
// it: values are never moved from one column to another.
func (e *Engine) renames(id string, t Table) (renames []string) {
	var before mapping.Columns
	if table, _ := e.buf.TableOf(id); table.ID != t.ID || table.Target != t.Target || !t.Extend || json.Unmarshal(e.buf.Mapping(id), &before) != nil {
		return nil
	}
	has := func(columns mapping.Columns, name string) bool {
		return slices.ContainsFunc(columns, func(c mapping.Column) bool { return strings.EqualFold(c.Name, name) })
	}
	unnamed := func(c mapping.Column) string {
		c.Name = ""
		text, _ := json.Marshal(c) // columns that were compiled have a JSON form
		return string(text)
	}
	for _, c := range t.Columns {
		for _, old := range before {
			if !has(before, c.Name) && !has(t.Columns, old.Name) && unnamed(c) == unnamed(old) {
				renames = append(renames, old.Name+" → "+c.Name)
			}
		}
	}
	return renames
}

func bufferConfig(sourceID string, c *compiledSink) buffer.SinkConfig {
	cfg := buffer.SinkConfig{
		ID:       bufferID(sourceID, c.ID),
		Table:    c.Table.of(c.mapper),
		Mapping:  mappingText(c.Table),
		Encoding: c.settings.encoding,
		Upload:   c.settings.upload,
		Import:   c.settings.imports,
		AckLocal: c.AckLocal,
	}
	cfg.Label = nameOf(&c.Sink).label()
	if c.OnReject == Quarantine {
		cfg.Quarantine = &c.Quarantine
	}
	return cfg
}

// mappingText is what the buffer keeps of the columns of a table with Extend, so that they can go on after a restart whose
// definition is refused.
func mappingText(t Table) []byte {
	if !t.Extend {
		return nil
	}
	text, err := json.Marshal(t.Columns)
	if err != nil {
		return nil // columns that were compiled have a JSON form
	}
	return text
}

// keptSink is a sink that goes on with the columns that were accepted last.
type keptSink struct {
	compiledSink
	refused error
}

// lastAccepted returns a sink with the columns that were accepted last; false if there are none for this table.
func (e *Engine) lastAccepted(sourceID string, c compiledSink) (compiledSink, bool) {
	id := bufferID(sourceID, c.ID)
	table, known := e.buf.TableOf(id)
	if !known || !c.Table.Extend || !table.Extend || table.ID != c.Table.ID || table.Target != c.Table.Target {
		return c, false
	}
	var columns mapping.Columns
	if err := json.Unmarshal(e.buf.Mapping(id), &columns); err != nil {
		return c, false
	}
	mapper, err := e.mappers.get(id, table.Target, columns)
	if err != nil || !slices.Equal(mapper.Columns(), table.Columns) {
		return c, false
	}
	c.mapper, c.Table.Columns = mapper, columns
	return c, true
}

// Accepts returns the problems of a definition that are known without asking the target: changes that a table with Extend cannot
// follow. [Engine.Apply] may meet others. It changes nothing, and looks at disabled sinks too.
func (e *Engine) Accepts(d *Definition) []TableProblem {
	if d == nil {
		return nil
	}
	var problems []TableProblem
	for i := range d.sinks {
		c := &d.sinks[i]
		if !c.Table.Extend {
			continue
		}
		if err := e.accepts(bufferConfig(d.source.ID, c)); err != nil {
			problems = append(problems, TableProblem{Source: d.source.ID, Sink: c.ID, Table: c.Table.ID, Err: err})
		}
	}
	return problems
}

// accepts is Accepts for a sink with Table.Extend.
func (e *Engine) accepts(cfg buffer.SinkConfig) error {
	if _, ok := e.opts.targetNamed(cfg.Table.Target).(driver.Extender); !ok {
		return driver.Permanent(fmt.Errorf("table %q: the target cannot add columns to its tables: define the sink without Extend", cfg.Table.ID))
	}
	return e.buf.Accepts(cfg)
}

// CanUncreate reports whether Options.Target is a [driver.Uncreator], so that [Engine.Uncreate] can remove its tables. Tables of Options.Targets get
// no mark.
func (e *Engine) CanUncreate() bool {
	_, ok := e.opts.Target.(driver.Uncreator)
	return ok
}

// Uncreate removes tables that [Engine.Apply] has created with this mark and whose definition was not kept. Tables that have
// rows or another mark stay. It fails for tables of a defined sink, and for tables that the target could not check; it may be
// repeated. The caller makes sure that no definition begins to use the tables meanwhile and that no rows wait for them. The
// error is [errors.ErrUnsupported] when the target is not a [driver.Uncreator].
func (e *Engine) Uncreate(ctx context.Context, creation string, tables ...string) error {
	target, ok := e.opts.Target.(driver.Uncreator)
	if !ok {
		return fmt.Errorf("remove tables: %w by the target", errors.ErrUnsupported)
	}
	for src := range e.sources.all() {
		for _, s := range src.def.Sinks {
			if !s.Disabled && s.Table.Target == "" && slices.Contains(tables, s.Table.ID) {
				return fmt.Errorf("remove table %q: sink %q uses it", s.Table.ID, bufferID(src.def.ID, s.ID))
			}
		}
	}
	problems := make([]error, len(tables))
	callTables(ctx, len(tables), func(ctx context.Context, i int) error {
		return e.buf.Alone(ctx, driver.Table{ID: tables[i]}, func(ctx context.Context) error { return target.Uncreate(ctx, tables[i], creation) })
	}, func(i int, err error) {
		if err != nil {
			problems[i] = fmt.Errorf("remove table %q: %w", tables[i], err)
		}
	})
	return errors.Join(problems...)
}
