package buffer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
)

// After a restart, a definition that changes nothing does not wait for the disk, which thousands of uploads keep busy. Waiting rows keep their file,
// later rows join it, and the table is compacted each hour as before. A definition that changes anything waits.
func TestDefinitionsAfterARestartDoNotWaitForTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		target := &compacting{mem, make(chan string, 100), nil}
		disk := disktest.New(t)
		opts := localdisk.On(buffer.Options{Staging: mem, Target: target}, disk)
		b := openAt(t, "data", opts)
		kept := func(c *buffer.SinkConfig) { c.Quarantine = &buffer.QuarantineBounds{} }
		first := define(t, b, "a", kept)
		for _, id := range []string{"busy", "idle", "encoding", "quarantine", "refused", "dropped"} {
			define(t, b, id, kept)
		}
		extend := func(mapping string) func(*buffer.SinkConfig) {
			return func(c *buffer.SinkConfig) { kept(c); c.Table.Extend, c.Mapping = true, []byte(mapping) }
		}
		define(t, b, "mapping", extend("1"))
		must(t, b.Sink("dropped").Drop(t.Context()))
		put(t, b, first, 0, 10)
		closeBuffer(t, b)

		slow := &slowLog{FS: disk, gate: make(chan struct{}, 1)}
		b = openAt(t, "data", localdisk.On(opts, slow))
		defer closeBuffer(t, b)
		busy := define(t, b, "busy", kept)
		slow.hold()
		begin(t, b, busy, 0) // a commit that does not end
		again := define(t, b, "a", kept)
		define(t, b, "idle", kept)
		if st := state(b, "a"); st != `accepted 10 local 10 staging 0 target 0 expired 0 files [writing/]` {
			t.Errorf("after the definition: %s", st)
		}
		for id, change := range map[string]func(*buffer.SinkConfig){
			"new": kept, "encoding": func(c *buffer.SinkConfig) { kept(c); c.Encoding = driver.Zstd }, "quarantine": func(*buffer.SinkConfig) {},
			"refused": func(c *buffer.SinkConfig) { kept(c); c.Refused = "a reason" }, "dropped": kept, "mapping": extend("2"),
		} {
			cfg := buffer.SinkConfig{ID: id, Table: driver.Table{ID: "in.c-test." + id, Columns: columns}, Encoding: driver.Gzip}
			change(&cfg)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := b.Define(ctx, cfg); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a change (%s) did not wait for the disk: %v", id, err)
			}
			cancel()
		}
		slow.release()
		put(t, b, again, 10, 20)
		if st := state(b, "a"); st != `accepted 20 local 20 staging 0 target 0 expired 0 files [writing/]` {
			t.Errorf("after more rows: %s", st)
		}
		flush(t, b, "a")
		wantAll(t, mem, "in.c-test.a", 0, 20)
		for range 2 {
			for len(target.calls) > 0 {
				<-target.calls
			}
			time.Sleep(time.Hour + time.Minute)
			synctest.Wait()
			compacted := false
			for len(target.calls) > 0 {
				compacted = <-target.calls == "in.c-test.idle" || compacted
			}
			if !compacted {
				t.Error("the table was not compacted for an hour")
			}
		}
		verify(t, b)
	})
}

// A definition after Close fails, even if it changes nothing.
func TestDefinitionAgainAfterClose(t *testing.T) {
	opts := memoryOptions(t, buffertest.NewMemory())
	b := openAt(t, "data", opts)
	define(t, b, "a")
	closeBuffer(t, b)
	b = openAt(t, "data", opts)
	closeBuffer(t, b)
	if _, err := b.Define(t.Context(), buffer.SinkConfig{ID: "a", Table: driver.Table{ID: "in.c-test.a", Columns: columns}, Encoding: driver.Gzip}); !errors.Is(err, buffer.ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
}
