package forebay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/kept"
	"github.com/forebay/forebay/internal/mappers"
	"github.com/forebay/forebay/internal/rejections"
	"github.com/forebay/forebay/internal/secrets"
	"github.com/forebay/forebay/internal/tables"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/shadow"
)

// Definition is a [Source] that was checked and compiled. It is immutable and safe for concurrent use.
type Definition struct {
	engine *Engine // nil means none
	source Source
	sinks  []compiledSink // all, in the order of the source
}

// Source returns the source with its defaults filled in. The caller must not modify its slices.
func (d *Definition) Source() Source { return d.source }

// Mapper returns the mapper of a sink, even if it is disabled, or nil when the source has no such sink.
func (d *Definition) Mapper(sinkID string) *mapping.Mapper {
	for i := range d.sinks {
		if d.sinks[i].ID == sinkID {
			return d.sinks[i].mapper
		}
	}
	return nil
}

// Compile checks a source and compiles its mappings as an engine with these options does, without an engine. It does not
// require an Options.Archive for a source with an Archive. The error is a [*DefinitionError] with all problems, also problems of
// templates and paths.
func Compile(def Source, opts Options) (*Definition, error) {
	return compile(nil, def, opts, mappers.New(func(target string) mapping.Options { return opts.mapping(target) }))
}

// Compile checks a source and compiles its mappings with the options of the engine, as [Engine.Define] does, and changes
// nothing. Every caller that shows or checks what a sink would store uses it, so the result matches the engine's
// behaviour. Mappings that were compiled recently for the same sink are reused. The error is a [*DefinitionError] with
// all problems.
func (e *Engine) Compile(def Source) (*Definition, error) { return compile(e, def, e.opts, e.mappers) }

func compile(e *Engine, def Source, opts Options, cache *mappers.Cache) (*Definition, error) {
	sinks, err := compileSource(def, opts, cache)
	if err == nil && e != nil && def.Archive != nil && opts.Archive == nil {
		err = &DefinitionError{Source: def.ID, Problems: []error{errors.New("the source keeps raw records in an archive, and this engine has no archive: open the engine with one, or leave the archive of the source out")}}
	}
	if err != nil {
		return nil, err
	}
	def.Type = cmp.Or(def.Type, HTTP)
	def.Sinks = slices.Clone(def.Sinks)
	return &Definition{engine: e, source: def, sinks: sinks}, nil
}

// Define creates a source or replaces its definition, with all its sinks. It takes effect at once and without a gap.
// A record is mapped by the old or by the new definition, and its row goes to the table it was mapped for. Where the
// table, columns or settings of a sink have changed, rows that wait are imported at once.
//
// The table of a new or changed sink is created, or compared if it exists:
//
//   - A table that cannot take the rows of a new sink, or of one whose table or columns change, refuses the definition. The
//     error joins, for each such sink, a [*driver.SchemaError] for different columns, or the error that the target has
//     marked as [driver.Permanent]. No source or sink is changed. Tables that the call had created by then stay. To remove
//     them, use [Definition.Apply] with a Creation, and [Engine.Uncreate].
//   - Problems that refuse the definition without the target, each a [*buffer.ChangeError], are found first. The error has
//     nothing else then, and no table is touched.
//   - The first Extend of a table runs only after all other checks have passed. Otherwise rows that wait for the table as it was
//     would be held back until a definition of the sink with Extend is accepted. This remains if several tables grow for the first
//     time and one of them is refused.
//   - A sink whose table and columns did not change is never refused. The problem is logged, rows of this sink wait in
//     staging until the table is fixed, and the other sinks continue.
//   - With Table.Extend, other columns that the table cannot follow refuse nothing if the sink had the table before. The columns
//     that were accepted last stay in use.
//   - A target that does not respond within 10 seconds refuses nothing either. It is logged, and the import creates the
//     table later.
//
// Definitions of one source wait for each other, and never for the target of another source. Other errors:
// [*DefinitionError], [ErrTooManySources], [ErrClosed].
func (e *Engine) Define(ctx context.Context, def Source) error {
	compiled, err := e.Compile(def)
	if err != nil {
		return err
	}
	_, err = compiled.Apply(ctx, ApplyOptions{})
	return err
}

// ApplyOptions are the choices of [Definition.Apply]. The zero value is what [Engine.Define] does.
type ApplyOptions struct {
	// Refuse reports whether a problem refuses the definition. Otherwise the sink continues with the columns that were accepted
	// last if TableProblem.Kept is set, or else is defined anyway, and its rows wait in staging until the table is fixed. Default:
	// a problem refuses unless TableProblem.Known or Kept is set.
	Refuse func(TableProblem) bool
	// Creation marks the tables that the call creates, if the target is a [driver.Uncreator]. [Engine.Uncreate] removes the
	// tables that turn out to be unneeded. Store the mark durably before the call, so that a crash does not lose it. Default:
	// tables are not marked.
	Creation string
}

// TableProblem is a table that cannot take the rows of a sink as it is.
type TableProblem = buffer.TableProblem

// Apply is [Engine.Define] for the engine that has compiled the definition. It returns the problems that did not refuse it, in the order of the
// sinks. It fails for a definition of the function [Compile].
func (d *Definition) Apply(ctx context.Context, opts ApplyOptions) ([]TableProblem, error) {
	e, id := d.engine, d.source.ID
	if e == nil {
		return nil, errors.New("forebay: the definition was compiled without an engine: use Engine.Compile")
	}
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
	old := e.sources.Get(id)
	next, err := e.link(ctx, d, kept)
	if err != nil {
		return nil, err
	}
	e.sources.Put(id, next)
	endShadows(old, next)
	return problems, e.endSinks(ctx, old, next)
}

// admits refuses a source above Options.MaxSources, and every source after Close.
func (e *Engine) admits(sourceID string) error {
	if e.closed.Load() {
		return ErrClosed
	}
	if e.sources.Get(sourceID) == nil && e.sources.Len() >= e.opts.MaxSources {
		return fmt.Errorf("define source %q: %w: Options.MaxSources is %d: remove a source, or raise it", sourceID, ErrTooManySources, e.opts.MaxSources)
	}
	return nil
}

// link defines the enabled sinks in the buffer, those in kept as they were accepted last, and returns what Ingest needs of the
// source. The caller has e.define.
func (e *Engine) link(ctx context.Context, d *Definition, kept map[string]keptSink) (*source, error) {
	def := d.source
	next := &source{def: def, compiled: d, secrets: secrets.New(def.Secret, def.OldSecret, def.OldSecretUntil), redactor: d.redactor(), dropped: load[atomic.Int64](&e.dropped, def.ID)}
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
		before, _, _ := e.tables.Last(id, cfg.Table)
		handle, err := e.buf.Define(ctx, cfg)
		if err != nil {
			return nil, fmt.Errorf("define sink %q: %w", id, err)
		}
		if renames := tables.Renames(before, c.Table.Columns); len(renames) > 0 {
			e.log.Info("renamed column added as a new one", "sink", id, "table", c.Table.ID, "columns", renames, "next", "copy its values in the table if you need them")
		}
		next.add(&sink{
			id: c.ID, mapper: c.mapper, handle: handle, sync: c.settings.sync, count: load[rejections.Counter](&e.counts, id), reject: e.rejectHook(def.ID, c.ID),
			refused: refused != "", keeps: c.OnReject == Quarantine, name: c.name,
			columns: c.Table.Columns, target: c.Table.Target, shadow: load[shadow.Slot](&e.slots, id),
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

// redactor returns the redactor of the source.
func (d *Definition) redactor() *kept.Redactor {
	mappers := make([]*mapping.Mapper, len(d.sinks))
	for i := range d.sinks {
		mappers[i] = d.sinks[i].mapper
	}
	return kept.NewRedactor([]string{d.source.Secret, d.source.OldSecret}, d.source.KeepHeaders, mappers...)
}

func bufferConfig(sourceID string, c *compiledSink) buffer.SinkConfig {
	cfg := buffer.SinkConfig{
		ID:       bufferID(sourceID, c.ID),
		Table:    c.Table.of(c.mapper),
		Encoding: c.settings.encoding,
		Upload:   c.settings.upload,
		Import:   c.settings.imports,
		AckLocal: c.AckLocal,
	}
	cfg.Mapping, cfg.Label = tables.Mapping(cfg.Table, c.Table.Columns), c.name.Label()
	if c.OnReject == Quarantine {
		cfg.Quarantine = &c.Quarantine
	}
	return cfg
}

// keptSink is a sink that continues with the columns that were accepted last.
type keptSink struct {
	compiledSink
	refused error
}

// lastAccepted returns a sink with the columns that were accepted last, or false if there are none for this table.
func (e *Engine) lastAccepted(id string, c compiledSink) (compiledSink, bool) {
	columns, made, ok := e.tables.Last(id, c.Table.of(c.mapper))
	if !ok {
		return c, false
	}
	mapper, err := e.mappers.Get(id, c.Table.Target, columns)
	if err != nil || !slices.Equal(mapper.Columns(), made) {
		return c, false
	}
	c.mapper, c.Table.Columns, c.name = mapper, columns, kept.NameOf(columns, c.Version)
	return c, true
}

// ensureTables creates or compares the tables of new and changed sinks. It returns the problems that do not refuse the definition, and the sinks that
// continue with the columns accepted last.
func (e *Engine) ensureTables(ctx context.Context, d *Definition, opts ApplyOptions) ([]TableProblem, map[string]keptSink, error) {
	var sinks []tables.Sink
	last := map[string]compiledSink{}
	for i := range d.sinks {
		c := &d.sinks[i]
		if c.Disabled {
			continue
		}
		cfg := bufferConfig(d.source.ID, c)
		sinks = append(sinks, tables.Sink{ID: c.ID, Config: cfg, Keeps: func() (ok bool) {
			last[c.ID], ok = e.lastAccepted(cfg.ID, *c)
			return ok
		}})
	}
	problems, err := e.tables.Ensure(ctx, d.source.ID, sinks, tables.Options{Refuse: opts.Refuse, Creation: opts.Creation})
	kept := map[string]keptSink{}
	for _, p := range problems {
		if p.Kept {
			kept[p.Sink] = keptSink{last[p.Sink], p.Err}
		}
	}
	return problems, kept, err
}

// Problems returns the problems that the engine knows without asking the target. They are changes that a table with Extend cannot
// follow. [Definition.Apply] may meet others. It changes nothing, and looks at disabled sinks too. A definition of the function [Compile] has none.
func (d *Definition) Problems() []TableProblem {
	if d.engine == nil {
		return nil
	}
	var problems []TableProblem
	for i := range d.sinks {
		c := &d.sinks[i]
		if !c.Table.Extend {
			continue
		}
		if err := d.engine.tables.Accepts(bufferConfig(d.source.ID, c)); err != nil {
			problems = append(problems, TableProblem{Source: d.source.ID, Sink: c.ID, Table: c.Table.ID, Err: err})
		}
	}
	return problems
}

// Uncreate removes tables that [Definition.Apply] has created with this mark and whose definition was not kept. Of the tables only ID and Target count. A table
// stays if it has rows or another mark, or if its target is missing or is no [driver.Uncreator]. It fails for tables of a defined sink, and for tables
// that the target could not check. It may be repeated. The caller makes sure that no definition begins to use the tables meanwhile and that no rows
// wait for them.
func (e *Engine) Uncreate(ctx context.Context, creation string, tables ...Table) error {
	list := make([]driver.Table, len(tables))
	for i, t := range tables {
		list[i] = driver.Table{ID: t.ID, Target: t.Target}
	}
	return e.tables.Uncreate(ctx, creation, list, func(t driver.Table) (sinkID string, used bool) {
		for src := range e.sources.All() {
			for _, s := range src.def.Sinks {
				if !s.Disabled && t.ID == s.Table.ID && t.Target == s.Table.Target {
					return bufferID(src.def.ID, s.ID), true
				}
			}
		}
		return "", false
	})
}
