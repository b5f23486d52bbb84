package buffer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/trigger"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var columns = []string{"id", "value"}

// open opens a buffer that is closed with the test.
func open(t *testing.T, opts buffer.Options) *buffer.Buffer {
	t.Helper()
	b, err := buffer.Open("data", opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return b
}

func memoryOptions(mem *buffertest.Memory) buffer.Options {
	return buffer.Options{Staging: mem, Target: mem, FS: vfs.NewMem(), MemTableBytes: 1 << 20}
}

func define(t *testing.T, b *buffer.Buffer, id string, change ...func(*buffer.SinkConfig)) *buffer.Sink {
	t.Helper()
	c := buffer.SinkConfig{ID: id, Table: buffer.Table{ID: "in.c-test." + id, Columns: columns}, Encoding: buffer.Gzip}
	for _, f := range change {
		f(&c)
	}
	s, err := b.Define(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// row encodes one row of the test table.
func row(id int, value string) []byte {
	return fmt.Appendf(nil, "\"%d\",\"%s\"\n", id, strings.ReplaceAll(value, `"`, `""`))
}

// put appends rows from, from+1, …, to-1, one a call, and waits for the last.
func put(t *testing.T, b *buffer.Buffer, s *buffer.Sink, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(i, "v"), Count: 1})
		if err != nil {
			t.Fatal(err)
		}
		if i == to-1 {
			if err := ticket.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// ids returns the first cells of a table in order.
func ids(mem *buffertest.Memory, table string) []string {
	var out []string
	for _, r := range mem.Rows(table) {
		out = append(out, r[0])
	}
	return out
}

func wantIDs(t *testing.T, mem *buffertest.Memory, table string, from, to int) {
	t.Helper()
	got := ids(mem, table)
	if len(got) != to-from {
		t.Fatalf("table %s has %d rows, want %d", table, len(got), to-from)
	}
	for i, id := range got {
		if id != fmt.Sprint(from+i) {
			t.Fatalf("row %d of table %s has id %s, want %d", i, table, id, from+i)
		}
	}
}

func verify(t *testing.T, b *buffer.Buffer) {
	t.Helper()
	report, err := b.Verify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !report.OK() {
		t.Fatalf("the ledger does not hold: %+v", report)
	}
}

// state renders what a story can see of a sink.
func state(b *buffer.Buffer, id string) string {
	st, _ := b.SinkStats(id)
	var files []string
	for _, f := range st.Files {
		files = append(files, fmt.Sprintf("%s/%s", f.State, f.Reason))
	}
	return fmt.Sprintf("accepted %d local %d staging %d target %d expired %d files %v",
		st.Accepted, st.Local.Rows, st.Staging.Rows, st.Target.Rows, st.Expired.Rows, files)
}

func TestRowsReachTheTableInOrder(t *testing.T) {
	for _, enc := range []buffer.Encoding{buffer.None, buffer.Gzip, buffer.Zstd} {
		t.Run(enc.String(), func(t *testing.T) {
			mem := buffertest.NewMemory()
			b := open(t, memoryOptions(mem))
			s := define(t, b, "a", func(c *buffer.SinkConfig) { c.Encoding = enc; c.Upload.Count = 50 })
			put(t, b, s, 0, 500)
			verify(t, b)
			if err := b.Flush(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			wantIDs(t, mem, "in.c-test.a", 0, 500)
			verify(t, b)
		})
	}
}

func TestBatchesLargerThanAChunk(t *testing.T) {
	mem := buffertest.NewMemory()
	b := open(t, memoryOptions(mem))
	s := define(t, b, "a")
	var data []byte
	n := 0
	for ; len(data) < 3<<20; n++ {
		data = append(data, row(n, strings.Repeat("x", 1000))...)
	}
	ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: data, Count: n})
	if err != nil {
		t.Fatal(err)
	}
	if err := ticket.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	put(t, b, s, n, n+10)
	if err := b.Flush(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	wantIDs(t, mem, "in.c-test.a", 0, n+10)
}

// The conditions of both steps, on a fake clock.
func TestTriggers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		b := open(t, memoryOptions(mem))
		s := define(t, b, "a", func(c *buffer.SinkConfig) {
			c.Upload = trigger.Conditions{Interval: 30 * time.Second, Count: 10, Size: 1 << 20}
			c.Import = trigger.Conditions{Interval: time.Minute, Count: 100, Size: 2 << 20}
		})
		step := func(what string, wait time.Duration, want string) {
			t.Helper()
			time.Sleep(wait)
			synctest.Wait()
			if got := state(b, "a"); got != want {
				t.Fatalf("%s:\n got %s\nwant %s", what, got, want)
			}
		}
		put(t, b, s, 0, 1)
		step("one row waits", 29*time.Second, "accepted 1 local 1 staging 0 target 0 expired 0 files [writing/]")
		step("interval of step 1", time.Second, "accepted 1 local 0 staging 1 target 0 expired 0 files [writing/]")
		put(t, b, s, 1, 11)
		step("count of step 1", 0, "accepted 11 local 0 staging 11 target 0 expired 0 files [writing/]")
		put(t, b, s, 11, 12)
		step("interval of step 2 takes the open slice along", 30*time.Second,
			"accepted 12 local 0 staging 0 target 12 expired 0 files [imported/interval]")
		put(t, b, s, 12, 112)
		step("count of step 2", 0, "accepted 112 local 0 staging 0 target 112 expired 0 files [imported/interval imported/count]")
		wantIDs(t, mem, "in.c-test.a", 0, 112)
		step("an idle sink does nothing", 24*time.Hour, "accepted 112 local 0 staging 0 target 112 expired 0 files [imported/interval imported/count]")
		verify(t, b)
	})
}

func TestChangeOfConditionsImportsWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		b := open(t, memoryOptions(mem))
		s := define(t, b, "a")
		put(t, b, s, 0, 5)
		define(t, b, "a") // the same again changes nothing
		synctest.Wait()
		if got, want := state(b, "a"), "accepted 5 local 5 staging 0 target 0 expired 0 files [writing/]"; got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
		s2 := define(t, b, "a", func(c *buffer.SinkConfig) { c.Import.Interval = 2 * time.Minute })
		synctest.Wait()
		if got, want := state(b, "a"), "accepted 5 local 0 staging 0 target 5 expired 0 files [imported/changed]"; got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
		put(t, b, s2, 5, 6)
		time.Sleep(119 * time.Second)
		synctest.Wait()
		if got := len(ids(mem, "in.c-test.a")); got != 5 {
			t.Fatalf("%d rows before the new interval, want 5", got)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		wantIDs(t, mem, "in.c-test.a", 0, 6)
	})
}

// Rows that were mapped for earlier columns go to a file with those columns, also when they come late.
func TestRowsOfAnEarlierDefinitionKeepTheirColumns(t *testing.T) {
	mem := buffertest.NewMemory()
	b := open(t, memoryOptions(mem))
	old := define(t, b, "a")
	moved := define(t, b, "a", func(c *buffer.SinkConfig) {
		c.Table = buffer.Table{ID: "in.c-test.moved", Columns: []string{"other", "names"}}
	})
	put(t, b, moved, 100, 103)
	put(t, b, old, 0, 2)
	put(t, b, moved, 103, 104)
	if err := b.Flush(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	wantIDs(t, mem, "in.c-test.a", 0, 2)
	wantIDs(t, mem, "in.c-test.moved", 100, 104)
	verify(t, b)
}

func TestRowsNobodyWaitsForAreSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		mem := buffertest.NewMemory()
		opts := memoryOptions(mem)
		opts.FS = fs
		b := open(t, opts)
		s := define(t, b, "a")
		for i := range 10 {
			if _, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(i, "v"), Count: 1}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		opts.FS = fs.CrashClone(vfs.CrashCloneCfg{}) // nothing that was not synced survives
		after := open(t, opts)
		if got, want := state(after, "a"), "accepted 10 local 10 staging 0 target 0 expired 0 files [writing/]"; got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	})
}

func TestCloseKeepsWhatNobodyWaitedFor(t *testing.T) {
	fs := vfs.NewMem()
	mem := buffertest.NewMemory()
	opts := memoryOptions(mem)
	opts.FS, opts.SyncInterval = fs, time.Hour
	b, err := buffer.Open("data", opts)
	if err != nil {
		t.Fatal(err)
	}
	s := define(t, b, "a")
	for i := range 1000 {
		if _, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(i, "v"), Count: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(0, ""), Count: 1}); !errors.Is(err, buffer.ErrClosed) {
		t.Fatalf("append after close: %v, want ErrClosed", err)
	}
	if err := b.Close(); err != nil {
		t.Fatalf("second close: %v", err)
	}
	again := open(t, opts)
	if err := again.Flush(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	wantIDs(t, mem, "in.c-test.a", 0, 1000)
}

func TestSchemaMismatchWaitsInStagingAndExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		b := open(t, memoryOptions(mem))
		s := define(t, b, "a")
		if err := mem.Ensure(t.Context(), buffer.Table{ID: "in.c-test.a", Columns: columns}); err != nil {
			t.Fatal(err)
		}
		mem.Alter("in.c-test.a", "id", "other")
		put(t, b, s, 0, 3)
		var held *buffer.HeldError
		if err := b.Flush(t.Context(), "a"); !errors.As(err, &held) || !strings.Contains(err.Error(), "columns differ") {
			t.Fatalf("flush: %v, want a HeldError that tells of the columns", err)
		}
		if got, want := state(b, "a"), "accepted 3 local 0 staging 3 target 0 expired 0 files [importing/requested]"; got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
		verify(t, b)

		// Mended: the next attempt succeeds.
		mem.Alter("in.c-test.a", columns...)
		if err := b.Flush(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		wantIDs(t, mem, "in.c-test.a", 0, 3)

		// Not mended: the rows expire after the retention, and are counted.
		mem.Alter("in.c-test.a", "id", "other")
		put(t, b, s, 3, 7)
		time.Sleep(7 * 24 * time.Hour)
		synctest.Wait()
		if got, want := state(b, "a"), "accepted 7 local 0 staging 4 target 3 expired 0 files [imported/requested importing/interval]"; got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if got, want := state(b, "a"), "accepted 7 local 0 staging 0 target 3 expired 4 files [imported/requested expired/interval]"; got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
		if left := mem.Objects(); len(left) > 0 {
			t.Fatalf("objects left in staging: %v", left)
		}
		verify(t, b)
	})
}

func TestOneFailingSinkDoesNotDelayAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		mem.Before = func(ctx context.Context, c buffertest.Call) error {
			if c.Op == buffertest.OpEnsure || c.Op == buffertest.OpImport && strings.Contains(c.ID, "f000000000001") {
				<-ctx.Done() // hangs
				return ctx.Err()
			}
			return nil
		}
		b := open(t, memoryOptions(mem))
		bad, good := define(t, b, "bad"), define(t, b, "good")
		put(t, b, bad, 0, 1)
		put(t, b, good, 0, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := b.Flush(ctx, "good"); err != nil {
			t.Fatal(err)
		}
		var held *buffer.HeldError
		if err := b.Flush(ctx, "bad"); !errors.As(err, &held) || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("flush of the hanging sink: %v, want a HeldError that wraps the deadline", err)
		}
	})
}

func TestOverloadByMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		opts := memoryOptions(mem)
		opts.MaxPendingBytes, opts.AdmissionWait, opts.SyncInterval = 1<<20, -1, time.Hour
		b := open(t, opts)
		s := define(t, b, "a")
		big := row(0, strings.Repeat("x", 2<<20))
		_, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: big, Count: 1})
		var never *buffer.TooLargeError
		if !errors.As(err, &never) || never.Limit != 1<<20 {
			t.Fatalf("got %v, want a TooLargeError", err)
		}
		// What nobody waits for fills the memory while the committer has no turn.
		var over *buffer.OverloadError
		for err = nil; err == nil; {
			_, err = b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: big[:100<<10], Count: 1})
		}
		if !errors.As(err, &over) || over.Resource != "memory" || over.RetryAfter <= 0 {
			t.Fatalf("got %v, want a memory OverloadError", err)
		}
		synctest.Wait() // the committer has made room
		put(t, b, s, 0, 1)
		if st := b.Stats(); st.OverloadsMemory != 1 || st.PendingBytes != 0 {
			t.Fatalf("stats %+v", st)
		}
	})
}

func TestOverloadByDisk(t *testing.T) {
	mem := buffertest.NewMemory()
	down := true
	var mu sync.Mutex
	mem.Before = func(_ context.Context, c buffertest.Call) error {
		mu.Lock()
		defer mu.Unlock()
		if down && c.Op == buffertest.OpPut {
			return errors.New("staging is down")
		}
		return nil
	}
	opts := memoryOptions(mem)
	opts.MaxDiskBytes = 1 << 20
	b := open(t, opts)
	s := define(t, b, "a", func(c *buffer.SinkConfig) { c.Encoding = buffer.None })
	n := 0
	var over *buffer.OverloadError
	for ; ; n++ {
		ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(n, strings.Repeat("x", 1000)), Count: 1})
		if errors.As(err, &over) {
			break
		}
		if err == nil {
			err = ticket.Wait(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		if n > 2000 {
			t.Fatal("no overload")
		}
	}
	if over.Resource != "disk" || n < 900 {
		t.Fatalf("overload %v after %d rows", over, n)
	}
	mu.Lock()
	down = false
	mu.Unlock()
	if err := b.Flush(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	put(t, b, s, n, n+10) // the room is back
	if err := b.Flush(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	// Pressure has made several files, which may overtake each other after failures.
	seen := map[string]int{}
	for _, id := range ids(mem, "in.c-test.a") {
		seen[id]++
	}
	for i := range n + 10 {
		if seen[fmt.Sprint(i)] != 1 {
			t.Fatalf("row %d is %d times in the table", i, seen[fmt.Sprint(i)])
		}
	}
	if len(seen) != n+10 {
		t.Fatalf("%d rows in the table, want %d", len(seen), n+10)
	}
}

func TestSecondProcessIsRefused(t *testing.T) {
	dir := t.TempDir()
	mem := buffertest.NewMemory()
	b, err := buffer.Open(dir, buffer.Options{Staging: mem, Target: mem})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	_, err = buffer.Open(dir, buffer.Options{Staging: mem, Target: mem})
	if err == nil || !strings.Contains(err.Error(), "in use by another engine") {
		t.Fatalf("second open: %v", err)
	}
}

func TestOptionsReportEveryBreach(t *testing.T) {
	err := buffer.Options{MaxPendingBytes: 1, SyncInterval: 1, Uploads: -1, GzipLevel: 10}.Validate()
	for _, want := range []string{"Staging", "Target", "MaxPendingBytes", "SyncInterval", "Uploads", "GzipLevel"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}
