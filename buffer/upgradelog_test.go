package buffer_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/internal/disktest"
)

// The log warns of an upgrade only if an earlier release may have written the folder. A new folder has no such release, even if a sink with a
// quarantine or a growing table needs the newest format.
func TestUpgradeIsLoggedForOldFoldersOnly(t *testing.T) {
	withQuarantine := func(c *buffer.SinkConfig) { c.Quarantine = &buffer.QuarantineBounds{} }
	for _, tt := range []struct {
		name, folder string
		old          bool
		change       func(*buffer.SinkConfig)
		want         string
	}{
		{"a new folder, a plain sink", "new", false, func(*buffer.SinkConfig) {}, ""},
		{"a new folder, a quarantine", "new", false, withQuarantine, ""},
		{"a new folder, a growing table", "new", false, grown, ""},
		{"a folder of version 1, a plain sink", "data", true, func(*buffer.SinkConfig) {}, "data directory upgraded"},
		{"a folder of version 1, a quarantine", "data", true, withQuarantine, "data directory upgraded for a definition"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			mem, disk := buffertest.NewMemory(), disktest.New(t)
			if tt.old {
				oldFolder(t, disk, mem)
			}
			var log bytes.Buffer
			opts := upgradeOptions(t, disk, mem, false)
			opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
			b, err := buffer.Open(tt.folder, opts)
			must(t, err)
			define(t, b, "a", tt.change)
			closeBuffer(t, b)
			if got := log.String(); !strings.Contains(got, tt.want) || tt.want == "" && strings.Contains(got, "upgraded") {
				t.Errorf("the log has no line %q, or one of an upgrade where none is wanted:\n%s", tt.want, got)
			}
		})
	}
}
