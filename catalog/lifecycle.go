package catalog

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/forebay/forebay"
)

// The changes that sources and sinks have in common.

// The texts of versions without a description.
const (
	updated         = "Updated."
	updatedSettings = "Updated settings."
)

// checkSources refuses one source more than there may be.
func (c *Catalog) checkSources() error {
	if c.defs.live() >= c.eng.Options().MaxSources {
		return c.tooManySources()
	}
	return nil
}

func (c *Catalog) tooManySources() error {
	return refuse(SourceLimit, "There are %d sources already, which is the limit; delete one first.", c.eng.Options().MaxSources)
}

// checkSinks refuses one sink more than the source may have.
func (ch *change) checkSinks() error {
	if len(ch.next.sorted(false)) >= forebay.MaxSinks {
		return refuse(SinkLimit, "Source %q has %d sinks already, which is the limit; delete one first.", ch.ref.Source, forebay.MaxSinks)
	}
	return nil
}

// ChangeSettings overrides settings of a source or sink. Null puts a setting back to the inherited value. If a condition of
// a sink changes, waiting rows are imported at once.
func (c *Catalog) ChangeSettings(by By, ref Ref, description string, changes []SettingChange) (Task, error) {
	description, bad := changeText(description, updatedSettings)
	if bad != nil {
		return Task{}, bad
	}
	return c.submit(by, "update.%sSettings", ref, live(func(ch *change) error {
		settings := &ch.next.source.Settings
		if ref.Sink != "" {
			settings = &ch.next.sinks[ref.Sink].Settings
		}
		next, bad := settings.with(c.keys, changes, ref.Sink != "")
		if bad != nil {
			return bad
		}
		ch.result = fmt.Sprintf("Settings of %s have been updated.", ref.name())
		if !reflect.DeepEqual(next, *settings) {
			*settings = next
			ch.addVersion(ref.Sink, description)
		}
		warnings, err := c.settingWarnings(ch.next.source.Settings, ch.sinkSettings())
		for _, s := range changes {
			if text := warnings[s.Key]; text != "" {
				ch.result += " " + text
			}
		}
		return err
	}))
}

// sinkSettings are the settings of the changed sink, or nil for a source.
func (ch *change) sinkSettings() Overrides {
	if ch.ref.Sink == "" {
		return nil
	}
	return ch.next.sinks[ch.ref.Sink].Settings
}

// Delete deletes a sink, or a source with its live sinks. Waiting rows still go to their tables. [Catalog.Undelete]
// brings back everything that was deleted together.
func (c *Catalog) Delete(by By, ref Ref) (Task, error) {
	return c.submit(by, "delete.%s", ref, live(func(ch *change) error {
		ch.result = ref.title() + " has been deleted."
		ch.lifecycle().Deleted = &Mark{At: ch.at, By: by}
		if ref.Sink != "" {
			return nil
		}
		ch.next.source.endOldSecret() // undeletion brings back only the newest
		for _, s := range ch.next.sinks {
			if s.Deleted == nil {
				s.Deleted = &Mark{At: ch.at, By: by, WithParent: true}
			}
		}
		return nil
	}))
}

// Undelete brings back a deleted sink, or a deleted source with the sinks that were deleted with it.
func (c *Catalog) Undelete(by By, ref Ref) (Task, error) {
	p := func(ch *change) error {
		ch.result = ref.title() + " has been undeleted."
		life := ch.lifecycle()
		life.Deleted = nil
		ch.addVersion(ref.Sink, fmt.Sprintf("Undeleted to version \"%d\".", life.Version.Number))
		return nil
	}
	if ref.Sink != "" {
		return c.submit(by, "undelete.%s", ref, func(ch *change) error {
			if !ch.old.live() {
				return notFound(Ref{Source: ref.Source})
			}
			if s := ch.old.sinks[ref.Sink]; s == nil || s.Deleted == nil {
				return refuse(DeletedSinkNotFound, "Deleted sink %q of source %q not found.", ref.Sink, ref.Source)
			}
			if err := ch.checkSinks(); err != nil {
				return err
			}
			return p(ch)
		})
	}
	return c.submit(by, "undelete.%s", ref, func(ch *change) error {
		if ch.old == nil || ch.old.live() {
			return refuse(DeletedSourceNotFound, "Deleted source %q not found.", ref.Source)
		}
		if err := c.checkSources(); err != nil {
			return err
		}
		for _, s := range ch.next.sinks {
			if s.Deleted != nil && s.Deleted.WithParent {
				s.Deleted = nil
			}
		}
		return p(ch)
	})
}

// Disable stops a source or sink from taking events. The sinks of a disabled source keep their own marks. Rows that wait
// still go to their tables.
func (c *Catalog) Disable(by By, ref Ref) (Task, error) {
	return c.submit(by, "disable.%s", ref, live(func(ch *change) error {
		ch.setDisabled("Disabled", &Mark{At: ch.at, By: by, Reason: "API"})
		return nil
	}))
}

// Enable ends what [Catalog.Disable] did. A sink gets a new token. While its source is disabled it accepts no events even
// so, and the result of the task says that.
func (c *Catalog) Enable(by By, ref Ref) (Task, error) {
	return c.submit(by, "enable.%s", ref, live(func(ch *change) error {
		ch.setDisabled("Enabled", nil)
		if ref.Sink != "" && ch.next.source.Disabled != nil {
			ch.result += fmt.Sprintf(" It accepts events when source %q is enabled.", ref.Source)
		}
		return nil
	}))
}

func (ch *change) setDisabled(what string, mark *Mark) {
	ch.result = fmt.Sprintf("%s has been %s.", ch.ref.title(), strings.ToLower(what))
	if life := ch.lifecycle(); (life.Disabled != nil) != (mark != nil) {
		life.Disabled = mark
		ch.addVersion(ch.ref.Sink, what+".")
	}
}

// Rollback makes the content of an old version the newest one. The marks of the source or sink, and the secret, stay. seen is as in
// [SinkPatch].
func (c *Catalog) Rollback(by By, ref Ref, number, seen int) (Task, error) {
	return c.submit(by, "rollback.%sVersion", ref, live(func(ch *change) error {
		if err := ch.seen(seen); err != nil {
			return err
		}
		_, content, err := c.versionRecord(ref, number)
		if err != nil {
			return err
		}
		if ref.Sink != "" {
			s := ch.next.sinks[ref.Sink]
			s.SinkContent = SinkContent{}
			err = json.Unmarshal(content, &s.SinkContent)
		} else {
			src := &ch.next.source
			before := src.Type
			src.SourceContent = SourceContent{}
			if err = json.Unmarshal(content, &src.SourceContent); src.Type != before {
				src.setSecret(newSecret(), ch.at, 0)
			}
		}
		ch.result = fmt.Sprintf("%s has been rolled back to version %d.", ref.title(), number)
		ch.addVersion(ref.Sink, fmt.Sprintf("Rollback to version \"%d\".", number))
		return err
	}))
}
