package forebay

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"weak"

	"github.com/forebay/forebay/mapping"
)

// Definition is a [Source] that was checked and compiled. It is immutable and safe for concurrent use. [Engine.Apply] takes
// the options of its own [Engine.Compile].
type Definition struct {
	engine *Engine // nil: none
	source Source
	sinks  []compiledSink // all, in the order of the source
}

// Source returns the source with its defaults filled in. The caller must not modify its slices.
func (d *Definition) Source() Source { return d.source }

// Mapper returns the mapper of a sink, also of a disabled one; nil when the source has no such sink.
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
	return compile(nil, def, opts, &mapperCache{options: func(target string) mapping.Options { return opts.mapping(target) }})
}

// Compile checks a source and compiles its mappings with the options of the engine, as [Engine.Define] does, and changes
// nothing. Everything that shows or checks what a sink would store uses it, so the answer is what the engine will do.
// Mappings that were compiled recently for the same sink are reused. The error is a [*DefinitionError] with all problems.
func (e *Engine) Compile(def Source) (*Definition, error) { return compile(e, def, e.opts, &e.mappers) }

func compile(e *Engine, def Source, opts Options, mappers *mapperCache) (*Definition, error) {
	sinks, err := compileSource(def, opts, mappers)
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

// CompileColumns is [Engine.Compile] for the columns of one sink. The limits are the limits of the target in the current definition of the sink, if
// there is one. It returns the error of [mapping.Compile].
func (e *Engine) CompileColumns(sourceID, sinkID string, columns mapping.Columns) (*mapping.Mapper, error) {
	target := ""
	if src := e.sources.get(sourceID); src != nil {
		for i := range src.def.Sinks {
			if s := &src.def.Sinks[i]; s.ID == sinkID {
				target = s.Table.Target
			}
		}
	}
	return e.mappers.get(bufferID(sourceID, sinkID), target, columns)
}

// sharedMapping returns the options of the mappers of an engine by target.
func sharedMapping(o Options) func(target string) mapping.Options {
	all := map[string]mapping.Options{"": o.mapping("").Shared()}
	for name := range o.Targets {
		all[name] = o.mapping(name).Shared()
	}
	return func(target string) mapping.Options { return all[target] }
}

// mapperCacheText bounds the mappers that are kept although no source uses them, by bytes of the text of their columns:
// mappers of changes that are checked now and made later. A mapper takes a few times its text.
const mapperCacheText = 1 << 20

// mapperCache compiles mappers, and returns those that it has compiled for the same columns of the same sink. Sinks share no
// mapper: they would share the clock of their UUIDs.
type mapperCache struct {
	options func(target string) mapping.Options

	mu       sync.Mutex // not held while something is compiled
	known    map[mapperKey]weak.Pointer[mapping.Mapper]
	kept     []keptMapper // oldest first
	text     int          // of kept
	sweepAt  int          // length of known at which dead entries are deleted
	compiled int64
}

type mapperKey [sha256.Size]byte

type keptMapper struct {
	key    mapperKey
	mapper *mapping.Mapper
	text   int
}

// get returns the mapper of a sink, by its name in the buffer, for a table in the named target.
func (c *mapperCache) get(id, target string, columns mapping.Columns) (*mapping.Mapper, error) {
	text := fmt.Appendf(nil, "%q %q %#v", id, target, columns) // every field: the JSON form leaves some out
	key := mapperKey(sha256.Sum256(text))
	c.mu.Lock()
	m := c.known[key].Value()
	c.mu.Unlock()
	if m != nil {
		return m, nil
	}
	m, err := mapping.Compile(columns, c.options(target))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.compiled++
	if err != nil {
		return nil, err
	}
	if other := c.known[key].Value(); other != nil { // somebody was faster
		return other, nil
	}
	if c.known == nil {
		c.known = map[mapperKey]weak.Pointer[mapping.Mapper]{}
	}
	c.known[key] = weak.Make(m)
	c.kept = append(c.kept, keptMapper{key, m, len(text)})
	c.text += len(text)
	for len(c.kept) > 1 && c.text > mapperCacheText {
		c.text -= c.kept[0].text
		c.kept = slices.Delete(c.kept, 0, 1)
	}
	if len(c.known) > max(c.sweepAt, 256) {
		for key, p := range c.known {
			if p.Value() == nil {
				delete(c.known, key)
			}
		}
		c.sweepAt = 2 * len(c.known)
	}
	return m, nil
}
