package pebblestore

import (
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/internal/disktest"
)

func TestClosedNote(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, disk vfs.FS)
		want   string // of the error, empty if none
		index  bool
	}{
		"nothing has changed":             {func(*testing.T, vfs.FS) {}, "", false},
		"a log is shorter":                {func(t *testing.T, d vfs.FS) { put(t, d, "data/000004.log", "ro") }, "had 4 bytes", false},
		"a log is longer":                 {func(t *testing.T, d vfs.FS) { put(t, d, "data/000004.log", "rows and more") }, "", false},
		"a table is missing":              {func(t *testing.T, d vfs.FS) { must(t, d.Remove("data/000005.sst")) }, "is missing", false},
		"the list of tables is missing":   {func(t *testing.T, d vfs.FS) { must(t, d.Remove("data/MANIFEST-000001")) }, "is missing", true},
		"somebody else opened it since":   {func(t *testing.T, d vfs.FS) { put(t, d, "data/000009.log", ""); put(t, d, "data/000004.log", "") }, "", false},
		"the note is damaged":             {func(t *testing.T, d vfs.FS) { put(t, d, "data/"+closedNote, "4 000004.log\n00000000\n") }, "is damaged", false},
		"the note is empty":               {func(t *testing.T, d vfs.FS) { put(t, d, "data/"+closedNote, "") }, "is damaged", false},
		"the note was removed in between": {func(t *testing.T, d vfs.FS) { must(t, ForgetClosed(d, "data")); put(t, d, "data/000004.log", "") }, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			mem := disktest.New(t)
			must(t, mem.MkdirAll("data", 0o700))
			put(t, mem, "data/000004.log", "rows")
			put(t, mem, "data/000005.sst", "rows")
			put(t, mem, "data/MANIFEST-000001", "tables")
			put(t, mem, "data/forebay-format", "1\n")
			must(t, NoteClosed(mem, "data"))
			c.change(t, mem)
			err := CheckClosed(mem, "data")
			if c.want == "" {
				must(t, err)
				return
			}
			var bad *DamageError
			if err == nil || !strings.Contains(err.Error(), c.want) || !errors.As(err, &bad) || bad.Index != c.index {
				t.Errorf("the error is %v (%+v), want %q, index %v", err, bad, c.want, c.index)
			}
		})
	}
}
