package buffer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/trigger"
)

// A checkpoint is made while rows are on every level. Then the original continues, both finish, and the copy takes
// separate rows. Every row is in the table once, and no id was given twice.
func TestCheckpointIsRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		gate := &gated{}
		gate.open.Store(true)
		mem.Before = gate.before
		opts := memoryOptions(t, mem)
		b := openAt(t, "data", opts)
		s := define(t, b, "a")
		put(t, b, s, 0, 10)
		flush(t, b, "a") // rows in the table

		gate.open.Store(false)
		put(t, b, s, 10, 20)
		must(t, b.Sink("a").CloseFile(t.Context(), trigger.Requested))
		synctest.Wait() // rows in staging
		put(t, b, s, 20, 30)
		before := b.Stats()
		must(t, b.Checkpoint(t.Context(), "backup/one"))
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
		synctest.Wait() // the slices of the last files are deleted after their imports
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
	opts := memoryOptions(t, mem)
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
		must(t, b.Checkpoint(t.Context(), dir))
		backups = append(backups, backup{dir, known})
	}
	stop.Store(true)
	wg.Wait()
	if err := b.Close(); err != nil { // the original dies, and its rows of after the checkpoint are lost
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

// The store rewrites its list of tables with the first change after an opening, and a log that is read is one. Where a
// power cut during an opening has left no log, its copy would be without a list.
func TestCheckpointOfAStoreWithoutALog(t *testing.T) {
	disk := disktest.New(t)
	opts := memoryOptions(t, buffertest.NewMemory())
	opts = localdisk.On(opts, disk)
	b, err := buffer.Open("data", opts)
	must(t, err)
	put1(t, b, define(t, b, "a"), 1, "v")
	disk = disk.Cut(vfs.CrashCloneCfg{})
	must(t, b.Close())

	opts = localdisk.On(opts, disk)
	if b, err = buffer.Open("data", opts); err != nil {
		t.Fatal(err)
	}
	disk = disk.Cut(vfs.CrashCloneCfg{})
	must(t, b.Close())
	names, err := disk.List("data")
	must(t, err)
	for _, name := range names {
		if strings.HasSuffix(name, ".log") { // made last, and still empty
			must(t, disk.Remove("data/"+name))
		}
	}

	opts = localdisk.On(opts, disk)
	if b, err = buffer.Open("data", opts); err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for _, dir := range []string{"first", "second"} {
		must(t, b.Checkpoint(t.Context(), dir))
		i, err := buffer.Inspect(dir, localdisk.On(buffer.InspectOptions{}, disk))
		must(t, err)
		report, err := i.Verify(t.Context())
		if err != nil || !report.OK() || report.Sinks[0].Accepted != 1 {
			t.Errorf("%s: got %v %+v, want no error and report.OK() and report.Sinks[0].Accepted == 1", dir, err, report)
		}
		if err := i.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestCheckpointIntoAPathWithASlash(t *testing.T) {
	mem := buffertest.NewMemory()
	b, err := buffer.Open(filepath.Join(t.TempDir(), "local"), buffer.Options{Staging: mem, Target: mem})
	must(t, err)
	defer b.Close()
	must(t, b.Checkpoint(t.Context(), t.TempDir()+"/copy/"))
}

// A driver learns that a checkpoint contains a file, because the other engine may have imported it without a note that this one has.
func TestDriverKnowsCopiedFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		opts := memoryOptions(t, mem)
		target := &copies{Memory: mem, copied: map[string]bool{}}
		opts.Target = target
		b := openAt(t, "data", opts)
		s := define(t, b, "a")
		put(t, b, s, 0, 3)
		must(t, b.Checkpoint(t.Context(), "backup"))
		put(t, b, s, 3, 6)
		flush(t, b, "a")
		if len(target.copied) != 2 || !target.copied["0"] || target.copied["3"] {
			t.Errorf("the original has copied files by their first rows: %v", target.copied)
		}
		clear(target.copied)
		c := openAt(t, "backup", opts)
		flush(t, c, "a")
		if copied, seen := target.copied["0"]; seen && !copied {
			t.Error("the driver does not learn in the copy that the file is one")
		}
		wantIDs(t, mem, "in.c-test.a", 0, 6)
		closeBuffer(t, b)
		closeBuffer(t, c)
	})
}

// copies notes File.Copied of each import by the first id of the file.
type copies struct {
	*buffertest.Memory
	copied map[string]bool
}

func (c *copies) Import(ctx context.Context, f *driver.File) error {
	rows, err := f.OpenRows(ctx, f.Slices[0])
	if err != nil {
		return err
	}
	defer rows.Close()
	text, err := io.ReadAll(rows)
	if err != nil {
		return err
	}
	c.copied[strings.Split(string(text), `"`)[1]] = f.Copied
	return c.Memory.Import(ctx, f)
}
