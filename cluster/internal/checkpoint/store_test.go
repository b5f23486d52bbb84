package checkpoint_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/cluster/internal/checkpoint"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/parts"
	"github.com/forebay/forebay/internal/synctest"
)

var twoTables = files{"local/000001.sst": "table one", "local/000002.sst": "table two", "local/MANIFEST": "list", "local/000003.log": ""}

// On the real disk and the staging that users have.
func TestSaveAndFetch(t *testing.T) {
	tmp := t.TempDir()
	s := checkpoint.New(dir.Staging(filepath.Join(tmp, "staging")), newOwners(), checkpoint.Options{})
	write(t, vfs.Default, filepath.Join(tmp, "snapshot"), twoTables)
	m, ref, err := s.Save(t.Context(), filepath.Join(tmp, "snapshot"),
		checkpoint.Manifest{Instance: instance, Epoch: 3, Log: "id", Number: 7, Trim: 9}, nil)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := s.Load(t.Context(), instance, ref)
	if err != nil {
		t.Fatal(err)
	}
	if loaded.Epoch != 3 || loaded.Log != "id" || loaded.Number != 7 || loaded.Trim != 9 {
		t.Errorf("loaded %+v", loaded)
	}
	if err := s.Fetch(t.Context(), loaded, filepath.Join(tmp, "new", "folder")); err != nil {
		t.Fatal(err)
	}
	if got := read(t, vfs.Default, filepath.Join(tmp, "new", "folder")); fmt.Sprint(got) != fmt.Sprint(twoTables) {
		t.Errorf("fetched %v, want %v", got, twoTables)
	}
	if err := s.Clear(t.Context(), instance, m.Epoch, ref); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(tmp, "staging", "*.slice")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// Only the files that are new are stored, and before them the manifest, by which they are found after a crash.
func TestSaveStoresWhatIsNew(t *testing.T) {
	disk, staging := vfs.NewMem(), buffertest.NewMemory()
	s := newStore(staging, disk, checkpoint.Options{})
	write(t, disk, snapshot, twoTables)
	first, ref := save(t, s, 1, nil)
	puts := func(from int) (names []string) {
		for _, call := range staging.Calls()[from:] {
			if call.Op != buffertest.OpPut {
				t.Errorf("Save made the call %v", call)
			}
			names = append(names, call.ID)
		}
		return names
	}
	if names := puts(0); len(names) != 4 || names[0] != ref {
		t.Errorf("stored %v, want %s and then three files", names, ref)
	}
	calls := len(staging.Calls())
	now := files{"local/000001.sst": "table one", "local/000004.sst": "table 4", "local/MANIFEST": "long list", "local/000005.log": ""}
	write(t, disk, snapshot, now)
	second, ref2 := save(t, s, 2, &first)
	if names := puts(calls); len(names) != 3 || names[0] != ref2 {
		t.Errorf("stored %v, want %s and then two files", names, ref2)
	}
	expect(t, t.Context(), staging, ref, twoTables)
	expect(t, t.Context(), staging, ref2, now)

	// The same again stores nothing else.
	before := objects(staging)
	if _, again := save(t, s, 2, &first); again != ref2 || fmt.Sprint(objects(staging)) != fmt.Sprint(before) {
		t.Errorf("the ref is %s, want %s; objects %v, want %v", again, ref2, objects(staging), before)
	}
	if err := s.Tidy(t.Context(), instance, 1, &second, &first); err != nil {
		t.Fatal(err)
	}
	expect(t, t.Context(), staging, ref2, now)
	if want := objectsOf(second, ref2); fmt.Sprint(objects(staging)) != fmt.Sprint(want) {
		t.Errorf("objects %v, want %v", objects(staging), want)
	}
}

// backwards is a staging that deletes the last object of a call first, as it may.
type backwards struct{ driver.Staging }

func (s backwards) Delete(ctx context.Context, objs ...driver.Object) error {
	objs = slices.Clone(objs)
	slices.Reverse(objs)
	return s.Staging.Delete(ctx, objs...)
}

// A Clear that fails can be repeated by a node that only has the note.
func TestClearDeletesTheManifestLast(t *testing.T) {
	disk, staging := vfs.NewMem(), buffertest.NewMemory()
	var deletes atomic.Int64
	staging.Before = func(_ context.Context, call buffertest.Call) error {
		if call.Op == buffertest.OpDelete {
			if n := deletes.Add(1); n == 2 || n == 6 { // one of the files, and the manifest
				return errInjected
			}
		}
		return nil
	}
	s := newStore(backwards{staging}, disk, checkpoint.Options{})
	write(t, disk, snapshot, twoTables)
	_, ref := save(t, s, 1, nil)
	for failed := 0; ; failed++ {
		if _, err := s.Load(t.Context(), instance, ref); err != nil {
			t.Fatalf("after %d failures: %v", failed, err)
		}
		err := s.Clear(t.Context(), instance, 1, "")
		if err == nil {
			if left := staging.Objects(); len(left) > 0 || failed != 2 {
				t.Errorf("left: %v after %d failures", left, failed)
			}
			return
		}
		if !errors.Is(err, errInjected) {
			t.Fatal(err)
		}
	}
}

// A checkpoint that could not be loaded is still named by the record.
func TestSaveWithoutBeforeDeletesNothing(t *testing.T) {
	disk, staging := vfs.NewMem(), buffertest.NewMemory()
	s := newStore(staging, disk, checkpoint.Options{})
	write(t, disk, snapshot, twoTables)
	first, _ := save(t, s, 1, nil)
	_, ref := save(t, s, 2, &first)
	now := files{"local/000004.sst": "table 4"}
	write(t, disk, snapshot, now)
	third, ref3 := save(t, s, 3, nil)
	expect(t, t.Context(), staging, ref, twoTables)
	expect(t, t.Context(), staging, ref3, now)
	// Once the record names the new one, the next Save deletes all others.
	fourth, ref4 := save(t, s, 4, &third)
	want := objectsOf(fourth, ref4)
	want[ref3] = true
	if fmt.Sprint(objects(staging)) != fmt.Sprint(want) {
		t.Errorf("objects %v, want %v", objects(staging), want)
	}
}

// The folder of a node outlives an instance of which it was fenced. The adopter may use the objects noted there.
func TestSaveLeavesObjectsOfAnotherInstanceAlone(t *testing.T) {
	disk, staging := vfs.NewMem(), buffertest.NewMemory()
	s := newStore(staging, disk, checkpoint.Options{})
	write(t, disk, snapshot, twoTables)
	_, ref := save(t, s, 1, nil)
	var before *checkpoint.Manifest
	for range 3 {
		m, _, err := s.Save(t.Context(), snapshot, checkpoint.Manifest{Instance: "another", Epoch: 1}, before)
		if err != nil {
			t.Fatal(err)
		}
		before = &m
	}
	expect(t, t.Context(), staging, ref, twoTables)
}

func TestSaveRefusesAForeignBefore(t *testing.T) {
	disk, staging := vfs.NewMem(), buffertest.NewMemory()
	s := newStore(staging, disk, checkpoint.Options{})
	write(t, disk, snapshot, twoTables)
	m, _ := save(t, s, 1, nil)
	for _, before := range []*checkpoint.Manifest{{Instance: instance}, {}} {
		if _, _, err := s.Save(t.Context(), snapshot, checkpoint.Manifest{Instance: instance, Epoch: 1}, before); err == nil {
			t.Errorf("Save took the checkpoint before %+v, which was neither saved nor loaded", before)
		}
	}
	for _, now := range []checkpoint.Manifest{{Instance: "another", Epoch: 1}, {Instance: instance}, {Instance: instance, Epoch: math.MaxUint64}} {
		if _, _, err := s.Save(t.Context(), snapshot, now, &m); err == nil {
			t.Errorf("Save of %+v succeeded", now)
		}
	}
}

// A staging allows 64 bytes.
func TestNamesFitAStaging(t *testing.T) {
	disk, staging := vfs.NewMem(), buffertest.NewMemory()
	write(t, disk, snapshot, twoTables)
	m := checkpoint.Manifest{Instance: strings.Repeat("Unde_", 25), Epoch: math.MaxInt64}
	if _, _, err := newStore(staging, disk, checkpoint.Options{}).Save(t.Context(), snapshot, m, nil); err != nil {
		t.Fatal(err)
	}
	for _, o := range staging.Objects() {
		if err := errors.Join(parts.CheckID("object", o.ID), parts.CheckID("file", o.FileID)); err != nil || len(o.ID) != 64 {
			t.Errorf("object %+v: %v", o, err)
		}
	}
}

// Several files move at once, and the first that cannot be stored ends the others.
func TestFilesMoveAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, staging := vfs.NewMem(), buffertest.NewMemory()
		many := files{}
		for i := range 10 {
			many[fmt.Sprintf("local/%06d.sst", i)] = fmt.Sprint(i)
		}
		write(t, disk, snapshot, many)
		var calls atomic.Int32
		staging.Before = func(ctx context.Context, _ buffertest.Call) error {
			switch calls.Add(1) {
			case 1: // the manifest
				return nil
			case 4:
				time.Sleep(time.Second)
				return driver.Permanent(errInjected)
			}
			<-ctx.Done()
			return ctx.Err()
		}
		begin := time.Now()
		_, _, err := newStore(staging, disk, checkpoint.Options{Parallel: 3}).Save(t.Context(), snapshot,
			checkpoint.Manifest{Instance: instance, Epoch: 1}, nil)
		if !errors.Is(err, errInjected) || calls.Load() != 4 || time.Since(begin) != time.Second {
			t.Errorf("got %v after %d calls and %s, want %v after 4 and 1s", err, calls.Load(), time.Since(begin), errInjected)
		}
	})
}

func TestCallsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, staging := vfs.NewMem(), buffertest.NewMemory()
		s := newStore(staging, disk, checkpoint.Options{CallTimeout: time.Minute})
		write(t, disk, snapshot, twoTables)
		m, ref := save(t, s, 1, nil)
		write(t, disk, snapshot, files{"local/000003.sst": "table three"})
		next, _ := save(t, s, 2, &m)
		var hang atomic.Bool
		staging.Before = func(ctx context.Context, _ buffertest.Call) error {
			if !hang.Load() {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}
		hang.Store(true)
		begin := time.Now()
		_, _, err := s.Save(t.Context(), snapshot, checkpoint.Manifest{Instance: instance, Epoch: 2}, nil)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Minute {
			t.Errorf("Save: %v after %s", err, time.Since(begin))
		}
		begin = time.Now()
		if err := s.Tidy(t.Context(), instance, 2, &next, &m); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Minute {
			t.Errorf("Tidy: %v after %s", err, time.Since(begin))
		}
		begin = time.Now()
		if _, err := s.Load(t.Context(), instance, ref); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) > 5*time.Minute {
			t.Errorf("Load: %v after %s", err, time.Since(begin))
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(90*time.Second, func() { cancel(errInjected) })
		begin = time.Now()
		if err := s.Fetch(ctx, m, "to"); err == nil || time.Since(begin) != 90*time.Second {
			t.Errorf("Fetch: %v after %s", err, time.Since(begin))
		}
		expectNone(t, disk, "to")
	})
}

func TestProgressIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		disk, staging := vfs.NewMem(), buffertest.NewMemory()
		staging.Before = func(context.Context, buffertest.Call) error {
			time.Sleep(4 * time.Second)
			return nil
		}
		all := files{}
		for i := range 7 {
			all[fmt.Sprintf("%d.sst", i)] = strings.Repeat("x", 100)
		}
		write(t, disk, snapshot, all)
		o := checkpoint.Options{Parallel: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))}
		save(t, newStore(staging, disk, o), 8, nil)
		if n := strings.Count(log.String(), "in progress"); n != 2 || !strings.Contains(log.String(), "bytes=300 of=700") {
			t.Errorf("in 32 s the progress was logged %d times: %s", n, &log)
		}
		for _, want := range []string{"checkpoint saved", "stored_files=7", "stored_bytes=700", "took=32s", "number=8"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("%q is not in the log: %s", want, &log)
			}
		}
	})
}

// drain is a staging that discards its input and returns zeros.
type drain struct{ size int64 }

func (drain) Put(_ context.Context, _ driver.Object, src driver.Content) error {
	_, err := src.WriteTo(io.Discard)
	return err
}

func (drain) Delete(context.Context, ...driver.Object) error { return nil }

func (d drain) Open(context.Context, driver.Object) (io.ReadCloser, error) {
	return io.NopCloser(io.LimitReader(zeros{}, d.size)), nil
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// Files go through without being held in memory.
func TestMemoryIsBounded(t *testing.T) {
	const size = 32 << 20
	tmp := t.TempDir()
	f, err := vfs.Default.Create(filepath.Join(tmp, "zeros.sst"), vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = io.Copy(f, io.LimitReader(zeros{}, size))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	s := checkpoint.New(drain{size}, newOwners(), checkpoint.Options{})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	m, _, err := s.Save(t.Context(), tmp, checkpoint.Manifest{Instance: instance, Epoch: 1}, nil)
	if err == nil {
		err = s.Fetch(t.Context(), m, filepath.Join(tmp, "fetched"))
	}
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > size/16 {
		t.Errorf("%d bytes were allocated for a file of %d, want at most %v", got, size, size/16)
	}
}

// noted is a disk that notes which tables are opened.
type noted struct {
	vfs.FS
	opened []string
}

func (d *noted) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if strings.HasSuffix(name, ".sst") {
		d.opened = append(d.opened, path.Base(name))
	}
	return d.FS.Open(name, opts...)
}

// A process reads a table to save it, and not again while it stays as it is. It does not rely on a table that another process has saved under
// that name, because the disk may have been replaced by an older copy, which continues with other tables.
func TestTablesAreReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, staging := vfs.NewMem(), buffertest.NewMemory()
		disk := &noted{FS: mem}
		s := newStore(staging, disk, checkpoint.Options{Parallel: 1})
		expectRead := func(when, want string) {
			t.Helper()
			if got := fmt.Sprint(disk.opened); got != want {
				t.Errorf("%s: %s were opened, want %s", when, got, want)
			}
			disk.opened = nil
		}
		write(t, mem, snapshot, files{"1.sst": "one", "MANIFEST": "a"})
		first, _ := save(t, s, 1, nil)
		expectRead("first", "[1.sst 1.sst]") // to hash it, and to store it
		write(t, mem, snapshot, files{"1.sst": "one", "2.sst": "two", "MANIFEST": "b"})
		second, _ := save(t, s, 2, &first)
		expectRead("another one", "[2.sst 2.sst]")

		time.Sleep(time.Second)
		now := files{"1.sst": "ONE", "2.sst": "two", "MANIFEST": "b"}
		write(t, mem, snapshot, now)
		third, ref := save(t, s, 3, &second)
		expectRead("changed", "[1.sst 2.sst 1.sst]")
		expect(t, t.Context(), staging, ref, now)

		loaded, err := s.Load(t.Context(), instance, ref)
		if err != nil {
			t.Fatal(err)
		}
		save(t, s, 4, &loaded)
		expectRead("another process", "[1.sst 2.sst]")
		save(t, s, 4, &third)
		expectRead("the same", "[]")
	})
}
