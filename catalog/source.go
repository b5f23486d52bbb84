package catalog

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/forebay/forebay"
)

// SourceSpec is a new source.
type SourceSpec struct {
	// ID is normalized by [NormalizeID]. Default: made from Name.
	ID string
	// Type is the kind of the source. It has no default.
	Type forebay.SourceType
	// Name has 1 to MaxName characters and need not be unique; Description has at most MaxDescription.
	Name, Description string
	// Sinks are created with the source, all or none.
	Sinks []SinkSpec
}

// SourcePatch changes a source. A nil field stays as it is. Sinks are not touched.
type SourcePatch struct {
	// Type, when it changes, gives the source a new secret.
	Type *forebay.SourceType
	// Name and Description have the limits of [SourceSpec].
	Name, Description *string
	// ChangeDescription is the text of the new version. Default: "Updated.".
	ChangeDescription string
}

// The texts of versions that nobody has described.
const (
	updated         = "Updated."
	updatedSettings = "Updated settings."
)

// MaxVersions is the number of versions that are kept of each source and sink; older ones are forgotten.
const MaxVersions = 1000

// CreateSource makes a source, with its sinks if there are any. The id of a deleted source brings that one back with the
// new content; its versions go on, its old sinks stay deleted.
func (c *Catalog) CreateSource(by By, spec SourceSpec) (Task, error) {
	id, bad := newID(spec.ID, spec.Name, "sourceId")
	if bad != nil {
		return Task{}, bad
	}
	return c.submit("create.source", id, "", func(at time.Time, old *tree) (*change, error) {
		if old.live() {
			return nil, refuse(SourceAlreadyExists, "Source %q already exists.", id)
		}
		if c.liveSources() >= forebay.MaxSources {
			return nil, refuse(SourceLimit, "There are %d sources already, which is the limit; delete one first.", forebay.MaxSources)
		}
		next := &tree{sinks: map[string]Sink{}}
		if old != nil {
			next = old.clone()
		}
		if err := spec.check(c.eng.CompileColumns); err != nil {
			return nil, err
		}
		content := SourceContent{Type: spec.Type, Name: spec.Name, Description: spec.Description}
		next.source = Source{
			ID: id, SourceContent: content, Secret: newSecret(), Created: Mark{At: at, By: by},
			Version: newVersion(next.source.Version, content, "New source.", at, by),
		}
		if old != nil {
			next.source.Created = old.source.Created
		}
		ch := &change{next: next, result: fmt.Sprintf("Source %q has been created.", id)}
		ch.keep(next.source)
		for i, s := range spec.Sinks {
			if err := c.addSink(ch, by, at, s); err != nil {
				err.Message = fmt.Sprintf("Sink %d: %s", i, err.Message)
				return nil, err
			}
		}
		return ch, nil
	})
}

func (c *Catalog) liveSources() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	n := 0
	for _, t := range c.trees {
		if t.live() {
			n++
		}
	}
	return n
}

// keep records the version that a source or sink has now, and forgets the oldest beyond MaxVersions.
func (ch *change) keep(s Source) {
	ch.version(s.ID, "", s.Version, s.SourceContent)
}

func (ch *change) keepSink(source string, s Sink) {
	ch.version(source, s.ID, s.Version, s.SinkContent)
}

func (ch *change) version(source, sink string, v Version, content any) {
	if ch.versions == nil {
		ch.versions = map[string][]byte{}
	}
	ch.versions[versionKey(source, sink, v.Number)] = encode(struct {
		Version Version `json:"version"`
		Content any     `json:"content"`
	}{v, content})
	if old := v.Number - MaxVersions; old > 0 {
		ch.versions[versionKey(source, sink, old)] = nil
	}
}

// liveSource wraps a plan for a source that must not be deleted. The plan may change the copy that it gets.
func liveSource(id string, p func(at time.Time, next *tree) (*change, error)) plan {
	return func(at time.Time, old *tree) (*change, error) {
		if !old.live() {
			return nil, sourceNotFound(id)
		}
		next := old.clone()
		if !at.Before(next.source.OldSecretUntil) {
			next.source.endOldSecret() // it is refused already
		}
		return p(at, next)
	}
}

// setSource gives a tree's source another content. It is no new version when nothing differs.
func setSource(next *tree, content SourceContent, description, result string, at time.Time, by By) (*change, error) {
	if err := content.check(); err != nil {
		return nil, err
	}
	ch := &change{next: next, result: result}
	if reflect.DeepEqual(content, next.source.SourceContent) {
		return ch, nil
	}
	if content.Type != next.source.Type {
		next.source.setSecret(newSecret(), at, 0)
	}
	next.source.SourceContent = content
	next.source.Version = newVersion(next.source.Version, content, description, at, by)
	ch.keep(next.source)
	return ch, nil
}

// UpdateSource changes a source. A patch that changes nothing is no new version.
func (c *Catalog) UpdateSource(by By, id string, p SourcePatch) (Task, error) {
	description, bad := changeText(p.ChangeDescription, updated)
	if bad != nil {
		return Task{}, bad
	}
	return c.submit("update.source", id, "", liveSource(id, func(at time.Time, next *tree) (*change, error) {
		content := next.source.SourceContent
		set(&content.Type, p.Type)
		set(&content.Name, p.Name)
		set(&content.Description, p.Description)
		return setSource(next, content, description, fmt.Sprintf("Source %q has been updated.", id), at, by)
	}))
}

func set[T any](field *T, v *T) {
	if v != nil {
		*field = *v
	}
}

// ChangeSourceSettings overrides settings of a source, and puts those whose value is null back to the default. What
// waits at sinks that inherit a changed condition is imported at once.
func (c *Catalog) ChangeSourceSettings(by By, id, description string, changes []SettingChange) (Task, error) {
	description, bad := changeText(description, updatedSettings)
	if bad != nil {
		return Task{}, bad
	}
	return c.submit("update.sourceSettings", id, "", liveSource(id, func(at time.Time, next *tree) (*change, error) {
		content := next.source.SourceContent
		settings, err := content.Settings.with(changes, false)
		if err != nil {
			return nil, err
		}
		content.Settings = settings
		return setSource(next, content, description, fmt.Sprintf("Settings of source %q have been updated.", id), at, by)
	}))
}

// DeleteSource deletes a source and its live sinks. Rows that wait still go to their tables. Undelete brings all back.
func (c *Catalog) DeleteSource(by By, id string) (Task, error) {
	return c.submit("delete.source", id, "", liveSource(id, func(at time.Time, next *tree) (*change, error) {
		next.source.Deleted = &Mark{At: at, By: by}
		next.source.endOldSecret() // undeletion brings back the newest alone
		for sinkID, s := range next.sinks {
			if s.Deleted == nil {
				s.Deleted = &Mark{At: at, By: by, WithParent: true}
				next.sinks[sinkID] = s
			}
		}
		return &change{next: next, result: fmt.Sprintf("Source %q has been deleted.", id)}, nil
	}))
}

// UndeleteSource brings a deleted source back with the sinks that were deleted with it.
func (c *Catalog) UndeleteSource(by By, id string) (Task, error) {
	return c.submit("undelete.source", id, "", func(at time.Time, old *tree) (*change, error) {
		if old == nil || old.live() {
			return nil, refuse(DeletedSourceNotFound, "Deleted source %q not found.", id)
		}
		if c.liveSources() >= forebay.MaxSources {
			return nil, refuse(SourceLimit, "There are %d sources already, which is the limit; delete one first.", forebay.MaxSources)
		}
		next := old.clone()
		next.source.Deleted = nil
		next.source.Version = newVersion(next.source.Version, next.source.SourceContent,
			fmt.Sprintf("Undeleted to version \"%d\".", next.source.Version.Number), at, by)
		for sinkID, s := range next.sinks {
			if s.Deleted != nil && s.Deleted.WithParent {
				s.Deleted = nil
				next.sinks[sinkID] = s
			}
		}
		ch := &change{next: next, result: fmt.Sprintf("Source %q has been undeleted.", id)}
		ch.keep(next.source)
		return ch, nil
	})
}

// DisableSource refuses events for a source. Its sinks keep their own marks. Rows that wait go to their tables.
func (c *Catalog) DisableSource(by By, id string) (Task, error) {
	return c.submit("disable.source", id, "", c.markSource(by, id, true))
}

// EnableSource ends what DisableSource did.
func (c *Catalog) EnableSource(by By, id string) (Task, error) {
	return c.submit("enable.source", id, "", c.markSource(by, id, false))
}

func (c *Catalog) markSource(by By, id string, disable bool) plan {
	return liveSource(id, func(at time.Time, next *tree) (*change, error) {
		what, mark := stateTexts(disable, at, by)
		ch := &change{next: next, result: fmt.Sprintf("Source %q has been %s.", id, strings.ToLower(what))}
		if (next.source.Disabled != nil) == disable {
			return ch, nil
		}
		next.source.Disabled = mark
		next.source.Version = newVersion(next.source.Version, next.source.SourceContent, what+".", at, by)
		ch.keep(next.source)
		return ch, nil
	})
}

func stateTexts(disable bool, at time.Time, by By) (string, *Mark) {
	if disable {
		return "Disabled", &Mark{At: at, By: by, Reason: "API"}
	}
	return "Enabled", nil
}

// Source returns a source that is not deleted.
func (c *Catalog) Source(id string) (Source, error) {
	t := c.tree(id)
	if !t.live() {
		return Source{}, sourceNotFound(id)
	}
	return t.source, nil
}

// Sources returns the live or the deleted sources by id.
func (c *Catalog) Sources(deleted bool) []Source {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var list []Source
	for _, id := range slices.Sorted(maps.Keys(c.trees)) {
		if t := c.trees[id]; t.live() != deleted {
			list = append(list, t.source)
		}
	}
	return list
}

// SourceSettings returns all settings of a source, sorted by key.
func (c *Catalog) SourceSettings(id string) ([]Setting, error) {
	s, err := c.Source(id)
	if err != nil {
		return nil, err
	}
	return list(s.Settings, nil, false), nil
}
