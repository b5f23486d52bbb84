package pebblestore_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/internal/pebblestore"
)

// volume is the real disk with another amount of free room.
type volume struct {
	vfs.FS
	free  uint64
	lists atomic.Int32 // calls of List
}

func (v *volume) List(dir string) ([]string, error) {
	v.lists.Add(1)
	return v.FS.List(dir)
}

func (v *volume) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: v.free, TotalBytes: 1 << 40}, nil
}

func (v *volume) Unwrap() vfs.FS { return v.FS }

// openWith opens a store on a volume with so many free bytes.
func openWith(t *testing.T, dir string, free uint64) (*pebblestore.Opening, *volume) {
	t.Helper()
	disk := &volume{FS: vfs.Default, free: free}
	c := config(disk)
	c.Dir = dir
	o, err := pebblestore.Open(c)
	must(t, err)
	t.Cleanup(func() { _ = o.Close() })
	return o, disk
}

// Work outside the store gets the room that the store can spare, until it is given back.
func TestClaim(t *testing.T) {
	dir := t.TempDir()
	o, disk := openWith(t, dir, 40<<20)
	beside := filepath.Join(filepath.Dir(dir), "not", "made", "yet")
	release, err := o.Claim(beside, 8<<20)
	if err != nil {
		t.Fatalf("a fifth of the free room: %v", err)
	}
	var none *pebblestore.ClaimError
	if _, err := o.Claim(beside, 20<<20); !errors.As(err, &none) || none.Needed != 20<<20 || none.Free >= 20<<20 || none.Free < 4<<20 {
		t.Fatalf("half of the free room after another claim: %v", err)
	}
	free := none.Free
	release()
	if _, err := o.Claim(beside, 40<<20); !errors.As(err, &none) || none.Free != free+8<<20 {
		t.Errorf("after the release %d bytes are free, before it were %d: %v", none.Free, free, err)
	}
	disk.free = 4 << 20
	if _, err := o.Claim(beside, 0); !errors.As(err, &none) || none.Free != 0 {
		t.Errorf("with 4 MiB of room, which Open needs: %v", err)
	}
}

// The room of a file that the store has deleted since the last measurement is not spare where Open would miss it.
func TestClaimAfterFilesAreDeleted(t *testing.T) {
	dir := t.TempDir()
	table := filepath.Join(dir, "table")
	file, err := os.Create(table)
	must(t, err)
	_, err = file.Write(make([]byte, 16<<20))
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil { // its blocks count once they are allocated
		t.Fatal(err)
	}
	o, disk := openWith(t, dir, 16<<20)
	must(t, os.Remove(table))
	disk.free = 32 << 20
	beside := filepath.Join(filepath.Dir(dir), "beside")
	var none *pebblestore.ClaimError
	// Open needs 4 MiB. 1 MiB stays for blocks that cannot be measured, and 4 MiB for rows that arrive before the next measurement.
	if _, err := o.Claim(beside, 25<<20); !errors.As(err, &none) {
		t.Errorf("got %v for 25 of 32 MiB, want a refusal", err)
	}
	if _, err := o.Claim(beside, 20<<20); err != nil {
		t.Errorf("got %v for 20 of 32 MiB, want no error", err)
	}
}

// A claim of a small part of a large room does not look at the files of the store, because many small slices are uploaded each second.
func TestClaimInALargeRoomMeasuresNoFile(t *testing.T) {
	dir := t.TempDir()
	o, disk := openWith(t, dir, 1<<40)
	beside := filepath.Join(filepath.Dir(dir), "beside")
	before := disk.lists.Load()
	release, err := o.Claim(beside, 4<<10)
	must(t, err)
	release()
	if n := disk.lists.Load() - before; n > 0 {
		t.Errorf("got %d measurements of the files for a small claim, want none", n)
	}
}
