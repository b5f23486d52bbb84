package buffer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/internal/metertest"
	"github.com/forebay/forebay/trigger"
)

// openAt is open in another folder, for tests that close the buffer themselves.
func openAt(t *testing.T, dir string, opts buffer.Options) *buffer.Buffer {
	t.Helper()
	b, err := buffer.Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() }) // after a failure, so that the bubble ends
	return b
}

// wantAll checks that the table has the rows from, …, to-1, each once. Files may overtake each other.
func wantAll(t *testing.T, mem *buffertest.Memory, table string, from, to int) {
	t.Helper()
	got := ids(mem, table)
	slices.Sort(got)
	if n := len(slices.Compact(slices.Clone(got))); n != len(got) || n != to-from {
		t.Fatalf("table %s has %d rows, %d of them different, want %d", table, len(got), n, to-from)
	}
	for i := from; i < to; i++ {
		if !slices.Contains(got, fmt.Sprint(i)) {
			t.Fatalf("row %d is not in table %s", i, table)
		}
	}
}

func closeBuffer(t *testing.T, b *buffer.Buffer) {
	t.Helper()
	if err := b.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

func flush(t *testing.T, b *buffer.Buffer, sink string) {
	t.Helper()
	if err := b.Flush(t.Context(), sink); err != nil {
		t.Fatal(err)
	}
}

// gated lets imports fail until it is opened.
type gated struct{ open atomic.Bool }

func (g *gated) before(_ context.Context, c buffertest.Call) error {
	if c.Op == buffertest.OpImport && !g.open.Load() {
		return errors.New("not yet")
	}
	return nil
}

// A checkpoint is made while rows are on every level. Then the original goes on, both finish, and the copy takes rows of
// its own: every row is in the table once, and no id was given twice.
func TestCheckpointIsRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		gate := &gated{}
		gate.open.Store(true)
		mem.Before = gate.before
		opts := memoryOptions(mem)
		b := openAt(t, "data", opts)
		s := define(t, b, "a")
		put(t, b, s, 0, 10)
		flush(t, b, "a") // rows in the table

		gate.open.Store(false)
		put(t, b, s, 10, 20)
		if err := b.CloseFile(t.Context(), "a", trigger.Requested); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // rows in staging
		put(t, b, s, 20, 30)
		before := b.Stats()
		if err := b.Checkpoint(t.Context(), "backup/one"); err != nil {
			t.Fatal(err)
		}
		if err := b.Checkpoint(t.Context(), "backup/one"); !errors.Is(err, fs.ErrExist) {
			t.Fatalf("a second checkpoint in the same folder: %v", err)
		}
		put(t, b, s, 30, 40)
		gate.open.Store(true)
		flush(t, b, "a")
		wantAll(t, mem, "in.c-test.a", 0, 40)
		verify(t, b)

		c := openAt(t, "backup/one", opts)
		if got := c.Stats().Sinks[0]; got.Accepted != before.Sinks[0].Accepted {
			t.Fatalf("the copy has accepted %d rows, want %d", got.Accepted, before.Sinks[0].Accepted)
		}
		cs := define(t, c, "a")
		put(t, c, cs, 40, 50)
		flush(t, c, "a")
		wantAll(t, mem, "in.c-test.a", 0, 50)
		verify(t, c)
		put(t, b, s, 50, 60)
		flush(t, b, "a")
		wantAll(t, mem, "in.c-test.a", 0, 60)

		// Once more, so that the restored copy is taken up as any other data directory.
		closeBuffer(t, c)
		c = openAt(t, "backup/one", opts)
		flush(t, c, "a")
		wantAll(t, mem, "in.c-test.a", 0, 60)
		own := func(b *buffer.Buffer) []string {
			var list []string
			for _, f := range b.Stats().Sinks[0].Files {
				list = append(list, f.ID)
			}
			return list
		}
		originals, copies := own(b), own(c)
		if len(originals) != 5 || len(copies) != 4 {
			t.Fatalf("files are %q and %q", originals, copies)
		}
		if !slices.Equal(originals[:3], copies[:3]) {
			t.Errorf("files of before the checkpoint have changed their ids: %q, %q", originals, copies)
		}
		if slices.Contains(originals, copies[3]) || originals[3][:12] == copies[3][:12] {
			t.Errorf("an id of the copy may meet one of the original: %q, %q", originals, copies)
		}
		closeBuffer(t, b)
		closeBuffer(t, c)
		if len(mem.Objects()) != 0 {
			t.Errorf("staging still holds %v", mem.Objects())
		}
	})
}

// Rows that were acknowledged before the call are in a checkpoint, and both engines together import every row once.
func TestCheckpointUnderLoad(t *testing.T) {
	mem := buffertest.NewMemory()
	opts := memoryOptions(mem)
	b := openAt(t, "data", opts)
	small := func(c *buffer.SinkConfig) { c.Upload.Count, c.Import.Count = 20, 100 }
	s := define(t, b, "a", small)

	var wg sync.WaitGroup
	var stop atomic.Bool
	var mu sync.Mutex
	acked := map[string]bool{}
	enough := make(chan struct{})
	for client := range 4 {
		wg.Go(func() {
			for i := 0; !stop.Load(); i++ {
				ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(client*1_000_000+i, "v"), Count: 1})
				if err == nil {
					err = ticket.Wait(t.Context())
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				acked[fmt.Sprint(client*1_000_000+i)] = true
				if len(acked)%500 == 0 {
					select {
					case enough <- struct{}{}:
					default:
					}
				}
				mu.Unlock()
			}
		})
	}
	type backup struct {
		dir   string
		acked map[string]bool
	}
	var backups []backup
	for i := range 3 {
		<-enough
		mu.Lock()
		known := map[string]bool{}
		for id := range acked {
			known[id] = true
		}
		mu.Unlock()
		dir := fmt.Sprintf("backup-%d", i)
		if err := b.Checkpoint(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		backups = append(backups, backup{dir, known})
	}
	stop.Store(true)
	wg.Wait()
	if err := b.Close(); err != nil { // the original dies; its rows of after the checkpoint are lost
		t.Fatal(err)
	}
	check := func(want map[string]bool) {
		t.Helper()
		seen := map[string]int{}
		for _, id := range ids(mem, "in.c-test.a") {
			if seen[id]++; seen[id] > 1 {
				t.Fatalf("row %s is in the table twice", id)
			}
		}
		for id := range want {
			if seen[id] == 0 {
				t.Fatalf("row %s was acknowledged and is not in the table", id)
			}
		}
	}
	for _, k := range backups {
		c := openAt(t, k.dir, opts)
		flush(t, c, "a")
		check(k.acked)
		verify(t, c)
		closeBuffer(t, c)
	}
	b = openAt(t, "data", opts)
	flush(t, b, "a")
	check(acked)
	closeBuffer(t, b)
}

// snapshot reads a folder of the real disk.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		all[path] = info.Mode().String()
		if d.Type().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			all[path] += " " + info.ModTime().String() + string(data)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func wantUntouched(t *testing.T, before, after map[string]string) {
	t.Helper()
	for path := range after {
		if before[path] != after[path] {
			t.Errorf("%s was changed or created", path)
		}
	}
	for path := range before {
		if _, ok := after[path]; !ok {
			t.Errorf("%s was removed", path)
		}
	}
}

// diskOptions work on the real disk.
func diskOptions(mem *buffertest.Memory) buffer.Options {
	return buffer.Options{Staging: mem, Target: mem, MemTableBytes: 1 << 20}
}

func TestUnknownFormatIsRefusedUntouched(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "local")
	mem := buffertest.NewMemory()
	b := openAt(t, dir, diskOptions(mem))
	put(t, b, define(t, b, "a"), 0, 10)
	closeBuffer(t, b)
	for _, version := range []string{"2\n", "1000000\n", "", "one", "1 2"} {
		if err := os.WriteFile(filepath.Join(dir, "forebay-format"), []byte(version), 0o600); err != nil {
			t.Fatal(err)
		}
		before := snapshot(t, dir)
		var format *buffer.FormatError
		if _, err := buffer.Open(dir, diskOptions(mem)); !errors.As(err, &format) || format.Found != strings.TrimSpace(version) {
			t.Errorf("open of format %q: %v", version, err)
		}
		if _, err := buffer.Inspect(dir, buffer.InspectOptions{}); !errors.As(err, &format) {
			t.Errorf("inspect of format %q: %v", version, err)
		}
		wantUntouched(t, before, snapshot(t, dir))
	}
}

func TestDataDirectoryIsPrivate(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "deep", "local")
	b := openAt(t, dir, diskOptions(buffertest.NewMemory()))
	copied := filepath.Join(parent, "backup", "local")
	if err := b.Checkpoint(t.Context(), copied); err != nil {
		t.Fatal(err)
	}
	closeBuffer(t, b)
	for _, d := range []string{dir, filepath.Dir(dir), copied, filepath.Dir(copied)} {
		info, err := os.Stat(d)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o700 {
			t.Errorf("%s has the mode %o, want 700", d, info.Mode().Perm())
		}
	}
}

func TestInspect(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "local")
	if _, err := buffer.Inspect(dir, buffer.InspectOptions{}); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("inspect of nothing: %v", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Fatal("the folder was created")
	}
	mem := buffertest.NewMemory()
	mem.Before = func(_ context.Context, c buffertest.Call) error {
		if c.Op == buffertest.OpImport {
			return buffer.Permanent(errors.New("not yet"))
		}
		return nil
	}
	b := openAt(t, dir, diskOptions(mem))
	s := define(t, b, "a", func(c *buffer.SinkConfig) { c.Table.Columns = []string{"id", `the "value"`} })
	put(t, b, s, 0, 3)
	var held *buffer.HeldError
	if err := b.Flush(t.Context(), "a"); !errors.As(err, &held) {
		t.Fatalf("flush: %v", err)
	}
	put(t, b, s, 3, 5)
	var inUse *buffer.InUseError
	if _, err := buffer.Inspect(dir, buffer.InspectOptions{}); !errors.As(err, &inUse) {
		t.Fatalf("inspect of a running engine: %v", err)
	}
	closeBuffer(t, b)

	before := snapshot(t, dir)
	i, err := buffer.Inspect(dir, buffer.InspectOptions{Staging: mem})
	if err != nil {
		t.Fatal(err)
	}
	st := i.Stats().Sinks[0]
	if st.Accepted != 5 || st.Local.Rows != 2 || st.Staging.Rows != 3 || len(st.Files) != 2 || st.Files[0].RetryReason != "not yet" {
		t.Errorf("stats are %+v", st)
	}
	list := i.Slices()
	if len(list) != 2 || list[0].State != buffer.SliceUploaded || list[1].State != buffer.SliceWriting || list[0].Level.Rows != 3 {
		t.Errorf("slices are %+v", list)
	}
	report, err := i.Verify(t.Context())
	if err != nil || !report.OK() || report.Sinks[0].Local != 2 {
		t.Errorf("verify: %+v, %v", report, err)
	}
	for n, want := range []string{
		"\"id\",\"the \"\"value\"\"\"\n\"0\",\"v\"\n\"1\",\"v\"\n\"2\",\"v\"\n",
		"\"id\",\"the \"\"value\"\"\"\n\"3\",\"v\"\n\"4\",\"v\"\n",
	} {
		var out bytes.Buffer
		if err := i.WriteRows(t.Context(), &out, list[n].ID); err != nil || out.String() != want {
			t.Errorf("rows of slice %d: %q, %v", n, out.String(), err)
		}
	}
	if err := i.WriteRows(t.Context(), io.Discard, "no-such"); err == nil {
		t.Error("an unknown slice was exported")
	}
	if err := i.Close(); err != nil {
		t.Fatal(err)
	}
	after := snapshot(t, dir)
	lock := filepath.Join(dir, "LOCK")
	after[lock] = before[lock] // taking it changes its time
	wantUntouched(t, before, after)
}

// waitingFile returns the id of the first file that is not in its table.
func waitingFile(t *testing.T, b *buffer.Buffer) string {
	t.Helper()
	for _, f := range b.Stats().Sinks[0].Files {
		if f.State == buffer.FileWriting || f.State == buffer.FileClosing || f.State == buffer.FileImporting {
			return f.ID
		}
	}
	t.Fatal("no file waits")
	return ""
}

func TestDiscard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		gate := &gated{}
		mem.Before = gate.before
		b := open(t, memoryOptions(mem))
		s := define(t, b, "a")

		put(t, b, s, 0, 5)
		barrier := make(chan error)
		go func() { barrier <- b.Flush(t.Context(), "a") }()
		synctest.Wait() // until the import has failed
		id := waitingFile(t, b)
		if err := b.Discard(t.Context(), "a", id); err != nil {
			t.Fatal(err)
		}
		var held *buffer.HeldError
		if err := <-barrier; !errors.As(err, &held) {
			t.Errorf("flush of a file that was discarded: %v", err)
		}
		for what, err := range map[string]error{
			"twice":      b.Discard(t.Context(), "a", id),
			"no file":    b.Discard(t.Context(), "a", "x-f1"),
			"no sink":    b.Discard(t.Context(), "b", id),
			"wrong sink": func() error { define(t, b, "b"); return b.Discard(t.Context(), "b", id) }(),
		} {
			want := buffer.ErrUnknownFile
			if what == "no sink" {
				want = buffer.ErrUnknownSink
			}
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", what, err, want)
			}
		}

		put(t, b, s, 5, 7) // rows that are still local
		if err := b.Discard(t.Context(), "a", waitingFile(t, b)); err != nil {
			t.Fatal(err)
		}
		put(t, b, s, 7, 10)
		gate.open.Store(true)
		flush(t, b, "a")
		synctest.Wait() // until the clean-up
		wantIDs(t, mem, "in.c-test.a", 7, 10)
		st := b.Stats()
		if a := st.Sinks[0]; a.Discarded.Rows != 7 || a.Accepted != 10 || a.Target.Rows != 3 || st.LocalBytes != 0 {
			t.Errorf("stats are %+v, %d local bytes", a, st.LocalBytes)
		}
		if n := len(mem.Objects()); n != 0 {
			t.Errorf("staging still holds %d objects", n)
		}
		verify(t, b)
	})
}

// An import that runs while its file is to be discarded decides: its rows are in the table.
func TestDiscardWaitsForARunningImport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		proceed := make(chan struct{})
		mem.Before = func(_ context.Context, c buffertest.Call) error {
			if c.Op == buffertest.OpImport {
				<-proceed
			}
			return nil
		}
		b := open(t, memoryOptions(mem))
		put(t, b, define(t, b, "a"), 0, 5)
		if err := b.CloseFile(t.Context(), "a", trigger.Requested); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		discarded := make(chan error)
		go func() { discarded <- b.Discard(t.Context(), "a", waitingFile(t, b)) }()
		synctest.Wait()
		close(proceed)
		if err := <-discarded; !errors.Is(err, buffer.ErrUnknownFile) {
			t.Errorf("discard of a file that was being imported: %v", err)
		}
		wantIDs(t, mem, "in.c-test.a", 0, 5)
		verify(t, b)
	})
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		gate := &gated{}
		mem.Before = gate.before
		meter := metertest.New()
		opts := memoryOptions(mem)
		opts.Meter, opts.MaxDiskBytes = meter, 1<<20
		b := openAt(t, "data", opts)
		s := define(t, b, "a", func(c *buffer.SinkConfig) { c.Upload.Count = 3 })
		put(t, b, s, 0, 3)
		put(t, b, s, 3, 5)
		time.Sleep(10 * time.Second)
		want := func(values map[string]float64) {
			t.Helper()
			got := meter.Collect()
			for k, v := range values {
				if g, ok := got[k]; !ok || g != v {
					t.Errorf("%s = %v, want %v", k, g, v)
				}
			}
			if t.Failed() {
				t.Fatal(got)
			}
		}
		want(map[string]float64{
			"forebay.rows.accepted{sink=a}":                          5,
			"forebay.rows.imported{sink=a}":                          0,
			"forebay.rows.waiting{level=local,sink=a}":               2,
			"forebay.rows.waiting{level=staging,sink=a}":             3,
			"forebay.rows.age{sink=a}":                               10,
			"forebay.files{sink=a,state=writing}":                    1,
			"forebay.files{sink=a,state=importing}":                  0,
			"forebay.triggers{reason=count,sink=a,step=upload}":      1,
			"forebay.driver.duration{outcome=ok,sink=a,step=upload}": 1,
			"forebay.disk.limit{}":                                   1 << 20,
			"forebay.memory.size{}":                                  0,
			"forebay.overloads{resource=memory}":                     0,
		})
		if err := b.CloseFile(t.Context(), "a", trigger.Requested); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		want(map[string]float64{
			"forebay.files{sink=a,state=importing}":                     1,
			"forebay.files.held{sink=a}":                                1,
			"forebay.triggers{reason=requested,sink=a,step=import}":     1,
			"forebay.driver.duration{outcome=retry,sink=a,step=import}": 1,
		})
		gate.open.Store(true)
		flush(t, b, "a")
		put(t, b, s, 5, 6)
		if err := b.Discard(t.Context(), "a", waitingFile(t, b)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		want(map[string]float64{
			"forebay.rows.imported{sink=a}":     5,
			"forebay.rows.discarded{sink=a}":    1,
			"forebay.rows.age{sink=a}":          0,
			"forebay.files.held{sink=a}":        0,
			"forebay.delivery.duration{sink=a}": 1,
			"forebay.disk.size{}":               0,
		})
		if n := meter.Collect()["forebay.commit.duration{}"]; n < 5 {
			t.Errorf("%v commits were measured", n)
		}
		closeBuffer(t, b)
		if n := meter.Callbacks(); n != 0 {
			t.Errorf("%d callbacks are left after Close", n)
		}
	})
}

// The store writes its list of tables anew with the first change after an opening, and a log that is read is one. Where a
// power cut during an opening has left no log, its copy would be without a list.
func TestCheckpointOfAStoreWithoutALog(t *testing.T) {
	disk := vfs.NewCrashableMem()
	opts := memoryOptions(buffertest.NewMemory())
	opts.FS = disk
	b, err := buffer.Open("data", opts)
	if err != nil {
		t.Fatal(err)
	}
	put1(t, b, define(t, b, "a"), 1, "v")
	disk = disk.CrashClone(vfs.CrashCloneCfg{})
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}

	opts.FS = disk
	if b, err = buffer.Open("data", opts); err != nil {
		t.Fatal(err)
	}
	disk = disk.CrashClone(vfs.CrashCloneCfg{})
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := disk.List("data")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".log") { // made last, and still empty
			if err := disk.Remove("data/" + name); err != nil {
				t.Fatal(err)
			}
		}
	}

	opts.FS = disk
	if b, err = buffer.Open("data", opts); err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for _, dir := range []string{"first", "second"} {
		if err := b.Checkpoint(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		i, err := buffer.Inspect(dir, buffer.InspectOptions{FS: disk})
		if err != nil {
			t.Fatal(err)
		}
		report, err := i.Verify(t.Context())
		if err != nil || !report.OK() || report.Sinks[0].Accepted != 1 {
			t.Errorf("%s: %v %+v", dir, err, report)
		}
		if err := i.Close(); err != nil {
			t.Error(err)
		}
	}
}
