package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/mapping"
)

// By says who changed something.
type By struct {
	// Type is "user" for a call of the API and "system" for the catalog itself.
	Type string `json:"type"`
	// TokenID and TokenDesc are the id and description of the token that was used, never the token.
	TokenID   string `json:"tokenId,omitempty"`
	TokenDesc string `json:"tokenDesc,omitempty"`
	UserID    string `json:"userId,omitempty"`
	UserName  string `json:"userName,omitempty"`
}

// who names the actor for people.
func (b By) who() string { return cmp.Or(b.UserName, b.TokenDesc, b.TokenID, b.Type) }

// Mark says when, by whom and why something was created, disabled or deleted.
type Mark struct {
	// At has milliseconds.
	At time.Time `json:"at"`
	// By is the actor.
	By By `json:"by"`
	// Reason is for people. It is empty for creation and deletion.
	Reason string `json:"reason,omitempty"`
	// WithParent is set on a sink that was deleted because its source was. An undeletion of the source brings it back.
	WithParent bool `json:"withParent,omitempty"`
}

// Ref names a source or one of its sinks.
type Ref struct {
	// Source is the id of the source.
	Source string
	// Sink is the id of the sink, or "" for the source itself.
	Sink string
}

// kind is "source" or "sink".
func (r Ref) kind() string {
	if r.Sink == "" {
		return "source"
	}
	return "sink"
}

// name is for the middle of a sentence: source "web", or sink "events".
func (r Ref) name() string { return fmt.Sprintf("%s %q", r.kind(), cmp.Or(r.Sink, r.Source)) }

// title is name for the beginning of a sentence.
func (r Ref) title() string { return strings.ToUpper(r.kind()[:1]) + r.name()[1:] }

// full is name with the source of a sink.
func (r Ref) full() string {
	if r.Sink == "" {
		return r.name()
	}
	return fmt.Sprintf("%s of source %q", r.name(), r.Source)
}

// entity is the name under which a task reserves it.
func (r Ref) entity() string {
	if r.Sink == "" {
		return r.Source
	}
	return r.Source + "/" + r.Sink
}

// Lifecycle is what sources and sinks have in common.
type Lifecycle struct {
	// Version is the latest.
	Version Version `json:"version"`
	// Created stays when something deleted comes back.
	Created Mark `json:"created"`
	// Disabled and Deleted are nil when it is not. A sink's Disabled is its own mark; [Sink.DisabledWith] includes the source.
	Disabled *Mark `json:"disabled,omitempty"`
	Deleted  *Mark `json:"deleted,omitempty"`
}

// SourceContent is the part of a source that versions keep.
type SourceContent struct {
	// Type is the kind of the source.
	Type forebay.SourceType `json:"type"`
	// Name and Description are for people.
	Name        string `json:"name"`
	Description string `json:"description"`
	// Settings are the overridden ones.
	Settings Overrides `json:"settings,omitempty"`
}

// Source is a source as the catalog stores it.
type Source struct {
	// ID is unique among sources.
	ID string `json:"id"`
	SourceContent
	// Secret is the last part of the ingestion URL. It is not a part of versions, so a rollback keeps it.
	Secret string `json:"secret"`
	// OldSecret is accepted in addition to Secret until OldSecretUntil. It may still be here after that.
	OldSecret      string    `json:"oldSecret,omitempty"`
	OldSecretUntil time.Time `json:"oldSecretUntil,omitzero"`
	// Generation tells the source from erased ones that had its id. See [forebay.Source]. It is empty in sources that were made before there were
	// generations.
	Generation string `json:"generation,omitempty"`
	Lifecycle
}

// LogValue implements [slog.LogValuer]. It keeps the secret out of logs.
func (s Source) LogValue() slog.Value { return slog.StringValue(s.String()) }

// String names the source without its secret.
func (s Source) String() string { return fmt.Sprintf("source %s version %d", s.ID, s.Version.Number) }

// GoString is String. It keeps the secret out of what %#v writes.
func (s Source) GoString() string { return s.String() }

// SinkContent is the part of a sink that versions keep.
type SinkContent struct {
	// Name and Description are for people.
	Name        string `json:"name"`
	Description string `json:"description"`
	// Signals are the kinds of telemetry that the sink of an OTLP source takes: "logs", "metrics", "traces". None means all.
	Signals []string `json:"allowedSignals,omitempty"`
	// TableID is the destination, as stage.bucket.table.
	TableID string `json:"tableId"`
	// Target is the name of the target of the table. See [forebay.Table]. It is empty for the default target.
	Target string `json:"target,omitempty"`
	// Columns map an event to a row.
	Columns mapping.Columns `json:"columns"`
	// Extend lets the table grow with the columns. See [forebay.Table].
	Extend bool `json:"extend,omitempty"`
	// AckLocal acknowledges rows before the log of a node has them. See [forebay.Sink].
	AckLocal bool `json:"ackLocal,omitempty"`
	// OnReject decides about a record that the columns cannot map, and Quarantine bounds the kept records. See [forebay.Sink].
	OnReject   forebay.OnReject `json:"onReject,omitempty"`
	Quarantine QuarantineBounds `json:"quarantine,omitzero"`
	// Settings are the overridden ones.
	Settings Overrides `json:"settings,omitempty"`
}

// Sink is a sink as the catalog stores it.
type Sink struct {
	// ID is unique among the sinks of the source.
	ID string `json:"id"`
	SinkContent
	Lifecycle
	// Token imports the sink's rows. It is the zero value while the sink has none.
	Token Token `json:"token,omitzero"`
	// Cleared is the state of the table when the statistics were cleared last.
	Cleared Cleared `json:"cleared,omitzero"`
	// ClearedOn takes its place where nodes share their definitions. It has the state that each instance had counted, by [SharedOptions.Instance], and
	// "" for instances that had ended.
	ClearedOn map[string]Cleared `json:"clearedOn,omitempty"`
}

// DisabledWith returns why a sink accepts no events, by its own mark or its source's. It returns nil when it accepts them.
func (s Sink) DisabledWith(source Source) *Mark {
	if s.Disabled != nil || source.Disabled == nil {
		return s.Disabled
	}
	m := *source.Disabled
	m.Reason, m.WithParent = "The source is disabled.", true
	return &m
}

// LogValue implements [slog.LogValuer]. It keeps the token out of logs.
func (s Sink) LogValue() slog.Value { return slog.StringValue(s.String()) }

// String names the sink without its token.
func (s Sink) String() string { return fmt.Sprintf("sink %s version %d", s.ID, s.Version.Number) }

// GoString is String. It keeps the token out of what %#v writes.
func (s Sink) GoString() string { return s.String() }

// tree is a source and all its sinks, live and deleted. It never changes once it is in definitions.
type tree struct {
	source Source
	sinks  map[string]*Sink
}

// clone returns a copy that may be changed, or an empty tree for nil.
func (t *tree) clone() *tree {
	c := &tree{sinks: map[string]*Sink{}}
	if t != nil {
		c.source = t.source
		for id, s := range t.sinks {
			copied := *s
			c.sinks[id] = &copied
		}
	}
	return c
}

func (t *tree) live() bool { return t != nil && t.source.Deleted == nil }

// sink returns a sink that is not deleted, or nil when there is none.
func (t *tree) sink(id string) *Sink {
	if s := t.sinks[id]; s != nil && s.Deleted == nil {
		return s
	}
	return nil
}

// sorted returns the live or the deleted sinks by id. A nil tree has none.
func (t *tree) sorted(deleted bool) []Sink {
	if t == nil {
		return nil
	}
	var list []Sink
	for _, id := range slices.Sorted(maps.Keys(t.sinks)) {
		if s := t.sinks[id]; (s.Deleted != nil) == deleted {
			list = append(list, *s)
		}
	}
	return list
}

// takes reports whether a sink accepts events.
func (t *tree) takes(id string) bool {
	return t.live() && t.sink(id) != nil && t.sinks[id].DisabledWith(t.source) == nil
}

// tables returns the keys of the tables of the live sinks of a live source, sorted. With taking it leaves out sinks that accept no events.
func (t *tree) tables(taking bool) []string {
	var list []string
	if t.live() {
		for id, s := range t.sinks {
			if s.Deleted == nil && (!taking || t.takes(id)) {
				list = append(list, s.table())
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// definition returns the engine's definition of the tree.
func (t *tree) definition(all keys) (forebay.Source, error) {
	settings, err := t.source.Settings.engine(all)
	if err != nil {
		return forebay.Source{}, err
	}
	def := forebay.Source{
		ID: t.source.ID, Generation: t.source.Generation, Type: t.source.Type, Secret: t.source.Secret, Disabled: t.source.Disabled != nil,
		OldSecret: t.source.OldSecret, OldSecretUntil: t.source.OldSecretUntil,
		Split: t.source.Settings.split(), KeepHeaders: t.source.Settings.keepHeaders(), Settings: settings,
	}
	if t.source.Settings.archive() {
		def.Archive = &forebay.ArchiveSettings{}
	}
	for _, s := range t.sorted(false) {
		settings, err := s.Settings.engine(all)
		if err != nil {
			return forebay.Source{}, err
		}
		var signals []forebay.Signal
		for _, name := range s.Signals {
			signals = append(signals, forebay.Signal(name))
		}
		def.Sinks = append(def.Sinks, forebay.Sink{
			ID: s.ID, Table: forebay.Table{ID: s.TableID, Target: s.Target, Columns: s.Columns, Extend: s.Extend},
			Disabled: s.DisabledWith(t.source) != nil, AllowedSignals: signals, Settings: settings, AckLocal: s.AckLocal,
			Version: s.Version.Number, OnReject: s.OnReject, Quarantine: buffer.QuarantineBounds(s.Quarantine),
		})
	}
	return def, nil
}

// definitions are the trees that are in the store, by source. They are what readers see.
type definitions struct {
	mu    sync.RWMutex
	trees map[string]*tree
}

// get returns nil for an unknown source.
func (d *definitions) get(id string) *tree {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.trees[id]
}

// set replaces a tree. Nil removes it.
func (d *definitions) set(id string, t *tree) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t == nil {
		delete(d.trees, id)
		return
	}
	d.trees[id] = t
}

// all returns the trees by id.
func (d *definitions) all() []*tree {
	d.mu.RLock()
	defer d.mu.RUnlock()
	list := make([]*tree, 0, len(d.trees))
	for _, id := range slices.Sorted(maps.Keys(d.trees)) {
		list = append(list, d.trees[id])
	}
	return list
}

// live returns the number of sources that are not deleted. It costs little for thousands of them, because each creation asks twice.
func (d *definitions) live() (n int) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	for _, t := range d.trees {
		if t.live() {
			n++
		}
	}
	return n
}

// userOf returns a live sink whose rows go to the table with a key, as text, or "" when there is none.
func (d *definitions) userOf(table string) string {
	for _, t := range d.all() {
		if t.live() {
			for _, s := range t.sorted(false) {
				if s.table() == table {
					return fmt.Sprintf("%q of source %q", s.ID, t.source.ID)
				}
			}
		}
	}
	return ""
}

// liveTree returns a tree that is not deleted.
func (c *Catalog) liveTree(source string) (*tree, error) {
	if t := c.defs.get(source); t.live() {
		return t, nil
	}
	return nil, notFound(Ref{Source: source})
}

// find returns a live source with, if ref names one, its live sink.
func (c *Catalog) find(ref Ref) (t *tree, s *Sink, err error) {
	if t, err = c.liveTree(ref.Source); err != nil || ref.Sink == "" {
		return t, nil, err
	}
	if s = t.sink(ref.Sink); s == nil {
		return nil, nil, notFound(ref)
	}
	return t, s, nil
}

// Source returns a source that is not deleted.
func (c *Catalog) Source(id string) (Source, error) {
	t, err := c.liveTree(id)
	if err != nil {
		return Source{}, err
	}
	return t.source, nil
}

// Sources returns the live or the deleted sources by id.
func (c *Catalog) Sources(deleted bool) []Source {
	var list []Source
	for _, t := range c.defs.all() {
		if t.live() != deleted {
			list = append(list, t.source)
		}
	}
	return list
}

// Sink returns a sink that is not deleted, with its source.
func (c *Catalog) Sink(sourceID, id string) (Source, Sink, error) {
	t, err := c.liveTree(sourceID)
	if err != nil {
		return Source{}, Sink{}, err
	}
	if s := t.sink(id); s != nil {
		return t.source, *s, nil
	}
	return Source{}, Sink{}, notFound(Ref{sourceID, id})
}

// Sinks returns the live or the deleted sinks of a source by id, with the source.
func (c *Catalog) Sinks(sourceID string, deleted bool) (Source, []Sink, error) {
	t, err := c.liveTree(sourceID)
	if err != nil {
		return Source{}, nil, err
	}
	return t.source, t.sorted(deleted), nil
}

// settingWarnings says by key which settings have no effect.
func (c *Catalog) settingWarnings(source, sink Overrides) (map[string]string, error) {
	merged := maps.Clone(source)
	if merged == nil {
		merged = Overrides{}
	}
	maps.Copy(merged, sink)
	settings, err := merged.engine(c.keys)
	up, down := c.eng.Options().Buffer.Unreachable(buffer.SinkConfig{Upload: settings.Upload, Import: settings.Import})
	return map[string]string{upload + "size": sentenceOrNone(up), imports + "size": sentenceOrNone(down)}, err
}

func sentenceOrNone(text string) string {
	if text == "" {
		return ""
	}
	return sentence(errors.New(text))
}

// Settings returns all settings of a source or sink, sorted by key. The settings of a sink include those it inherits.
func (c *Catalog) Settings(ref Ref) ([]Setting, error) {
	t, s, err := c.find(ref)
	if err != nil {
		return nil, err
	}
	var own Overrides
	if s != nil {
		own = s.Settings
	}
	all := c.keys.list(t.source.Settings, own, s != nil)
	warnings, err := c.settingWarnings(t.source.Settings, own)
	for i := range all {
		all[i].Warning = cmp.Or(all[i].Warning, warnings[all[i].Key])
	}
	return all, err
}
