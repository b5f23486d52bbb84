package pebblestore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/pebblestore"
	"github.com/forebay/forebay/internal/synctest"
)

// oneTable opens a store whose keys are in one table, and returns its bytes on the disk.
func oneTable(t *testing.T, found func(error)) (o *pebblestore.Opening, disk *disktest.Disk, path string, data []byte) {
	t.Helper()
	disk = disktest.New(t)
	must(t, pebblestore.MakeDir(disk, "data"))
	o, err := pebblestore.Open(pebblestore.Config{Dir: "data", FS: disk, Log: slog.New(slog.DiscardHandler), MemTable: 1 << 20, Corrupted: found})
	must(t, err)
	t.Cleanup(func() { _ = o.Close() })
	for n := range 200 {
		must(t, o.DB.Set(fmt.Appendf(nil, "key %03d", n), bytes.Repeat([]byte{byte(n), byte(7 * n)}, 500), pebble.NoSync))
	}
	must(t, o.DB.Flush())
	names, err := disk.List("data")
	must(t, err)
	for _, name := range names {
		if strings.HasSuffix(name, ".sst") {
			path = disk.PathJoin("data", name)
		}
	}
	if data, err = disk.Read(path); err != nil {
		t.Fatal(err)
	}
	return o, disk, path, data
}

// Any byte of a table that has changed is found, whatever it stands for.
func TestCheckTable(t *testing.T) {
	_, disk, path, data := oneTable(t, nil)
	must(t, pebblestore.CheckTable(disk, path))
	for at := 0; at < len(data); at += max(1, len(data)/500) {
		disk.Rot(path, at)
		if err := pebblestore.CheckTable(disk, path); !errors.As(err, new(*pebblestore.DamageError)) {
			t.Errorf("byte %d of %d has changed: %v", at, len(data), err)
		}
		disk.Rot(path, at)
	}
	if err := pebblestore.CheckTable(disk, path+".none"); err == nil || errors.As(err, new(*pebblestore.DamageError)) {
		t.Errorf("no table: %v", err)
	}
}

// Damage that the database finds by itself, as in a compaction, is reported as well. The database would retry forever, so the owner
// ends the opening.
func TestCorrupted(t *testing.T) {
	told := make(chan error, 1)
	o, disk, path, data := oneTable(t, func(err error) {
		select {
		case told <- err:
		default:
		}
	})
	disk.Rot(path, len(data)/2)
	must(t, errors.Join(o.DB.DeleteRange([]byte("key 010"), []byte("key 020"), pebble.NoSync), o.DB.Set([]byte("key 100"), nil, pebble.NoSync)))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	compacted := make(chan error)
	go func() { compacted <- o.DB.Compact(ctx, []byte("a"), []byte("z"), false) }()
	select {
	case err := <-told:
		if !pebblestore.IsDamage(err) {
			t.Errorf("told of %v", err)
		}
	case err := <-compacted:
		t.Fatalf("compacted, and nobody was told: %v", err)
	}
	o.End(errors.New("the end"))
	cancel()
	if err := <-compacted; err == nil {
		t.Error("damaged bytes were compacted")
	}
	_ = o.Close() // its failure is known
}

// Pebble reads the footer of each table after Open, and again at once if it is damaged. That must neither fill the log nor keep a core busy.
func TestDamagedFooter(t *testing.T) {
	first, disk, path, data := oneTable(t, nil)
	must(t, first.Close())
	disk.Rot(path, len(data)-1)
	synctest.Test(t, func(t *testing.T) {
		var log lines
		c := config(disk)
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
		// Each attempt opens the table, and ends with the damage. Without a pause the time of the bubble stands still. The 10,000th repairs the table.
		var opened atomic.Int64
		c.FS = disktest.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpFileReadAt && strings.HasSuffix(op.Path, ".sst") && opened.Add(1) == 10_000 {
				disk.Rot(path, len(data)-1)
			}
			return nil
		}))
		o, err := pebblestore.Open(c)
		must(t, err)
		time.Sleep(10 * time.Minute)
		if n, logged := opened.Load(), log.n.Load(); n == 0 || n > 2_000 || logged == 0 || logged > 11 {
			t.Errorf("in 10 minutes, tables with a damaged footer were read %d times, and %d lines logged; want 1 to 2,000 reads, and at most a line a minute", n, logged)
		}
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	})
}

// lines counts the lines of a log.
type lines struct{ n atomic.Int64 }

func (l *lines) Write(p []byte) (int, error) {
	l.n.Add(1)
	return len(p), nil
}
