package catalog

import (
	"fmt"
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

// take adds a refusal, after the name of what it is about.
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

// compiler compiles the columns of a sink; ids that are not known yet are empty.
type compiler func(sourceID, sinkID string, columns mapping.Columns) (*mapping.Mapper, error)

// ValidateSource checks a new source by itself: the rules of [SourceSpec], and its mappings by the engine. The error is one
// [*Error] with all problems. A valid source may still be refused because of others, as when its id is taken.
func (c *Catalog) ValidateSource(s SourceSpec) error {
	return validated(s.check(c.eng.CompileColumns, c.opts.Extend))
}

// ValidateSink is [Catalog.ValidateSource] for a new sink.
func (c *Catalog) ValidateSink(sourceID string, s SinkSpec) error {
	return validated(s.check(c.eng.CompileColumns, sourceID))
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
	if p.Columns != nil {
		f.columns(c.eng.CompileColumns, sourceID, id, p.Columns)
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
		// Their tables cannot both be right: the task would fail after the first has created its own.
		first := slices.IndexFunc(s.Sinks[:i], func(o SinkSpec) bool { return o.TableID == sink.TableID })
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
		Name: s.Name, Description: s.Description, Signals: sortedSignals(s.Signals), TableID: s.TableID, Columns: s.Columns, AckLocal: s.AckLocal,
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
	f.columns(compile, sourceID, id, s.Columns)
	f.onReject(s.OnReject)
	f.quarantine(s.Quarantine)
	return f.err()
}

// id returns the given id, or one made of the name; empty when there is none. Faults of the name are reported elsewhere.
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

func (f *faults) columns(compile compiler, sourceID, sinkID string, list mapping.Columns) {
	for i, col := range list {
		if r, ok := control(col.Name, ""); ok {
			f.add("table.mapping.columns[%d].name has the control character %U, which is not allowed", i, r)
		}
	}
	if _, err := compile(sourceID, sinkID, list); err != nil {
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
