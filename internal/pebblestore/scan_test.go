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

// A wrong byte of a table costs the keys of its block. Those before and behind it are read.
func TestScanReadsAroundDamage(t *testing.T) {
	disktest.Each(t, func(t *testing.T, newDisk func(testing.TB) *disktest.Disk) {
		disk := newDisk(t)
		o, err := pebblestore.Open(config(disk))
		if err != nil {
			t.Fatal(err)
		}
		rng, value := rand.New(rand.NewPCG(1, 2)), make([]byte, 1000)
		const keys = 200
		for n := range keys {
			for i := range value {
				value[i] = byte(rng.Uint32())
			}
			if err := o.DB.Set(fmt.Appendf(nil, "key %03d", n), value, pebble.NoSync); err != nil {
				t.Fatal(err)
			}
		}
		if err := o.DB.Flush(); err != nil {
			t.Fatal(err)
		}
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
		for _, table := range tables(t, disk) {
			data, err := disk.Read("data/" + table)
			if err != nil {
				t.Fatal(err)
			}
			disk.Rot("data/"+table, len(data)/2)
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
			t.Errorf("%d of %d keys are found, want all but those of a block in the middle", n, keys)
		}
	})
}
