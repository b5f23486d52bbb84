package buffer_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
)

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

// What comes while the caller goes away must not race with it.
func TestCallsThatEndEarly(t *testing.T) {
	b := open(t, memoryOptions(buffertest.NewMemory()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for i := range 50 {
		if s, err := b.Define(ctx, buffer.SinkConfig{ID: fmt.Sprint(i), Table: buffer.Table{ID: "t", Columns: columns}}); err != nil && s != nil {
			t.Fatal("a handle beside an error")
		}
		_, _ = b.Verify(ctx)
		_ = b.Flush(ctx, fmt.Sprint(i))
	}
}
