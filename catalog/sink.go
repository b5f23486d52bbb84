package catalog

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/mapping"
)

// SinkSpec is a new sink.
type SinkSpec struct {
	// ID is normalized by [NormalizeID]. Default: made from Name.
	ID string
	// Name and Description have the limits of [SourceSpec].
	Name, Description string
	// Signals, TableID and Columns: see [SinkContent].
	Signals []string
	TableID string
	Columns mapping.Columns
}

// SinkPatch changes a sink. A nil field stays as it is.
type SinkPatch struct {
	// Name and Description have the limits of [SourceSpec].
	Name, Description *string
	// Signals: an empty list means all.
	Signals *[]string
	// TableID sends new rows to another table; it is created, or compared, as on create. Rows that wait go to the old one.
	TableID *string
	// Columns replace all columns.
	Columns mapping.Columns
	// ChangeDescription is the text of the new version. Default: "Updated.".
	ChangeDescription string
}

// addSink puts a new or revived sink into a change.
func (c *Catalog) addSink(ch *change, by By, at time.Time, spec SinkSpec) *Error {
	id, bad := newID(spec.ID, spec.Name, "sinkId")
	if bad != nil {
		return bad
	}
	t := ch.next
	old, known := t.sinks[id]
	if known && old.Deleted == nil {
		return refuse(SinkAlreadyExists, "Sink %q of source %q already exists.", id, t.source.ID)
	}
	if len(t.sorted(false)) >= forebay.MaxSinks {
		return refuse(SinkLimit, "Source %q has %d sinks already, which is the limit; delete one first.", t.source.ID, forebay.MaxSinks)
	}
	content := spec.content()
	if err := content.check(c.eng.CompileColumns, t.source.ID, id); err != nil {
		return err
	}
	s := Sink{
		ID: id, SinkContent: content, Created: Mark{At: at, By: by}, Cleared: old.Cleared, Token: old.Token,
		Version: newVersion(old.Version, content, "New sink.", at, by),
	}
	if known {
		s.Created = old.Created
	}
	t.sinks[id] = s
	ch.keepSink(t.source.ID, s)
	ch.created = append(ch.created, id)
	return nil
}

// sortedSignals returns a copy; nil for all.
func sortedSignals(given []string) []string {
	if len(given) == 0 {
		return nil
	}
	list := slices.Clone(given)
	slices.Sort(list)
	return slices.Compact(list)
}

// CreateSink makes a sink. Its table is created, or compared when it exists. The id of a deleted sink brings that one
// back with the new content; its versions go on.
func (c *Catalog) CreateSink(by By, sourceID string, spec SinkSpec) (Task, error) {
	if !c.tree(sourceID).live() {
		return Task{}, sourceNotFound(sourceID)
	}
	id, bad := newID(spec.ID, spec.Name, "sinkId")
	if bad != nil {
		return Task{}, bad
	}
	return c.submit("create.sink", sourceID, id, liveSource(sourceID, func(at time.Time, next *tree) (*change, error) {
		ch := &change{next: next, result: fmt.Sprintf("Sink %q has been created.", id)}
		if err := c.addSink(ch, by, at, spec); err != nil {
			return nil, err
		}
		return ch, nil
	}))
}

// liveSink wraps a plan for a sink that must not be deleted. The plan may change the copies that it gets.
func liveSink(sourceID, id string, p func(at time.Time, next *tree, s Sink) (*change, error)) plan {
	return liveSource(sourceID, func(at time.Time, next *tree) (*change, error) {
		s, err := next.sink(id)
		if err != nil {
			return nil, err
		}
		return p(at, next, s)
	})
}

// setSink gives a sink another content. It is no new version when nothing differs.
func (c *Catalog) setSink(next *tree, s Sink, content SinkContent, description, result string, at time.Time, by By) (*change, error) {
	if err := content.check(c.eng.CompileColumns, next.source.ID, s.ID); err != nil {
		return nil, err
	}
	ch := &change{next: next, result: result}
	if reflect.DeepEqual(content, s.SinkContent) {
		return ch, nil
	}
	s.SinkContent = content
	s.Version = newVersion(s.Version, content, description, at, by)
	next.sinks[s.ID] = s
	ch.keepSink(next.source.ID, s)
	return ch, nil
}

// UpdateSink changes a sink. A patch that changes nothing is no new version.
func (c *Catalog) UpdateSink(by By, sourceID, id string, p SinkPatch) (Task, error) {
	description, bad := changeText(p.ChangeDescription, updated)
	if bad != nil {
		return Task{}, bad
	}
	return c.submit("update.sink", sourceID, id, liveSink(sourceID, id, func(at time.Time, next *tree, s Sink) (*change, error) {
		content := s.SinkContent
		set(&content.Name, p.Name)
		set(&content.Description, p.Description)
		set(&content.TableID, p.TableID)
		if p.Signals != nil {
			content.Signals = sortedSignals(*p.Signals)
		}
		if p.Columns != nil {
			content.Columns = p.Columns
		}
		return c.setSink(next, s, content, description, fmt.Sprintf("Sink %q has been updated.", id), at, by)
	}))
}

// ChangeSinkSettings overrides settings of a sink, and puts those whose value is null back to what the source has. What
// waits is imported at once.
func (c *Catalog) ChangeSinkSettings(by By, sourceID, id, description string, changes []SettingChange) (Task, error) {
	description, bad := changeText(description, updatedSettings)
	if bad != nil {
		return Task{}, bad
	}
	return c.submit("update.sinkSettings", sourceID, id, liveSink(sourceID, id, func(at time.Time, next *tree, s Sink) (*change, error) {
		content := s.SinkContent
		settings, err := content.Settings.with(changes, true)
		if err != nil {
			return nil, err
		}
		content.Settings = settings
		return c.setSink(next, s, content, description, fmt.Sprintf("Settings of sink %q have been updated.", id), at, by)
	}))
}

// DeleteSink deletes a sink. Rows that wait still go to their table.
func (c *Catalog) DeleteSink(by By, sourceID, id string) (Task, error) {
	return c.submit("delete.sink", sourceID, id, liveSink(sourceID, id, func(at time.Time, next *tree, s Sink) (*change, error) {
		s.Deleted = &Mark{At: at, By: by}
		next.sinks[id] = s
		return &change{next: next, result: fmt.Sprintf("Sink %q has been deleted.", id)}, nil
	}))
}

// UndeleteSink brings a deleted sink back.
func (c *Catalog) UndeleteSink(by By, sourceID, id string) (Task, error) {
	return c.submit("undelete.sink", sourceID, id, liveSource(sourceID, func(at time.Time, next *tree) (*change, error) {
		s, ok := next.sinks[id]
		if !ok || s.Deleted == nil {
			return nil, refuse(DeletedSinkNotFound, "Deleted sink %q of source %q not found.", id, sourceID)
		}
		if len(next.sorted(false)) >= forebay.MaxSinks {
			return nil, refuse(SinkLimit, "Source %q has %d sinks already, which is the limit; delete one first.", sourceID, forebay.MaxSinks)
		}
		s.Deleted = nil
		s.Version = newVersion(s.Version, s.SinkContent, fmt.Sprintf("Undeleted to version \"%d\".", s.Version.Number), at, by)
		next.sinks[id] = s
		ch := &change{next: next, result: fmt.Sprintf("Sink %q has been undeleted.", id)}
		ch.keepSink(sourceID, s)
		return ch, nil
	}))
}

// DisableSink stops a sink from taking events. Rows that wait go to the table.
func (c *Catalog) DisableSink(by By, sourceID, id string) (Task, error) {
	return c.submit("disable.sink", sourceID, id, markSink(by, sourceID, id, true))
}

// EnableSink ends what DisableSink did, and renews the token. While the source is disabled the sink takes no events
// even so; the result of the task says it.
func (c *Catalog) EnableSink(by By, sourceID, id string) (Task, error) {
	return c.submit("enable.sink", sourceID, id, markSink(by, sourceID, id, false))
}

func markSink(by By, sourceID, id string, disable bool) plan {
	return liveSink(sourceID, id, func(at time.Time, next *tree, s Sink) (*change, error) {
		what, mark := stateTexts(disable, at, by)
		ch := &change{next: next, result: fmt.Sprintf("Sink %q has been %s.", id, strings.ToLower(what))}
		if !disable && next.source.Disabled != nil {
			ch.result += fmt.Sprintf(" It takes events when source %q is enabled.", sourceID)
		}
		if (s.Disabled != nil) == disable {
			return ch, nil
		}
		s.Disabled = mark
		s.Version = newVersion(s.Version, s.SinkContent, what+".", at, by)
		next.sinks[id] = s
		ch.keepSink(sourceID, s)
		return ch, nil
	})
}

// Sink returns a sink that is not deleted, with its source.
func (c *Catalog) Sink(sourceID, id string) (Source, Sink, error) {
	t := c.tree(sourceID)
	if !t.live() {
		return Source{}, Sink{}, sourceNotFound(sourceID)
	}
	s, err := t.sink(id)
	if err != nil {
		return Source{}, Sink{}, err
	}
	return t.source, s, nil
}

// Sinks returns the live or the deleted sinks of a source by id, with the source.
func (c *Catalog) Sinks(sourceID string, deleted bool) (Source, []Sink, error) {
	t := c.tree(sourceID)
	if !t.live() {
		return Source{}, nil, sourceNotFound(sourceID)
	}
	return t.source, t.sorted(deleted), nil
}

// SinkSettings returns all settings of a sink, sorted by key, with what it inherits.
func (c *Catalog) SinkSettings(sourceID, id string) ([]Setting, error) {
	source, s, err := c.Sink(sourceID, id)
	if err != nil {
		return nil, err
	}
	return list(source.Settings, s.Settings, true), nil
}
