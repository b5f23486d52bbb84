package catalog

import (
	"errors"
	"reflect"
	"slices"

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
	// Extend lets the table grow with the columns: see [forebay.Table]. Default: [Options.Extend].
	Extend *bool
	// AckLocal acknowledges rows before the log of a node has them: see [forebay.Sink].
	AckLocal bool
	// OnReject and Quarantine: see [SinkContent].
	OnReject   forebay.OnReject
	Quarantine QuarantineBounds
}

// grows returns Extend, or its default.
func (s SinkSpec) grows(def bool) bool {
	set(&def, s.Extend)
	return def
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
	// Extend lets the table grow with the columns: see [forebay.Table].
	Extend *bool
	// AckLocal acknowledges rows before the log of a node has them: see [forebay.Sink].
	AckLocal *bool
	// OnReject: with [forebay.Refuse] no more records are kept. Those that are in the quarantine stay.
	OnReject *forebay.OnReject
	// Quarantine replaces all bounds.
	Quarantine *QuarantineBounds
	// ChangeDescription is the text of the new version. Default: "Updated.".
	ChangeDescription string
	// Seen, unless 0, is the number of the version that the patch was made for. With a newer one the patch is refused as [VersionChanged],
	// so that nobody undoes a change without a word.
	Seen int
}

// CreateSink makes a sink. Its table is created, and if it exists compared, or extended. The id of a deleted sink brings that one
// back with the new content; its versions continue.
func (c *Catalog) CreateSink(by By, sourceID string, spec SinkSpec) (Task, error) {
	if _, err := c.liveTree(sourceID); err != nil && c.shared == nil { // else the plan looks, when it has caught up
		return Task{}, err
	}
	id, bad := newID(spec.ID, spec.Name, "sinkId")
	if bad != nil {
		return Task{}, bad
	}
	ref := Ref{sourceID, id}
	return c.submit(by, "create.%s", ref, func(ch *change) error {
		if !ch.old.live() {
			return notFound(Ref{Source: sourceID})
		}
		ch.result = ref.title() + " has been created."
		if err := c.addSink(ch, spec); err != nil {
			return err
		}
		return nil
	})
}

// addSink puts a new or revived sink into a change.
func (c *Catalog) addSink(ch *change, spec SinkSpec) *Error {
	id, bad := newID(spec.ID, spec.Name, "sinkId")
	if bad != nil {
		return bad
	}
	source := ch.ref.Source
	old := ch.next.sinks[id]
	if old != nil && old.Deleted == nil {
		return refuse(SinkAlreadyExists, "Sink %q of source %q already exists. Choose a different id, or change the one that exists.", id, source)
	}
	if e, full := errors.AsType[*Error](ch.checkSinks()); full {
		return e
	}
	content := spec.content()
	content.Extend = spec.grows(c.opts.Extend)
	if err := content.check(c.eng.CompileColumns, source, id); err != nil {
		return err
	}
	s := &Sink{ID: id, SinkContent: content, Lifecycle: Lifecycle{Created: Mark{At: ch.at, By: ch.by}}}
	if old != nil {
		s.Created, s.Version, s.Cleared, s.ClearedOn, s.Token = old.Created, old.Version, old.Cleared, old.ClearedOn, old.Token
	}
	ch.next.sinks[id] = s
	ch.addVersion(id, "New sink.")
	ch.created[id] = true
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

// UpdateSink changes a sink. A patch that changes nothing makes no new version.
func (c *Catalog) UpdateSink(by By, sourceID, id string, p SinkPatch) (Task, error) {
	description, bad := changeText(p.ChangeDescription, updated)
	if bad != nil {
		return Task{}, bad
	}
	ref := Ref{sourceID, id}
	return c.submit(by, "update.%s", ref, live(func(ch *change) error {
		if err := ch.seen(p.Seen); err != nil {
			return err
		}
		s := ch.next.sinks[id]
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
		set(&content.Extend, p.Extend)
		set(&content.AckLocal, p.AckLocal)
		set(&content.OnReject, p.OnReject)
		set(&content.Quarantine, p.Quarantine)
		if err := content.check(c.eng.CompileColumns, sourceID, id); err != nil {
			return err
		}
		ch.result = ref.title() + " has been updated."
		if !reflect.DeepEqual(content, s.SinkContent) {
			s.SinkContent = content
			ch.addVersion(id, description)
		}
		return nil
	}))
}
