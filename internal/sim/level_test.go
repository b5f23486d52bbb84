package sim

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/stream"
)

// level is the system that a run tests. It is a buffer, or an engine on top of one. Sinks have the names of the buffer.
type level interface {
	// define makes the plan of a sink effective.
	define(ctx context.Context, id string) error
	// end takes a sink out of service in the given way.
	end(ctx context.Context, id, way string) error
	append(ctx context.Context, c *client, w work)
	flush(ctx context.Context, id string) error
	flushAll(ctx context.Context) error
	retry(ctx context.Context, id string) error
	discard(ctx context.Context, id, file string) error
	// split and setAside decide about a file that is held.
	split(ctx context.Context, id, file string) error
	setAside(ctx context.Context, id, file string) error
	checkpoint(ctx context.Context, dir string) error
	verify(ctx context.Context) (buffer.Report, error)
	stats() buffer.Stats
	close() error
	keeper
}

// plan is the state of a sink that the operator wants.
type plan struct {
	conf buffer.SinkConfig
	// version and extend are what conf and the mapping have of typed columns.
	version version
	extend  bool
	refuses bool // some definition had no quarantine, so rows that the target refuses leave their file then, even if the bounds hold files
	// The rest is of engines alone.
	sync           forebay.SyncMode
	disabled, gone bool
}

// shape gives the buffer's definition the columns of the version.
func (p *plan) shape() {
	p.conf.Table.Columns, p.conf.Table.Extend = p.version.inTable(datatype.UntypedColumns("id", "value")), p.extend
}

// bufferLevel is the buffer alone.
type bufferLevel struct {
	r *run
	*buffer.Buffer
}

func (l *bufferLevel) define(ctx context.Context, id string) error {
	p := l.r.plans[id]
	l.r.mu.Lock()
	l.r.offers(id)
	l.r.mu.Unlock()
	s, err := l.Define(ctx, p.conf)
	l.r.mu.Lock()
	defer l.r.mu.Unlock()
	if v := verdictOf(err, false); !l.r.gen.dead.Load() {
		l.r.settles(id, v)
	}
	if err == nil {
		l.r.handles[id] = append(l.r.handles[id], &handle{s, p.conf, p.version})
	}
	return err
}

func (l *bufferLevel) end(ctx context.Context, id, _ string) error { return l.Sink(id).Drop(ctx) }

func (l *bufferLevel) append(ctx context.Context, c *client, w work) { c.appendRows(ctx, l.Buffer, w) }

func (l *bufferLevel) flush(ctx context.Context, id string) error { return l.Sink(id).Flush(ctx) }

func (l *bufferLevel) flushAll(ctx context.Context) error {
	for _, st := range l.Stats().Sinks {
		if err := l.Sink(st.ID).Flush(ctx); err != nil {
			return fmt.Errorf("sink %s: %w", st.ID, err)
		}
	}
	return nil
}

func (l *bufferLevel) retry(ctx context.Context, id string) error { return l.Sink(id).Retry(ctx) }

func (l *bufferLevel) discard(ctx context.Context, id, file string) error {
	return l.Sink(id).Discard(ctx, file)
}

func (l *bufferLevel) split(ctx context.Context, id, file string) error {
	return l.Sink(id).SplitFile(ctx, file)
}

func (l *bufferLevel) setAside(ctx context.Context, id, file string) error {
	return l.Sink(id).QuarantineFile(ctx, file)
}

func (l *bufferLevel) checkpoint(ctx context.Context, dir string) error {
	return l.Checkpoint(ctx, dir)
}

func (l *bufferLevel) verify(ctx context.Context) (buffer.Report, error) { return l.Verify(ctx) }
func (l *bufferLevel) stats() buffer.Stats                               { return l.Stats() }
func (l *bufferLevel) close() error                                      { return l.Close() }

// engineLevel is an engine with the HTTP handler on top.
type engineLevel struct {
	r *run
	*forebay.Engine
	http http.Handler
}

const secret = "0123456789abcdef0123456789abcdef0123456789abcdef"

func newEngineLevel(r *run, eng *forebay.Engine) *engineLevel {
	return &engineLevel{r, eng, stream.Ingest(eng, stream.Options{Logger: r.logs})}
}

// sourceOf splits the name of a sink in the buffer.
func sourceOf(id string) (source, sink string) {
	source, sink, _ = strings.Cut(id, "/")
	return source, sink
}

// source makes the definition of a source from the plans of its sinks.
func (l *engineLevel) source(source string) forebay.Source {
	def := forebay.Source{ID: source, Secret: secret, Disabled: l.r.disabled[source]}
	for _, id := range l.r.sinksOf(source) {
		p := l.r.plans[id]
		if isArchive(id) {
			if !p.gone && !p.disabled {
				def.Archive = &forebay.ArchiveSettings{Settings: forebay.Settings{Sync: p.sync, Upload: p.conf.Upload, Import: p.conf.Import}}
			}
			continue
		}
		if p.gone {
			continue
		}
		_, name := sourceOf(id)
		onReject, bounds := forebay.Refuse, buffer.QuarantineBounds{}
		if p.conf.Quarantine != nil {
			onReject, bounds = forebay.Quarantine, *p.conf.Quarantine
		}
		def.Sinks = append(def.Sinks, forebay.Sink{
			OnReject: onReject, Quarantine: bounds,
			ID: name, Disabled: p.disabled, Table: forebay.Table{ID: p.conf.Table.ID, Columns: p.version.mapped(append(columns(name), l.r.mintedColumns(id)...)), Extend: p.extend},
			Settings: forebay.Settings{
				Sync: p.sync, Upload: p.conf.Upload, Import: p.conf.Import,
				Compression: [...]forebay.Compression{
					driver.None: forebay.CompressionNone, driver.Gzip: forebay.CompressionGzip, driver.Zstd: forebay.CompressionZstd,
				}[p.conf.Encoding],
			},
		})
	}
	return def
}

// columns is the mapping of a sink, where b has a template, and c accepts records without a value.
func columns(sink string) mapping.Columns {
	value := mapping.Path("value", "value", mapping.RawString())
	switch sink {
	case "b":
		return mapping.Columns{
			mapping.Path("id", "id", mapping.RawString()), value,
			mapping.Template("label", `"label of " + Body("id")`, mapping.RawString()),
		}
	case "c":
		value = mapping.Path("value", "value", mapping.RawString(), mapping.Default(noValue))
	}
	return mapping.Columns{mapping.Path("id", "id", mapping.RawString()), value}
}

const noValue = "none"

func (l *engineLevel) define(ctx context.Context, id string) error {
	source, _ := sourceOf(id)
	delete(l.r.removed, source)
	return l.change(source, func() error { return l.Define(ctx, l.source(source)) })
}

// change runs a call that changes the definition of a source, and tells the model.
func (l *engineLevel) change(source string, call func() error) error {
	ids := l.r.sinksOf(source)
	l.r.begins(ids)
	err := call()
	kept := map[string]bool{}
	for _, st := range l.Stats().Sinks {
		kept[st.ID] = st.Refused != ""
	}
	l.r.ends(ids, err, kept)
	return err
}

// The ways in which a sink of an engine ends.
var endings = []string{"disable the sink", "delete the sink", "disable the source", "remove the source"}

func (l *engineLevel) end(ctx context.Context, id, way string) error {
	source, _ := sourceOf(id)
	p := l.r.plans[id]
	switch way {
	case "disable the sink":
		p.disabled = true
	case "delete the sink":
		p.gone = true
	case "disable the source":
		l.r.disabled[source] = true
	case "remove the source":
		l.r.removed[source] = true
		l.r.mu.Lock()
		l.r.removals[source]++
		l.r.mu.Unlock()
		return l.change(source, func() error { return l.Remove(ctx, source) })
	}
	return l.define(ctx, id)
}

func (l *engineLevel) append(ctx context.Context, c *client, w work) { c.ingest(ctx, l, w) }

func (l *engineLevel) flush(ctx context.Context, id string) error {
	source, sink := sourceOf(id)
	return l.Flush(ctx, source, sink)
}

func (l *engineLevel) flushAll(ctx context.Context) error { return l.FlushAll(ctx) }

func (l *engineLevel) retry(ctx context.Context, id string) error {
	source, sink := sourceOf(id)
	return l.Sink(source, sink).Retry(ctx)
}

func (l *engineLevel) discard(ctx context.Context, id, file string) error {
	source, sink := sourceOf(id)
	return l.Sink(source, sink).Discard(ctx, file)
}

func (l *engineLevel) split(ctx context.Context, id, file string) error {
	source, sink := sourceOf(id)
	return l.Sink(source, sink).SplitFile(ctx, file)
}

func (l *engineLevel) setAside(ctx context.Context, id, file string) error {
	source, sink := sourceOf(id)
	return l.Sink(source, sink).QuarantineFile(ctx, file)
}

func (l *engineLevel) checkpoint(ctx context.Context, dir string) error {
	return l.Checkpoint(ctx, dir)
}

func (l *engineLevel) verify(ctx context.Context) (buffer.Report, error) { return l.Verify(ctx) }
func (l *engineLevel) close() error                                      { return l.Close() }

func (l *engineLevel) stats() buffer.Stats {
	st := l.Stats()
	out := buffer.Stats{PendingBytes: st.PendingBytes, LocalBytes: st.LocalBytes}
	for _, s := range st.Sinks {
		out.Sinks = append(out.Sinks, s.SinkStats)
	}
	return out
}

// dataDir is the folder of the run, localDir the folder of its local level.
func (r *run) dataDir() string { return "data" }

func (r *run) localDir() string { return r.localOf(r.dataDir()) }

func (r *run) localOf(dir string) string {
	if r.engine() {
		return dir + "/local"
	}
	return dir
}

// open opens the data directory as a new process.
func (r *run) open(g *generation) (level, error) {
	tuning := localdisk.On(r.opts, r.disk)
	d := &drivers{r.out, g}
	var target driver.Target = d
	if r.voids {
		target = voider{d}
	}
	if r.engine() {
		eng, err := forebay.Open(r.dataDir(), forebay.Options{
			Staging: d, Target: target, Archive: archive{d}, Logger: r.logs, Buffer: tuning, MaxRowBytes: maxRow,
		})
		if err != nil {
			return nil, err
		}
		return newEngineLevel(r, eng), nil
	}
	b, err := buffer.Open(r.dataDir(), buffer.Options{Staging: d, Target: target, Logger: r.logs, Tuning: tuning})
	if err != nil {
		return nil, err
	}
	return &bufferLevel{r, b}, nil
}

// maxRow bounds a row of an engine, in bytes.
const maxRow = 256 << 10
