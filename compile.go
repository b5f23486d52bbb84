package forebay

import (
	"cmp"
	"errors"
	"slices"

	"github.com/forebay/forebay/internal/mappers"
	"github.com/forebay/forebay/mapping"
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

// Compile is [Engine.Compile] for one table of the sink, with the limits of the target of the table. The source and the sink need not be
// defined. It returns the error of [mapping.Compile], or an error that lists the known names if the engine has no target with the name.
func (h SinkHandle) Compile(t Table) (*mapping.Mapper, error) {
	if err := h.e.opts.unknownTarget(t.Target); err != nil {
		return nil, err
	}
	return h.e.mappers.Get(h.id(), t.Target, t.Columns)
}

// sharedMapping returns the options of the mappers of an engine by target.
func sharedMapping(o Options) func(target string) mapping.Options {
	all := map[string]mapping.Options{"": o.mapping("").Shared()}
	for name := range o.Targets {
		all[name] = o.mapping(name).Shared()
	}
	return func(target string) mapping.Options { return all[target] }
}
