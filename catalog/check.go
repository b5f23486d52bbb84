package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/mapping"
)

// Limits of texts, in characters.
const (
	MaxName        = 40
	MaxDescription = 4096
)

// faults collects everything that is wrong with a definition. A fault has no full stop.
type faults []string

func (f *faults) add(format string, args ...any) { *f = append(*f, fmt.Sprintf(format, args...)) }

// take adds a refusal, after the name of its subject.
func (f *faults) take(about string, err *Error) {
	if err != nil {
		f.add("%s%s", about, strings.TrimSuffix(err.Message, "."))
	}
}

func (f faults) err() *Error {
	if len(f) == 0 {
		return nil
	}
	return refuse(BadRequest, "%s.", strings.Join(f, "; "))
}

// validated returns a nil error for a nil *Error.
func validated(err *Error) error {
	if err == nil {
		return nil
	}
	return err
}

// compiler is the part of the engine that a check needs. Ids that are not known yet are empty.
type compiler interface {
	Options() forebay.Options
	Sink(sourceID, sinkID string) forebay.SinkHandle
}

// ValidateSource checks a new source by itself, by the rules of [SourceSpec], and its mappings by the engine. The error is one
// [*Error] with all problems. A valid source may still be refused because of others, as when its id is taken.
func (c *Catalog) ValidateSource(s SourceSpec) error {
	var f faults
	f.take("", s.check(c.eng, c.opts.Extend))
	_, bad := s.settings(c.keys)
	f.take("", bad)
	for i, sink := range s.Sinks {
		_, bad := sink.settings(c.keys)
		f.take(fmt.Sprintf("Sink %d: ", i), bad)
	}
	return validated(f.err())
}

// ValidateSink is [Catalog.ValidateSource] for a new sink.
func (c *Catalog) ValidateSink(sourceID string, s SinkSpec) error {
	var f faults
	f.take("", s.check(c.eng, sourceID))
	_, bad := s.settings(c.keys)
	f.take("", bad)
	return validated(f.err())
}

// Validate checks the rules above. The error is one [*Error] with all problems.
func (p SourcePatch) Validate() error {
	var f faults
	if p.Type != nil {
		f.sourceType(*p.Type)
	}
	if p.Name != nil {
		f.name(*p.Name)
	}
	if p.Description != nil {
		f.text("description", *p.Description)
	}
	f.text("changeDescription", p.ChangeDescription)
	return validated(f.err())
}

// ValidateSinkPatch is [Catalog.ValidateSource] for a change of a sink.
func (c *Catalog) ValidateSinkPatch(sourceID, id string, p SinkPatch) error {
	var f faults
	if p.Name != nil {
		f.name(*p.Name)
	}
	if p.Description != nil {
		f.text("description", *p.Description)
	}
	if p.Signals != nil {
		f.signals(*p.Signals)
	}
	if p.TableID != nil {
		f.tableID(*p.TableID)
	}
	if p.Columns != nil || p.Target != nil {
		var content SinkContent
		if _, s, err := c.Sink(sourceID, id); err == nil {
			content = s.SinkContent
		}
		set(&content.Target, p.Target)
		if p.Columns != nil {
			content.Columns = p.Columns
		}
		if content.Columns != nil { // else the sink is unknown, and UpdateSink refuses it
			f.table(c.eng, sourceID, id, content)
		}
	}
	if p.OnReject != nil {
		f.onReject(*p.OnReject)
	}
	if p.Quarantine != nil {
		f.quarantine(*p.Quarantine)
	}
	f.text("changeDescription", p.ChangeDescription)
	return validated(f.err())
}

// check has the default of Extend.
func (s SourceSpec) check(compile compiler, extend bool) *Error {
	var f faults
	id := f.id(s.ID, s.Name, "sourceId")
	f.take("", SourceContent{Type: s.Type, Name: s.Name, Description: s.Description}.check())
	for i, sink := range s.Sinks {
		f.take(fmt.Sprintf("Sink %d: ", i), sink.check(compile, id))
		// Their tables cannot both be right, so the task would fail after the first has created its own.
		first := slices.IndexFunc(s.Sinks[:i], func(o SinkSpec) bool { return o.TableID == sink.TableID && o.Target == sink.Target })
		if first >= 0 && !(sink.grows(extend) && s.Sinks[first].grows(extend)) && !slices.EqualFunc(s.Sinks[first].Columns, sink.Columns, sameInTable) {
			f.add("Sink %d: table.tableId is %q, which sink %d has too; sinks of one table have the same columns in the same order: names, types and whether they are required",
				i, sink.TableID, first)
		}
	}
	return f.err()
}

// sameInTable reports whether two columns are the same in a table, wherever their values come from.
func sameInTable(a, b mapping.Column) bool { return a.InTable() == b.InTable() }

func (s SinkSpec) check(compile compiler, sourceID string) *Error {
	var f faults
	id := f.id(s.ID, s.Name, "sinkId")
	f.take("", s.content().check(compile, sourceID, id))
	return f.err()
}

// content returns the part of the sink that versions keep.
func (s SinkSpec) content() SinkContent {
	return SinkContent{
		Name: s.Name, Description: s.Description, Signals: sortedSignals(s.Signals), TableID: s.TableID, Target: s.Target, Columns: s.Columns, AckLocal: s.AckLocal,
		OnReject: s.OnReject, Quarantine: s.Quarantine,
	}
}

func (s SourceContent) check() *Error {
	var f faults
	f.sourceType(s.Type)
	f.name(s.Name)
	f.text("description", s.Description)
	return f.err()
}

func (s SinkContent) check(compile compiler, sourceID, id string) *Error {
	var f faults
	f.name(s.Name)
	f.text("description", s.Description)
	f.signals(s.Signals)
	f.tableID(s.TableID)
	f.table(compile, sourceID, id, s)
	f.onReject(s.OnReject)
	f.quarantine(s.Quarantine)
	return f.err()
}

// id returns the given id, or one made of the name, or "" when there is none. Faults of the name are reported elsewhere.
func (f *faults) id(given, name, field string) (id string) {
	var ofName faults
	ofName.name(name)
	if given != "" || len(ofName) == 0 {
		var err *Error
		id, err = newID(given, name, field)
		f.take("", err)
	}
	return id
}

func (f *faults) sourceType(t forebay.SourceType) {
	if t != forebay.HTTP && t != forebay.OTLP {
		f.add("type is %q, must be %q or %q", t, forebay.HTTP, forebay.OTLP)
	}
}

func (f *faults) name(name string) {
	if n := utf8.RuneCountInString(name); n < 1 || n > MaxName {
		f.add("name has %d characters, must have 1 to %d", n, MaxName)
	}
	if name != "" && strings.IndexFunc(name, visible) < 0 {
		f.add("name is blank, must have a character that can be seen")
	}
	if r, ok := control(name, ""); ok {
		f.add("name has the control character %U, which is not allowed", r)
	}
}

// text checks a text of several lines.
func (f *faults) text(field, text string) {
	if n := utf8.RuneCountInString(text); n > MaxDescription {
		f.add("%s has %d characters, at most %d are allowed", field, n, MaxDescription)
	}
	if r, ok := control(text, "\t\n\r"); ok {
		f.add("%s has the control character %U, which is not allowed", field, r)
	}
}

func (f *faults) signals(list []string) {
	for _, signal := range list {
		if signal != "logs" && signal != "metrics" && signal != "traces" {
			f.add("allowedSignals has %q, must be %q, %q or %q", signal, "logs", "metrics", "traces")
		}
	}
}

func (f *faults) tableID(id string) {
	if parts := strings.Split(id, "."); len(parts) != 3 || slices.Contains(parts, "") {
		f.add("table.tableId is %q, must have three parts with dots between: stage.bucket.table", id)
	}
	if r, ok := control(id, ""); ok {
		f.add("table.tableId has the control character %U, which is not allowed", r)
	}
}

func (f *faults) onReject(o forebay.OnReject) {
	if _, err := o.MarshalText(); err != nil {
		f.add("onReject is %s, which is unknown", o)
	}
}

func (f *faults) quarantine(q QuarantineBounds) {
	if err := buffer.QuarantineBounds(q).Validate(); err != nil {
		for text := range strings.Lines(err.Error()) {
			f.add("%s", strings.TrimSuffix(text, "\n"))
		}
	}
}

// table checks the target and the columns of a sink, and compiles the columns with the limits of the target.
func (f *faults) table(compile compiler, sourceID, sinkID string, s SinkContent) {
	if names := slices.Sorted(maps.Keys(compile.Options().Targets)); s.Target != "" && !slices.Contains(names, s.Target) {
		if len(names) == 0 {
			f.add("table.target is %q, but this service has no named targets: leave it out", s.Target)
		} else {
			f.add("table.target is %q, must be one of %q or left out", s.Target, names)
		}
		s.Target = "" // the columns may have faults, too
	}
	for i, col := range s.Columns {
		if r, ok := control(col.Name, ""); ok {
			f.add("table.mapping.columns[%d].name has the control character %U, which is not allowed", i, r)
		}
	}
	if _, err := compile.Sink(sourceID, sinkID).Compile(forebay.Table{Target: s.Target, Columns: s.Columns}); err != nil {
		for text := range strings.Lines(err.Error()) {
			f.add("%s", strings.TrimSuffix(text, "\n"))
		}
	}
}

// changeText is the text of a new version.
func changeText(given, def string) (string, *Error) {
	if given == "" {
		return def, nil
	}
	var f faults
	f.text("changeDescription", given)
	return given, f.err()
}

func visible(r rune) bool { return unicode.IsGraphic(r) && !unicode.IsSpace(r) }

// control returns the first control character of a text that is not allowed.
func control(text, allowed string) (rune, bool) {
	i := strings.IndexFunc(text, func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune(allowed, r) })
	if i < 0 {
		return 0, false
	}
	r, _ := utf8.DecodeRuneInString(text[i:])
	return r, true
}
