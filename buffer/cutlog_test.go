package buffer_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/casetest"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
)

// killedWorld is a data directory as a killed process leaves it. Rows are imported, in staging and open, and only the
// process's notes from before its driver calls tell how long the log of the store was.
type killedWorld struct {
	fs   *disktest.Disk
	opts buffer.Options
	// left is how many rows had left the local level, all how many were acknowledged, with the ids 0, 1, …
	left, all int
	// table returns the ids of the rows in the table.
	table func() []string
}

type stagingDir struct {
	*dir.StagingDir
	down *down
}

func (s stagingDir) Put(ctx context.Context, obj driver.Object, src driver.Content) error {
	if err := s.down.err(true); err != nil {
		return err
	}
	return s.StagingDir.Put(ctx, obj, src)
}

type tableDir struct {
	*dir.TableDir
	down *down
}

func (d tableDir) Import(ctx context.Context, f *driver.File) error {
	if err := d.down.err(false); err != nil {
		return err
	}
	return d.TableDir.Import(ctx, f)
}

func inMemory(t testing.TB, d *down) (buffer.Options, func() []string) {
	mem := buffertest.NewMemory()
	mem.Before = func(_ context.Context, c buffertest.Call) error {
		switch c.Op {
		case buffertest.OpPut:
			return d.err(true)
		case buffertest.OpImport:
			return d.err(false)
		}
		return nil
	}
	return memoryOptions(t, mem), func() []string { return ids(mem, "in.c-test.a") }
}

func inDirs(t *testing.T, d *down) (buffer.Options, func() []string) {
	root := t.TempDir()
	tables := dir.Tables(filepath.Join(root, "tables"))
	opts := memoryOptions(t, nil)
	opts.Staging, opts.Target = stagingDir{dir.Staging(filepath.Join(root, "staging")), d}, tableDir{tables, d}
	return opts, func() (out []string) {
		err := filepath.WalkDir(tables.Path("in.c-test.a"), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || !strings.HasSuffix(path, ".csv") {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			rows, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
			for _, row := range rows[1:] { // after the header
				out = append(out, row[0])
			}
			return err
		})
		must(t, err)
		return out
	}
}

func cutSink(c *buffer.SinkConfig) {
	c.Encoding = driver.None
	c.Upload.Count, c.Import.Count = 5, 100_000
}

func newKilledWorld(t *testing.T, dirs bool) *killedWorld {
	t.Helper()
	d := &down{}
	w := &killedWorld{}
	if dirs {
		w.opts, w.table = inDirs(t, d)
	} else {
		w.opts, w.table = inMemory(t, d)
	}
	disk := disktest.New(t)
	w.opts = localdisk.On(w.opts, disk)
	w.opts.Retry = buffer.Retry{Initial: time.Hour, Max: time.Hour, Probe: time.Hour}
	b, err := buffer.Open("data", w.opts)
	must(t, err)
	s := define(t, b, "a", cutSink)
	// rows appends n rows, one per commit, so that the log has a place to cut after each.
	rows := func(n int) {
		for range n {
			put(t, b, s, w.all, w.all+1)
			w.all++
		}
	}
	staged := func(n int64) {
		eventually(t, func() bool { st, _ := b.Sink("a").Stats(); return st.Staging.Rows == n })
	}
	rows(12)
	staged(10)
	rows(8)
	must(t, b.Sink("a").CloseFile(t.Context(), 1))
	eventually(t, func() bool { st, _ := b.Sink("a").Stats(); return st.Target.Rows == 20 && st.Staging.Rows == 0 })
	d.target.Store(true)
	rows(13)
	must(t, b.Sink("a").CloseFile(t.Context(), 1))
	staged(13)
	rows(15)
	staged(28)
	w.left = w.all
	rows(3)
	d.staging.Store(true) // the killed process does nothing from here on
	w.fs = disk.Cut(vfs.CrashCloneCfg{})
	must(t, b.Close())
	d.staging.Store(false)
	d.target.Store(false)
	w.opts = localdisk.On(w.opts, w.fs)
	w.opts.Retry = buffer.Retry{Initial: time.Millisecond, Max: 5 * time.Millisecond}
	return w
}

// log returns the path of the log of the store and its content, without the zeros at its end.
func (w *killedWorld) log(t *testing.T) (path string, content []byte) {
	t.Helper()
	names, err := w.fs.List("data")
	must(t, err)
	for _, name := range names {
		if strings.HasSuffix(name, ".log") {
			path = "data/" + name
		}
	}
	content, err = w.fs.Read(path)
	must(t, err)
	return path, bytes.TrimRight(content, "\x00")
}

// check opens the directory, lets everything flow, and returns how many rows are missing, and the damage.
func (w *killedWorld) check(t *testing.T) (missing int, list []buffer.Damage) {
	t.Helper()
	b, err := buffer.Open("data", w.opts)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	defer func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	if list, err = b.Damaged(t.Context()); err != nil {
		t.Fatal(err)
	}
	atOnce := len(list)
	const fresh = 8
	put(t, b, define(t, b, "a", cutSink), w.all, w.all+fresh)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := b.Sink("a").Flush(ctx); err != nil {
		t.Errorf("flush: %v", err)
	}
	verify(t, b)
	if list, err = b.Damaged(t.Context()); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, id := range w.table() {
		if seen[id]++; seen[id] == 2 {
			t.Errorf("row %s is there twice", id)
		}
	}
	for i := range w.all + fresh {
		if seen[fmt.Sprint(i)] > 0 {
			continue
		}
		missing++
		switch {
		case i >= w.all:
			t.Errorf("row %d, which came after the cut, is missing", i)
		case i < w.left && atOnce == 0:
			t.Errorf("row %d, which had left the local level, is missing, and the opening reported nothing", i)
		}
	}
	return missing, list
}

// The end of the log of a killed process may be cut, or rot, so that it looks like a write that was never acknowledged. The
// records are then older than the requests that the drivers got. That is found at the opening, nothing hangs, nothing is
// doubled, and no id is given to other rows.
func TestCutLogOfAKilledProcess(t *testing.T) {
	places := casetest.Of(60, 15, 5)
	for _, dirs := range []bool{false, true} {
		for _, flip := range []bool{false, true} {
			for i := range places {
				t.Run(fmt.Sprintf("dirs=%v/flip=%v/%d", dirs, flip, i), func(t *testing.T) {
					t.Parallel()
					w := newKilledWorld(t, dirs)
					path, content := w.log(t)
					at := len(content) * i / places
					content = bytes.Clone(content)
					if flip {
						content[at] ^= 4
					} else {
						content = content[:at]
					}
					writeFile(t, w.fs, path, content)
					missing, list := w.check(t)
					t.Logf("cut at %d: %d of %d rows are missing, damage %+v", at, missing, w.all, summary(list))
				})
			}
		}
	}
}

// A kill alone is no damage, and loses nothing.
func TestKillIsNoDamage(t *testing.T) {
	for _, dirs := range []bool{false, true} {
		w := newKilledWorld(t, dirs)
		if missing, list := w.check(t); missing > 0 || len(list) > 0 {
			t.Errorf("got %d missing rows and damage %+v, want none", missing, summary(list))
		}
	}
}

func writeFile(t *testing.T, disk *disktest.Disk, path string, data []byte) {
	t.Helper()
	f, err := disk.Create(path, vfs.WriteCategoryUnspecified)
	must(t, err)
	_, err = f.Write(data)
	must(t, errors.Join(err, f.Sync(), f.Close()))
}
