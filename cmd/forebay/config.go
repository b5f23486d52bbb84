package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/program/flagtext"
	"github.com/forebay/forebay/internal/program/keep"
	"github.com/forebay/forebay/internal/program/server"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/otlpflat"
	"github.com/forebay/forebay/trigger"
)

// sourceKeys are the keys of a source in a configuration file.
type sourceKeys struct {
	ID             string       `json:"id" doc:"name of the source, used in addresses; required"`
	Type           string       `json:"type" doc:"'http' or 'otlp'; default: 'http'"`
	Secret         string       `json:"secret" doc:"last part of the source's address, or bearer token for telemetry; required, at least 16 characters, preferably as ${NAME}"`
	OldSecret      string       `json:"oldSecret" doc:"previous secret, accepted until 'oldSecretUntil'"`
	OldSecretUntil time.Time    `json:"oldSecretUntil" doc:"time at which 'oldSecret' expires, such as 2026-11-22T12:00:00Z"`
	Disabled       bool         `json:"disabled" doc:"if true, new events are rejected; waiting rows still go to their tables"`
	Split          string       `json:"split" doc:"'array' if the body is a JSON array of events, 'lines' if each line is an event; default: the body is one event"`
	Archive        bool         `json:"archive" doc:"if true, each record is kept unchanged in the server's archive, for 'forebay replay'; the source's 'settings' also apply to the archive"`
	KeepHeaders    []string     `json:"keepHeaders" doc:"additional headers, such as X-Shop-Id, that quarantines and the archive keep; headers that columns read are always kept; * means all. Headers whose names suggest a secret are never kept"`
	OnReject       string       `json:"onReject" doc:"how a sink treats events that it cannot map: 'refuse' (the default) or 'quarantine'"`
	Quarantine     *boundsKeys  `json:"quarantine" doc:"limits of each sink's quarantine"`
	Settings       settingsKeys `json:"settings" doc:"default settings for the sinks"`
	Sinks          []sinkKeys   `json:"sinks" doc:"list of sinks, at most 100, that store the events"`
}

type sinkKeys struct {
	ID         string       `json:"id" doc:"name of the sink; required"`
	Table      string       `json:"table" doc:"name of the table; required"`
	Target     string       `json:"target" doc:"name of the table's target, as defined under the top-level key 'targets'; default: the target set by '-target'"`
	Extend     *bool        `json:"extend" doc:"if true, new columns are added to the table; default: the value of '-extend'"`
	Disabled   bool         `json:"disabled" doc:"if true, no new events are stored; waiting rows still go to their table"`
	OnReject   string       `json:"onReject" doc:"what happens to events that cannot be mapped. 'refuse': the sender gets an error. 'quarantine': they are kept, and 'forebay quarantine' and the console ('ui') show them. Default: the value in the source"`
	Quarantine *boundsKeys  `json:"quarantine" doc:"limits of the quarantine, which replace all limits in the source"`
	Signals    []string     `json:"signals" doc:"telemetry that the sink accepts: 'logs', 'metrics', 'traces'; default: all, or the preset's signal"`
	Preset     string       `json:"preset" doc:"typed columns for telemetry, instead of 'columns'. 'otel_logs', 'otel_metrics' and 'otel_traces' use the column names in docs/telemetry.md; 'logs', 'metrics' and 'traces' use the names in the flat record"`
	Settings   settingsKeys `json:"settings" doc:"the same keys as in the source; they override the settings there"`
	Columns    []columnKeys `json:"columns" doc:"columns of the table, 1 to 100"`
}

// boundsKeys are [buffer.QuarantineBounds].
type boundsKeys struct {
	MaxBytes   byteSize      `json:"maxBytes" doc:"maximum total size of the records, such as 64MB; default: 1/256 of 'max-disk-bytes'"`
	MaxRecords int           `json:"maxRecords" doc:"maximum number of records; default: 100000"`
	MaxAge     time.Duration `json:"maxAge" doc:"how long a record is kept, such as 168h; default: 720h"`
	DropOldest bool          `json:"dropOldest" doc:"if true, the oldest records expire when 'maxBytes' or 'maxRecords' is reached; by default, new records are refused with 503"`
	HoldFiles  bool          `json:"holdFiles" doc:"if true, a file is held if the target refuses some of its rows; by default, the file is imported, and these rows go to the quarantine"`
}

type settingsKeys struct {
	Sync        string        `json:"sync" doc:"'wait': the server responds when the row is on disk; 'unsafe': when it is in memory. Default: 'wait'"`
	Compression string        `json:"compression" doc:"compression of waiting rows: none, gzip or zstd; default: gzip"`
	Upload      conditionKeys `json:"upload" doc:"rows go from local disk to staging when the first of these conditions is met"`
	Import      conditionKeys `json:"import" doc:"rows go from staging to their table when the first of these conditions is met"`
}

type conditionKeys struct {
	Interval time.Duration `json:"interval" doc:"longest time that a row waits, such as 30s; default: 30s for upload, 1m for import"`
	Size     byteSize      `json:"size" doc:"stored size of the waiting rows, such as 5MB; default: 5MB for upload, 50MB for import"`
	Count    int64         `json:"count" doc:"number of waiting rows; default: 10000 for upload, 50000 for import"`
}

// columnKeys has the keys of a column in the Stream API. Only a template is different because it is a text.
type columnKeys struct {
	Name          string          `json:"name" doc:"name of the column in the table; required"`
	Type          string          `json:"type" doc:"where the value comes from: uuid, datetime, ip, headers, body, path or template; required"`
	Path          *string         `json:"path" doc:"field of the event, for type 'path'; \"\" is the whole body"`
	Template      string          `json:"template" doc:"jsonnet program, for type 'template'"`
	DefaultValue  json.RawMessage `json:"defaultValue" doc:"value that is used if the path is missing; without it, an untyped column rejects the event, and a typed column is NULL"`
	DefaultOnNull bool            `json:"defaultOnNull" doc:"if true, 'defaultValue' also replaces null"`
	RawString     bool            `json:"rawString" doc:"in a column without 'dataType': if true, a JSON string is stored without quotes"`
	DataType      string          `json:"dataType" doc:"string, bool, int64, float64, decimal(p,s), timestamp, date, uuid, json or bytes; default: untyped"`
	Secret        bool            `json:"secret" doc:"if true, errors and samples show *** instead of values"`
	mapping.TypeOptions
}

// mistakes are all mistakes of a file.
type mistakes struct {
	file string
	list []mistake
}

func (m *mistakes) Error() string {
	slices.SortStableFunc(m.list, func(a, b mistake) int { return cmp.Or(a.line-b.line, a.col-b.col) })
	var text strings.Builder
	if len(m.list) > 1 {
		fmt.Fprintf(&text, "%s has %d mistakes:", m.file, len(m.list))
	} else {
		fmt.Fprintf(&text, "%s has a mistake:", m.file)
	}
	for _, one := range m.list {
		fmt.Fprintf(&text, "\n  %s:%d:%d: %s", m.file, one.line, one.col, strings.ReplaceAll(one.text, "\n", "\n    "))
	}
	return text.String()
}

// maxFile is the greatest size of a configuration file in bytes. What is larger is another file, or a device without an end.
const maxFile = 16 << 20

// readBounded reads a file of at most maxFile bytes.
func readBounded(path string) (text []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if text, err = io.ReadAll(io.LimitReader(f, maxFile+1)); err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s is larger than %d MiB: it is not a configuration", path, maxFile>>20)
	}
	return text, err
}

// readFile reads the configuration file into the flags that are not given, and the sources. The decoder has the mistakes. The error is about
// a file that is no configuration.
func (cfg *serveConfig) readFile(flags *flag.FlagSet, given map[string]bool, getenv func(string) (string, bool)) (*decoder, error) {
	text, err := readBounded(cfg.file)
	if err != nil {
		return nil, keep.Unreadable("config", err)
	}
	d := &decoder{getenv: getenv, nodes: map[string]*yaml.Node{}, written: map[*yaml.Node]string{}, values: map[string]string{}, budget: maxAliased}
	var doc yaml.Node
	parser := yaml.NewDecoder(bytes.NewReader(text))
	err = parser.Decode(&doc)
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s is empty: \"forebay help file\" has an example", cfg.file)
	case err != nil:
		for i, line := range strings.Split(string(text), "\n") {
			if at := strings.IndexByte(line, '\t'); at >= 0 && strings.TrimLeft(line[:at], " -") == "" {
				return nil, fmt.Errorf("%s:%d:%d: a tab in the indentation: YAML is indented with spaces", cfg.file, i+1, at+1)
			}
		}
		return nil, fmt.Errorf("%s is neither YAML nor JSON: %s: \"forebay help file\" has an example", cfg.file, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := parser.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		d.report(&doc, "the file has a second document after ---, which is not read: write one file for each server")
	}
	d.substitute(&doc, false)
	cfg.fromFile = map[string]string{}
	var keys []string
	flags.VisitAll(func(f *flag.Flag) { keys = append(keys, f.Name) })
	keys = slices.DeleteFunc(keys, func(name string) bool { return name == "config" || name == "sample" || isNodeFlag(name) })
	keys = append(keys, "sources", "targets", clusterSection)
	var sources []sourceKeys
	d.pairs(doc.Content[0], "", func(key, value *yaml.Node) {
		switch {
		case key.Value == "sources":
			sources = []sourceKeys{}
			d.into(value, reflect.ValueOf(&sources).Elem(), "sources", 0)
		case key.Value == clusterSection:
			d.cluster(value, flags, given, cfg)
		case key.Value == "targets":
			d.namedTargets(value, cfg)
		case key.Value == "target-options":
			d.targetOptions(value, given, cfg)
		case !slices.Contains(keys, key.Value):
			d.unknownKey(key, keys)
		default:
			d.flag(flags, given, key.Value, value, cfg)
		}
	})
	if sources != nil && d.budget >= 0 {
		cfg.sources = d.compile(cfg, sources)
	}
	return d, nil
}

// namedTargets reads the targets that sinks name. Each entry is a value of the flag target. The options of its kind have their defaults.
func (d *decoder) namedTargets(n *yaml.Node, cfg *serveConfig) {
	cfg.targets = map[string]string{}
	d.pairs(follow(n), "targets", func(key, value *yaml.Node) {
		var text string
		at := "targets." + key.Value
		d.scalar(follow(value), reflect.ValueOf(&text).Elem(), at)
		if text == "" {
			return
		}
		for _, problem := range cfg.named(text).check(cfg.Dir) {
			wrong := problem.Error()
			if flagged, ok := errors.AsType[*server.FlagError](problem); ok {
				wrong = flagged.Text
			}
			d.report(value, "target %q %s", key.Value, d.hide(wrong))
		}
		cfg.targets[key.Value] = text
	})
	cfg.fromFile["targets"], d.nodes["targets"] = fmt.Sprint(cfg.targets), n
	if err := (forebay.Options{Targets: cfg.compileOptions().Targets}).Validate(); err != nil {
		d.report(n, "%v", err)
	}
}

// cluster reads the section of a node, whose keys are the flags of [nodeFlags].
func (d *decoder) cluster(n *yaml.Node, flags *flag.FlagSet, given map[string]bool, cfg *serveConfig) {
	named := map[string]string{} // flags by key
	flags.VisitAll(func(f *flag.Flag) {
		if isNodeFlag(f.Name) {
			named[sectionKey(f.Name)] = f.Name
		}
	})
	d.pairs(follow(n), clusterSection, func(key, value *yaml.Node) {
		if name, ok := named[key.Value]; ok {
			d.flag(flags, given, name, value, cfg)
		} else {
			d.unknownKey(key, slices.Collect(maps.Keys(named)))
		}
	})
}

// place makes mistakes of the file out of problems with flags whose value comes from it, and returns the other problems. of has these flags.
func (d *decoder) place(problems []error, of map[string]string) (others []error) {
	for _, problem := range problems {
		wrong, ok := errors.AsType[*server.FlagError](problem)
		at := -1
		if ok {
			at = slices.IndexFunc(wrong.Flags, func(name string) bool { return of[name] != "" })
		}
		if at < 0 {
			others = append(others, problem)
			continue
		}
		name := wrong.Flags[at]
		n, text := d.nodes[name], wrong.Error()
		switch {
		case wrong.ShowsValue && d.hasVariable(n):
			text = fmt.Sprintf("%s is %q: the value of the variable cannot be used", name, cmp.Or(d.shown(n), "a list with a variable"))
		case at == 0:
			text = name + " " + wrong.Text
		}
		d.report(n, "%s", d.hide(text))
	}
	return others
}

// flag sets a flag from a value of the file, unless it is given already.
func (d *decoder) flag(flags *flag.FlagSet, given map[string]bool, name string, n *yaml.Node, cfg *serveConfig) {
	var value string
	n = follow(n)
	if n.Kind == yaml.SequenceNode && slices.Contains([]string{"trusted-proxies", "cluster-peers", "nats"}, name) {
		var list []string
		d.into(n, reflect.ValueOf(&list).Elem(), name, 0)
		value = strings.Join(list, ",")
	} else {
		d.scalar(n, reflect.ValueOf(&value).Elem(), name)
	}
	if value == "" || given[name] {
		return
	}
	cfg.fromFile[name], d.nodes[name] = value, n
	if err := flags.Set(name, value); err != nil {
		text := "the value of the variable cannot be read"
		if !d.hasVariable(n) {
			text = flagtext.Problem(flags.Lookup(name), err)
		}
		d.report(n, "%s is %q: %s", name, d.shown(n), text)
	}
}

// compile checks the sources and compiles their mappings.
func (d *decoder) compile(cfg *serveConfig, list []sourceKeys) []forebay.Source {
	opts := cfg.compileOptions()
	seen := map[string]bool{}
	sources := make([]forebay.Source, len(list))
	if most := cmp.Or(cfg.MaxSources, forebay.DefaultMaxSources); len(list) > most {
		d.report(d.nodes["sources"], "there are %d sources, at most %d are allowed: see max-sources", len(list), most)
	}
	for i, keys := range list {
		at := fmt.Sprintf("sources[%d]", i)
		s := forebay.Source{
			ID: keys.ID, Type: forebay.SourceType(keys.Type), Secret: keys.Secret, OldSecret: keys.OldSecret, OldSecretUntil: keys.OldSecretUntil,
			Disabled: keys.Disabled, Split: forebay.Split(keys.Split), KeepHeaders: keys.KeepHeaders, Settings: d.settings(keys.Settings, at+".settings"),
		}
		d.require(at, "id", keys.ID)
		d.require(at, "secret", keys.Secret)
		if n, ok := d.nodes[at+".secret"]; ok && keys.Secret != "" && len(keys.Secret) < 16 {
			d.report(n, "secret has %d characters, at least 16 are needed: openssl rand -hex 24 makes one", len(keys.Secret))
		}
		if seen[keys.ID] && keys.ID != "" {
			d.report(d.near(at+".id"), "the id %q is used by two sources", d.shown(d.near(at+".id")))
		}
		seen[keys.ID] = true
		if keys.Archive {
			s.Archive = &forebay.ArchiveSettings{}
			if cfg.archive == "" {
				d.report(d.near(at+".archive"), "the server has no archive: the key archive of the top level says where it is, such as dir:/var/archive")
			}
		}
		if keys.ID != "" {
			d.problems(s, opts, at)
		}
		onReject, bounds := d.onReject(keys.OnReject, at), d.bounds(keys.Quarantine, at)
		sinks := map[string]bool{}
		for j, keys := range keys.Sinks {
			at := fmt.Sprintf("%s.sinks[%d]", at, j)
			sink := d.sink(cfg, keys, at)
			sink.OnReject, sink.Quarantine = onReject, bounds
			if keys.OnReject != "" {
				sink.OnReject = d.onReject(keys.OnReject, at)
			}
			if keys.Quarantine != nil {
				sink.Quarantine = d.bounds(keys.Quarantine, at)
				if sink.OnReject != forebay.Quarantine {
					d.report(d.near(at+".quarantine"), "quarantine has no effect without onReject: quarantine")
				}
			}
			if sinks[keys.ID] && keys.ID != "" {
				d.report(d.near(at+".id"), "the id %q is used by two sinks of the source", d.shown(d.near(at+".id")))
			}
			sinks[keys.ID] = true
			d.require(at, "id", keys.ID)
			d.require(at, "table", keys.Table)
			if len(sink.Table.Columns) > 0 {
				named := sink
				named.ID, named.Table.ID = cmp.Or(sink.ID, "x"), cmp.Or(sink.Table.ID, "x") // columns are checked without them too
				d.problems(forebay.Source{ID: "x", Sinks: []forebay.Sink{named}}, opts, at)
			}
			s.Sinks = append(s.Sinks, sink)
		}
		sources[i] = s
		cfg.addViews(keys)
	}
	return sources
}

// near returns the node of a path, or of the nearest enclosing value.
func (d *decoder) near(at string) *yaml.Node {
	for {
		if n, ok := d.nodes[at]; ok {
			return n
		}
		at = at[:max(0, strings.LastIndexAny(at, ".["))]
		if at == "" {
			return &yaml.Node{Line: 1, Column: 1}
		}
	}
}

func (d *decoder) require(at, key, value string) {
	if _, ok := d.nodes[at+"."+key]; !ok || value == "" && d.written[d.nodes[at+"."+key]] == "" {
		d.report(d.near(at+"."+key), "%s is required", key)
	}
}

// isList reports whether the node of a path is missing or a list. Any other node was reported before.
func (d *decoder) isList(at string) bool {
	n, ok := d.nodes[at]
	return !ok || n.Kind == yaml.SequenceNode
}

// oneOf reports a word that does not exist.
func (d *decoder) oneOf(at, value string, words ...string) {
	if value != "" && !slices.Contains(words, value) {
		d.report(d.near(at), "%s is %q, must be one of %s", last(at), d.shown(d.near(at)), strings.Join(words, ", "))
	}
}

func (d *decoder) settings(keys settingsKeys, at string) forebay.Settings {
	d.oneOf(at+".sync", keys.Sync, "wait", "unsafe")
	d.oneOf(at+".compression", keys.Compression, "none", "gzip", "zstd")
	s := forebay.Settings{Upload: keys.Upload.conditions(), Import: keys.Import.conditions()}
	s.Sync = map[string]forebay.SyncMode{"wait": forebay.SyncWait, "unsafe": forebay.SyncUnsafe}[keys.Sync]
	s.Compression = map[string]forebay.Compression{
		"none": forebay.CompressionNone, "gzip": forebay.CompressionGzip, "zstd": forebay.CompressionZstd,
	}[keys.Compression]
	return s
}

// onReject reads the key onReject of a source or sink.
func (d *decoder) onReject(word, at string) forebay.OnReject {
	d.oneOf(at+".onReject", word, forebay.Refuse.String(), forebay.Quarantine.String())
	if word == forebay.Quarantine.String() {
		return forebay.Quarantine
	}
	return forebay.Refuse
}

// bounds reads the key quarantine of a source or sink. Bounds that are wrong are reported, and none of them is returned.
func (d *decoder) bounds(k *boundsKeys, at string) (q buffer.QuarantineBounds) {
	if k == nil {
		return q
	}
	q = buffer.QuarantineBounds{MaxBytes: int64(k.MaxBytes), MaxRecords: k.MaxRecords, MaxAge: k.MaxAge, DropOldest: k.DropOldest, HoldFiles: k.HoldFiles}
	err := q.Validate()
	if err == nil {
		return q
	}
	for line := range strings.Lines(err.Error()) {
		text := strings.TrimPrefix(strings.TrimSuffix(line, "\n"), "quarantine: ")
		text = strings.ToLower(text[:1]) + text[1:] // its first word is a field, whose key begins with a small letter
		key, _, _ := strings.Cut(text, " ")
		n := d.near(at + ".quarantine." + key)
		if d.hasVariable(n) {
			text = fmt.Sprintf("%s is %q: the value of the variable cannot be used", key, d.shown(n))
		}
		d.report(n, "%s", text)
	}
	return buffer.QuarantineBounds{}
}

func (k conditionKeys) conditions() trigger.Conditions {
	return trigger.Conditions{Interval: k.Interval, Size: int64(k.Size), Count: k.Count}
}

func (d *decoder) sink(cfg *serveConfig, keys sinkKeys, at string) forebay.Sink {
	s := forebay.Sink{
		ID: keys.ID, Disabled: keys.Disabled, Settings: d.settings(keys.Settings, at+".settings"),
		Table: forebay.Table{ID: keys.Table, Target: keys.Target, Extend: cfg.Extend},
	}
	if keys.Extend != nil {
		s.Table.Extend = *keys.Extend
	}
	for _, signal := range keys.Signals {
		s.AllowedSignals = append(s.AllowedSignals, forebay.Signal(signal))
	}
	d.oneOf(at+".preset", keys.Preset, "otel_logs", "otel_metrics", "otel_traces", "logs", "metrics", "traces")
	presets := map[string]func() mapping.Columns{
		"otel_logs": otlpflat.LogsTable, "otel_metrics": otlpflat.MetricsTable, "otel_traces": otlpflat.TracesTable,
		"logs": otlpflat.LogColumns, "metrics": otlpflat.PointColumns, "traces": otlpflat.SpanColumns,
	}
	preset, ok := presets[keys.Preset]
	switch {
	case ok && len(keys.Columns) > 0:
		d.report(d.near(at+".preset"), "preset and columns exclude each other: leave out one of them")
	case ok:
		s.Table.Columns = preset()
		if s.AllowedSignals == nil {
			s.AllowedSignals = []forebay.Signal{forebay.Signal(strings.TrimPrefix(keys.Preset, "otel_"))}
		}
	case len(keys.Columns) == 0 && keys.Preset == "" && d.isList(at+".columns"):
		d.report(d.near(at+".columns"), "columns are required: at least one, or a preset for telemetry")
	}
	for i, c := range keys.Columns {
		at := fmt.Sprintf("%s.columns[%d]", at, i)
		column := mapping.Column{
			Type: mapping.Type(c.Type), Name: c.Name, Default: c.DefaultValue, DefaultOnNull: c.DefaultOnNull, RawString: c.RawString,
			DataType: datatype.Type(c.DataType), Secret: c.Secret, TypeOptions: c.TypeOptions,
		}
		if c.Path != nil {
			column.Path = *c.Path
		} else if column.Type == mapping.TypePath {
			d.report(d.near(at), "path is required in a column of type path: add it, such as path: user.id")
		}
		if c.Template != "" {
			column.Template = mapping.TemplateSource{Language: "jsonnet", Content: c.Template}
		}
		s.Table.Columns = append(s.Table.Columns, column)
	}
	return s
}

// problems reports the compiler's findings about a source without sinks, or about one sink, whose path is at.
func (d *decoder) problems(s forebay.Source, opts forebay.Options, at string) {
	_, err := forebay.Compile(s, opts)
	refused, ok := errors.AsType[*forebay.DefinitionError](err)
	if !ok {
		return
	}
	for _, problem := range refused.Problems {
		text, place := problem.Error(), at
		if len(s.Sinks) > 0 {
			text = strings.TrimPrefix(strings.TrimPrefix(text, fmt.Sprintf("sink %q: ", s.Sinks[0].ID)), "sink 0: ")
		}
		if column, ok := errors.AsType[*mapping.DefinitionError](problem); ok && column.Index >= 0 {
			place = fmt.Sprintf("%s.columns[%d].%s", at, column.Index, strings.TrimSuffix(column.Field, ".content"))
		} else if limit, ok := errors.AsType[*trigger.LimitError](problem); ok { // its key is for example Upload.Interval
			place = at + ".settings." + strings.ToLower(limit.Key)
			named := *limit
			named.Key = "settings." + strings.ToLower(limit.Key)
			text = named.Error()
			if limit.Key == "Import.Interval" && limit.Below && limit.Min != "1s" {
				text += "; min-import-interval: 1s at the top of the file allows less"
			}
		} else if field, _, ok := strings.Cut(text, ":"); ok {
			field, _, _ = strings.Cut(field, " ")
			key, ok := map[string]string{"ID": "id", "Type": "type", "Split": "split", "OldSecret": "oldSecret", "AllowedSignals": "signals", "Table.Target": "target"}[field]
			if ok {
				place, text = at+"."+key, key+strings.TrimPrefix(text, field)
			}
		}
		n := *d.near(place)
		text = d.hide(text)
		_, isColumn := errors.AsType[*mapping.DefinitionError](problem)
		_, isLimit := errors.AsType[*trigger.LimitError](problem)
		if d.hasVariable(d.near(place)) && (isColumn || isLimit) { // the text may have a part of the value, or another form of it
			text = fmt.Sprintf("%s is %q: the value of the variable cannot be used", last(place), d.shown(d.near(place)))
		}
		if column, ok := errors.AsType[*mapping.DefinitionError](problem); ok && n.Style == yaml.LiteralStyle {
			n.Line += column.Line // the text begins in the line below |
		}
		d.report(&n, "%s", text)
	}
}
