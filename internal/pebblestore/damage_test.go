package pebblestore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/pebblestore"
)

func TestMarkDamage(t *testing.T) {
	mem := disktest.New(t)
	must(t, mem.MkdirAll("data", 0o700))
	f, err := mem.Create("data/000004.log", vfs.WriteCategoryUnspecified)
	must(t, errors.Join(err, f.Close()))
	missing := fmt.Errorf("open: %w", errors.Join(pebble.ErrDBNotPristine))
	for name, c := range map[string]struct {
		dir         string
		err         error
		want, index bool
	}{
		"a record":               {"data", fmt.Errorf("open: %w", pebblestore.Damaged("sink record 1: %w", errors.New("no JSON"))), true, false},
		"a list":                 {"data", fmt.Errorf("open: %w", pebblestore.DamagedIndex("a gap")), true, true},
		"a block":                {"data", pebble.ErrCorruption, true, false},
		"a missing marker":       {"data", missing, true, true},
		"a missing file":         {"data", disktest.New(t).Remove("data/000005.sst"), true, false},
		"a folder that is away":  {"elsewhere", missing, false, false},
		"an error of the disk":   {"data", errors.New("input/output error"), false, false},
		"the end of the process": {"data", pebble.ErrClosed, false, false},
		"no error":               {"data", nil, false, false},
	} {
		var damage *pebblestore.DamageError
		err := pebblestore.MarkDamage(mem, c.dir, c.err)
		if marked := errors.As(err, &damage); marked != c.want || marked && damage.Index != c.index {
			t.Errorf("%s: %v is damage: %v, index %+v", name, err, marked, damage)
		}
		if !errors.Is(err, c.err) {
			t.Errorf("%s: %v has lost its cause", name, err)
		}
	}
}

// A list of tables is never empty. An empty one is damage, although nothing in it is wrong.
func TestEmptyListOfTables(t *testing.T) {
	disktest.Each(t, func(t *testing.T, newDisk func(testing.TB) *disktest.Disk) {
		disk := newDisk(t)
		o, err := pebblestore.Open(config(disk))
		must(t, err)
		must(t, o.Close())
		must(t, pebblestore.CheckFiles(disk, "data"))
		names, err := disk.List("data")
		must(t, err)
		for _, name := range names {
			if strings.HasPrefix(name, "MANIFEST-") {
				must(t, disk.Change("data/"+name, func([]byte) []byte { return nil }))
			}
		}
		var damage *pebblestore.DamageError
		if err := pebblestore.CheckFiles(disk, "data"); !errors.As(err, &damage) || !damage.Index {
			t.Errorf("the check of an empty list gives %v, want damage of an index", err)
		}
	})
}
