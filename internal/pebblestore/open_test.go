package pebblestore_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/pebblestore"
)

func config(disk vfs.FS) pebblestore.Config {
	return pebblestore.Config{Dir: "data", FS: disk, Log: slog.New(slog.DiscardHandler), MemTable: 1 << 20}
}

func tables(t *testing.T, disk vfs.FS) (names []string) {
	t.Helper()
	all, err := disk.List("data")
	must(t, err)
	for _, name := range all {
		if strings.HasSuffix(name, ".sst") {
			names = append(names, name)
		}
	}
	return names
}

// An opening that finds no room for the content of the logs leaves no files, however often it is tried, and loses nothing.
func TestFailedOpeningsLeaveNoTables(t *testing.T) {
	disk := disktest.New(t)
	must(t, disk.MkdirAll("data", 0o700))
	o, err := pebblestore.Open(config(disk))
	must(t, err)
	value := bytes.Repeat([]byte("v"), 1000)
	for i := range 100 {
		must(t, o.DB.Set(fmt.Appendf(nil, "key %03d", i), value, pebble.Sync))
	}
	killed := disk.Cut(vfs.CrashCloneCfg{})
	must(t, o.Close())
	before := tables(t, killed)
	for n := range int32(4) { // the write of the table that fails
		var writes atomic.Int32
		full := disktest.Wrap(killed, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if strings.HasSuffix(op.Path, ".sst") && op.Kind.ReadOrWrite() == errorfs.OpIsWrite && op.Kind != errorfs.OpRemove && writes.Add(1) > n {
				return syscall.ENOSPC
			}
			return nil
		}))
		if o, err := pebblestore.Open(config(full)); err == nil {
			t.Errorf("operation %d: the store is open although its log cannot become a table", n)
			_ = o.Close()
		} else if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("operation %d: %v", n, err)
		}
		if after := tables(t, killed); len(after) != len(before) {
			t.Errorf("operation %d: tables before %v, after %v", n, before, after)
		}
	}
	o, err = pebblestore.Open(config(killed))
	must(t, err)
	for i := range 100 {
		if got, err := pebblestore.Get(o.DB, fmt.Appendf(nil, "key %03d", i)); err != nil || !bytes.Equal(got, value) {
			t.Errorf("key %d: %d bytes, %v", i, len(got), err)
		}
	}
	must(t, o.Close())
}
