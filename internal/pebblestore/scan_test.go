package pebblestore_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/pebblestore"
)

// A wrong byte of a table costs the keys of its block. The keys before it, after it, and between two such blocks are read.
func TestScanReadsAroundDamage(t *testing.T) {
	disktest.Each(t, func(t *testing.T, newDisk func(testing.TB) *disktest.Disk) {
		for _, places := range [][]int{{50}, {33, 66}} {
			scanAround(t, newDisk(t), places)
		}
	})
}

// scanAround damages a table at places, in percent, and reads it.
func scanAround(t *testing.T, disk *disktest.Disk, places []int) {
	t.Helper()
	o, err := pebblestore.Open(config(disk))
	must(t, err)
	rng, value := rand.New(rand.NewPCG(1, 2)), make([]byte, 1000)
	const keys = 200
	for n := range keys {
		for i := range value {
			value[i] = byte(rng.Uint32())
		}
		must(t, o.DB.Set(fmt.Appendf(nil, "key %03d", n), value, pebble.NoSync))
	}
	must(t, o.DB.Flush())
	must(t, o.Close())
	for _, table := range tables(t, disk) {
		data, err := disk.Read("data/" + table)
		must(t, err)
		for _, percent := range places {
			disk.Rot("data/"+table, len(data)*percent/100)
		}
	}
	found := map[string]bool{}
	var lost []string
	if err := pebblestore.Scan(disk, "data", func(e pebblestore.Entry) error {
		found[string(e.Key)] = true
		return nil
	}, func(file, what string) { lost = append(lost, file+": "+what) }); err != nil {
		t.Fatal(err)
	}
	if len(lost) != 1 || !strings.Contains(lost[0], ".sst: ") {
		t.Errorf("lost is %q, want one table", lost)
	}
	if n := len(found); n < keys*9/10 || n == keys || !found["key 000"] || !found[fmt.Sprintf("key %03d", keys-1)] {
		t.Errorf("damage at %v percent: %d of %d keys are found, want all but those of the damaged blocks", places, n, keys)
	}
}
