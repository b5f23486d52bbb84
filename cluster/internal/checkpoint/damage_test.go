package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/cluster/internal/checkpoint"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/synctest"
)

// changed is a staging whose objects come back changed, some times.
type changed struct {
	driver.Staging
	object string
	change func([]byte) []byte // a nil result means that the object is missing
	times  int
}

func (c *changed) Open(ctx context.Context, obj driver.Object) (io.ReadCloser, error) {
	rc, err := c.Staging.Open(ctx, obj)
	if err != nil || obj.ID != c.object || c.times == 0 {
		return rc, err
	}
	c.times--
	data, err := io.ReadAll(rc)
	if err != nil {
		return nil, err
	}
	if data = c.change(data); data == nil {
		return nil, fmt.Errorf("open %s: %w", obj.ID, fs.ErrNotExist)
	}
	return text(data).Open()
}

var changes = map[string]func([]byte) []byte{
	"missing": func([]byte) []byte { return nil },
	"empty":   func([]byte) []byte { return []byte{} },
	"torn":    func(b []byte) []byte { return b[:len(b)-1] },
	"longer":  func(b []byte) []byte { return append(b, '\n') },
	"flipped": func(b []byte) []byte { b[len(b)/2] ^= 4; return b },
}

// Whatever happens to one object, no node accepts a checkpoint that differs from the saved one. A temporary failure is no damage.
func TestDamageIsFound(t *testing.T) {
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk, staging := vfs.NewMem(), buffertest.NewMemory()
				write(t, disk, snapshot, twoTables)
				m, ref := save(t, newStore(staging, disk, checkpoint.Options{}), 1, nil)
				for object := range objectsOf(m, ref) {
					get := func(times int) (time.Duration, error) {
						begin := time.Now()
						s := newStore(&changed{staging, object, change, times}, disk, checkpoint.Options{})
						m, err := s.Load(t.Context(), instance, ref)
						if err == nil {
							err = s.Fetch(t.Context(), m, "to")
						}
						return time.Since(begin), err
					}
					took, err := get(1000)
					var damage *checkpoint.DamageError
					if !errors.As(err, &damage) || damage.Object != object || took != 7*time.Second {
						t.Errorf("object %s: %v after %s", object, err, took)
					}
					expectNone(t, disk, "to")
					if took, err := get(3); err != nil || took != 7*time.Second {
						t.Errorf("object %s is well at the fourth attempt: %v after %s", object, err, took)
					}
					if err := disk.RemoveAll("to"); err != nil {
						t.Fatal(err)
					}
				}
			})
		})
	}
}

// A staging that is away is no damage.
func TestAStagingThatIsAwayIsNoDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, staging := vfs.NewMem(), buffertest.NewMemory()
		var away atomic.Bool
		staging.Before = func(context.Context, buffertest.Call) error {
			if away.Load() {
				return errInjected
			}
			return nil
		}
		s := newStore(staging, disk, checkpoint.Options{})
		write(t, disk, snapshot, twoTables)
		m, ref := save(t, s, 1, nil)
		away.Store(true)
		if _, err := s.Load(t.Context(), instance, ref); !errors.Is(err, errInjected) || errors.As(err, new(*checkpoint.DamageError)) {
			t.Errorf("Load: %v", err)
		}
		if err := s.Fetch(t.Context(), m, "to"); !errors.Is(err, errInjected) || errors.As(err, new(*checkpoint.DamageError)) {
			t.Errorf("Fetch: %v", err)
		}
		expectNone(t, disk, "to")
	})
}

// A file whose bytes are others than when the manifest was made must not get into staging.
func TestSaveRefusesAFileThatChanges(t *testing.T) {
	for name, now := range map[string]string{"other bytes": "table 2.2", "shorter": "table", "longer": "table two and more"} {
		t.Run(name, func(t *testing.T) {
			disk, staging := vfs.NewMem(), buffertest.NewMemory()
			write(t, disk, snapshot, files{"local/000002.sst": "table two"})
			staging.Before = func(context.Context, buffertest.Call) error {
				write(t, disk, snapshot, files{"local/000002.sst": now})
				return nil
			}
			_, _, err := newStore(staging, disk, checkpoint.Options{}).Save(t.Context(), snapshot,
				checkpoint.Manifest{Instance: instance, Epoch: 1}, nil)
			if err == nil || !strings.Contains(err.Error(), "local/000002.sst") || len(staging.Objects()) > 1 { // the manifest
				t.Errorf("got %v, objects %v, want an error that names local/000002.sst, and at most the manifest", err, staging.Objects())
			}
		})
	}
}

// A driver that knows the size may stop reading before it sees the end.
func TestContentFailsWithItsLastByte(t *testing.T) {
	disk, staging := vfs.NewMem(), buffertest.NewMemory()
	write(t, disk, snapshot, files{"local/000002.sst": "table two"})
	drv := putBySize{staging, func() { write(t, disk, snapshot, files{"local/000002.sst": "table 2.2"}) }}
	_, _, err := newStore(drv, disk, checkpoint.Options{}).Save(t.Context(), snapshot, checkpoint.Manifest{Instance: instance, Epoch: 1}, nil)
	if err == nil || len(staging.Objects()) > 1 { // the manifest
		t.Errorf("got %v, objects %v, want an error and at most the manifest", err, staging.Objects())
	}
}

type putBySize struct {
	driver.Staging
	before func()
}

func (p putBySize) Put(ctx context.Context, obj driver.Object, src driver.Content) error {
	p.before()
	r, err := src.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	data := make([]byte, len("table two"))
	if _, err := io.ReadFull(r, data); err != nil {
		return err
	}
	return p.Staging.Put(ctx, obj, text(data))
}

func TestFetchNeedsANewFolder(t *testing.T) {
	disk, staging := vfs.NewMem(), buffertest.NewMemory()
	s := newStore(staging, disk, checkpoint.Options{})
	write(t, disk, snapshot, twoTables)
	m, _ := save(t, s, 1, nil)
	if err := s.Fetch(t.Context(), m, snapshot); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v, want fs.ErrExist", err)
	}
}

// What Fetch has made is there after a power cut.
func TestFetchIsDurable(t *testing.T) {
	disk, staging := vfs.NewCrashableMem(), buffertest.NewMemory()
	makeDurable(t, disk, "data")
	s := newStore(staging, disk, checkpoint.Options{})
	write(t, disk, snapshot, files{"a/b/1.sst": "one", "a/2.sst": "two", "3": "three", "c/empty": ""})
	m, _ := save(t, s, 1, nil)
	if err := s.Fetch(t.Context(), m, "data/to"); err != nil {
		t.Fatal(err)
	}
	if got := read(t, disk.CrashClone(vfs.CrashCloneCfg{}), "data/to"); len(got) != 4 || got["a/b/1.sst"] != "one" || got["3"] != "three" {
		t.Errorf("after a power cut: %v", got)
	}
}

// A table that the check refuses is not stored, unless nothing better is left. The next checkpoint that has it unread says so too.
func TestSaveChecksTables(t *testing.T) {
	disk, staging := vfs.NewMem(), buffertest.NewMemory()
	write(t, disk, snapshot, twoTables)
	damaged := errors.New("rotten")
	s := newStore(staging, disk, checkpoint.Options{Check: func(_ vfs.FS, path string) error {
		if !strings.HasSuffix(path, ".sst") {
			t.Errorf("%s is no table", path)
		}
		return damaged
	}})
	m := checkpoint.Manifest{Instance: instance, Epoch: 1, Log: "log", Number: 1}
	if _, _, err := s.Save(t.Context(), snapshot, m, nil); !errors.Is(err, damaged) || len(staging.Objects()) > 0 {
		t.Errorf("saved %d objects: %v", len(staging.Objects()), err)
	}
	m.Unchecked = true
	first, ref, err := s.Save(t.Context(), snapshot, m, nil)
	if err != nil {
		t.Fatal(err)
	}
	if loaded, err := s.Load(t.Context(), instance, ref); err != nil || !loaded.Unchecked {
		t.Errorf("it does not say that nobody has checked it: %v", err)
	}
	m.Number, m.Unchecked = 2, false
	if second, _, err := s.Save(t.Context(), snapshot, m, &first); err != nil || !second.Unchecked {
		t.Errorf("the next one does not say it: %v", err)
	}
}
