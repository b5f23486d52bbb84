package buffer_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/trigger"
)

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

func TestSizeConditionsCountStoredBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		b := open(t, memoryOptions(mem))
		s := define(t, b, "a", func(c *buffer.SinkConfig) {
			c.Upload.Size, c.Import.Size = 2000, 5000
		})
		// 100 KB of one letter are a few hundred bytes as they are stored.
		ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(0, strings.Repeat("x", 100<<10)), Count: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := ticket.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if st, _ := b.SinkStats("a"); st.Local.Rows != 1 || st.Local.RawBytes < 100<<10 || st.Local.StoredBytes >= 2000 {
			t.Fatalf("local %+v", st.Local)
		}
		random := make([]byte, 1200)
		for i := range 5 {
			for k := range random {
				random[k] = "0123456789abcdef"[rand.IntN(16)]
			}
			put1(t, b, s, i+1, string(random))
		}
		synctest.Wait()
		st, _ := b.SinkStats("a")
		if st.Target.Rows == 0 || len(st.Files) == 0 || st.Files[0].Reason != trigger.BySize.String() {
			t.Fatalf("%s, want an import by size", state(b, "a"))
		}
	})
}

func TestFileWithManySlicesIsImported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		b := open(t, memoryOptions(mem))
		s := define(t, b, "a", func(c *buffer.SinkConfig) { c.Upload.Count = 1 })
		for i := range 105 {
			put1(t, b, s, i, "v")
		}
		synctest.Wait()
		st, _ := b.SinkStats("a")
		if st.Target.Rows != 100 || st.Files[0].Reason != trigger.Full.String() {
			t.Fatalf("%s, want 100 slices imported because the file is full", state(b, "a"))
		}
	})
}
