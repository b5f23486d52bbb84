package salvage

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/internal/pebblestore"
)

func TestClosedNote(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, disk vfs.FS)
		want   string // of the error; empty: none
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
			mem := vfs.NewMem()
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
			var bad *storeDamage
			if err == nil || !strings.Contains(err.Error(), c.want) || !errors.As(err, &bad) || bad.index != c.index {
				t.Errorf("the error is %v (%+v), want %q, index %v", err, bad, c.want, c.index)
			}
		})
	}
}

func TestIsDamage(t *testing.T) {
	mem := vfs.NewMem()
	must(t, mem.MkdirAll("data", 0o700))
	put(t, mem, "data/000004.log", "rows")
	missing := fmt.Errorf("open: %w", errors.Join(pebble.ErrDBNotPristine))
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"a record":               {fmt.Errorf("open: %w", BadRecord("sink record 1: %w", errors.New("no JSON"))), true},
		"a receipt":              {fmt.Errorf("receipt: %w", format.ErrReceipt), true},
		"a block":                {pebble.ErrCorruption, true},
		"a log":                  {OpenError(mem, "data", fmt.Errorf("open: %w", &pebblestore.Damage{Err: errors.New("a gap")})), true},
		"a missing marker":       {OpenError(mem, "data", missing), true},
		"a folder that is away":  {OpenError(mem, "elsewhere", missing), false},
		"an error of the disk":   {OpenError(mem, "data", errors.New("input/output error")), false},
		"a chunk of a slice":     {format.ErrChunk, false}, // its slice is uploaded without it
		"the end of the process": {OpenError(mem, "data", pebble.ErrClosed), false},
	} {
		if got := IsDamage(c.err); got != c.want {
			t.Errorf("%s: %v is damage: %v", name, c.err, got)
		}
	}
}
