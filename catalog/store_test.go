package catalog_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/internal/casetest"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/internal/synctest"
)

var errDisk = errors.New("the disk failed")

// faults lets operations of a disk fail, length operations from number first on.
type faults struct {
	first, length int64
	reads         bool // fail too
	ops           atomic.Int64
}

func (f *faults) on(disk vfs.FS) vfs.FS {
	return disktest.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() != errorfs.OpIsWrite && !f.reads {
			return nil
		}
		if n := f.ops.Add(1); n >= f.first && n < f.first+f.length {
			return errDisk
		}
		return nil
	}))
}

// hit tells whether an operation has failed.
func (f *faults) hit() bool { return f.ops.Load() >= f.first }

// read returns the record of a key as soon as the store knows it. It runs in a bubble.
func read(t *testing.T, store catalog.Store, key string) string {
	t.Helper()
	for range 1000 {
		record, err := store.Get(key)
		if err == nil {
			return string(record)
		}
		var failed *catalog.FailedError
		if !errors.As(err, &failed) {
			t.Fatalf("reading gives %v", err)
		}
		<-time.After(failed.RetryAfter)
	}
	t.Fatal("the store does not come back")
	return ""
}

// ownProcessEnv names the test that a process is there for.
const ownProcessEnv = "CATALOG_TEST_ALONE"

// inOwnProcess runs a test in a separate process and reports true when it has. The database keeps goroutines of earlier
// tests for a while, and a bubble of synctest in which these take part stands still.
func inOwnProcess(t *testing.T) bool {
	t.Helper()
	if os.Getenv(ownProcessEnv) == t.Name() {
		return false
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=300s", "-test.v") // a panic then leaves the seed
	cmd.Env = append(os.Environ(), ownProcessEnv+"="+t.Name())
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("PASS")) {
		t.Fatalf("got %v\n%s\nwant no error and bytes.Contains(out, []byte(\"PASS\"))", err, out)
	}
	return true
}

// TestStoreOnFailingDisk lets every operation of the disk fail, one after the other, alone and as the first of several.
// What a commit has acknowledged is there after a cut of the power. What failed is there as a whole or not at all, and
// stays as the first read after the failure has found it.
func TestStoreOnFailingDisk(t *testing.T) {
	if inOwnProcess(t) {
		return
	}
	seed := seedtest.Of(t)
	for _, reads := range []bool{false, true} {
		for _, length := range []int64{1, 20} {
			t.Run(fmt.Sprintf("%d operations, reads %v", length, reads), func(t *testing.T) {
				untouched := false
				for n := int64(1); !untouched && !t.Failed(); n += int64(casetest.Step()) {
					synctest.Test(t, func(t *testing.T) {
						untouched = playStore(t, &faults{first: n, length: length, reads: reads}, rand.New(rand.NewPCG(seed, uint64(n))))
					})
				}
			})
		}
	}
}

func playStore(t *testing.T, f *faults, rng *rand.Rand) (untouched bool) {
	disk := disktest.New(t)
	store, err := catalog.OpenStoreOn(f.on(disk), "catalog")
	if err != nil {
		if !errors.Is(err, errDisk) {
			t.Fatalf("operation %d: open: %v", f.first, err)
		}
		// The files that a failed Open leaves can be opened.
		store, err = catalog.OpenStoreOn(disk.Cut(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng}), "catalog")
		if err != nil {
			t.Fatalf("operation %d: open after a failed open: %v", f.first, err)
		}
		must(t, store.Close())
		return false
	}
	const keys = 3
	known := [keys]string{}
	padding := string(make([]byte, 180_000)) // the second of these fills the memory of the store
	for i := range 6 {
		value := fmt.Sprint(i) + padding
		if i%3 != 1 {
			value = fmt.Sprint(i)
		}
		batch := map[string][]byte{}
		for k := range keys {
			batch[fmt.Sprint("k", k)] = []byte(value)
		}
		err := store.Commit(batch)
		for k := range keys {
			got := read(t, store, fmt.Sprint("k", k))
			switch {
			case err == nil && got != value:
				t.Errorf("operation %d: commit %d was acknowledged, key %d is %.10q", f.first, i, k, got)
			case errors.Is(err, catalog.ErrNotCommitted) && got != known[k]:
				t.Errorf("operation %d: commit %d was not made, key %d is %.10q", f.first, i, k, got)
			case got != value && got != known[k]:
				t.Errorf("operation %d: commit %d: key %d is %.10q", f.first, i, k, got)
			case k > 0 && got != known[0]:
				t.Errorf("operation %d: half of commit %d is there", f.first, i)
			}
			known[k] = got
		}
	}
	for _, clone := range []func() *disktest.Disk{
		func() *disktest.Disk { return disk.Cut(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng}) },
		func() *disktest.Disk {
			_ = store.Close() // it may fail, when the disk does now
			return disk.Cut(vfs.CrashCloneCfg{})
		},
	} {
		again, err := catalog.OpenStoreOn(clone(), "catalog")
		if err != nil {
			t.Fatalf("operation %d: open after the cut of the power: %v", f.first, err)
		}
		for k := range keys {
			if got := read(t, again, fmt.Sprint("k", k)); got != known[k] {
				t.Errorf("operation %d: key %d is %.10q after the cut of the power, was %.10q", f.first, k, got, known[k])
			}
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}
	return !f.hit()
}
