package catalog

import (
	"strings"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/trigger"
)

// typed returns the changes that override settings of the engine. A zero field is inherited.
func typed(s forebay.Settings) (changes []SettingChange, bad *Error) {
	var f faults
	put := func(key string, value any) { changes = append(changes, SettingChange{key, encode(value)}) }
	switch s.Sync {
	case forebay.SyncDefault:
	case forebay.SyncWait, forebay.SyncUnsafe:
		put(syncWait, s.Sync == forebay.SyncWait)
	default:
		f.add("Settings.Sync is %d, which is unknown", s.Sync)
	}
	conditions := func(prefix string, c trigger.Conditions) {
		if c.Count != 0 {
			put(prefix+"count", c.Count)
		}
		if c.Size != 0 {
			put(prefix+"size", c.Size)
		}
		if c.Interval != 0 {
			put(prefix+"interval", c.Interval.String())
		}
	}
	conditions(upload, s.Upload)
	conditions(imports, s.Import)
	if s.Compression != forebay.CompressionDefault && s.Compression != forebay.CompressionGzip {
		f.add("Settings.Compression cannot be set in a catalog, whose rows are compressed with gzip: leave it out")
	}
	return changes, f.err()
}

// settings returns the overrides of a new source.
func (s SourceSpec) settings(all keys) (Overrides, *Error) {
	changes, bad := typed(s.Settings)
	if bad != nil {
		return nil, bad
	}
	if s.Split != forebay.SplitNone {
		changes = append(changes, SettingChange{splitKey, encode(s.Split)})
	}
	if len(s.KeepHeaders) > 0 {
		changes = append(changes, SettingChange{keepKey, encode(strings.Join(s.KeepHeaders, ", "))})
	}
	if s.Archive {
		changes = append(changes, SettingChange{archiveKey, encode(true)})
	}
	return Overrides(nil).with(all, changes, false)
}

// settings returns the overrides of a new sink.
func (s SinkSpec) settings(all keys) (Overrides, *Error) {
	changes, bad := typed(s.Settings)
	if bad != nil {
		return nil, bad
	}
	return Overrides(nil).with(all, changes, true)
}

// warnSettings adds to the result of a creation which settings of the new source or of a new sink have no effect.
func (c *Catalog) warnSettings(ch *change, created Overrides) error {
	warnings, err := c.settingWarnings(ch.next.source.Settings, created)
	for _, key := range []string{upload + "size", imports + "size"} {
		if text := warnings[key]; text != "" && created[key] != nil && !strings.Contains(ch.result, text) {
			ch.result += " " + text
		}
	}
	return err
}
