package catalog

import (
	"errors"
	"fmt"
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
	// Signals, TableID, Target and Columns are as in [SinkContent].
	Signals []string
	TableID string
	Target  string
	Columns mapping.Columns
	// Extend lets the table grow with the columns. See [forebay.Table]. Default: [Options.Extend].
	Extend *bool
	// AckLocal acknowledges rows before the log of a node has them. See [forebay.Sink].
	AckLocal bool
	// OnReject and Quarantine are as in [SinkContent].
	OnReject   forebay.OnReject
	Quarantine QuarantineBounds
	// Settings override the settings of the source, field by field. See [forebay.Sink]. Compression stays gzip.
	// Catalog.ChangeSettings changes them later.
	Settings forebay.Settings
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
	// Signals replace all signals. An empty list means all.
	Signals *[]string
	// TableID sends new rows to another table. It is created, or compared, as on create. Rows that wait go to the old one.
	TableID *string
	// Target sends new rows to the table in another target, as TableID does. An empty name is the default target.
	Target *string
	// Columns replace all columns.
	Columns mapping.Columns
	// Extend lets the table grow with the columns. See [forebay.Table].
	Extend *bool
	// AckLocal acknowledges rows before the log of a node has them. See [forebay.Sink].
	AckLocal *bool
	// OnReject decides about unmappable records. With [forebay.Refuse] no more records are kept. Records that are in the quarantine stay.
	OnReject *forebay.OnReject
	// Quarantine replaces all bounds.
	Quarantine *QuarantineBounds
	// ChangeDescription is the text of the new version. Default: "Updated.".
	ChangeDescription string
	// Seen, unless 0, is the number of the version that the patch was made for. With a newer one the patch is refused as [VersionChanged],
	// so that no caller undoes a change without notice.
	Seen int
}

// CreateSink makes a sink. Its table is created, and if it exists compared, or extended. The id of a deleted sink brings that one
// back with the new content, and its versions continue.
func (c *Catalog) CreateSink(by By, sourceID string, spec SinkSpec) (Task, error) {
	if err := c.CatchUp(c.ctx); err != nil {
		return Task{}, err
	}
	if _, err := c.liveTree(sourceID); err != nil {
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
		return c.warnSettings(ch, ch.sinkSettings())
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
		return refuse(SinkAlreadyExists, "Sink %q of source %q already exists. Choose a different id, or change the existing sink.", id, source)
	}
	if e, full := errors.AsType[*Error](ch.checkSinks()); full {
		return e
	}
	content := spec.content()
	content.Extend = spec.grows(c.opts.Extend)
	if err := content.check(c.eng, source, id); err != nil {
		return err
	}
	settings, bad := spec.settings(c.keys)
	if bad != nil {
		return bad
	}
	content.Settings = settings
	s := &Sink{ID: id, SinkContent: content, Lifecycle: Lifecycle{Created: Mark{At: ch.at, By: ch.by}}}
	if old != nil {
		s.Created, s.Version, s.Cleared, s.ClearedOn, s.Token = old.Created, old.Version, old.Cleared, old.ClearedOn, old.Token
	}
	ch.next.sinks[id] = s
	ch.addVersion(id, "New sink.")
	ch.created[id] = true
	return nil
}

// sortedSignals returns a copy, or nil for all.
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
		set(&content.Target, p.Target)
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
		if err := content.check(c.eng, sourceID, id); err != nil {
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

// SwitchToCopy gives a sink the table of another sink of the source, with its target, columns and Extend, and deletes that sink. Both happen in one
// change. A record before it becomes a row in both tables, and a record after it becomes a row in the table of the copy, once. Waiting rows go to the
// tables that they were mapped for. Errors: [BadRequest] for the sink itself, [SinkNotFound], and [SinkDisabled] for a copy that accepts no events.
func (c *Catalog) SwitchToCopy(by By, sourceID, id, copyID string) (Task, error) {
	ref := Ref{sourceID, id}
	return c.submit(by, "switch.%s", ref, live(func(ch *change) error {
		if ch.old.sink(copyID) == nil {
			return notFound(Ref{sourceID, copyID})
		}
		if err := checkCopy(sourceID, id, copyID, !ch.old.takes(copyID)); err != nil {
			return err
		}
		s, of := ch.next.sinks[id], ch.next.sinks[copyID]
		s.TableID, s.Target, s.Columns, s.Extend = of.TableID, of.Target, of.Columns, of.Extend
		of.Deleted = &Mark{At: ch.at, By: by}
		ch.addVersion(id, fmt.Sprintf("Switched to the table of sink %q.", copyID))
		ch.result = fmt.Sprintf("%s has the table of sink %q, which has been deleted.", ref.title(), copyID)
		return nil
	}))
}
