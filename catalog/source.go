package catalog

import (
	"fmt"
	"reflect"

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
	// Settings, Split and KeepHeaders are as in [forebay.Source]. Compression stays gzip. Catalog.ChangeSettings changes them later.
	Settings    forebay.Settings
	Split       forebay.Split
	KeepHeaders []string
	// Archive keeps each record as it arrived in the archive of the engine, in addition to the rows of the sinks. Default: raw records are not kept.
	Archive bool
	// Sinks are created with the source, all or none.
	Sinks []SinkSpec
}

// SourcePatch changes a source, but not its sinks. A nil field stays as it is.
type SourcePatch struct {
	// Type, when it changes, gives the source a new secret.
	Type *forebay.SourceType
	// Name and Description have the limits of [SourceSpec].
	Name, Description *string
	// ChangeDescription is the text of the new version. Default: "Updated.".
	ChangeDescription string
}

// CreateSource makes a source, with its sinks if there are any. The id of a deleted source brings that one back with the
// new content. Its versions continue, and its old sinks stay deleted.
func (c *Catalog) CreateSource(by By, spec SourceSpec) (Task, error) {
	id, bad := newID(spec.ID, spec.Name, "sourceId")
	if bad != nil {
		return Task{}, bad
	}
	ref := Ref{Source: id}
	return c.submit(by, "create.%s", ref, func(ch *change) error {
		if ch.old.live() {
			return refuse(SourceAlreadyExists, "Source %q already exists. Choose a different id, or change the existing source.", id)
		}
		if err := c.checkSources(); err != nil {
			return err
		}
		if err := spec.check(c.eng, c.opts.Extend); err != nil {
			return err
		}
		settings, bad := spec.settings(c.keys)
		if bad != nil {
			return bad
		}
		life := Lifecycle{Version: ch.next.source.Version, Created: Mark{At: ch.at, By: by}}
		generation := newGeneration()
		if ch.old != nil {
			life.Created, generation = ch.old.source.Created, ch.old.source.Generation
		}
		ch.next.source = Source{
			ID: id, SourceContent: SourceContent{Type: spec.Type, Name: spec.Name, Description: spec.Description, Settings: settings},
			Secret: newSecret(), Generation: generation, Lifecycle: life,
		}
		ch.addVersion("", "New source.")
		ch.result = ref.title() + " has been created."
		for i, s := range spec.Sinks {
			if err := c.addSink(ch, s); err != nil {
				err.Message = fmt.Sprintf("Sink %d: %s", i, err.Message)
				return err
			}
		}
		for _, s := range ch.next.sorted(false) {
			if err := c.warnSettings(ch, s.Settings); err != nil {
				return err
			}
		}
		return c.warnSettings(ch, ch.next.source.Settings)
	})
}

func set[T any](field *T, v *T) {
	if v != nil {
		*field = *v
	}
}

// UpdateSource changes a source. A patch that changes nothing makes no new version.
func (c *Catalog) UpdateSource(by By, id string, p SourcePatch) (Task, error) {
	description, bad := changeText(p.ChangeDescription, updated)
	if bad != nil {
		return Task{}, bad
	}
	ref := Ref{Source: id}
	return c.submit(by, "update.%s", ref, live(func(ch *change) error {
		s := &ch.next.source
		content := s.SourceContent
		set(&content.Type, p.Type)
		set(&content.Name, p.Name)
		set(&content.Description, p.Description)
		if err := content.check(); err != nil {
			return err
		}
		ch.result = ref.title() + " has been updated."
		if reflect.DeepEqual(content, s.SourceContent) {
			return nil
		}
		if content.Type != s.Type {
			s.setSecret(newSecret(), ch.at, 0)
		}
		s.SourceContent = content
		ch.addVersion("", description)
		return nil
	}))
}
