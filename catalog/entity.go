package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/mapping"
)

// By says who changed something.
type By struct {
	// Type is "user" for a call of the API and "system" for the catalog itself.
	Type string `json:"type"`
	// TokenID and TokenDesc are the id and description of the token that was used; never the token.
	TokenID   string `json:"tokenId,omitempty"`
	TokenDesc string `json:"tokenDesc,omitempty"`
	UserID    string `json:"userId,omitempty"`
	UserName  string `json:"userName,omitempty"`
}

// Mark says when, by whom and why something was created, disabled or deleted.
type Mark struct {
	// At has milliseconds.
	At time.Time `json:"at"`
	// By is the actor.
	By By `json:"by"`
	// Reason is for people; empty for creation and deletion.
	Reason string `json:"reason,omitempty"`
	// WithParent is set on a sink that was deleted because its source was: it comes back with the source.
	WithParent bool `json:"withParent,omitempty"`
}

// Version describes one version of a source or sink.
type Version struct {
	// Number counts from 1, also through deletion and undeletion.
	Number int `json:"number"`
	// Hash has 16 hex digits; versions with the same content have the same.
	Hash string `json:"hash"`
	// Description says what was changed.
	Description string `json:"description"`
	// At and By say when and by whom it was made.
	At time.Time `json:"at"`
	By By        `json:"by"`
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

// Source is a source with all that the engine does not need.
type Source struct {
	// ID is unique among sources.
	ID string `json:"id"`
	SourceContent
	// Secret is the last part of the ingestion URL. It is not a part of versions: a rollback keeps it.
	Secret string `json:"secret"`
	// OldSecret is accepted beside Secret until OldSecretUntil. It may still be here when that is over.
	OldSecret      string    `json:"oldSecret,omitempty"`
	OldSecretUntil time.Time `json:"oldSecretUntil,omitzero"`
	// Version is the latest.
	Version Version `json:"version"`
	// Created stays when a deleted source comes back.
	Created Mark `json:"created"`
	// Disabled and Deleted are nil when the source is not.
	Disabled *Mark `json:"disabled,omitempty"`
	Deleted  *Mark `json:"deleted,omitempty"`
}

// LogValue implements [slog.LogValuer]: the secret stays out of logs.
func (s Source) LogValue() slog.Value { return slog.StringValue(s.String()) }

// String names the source without its secret.
func (s Source) String() string { return fmt.Sprintf("source %s version %d", s.ID, s.Version.Number) }

// SinkContent is the part of a sink that versions keep.
type SinkContent struct {
	// Name and Description are for people.
	Name        string `json:"name"`
	Description string `json:"description"`
	// Signals are the kinds of telemetry that the sink of an OTLP source takes: "logs", "metrics", "traces". None means all.
	Signals []string `json:"allowedSignals,omitempty"`
	// TableID is the destination, three parts with dots between: stage, bucket, table.
	TableID string `json:"tableId"`
	// Columns are the mapping of an event to a row.
	Columns mapping.Columns `json:"columns"`
	// Settings are the overridden ones.
	Settings Overrides `json:"settings,omitempty"`
}

// Sink is a sink with all that the engine does not need.
type Sink struct {
	// ID is unique among the sinks of the source.
	ID string `json:"id"`
	SinkContent
	// Version is the latest.
	Version Version `json:"version"`
	// Created stays when a deleted sink comes back.
	Created Mark `json:"created"`
	// Disabled is the sink's own mark; [Sink.DisabledWith] also looks at the source.
	Disabled *Mark `json:"disabled,omitempty"`
	Deleted  *Mark `json:"deleted,omitempty"`
	// Token is what the sink's rows are imported with; the zero value while the sink has none.
	Token Token `json:"token,omitzero"`
	// Cleared is what was in the table when the statistics were cleared last.
	Cleared Cleared `json:"cleared,omitzero"`
}

// DisabledWith returns why a sink takes no events: its own mark, or that of its source, or nil when it takes them.
func (s Sink) DisabledWith(source Source) *Mark {
	if s.Disabled != nil || source.Disabled == nil {
		return s.Disabled
	}
	m := *source.Disabled
	m.Reason, m.WithParent = "The source is disabled.", true
	return &m
}

// LogValue implements [slog.LogValuer]: the token stays out of logs.
func (s Sink) LogValue() slog.Value { return slog.StringValue(s.String()) }

// String names the sink without its token.
func (s Sink) String() string { return fmt.Sprintf("sink %s version %d", s.ID, s.Version.Number) }

// GoString is String: the secret stays out of what %#v writes.
func (s Source) GoString() string { return s.String() }

// GoString is String: the token stays out of what %#v writes.
func (s Sink) GoString() string { return s.String() }

// tree is a source and all its sinks, live and deleted. It is immutable once it is in the catalog.
type tree struct {
	source Source
	sinks  map[string]Sink
}

func (t *tree) clone() *tree {
	return &tree{source: t.source, sinks: maps.Clone(t.sinks)}
}

func (t *tree) live() bool { return t != nil && t.source.Deleted == nil }

// sink returns a sink that is not deleted.
func (t *tree) sink(id string) (Sink, *Error) {
	s, ok := t.sinks[id]
	if !ok || s.Deleted != nil {
		return Sink{}, sinkNotFound(t.source.ID, id)
	}
	return s, nil
}

// sorted returns the live or the deleted sinks by id.
func (t *tree) sorted(deleted bool) []Sink {
	var list []Sink
	for _, id := range slices.Sorted(maps.Keys(t.sinks)) {
		if s := t.sinks[id]; (s.Deleted != nil) == deleted {
			list = append(list, s)
		}
	}
	return list
}

// definition returns what the engine is to do for the tree.
func (t *tree) definition() (forebay.Source, error) {
	settings, err := t.source.Settings.engine()
	if err != nil {
		return forebay.Source{}, err
	}
	def := forebay.Source{
		ID: t.source.ID, Type: t.source.Type, Secret: t.source.Secret, Disabled: t.source.Disabled != nil,
		OldSecret: t.source.OldSecret, OldSecretUntil: t.source.OldSecretUntil,
		Split: t.source.Settings.split(), Settings: settings,
	}
	for _, s := range t.sorted(false) {
		settings, err := s.Settings.engine()
		if err != nil {
			return forebay.Source{}, err
		}
		def.Sinks = append(def.Sinks, forebay.Sink{
			ID: s.ID, Table: forebay.Table{ID: s.TableID, Columns: s.Columns},
			Disabled: s.DisabledWith(t.source) != nil, AllowedSignals: engineSignals(s.Signals), Settings: settings,
		})
	}
	return def, nil
}

func engineSignals(names []string) []forebay.Signal {
	var list []forebay.Signal
	for _, name := range names {
		list = append(list, forebay.Signal(name))
	}
	return list
}

// version gives a content the number after the last one. An equal content is a new version too when it says what was
// done; see the callers.
func newVersion(last Version, content any, description string, at time.Time, by By) Version {
	return Version{Number: last.Number + 1, Hash: hash(content), Description: description, At: at, By: by}
}

func hash(content any) string {
	h := fnv.New64a()
	h.Write(encode(content))
	return fmt.Sprintf("%016x", h.Sum64())
}

// encode returns the stored form of a record.
func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("catalog: a record cannot be encoded: " + err.Error()) // all types of records can be
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
