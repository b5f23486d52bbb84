package forebay

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/ids"
	"github.com/forebay/forebay/internal/kept"
	"github.com/forebay/forebay/internal/mappers"
	"github.com/forebay/forebay/mapping"
)

// Limits of the platform.
const (
	// DefaultMaxSources is how many sources an engine may have, as a branch of the platform does, if Options.MaxSources is 0.
	DefaultMaxSources = 100
	// MaxSinks is how many sinks a source may have.
	MaxSinks = 100
	// MaxIDLength is the greatest length of a source or sink id, in bytes: 48.
	MaxIDLength = ids.MaxLength
)

// SourceType is the kind of events a source receives.
type SourceType string

const (
	// HTTP is a source whose request bodies are the events. It is the default.
	HTTP SourceType = "http"
	// OTLP is a source of OpenTelemetry logs, metrics and spans.
	OTLP SourceType = "otlp"
)

// Split says how an ingestion handler splits the body of a request into events. Engine.Ingest accepts records as they are.
type Split string

const (
	// SplitNone means that the body is one event, whatever it holds. It is the default.
	SplitNone Split = ""
	// SplitArray means that each element of a JSON array is an event. Another JSON value is one event.
	SplitArray Split = "array"
	// SplitLines means that each line that is not blank is an event, as in newline-delimited JSON.
	SplitLines Split = "lines"
)

// Source is an endpoint that receives events, with the sinks that store them.
type Source struct {
	// ID names the source: 1 to 48 characters of a-z, 0-9, '-' and '_', starting and ending with a letter or digit.
	ID string
	// Type is the kind of the source. Default: HTTP.
	Type SourceType
	// Secret is the last part of the source's ingestion URL. Callers of Ingest do not need it. An ingestion handler
	// refuses every request to a source without one.
	Secret string
	// OldSecret is accepted in addition to Secret until OldSecretUntil, so that senders can move to the new one one
	// by one. Default: none.
	OldSecret string
	// OldSecretUntil is the moment from which OldSecret is refused. It is required with OldSecret.
	OldSecretUntil time.Time
	// Disabled refuses new events. Rows that wait still flow to their tables. The sinks are defined all the same, and their tables are
	// created or extended now.
	Disabled bool
	// Split splits bodies of an HTTP source. The events of such a body are JSON. Default: SplitNone.
	Split Split
	// Settings are the defaults of the sinks' settings.
	Settings Settings
	// Archive, if not nil, keeps each original record in Options.Archive, in addition to the rows of the sinks. See [ArchiveSettings].
	// Default: raw records are not kept.
	Archive *ArchiveSettings
	// Generation tells the source from an earlier one with its ID whose raw records it must not read. It is a part of [Source.ArchiveID]. It has the
	// form of an ID. A source keeps it as long as it lives. Default: none. The archive of the source is named by the ID alone.
	Generation string
	// KeepHeaders names request headers that quarantines and the archive keep of a record, in any case, in addition to the headers that the
	// mappings of the sinks read, and some that hold no secret, such as Content-Type and User-Agent. "*" stands for all. A header whose name
	// sounds like a secret is never kept. Default: none.
	KeepHeaders []string
	// Sinks are at most MaxSinks, with unique ids.
	Sinks []Sink
}

// String returns the definition without the secret, for logs.
func (s Source) String() string {
	ids := make([]string, len(s.Sinks))
	for i := range s.Sinks {
		ids[i] = s.Sinks[i].ID
	}
	return fmt.Sprintf("source %s (%s, sinks %v)", s.ID, s.Type, ids)
}

// GoString returns String, so that %#v does not print the secret.
func (s Source) GoString() string { return s.String() }

// LogValue implements [slog.LogValuer]. The secret stays out of logs.
func (s Source) LogValue() slog.Value { return slog.StringValue(s.String()) }

// ArchiveSink is the id of the archive among the sinks of a source.
const ArchiveSink = kept.ArchiveSink

// ArchiveID names the archive of the source. It is the ID, followed by a dot and the Generation if there is one.
func (s Source) ArchiveID() string { return kept.ArchiveID(s.ID, s.Generation) }

// Sink maps the events of its source to the rows of one table.
type Sink struct {
	// ID is unique within the source, with the alphabet of Source.ID.
	ID string
	// Table is the destination.
	Table Table
	// Disabled stops the sink from taking events. Rows that wait still flow to the table.
	Disabled bool
	// AllowedSignals are the kinds of telemetry that the sink takes from a source of type OTLP. Default: all. A record without
	// a signal goes to every sink.
	AllowedSignals []Signal
	// Version is the number of this definition, if it has one. A definition of a catalog has one. Records that are put into the quarantine carry it.
	// Default: 0, none.
	Version int
	// OnReject says what becomes of a record that the sink cannot map. Either way, rows that the target refuses are kept in the quarantine.
	// Default: Refuse.
	OnReject OnReject
	// Quarantine bounds the records that are kept with OnReject Quarantine. Zero fields mean the defaults of
	// [buffer.QuarantineBounds].
	Quarantine buffer.QuarantineBounds
	// Settings override the settings of the source, field by field.
	Settings Settings
	// AckLocal acknowledges the rows of this sink when they are on the local disk, before Options.Changelog has them. Appends continue while
	// the changelog does not respond. See [buffer.SinkConfig]. Such rows are lost with the disk, and with the instance if another node
	// adopts it before the log has them. A request whose record goes to other sinks as well waits for them. Without Options.Changelog it
	// changes nothing. Default: an acknowledged row is in both.
	AckLocal bool
}

// Table is a destination table and the mapping of an event to its row.
type Table struct {
	// ID is the table's name in the target, for example "in.c-web.events".
	ID string
	// Columns are 1 to 100 columns with unique names, in the order of the table.
	Columns mapping.Columns
	// Target is the name of the target of the table in Options.Targets. It is empty for Options.Target. The limits of this target apply to the columns.
	//
	// A definition that changes Target creates the table in the new target. Waiting rows go to the old target at once, and all later rows go to the new
	// target. Each row reaches one of the two targets, once, even after a crash. The engine must have the old target until its rows have arrived.
	// Default: Options.Target.
	Target string
	// Extend lets the table grow with its definitions, if the target is a [driver.Extender]. The target adds columns that it lacks,
	// and finds the others by name without case, in any order. A column that a definition no longer has stays in the table, as
	// NULL, and continues if a later definition has it again. A column cannot get another type, so give it another name.
	//
	// All engines that feed the table must set it before the first adds a column. A table that has grown refuses engines that do
	// not set it.
	//
	// A change that the table cannot follow does not fail [Engine.Define]. The previous columns stay in force, even after a
	// restart. The log, [TableProblem], [SinkStats] and a metric say so. Default: the table has exactly these columns, and a
	// different table refuses the definition.
	Extend bool
}

// of returns the table for the buffer.
func (t Table) of(m *mapping.Mapper) driver.Table {
	return driver.Table{ID: t.ID, Columns: m.Columns(), Extend: t.Extend, Target: t.Target}
}

// notInHeaderName reports what no name of a header has: RFC 9110, token.
func notInHeaderName(r rune) bool {
	return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
}

// DefinitionError lists the faults of a source definition. Nothing of the definition was applied.
type DefinitionError struct {
	// Source is the id of the source as it was given.
	Source string
	// Problems are in the order of the definition.
	Problems []error
}

func (e *DefinitionError) Error() string {
	return fmt.Sprintf("source %q: %v", e.Source, errors.Join(e.Problems...))
}

func (e *DefinitionError) Unwrap() []error { return e.Problems }

// compiledSink is a checked sink with its mapper and effective settings.
type compiledSink struct {
	Sink
	settings effectiveSettings
	mapper   *mapping.Mapper
	name     kept.DefinitionName
}

// compileSource checks a source and compiles its mappings.
func compileSource(s Source, opts Options, cache *mappers.Cache) ([]compiledSink, error) {
	imports := opts.Buffer.ImportLimits()
	var problems []error
	report := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }

	if err := ids.Validate(s.ID); err != nil {
		report("ID: %w", err)
	}
	if s.Type != "" && s.Type != HTTP && s.Type != OTLP {
		report("Type %q: must be %q or %q", s.Type, HTTP, OTLP)
	}
	if s.Split != SplitNone && s.Split != SplitArray && s.Split != SplitLines {
		report("Split %q: must be %q, %q or empty", s.Split, SplitArray, SplitLines)
	}
	switch {
	case s.OldSecret != "" && s.Secret == "":
		report("OldSecret: a source without a secret has no old one")
	case (s.OldSecret != "") != !s.OldSecretUntil.IsZero():
		report("OldSecret: the secret and the time until which it is accepted are given together")
	}
	if s.Generation != "" {
		if err := ids.Validate(s.Generation); err != nil {
			report("Generation: %w", err)
		}
	}
	for _, name := range s.KeepHeaders {
		switch {
		case name == "" || strings.ContainsFunc(name, notInHeaderName):
			report("KeepHeaders: %q is not the name of a header", name)
		case kept.IsSecretName(name):
			report("KeepHeaders: %q sounds like a secret, and such headers are never kept", name)
		}
	}
	if n := len(s.Sinks); n > MaxSinks {
		report("%d Sinks: a source may have at most %d", n, MaxSinks)
	}
	if err := s.Settings.validate(imports); err != nil {
		for _, err := range each(err) {
			report("Settings: %w", err)
		}
	}
	compiled := make([]compiledSink, 0, len(s.Sinks))
	if s.Archive != nil {
		if err := s.Archive.Settings.validate(imports); err != nil {
			for _, err := range each(err) {
				report("Archive: Settings: %w", err)
			}
		}
	}
	seen := make(map[string]bool, len(s.Sinks))
	for i, sink := range s.Sinks {
		if err := ids.Validate(sink.ID); err != nil {
			report("sink %d: ID: %w", i, err)
		} else if seen[sink.ID] {
			report("sink %q: the ID is used twice: give each sink its own", sink.ID)
		}
		seen[sink.ID] = true
		if sink.Table.ID == "" {
			report("sink %q: Table.ID is empty: name the table", sink.ID)
		}
		if err := opts.unknownTarget(sink.Table.Target); err != nil {
			report("sink %q: %w", sink.ID, err)
			continue
		}
		for _, signal := range sink.AllowedSignals {
			if !slices.Contains(allSignals, signal) {
				report("sink %q: AllowedSignals: allowed signal %q: must be one of %q", sink.ID, signal, allSignals)
			}
		}
		if sink.Version < 0 {
			report("sink %q: Version is %d, must not be negative", sink.ID, sink.Version)
		}
		if sink.OnReject > Quarantine {
			report("sink %q: field OnReject is %d, which is unknown", sink.ID, sink.OnReject)
		}
		if err := sink.Quarantine.Validate(); err != nil {
			for _, err := range each(err) {
				report("sink %q: %w", sink.ID, err)
			}
		}
		if err := sink.Settings.validate(imports); err != nil {
			for _, err := range each(err) {
				report("sink %q: Settings: %w", sink.ID, err)
			}
		}
		mapper, err := cache.Get(bufferID(s.ID, sink.ID), sink.Table.Target, sink.Table.Columns)
		if err != nil {
			for _, err := range each(err) {
				report("sink %q: %w", sink.ID, err)
			}
			continue
		}
		if err := sink.Table.of(mapper).CheckNames(); err != nil {
			for _, err := range each(err) {
				report("sink %q: %w", sink.ID, err)
			}
			continue
		}
		sink.Table.Columns = slices.Clone(sink.Table.Columns)
		compiled = append(compiled, compiledSink{
			Sink:     sink,
			settings: sink.Settings.over(s.Settings).effective(),
			mapper:   mapper,
			name:     kept.NameOf(sink.Table.Columns, sink.Version),
		})
	}
	if len(problems) > 0 {
		return nil, &DefinitionError{Source: s.ID, Problems: problems}
	}
	return compiled, nil
}

// each splits joined errors, so that every line of the whole names its sink.
func each(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, err := range joined.Unwrap() {
		all = append(all, each(err)...)
	}
	return all
}

// Signal is a kind of telemetry. The values are the words of the Stream API.
type Signal string

// The signals of OpenTelemetry that a source of type OTLP takes.
const (
	SignalLogs    Signal = "logs"
	SignalMetrics Signal = "metrics"
	SignalTraces  Signal = "traces"
)

var allSignals = []Signal{SignalLogs, SignalMetrics, SignalTraces}

func (s *Sink) takes(signal Signal) bool {
	return signal == "" || len(s.AllowedSignals) == 0 || slices.Contains(s.AllowedSignals, signal)
}
