package buffer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/trigger"
)

// A power cut right after the first acknowledgement in a new folder: the names of the folders above must be on disk,
// too. Only the last of them was synced once, and the rows were gone with the others.
func TestNewFoldersSurviveAPowerCut(t *testing.T) {
	for _, dir := range []string{"local", "data/local", "a/b/c/local"} {
		fs := vfs.NewCrashableMem()
		opts := memoryOptions(buffertest.NewMemory())
		opts.FS = fs
		b, err := buffer.Open(dir, opts)
		if err != nil {
			t.Fatal(err)
		}
		put(t, b, define(t, b, "a"), 0, 3)
		opts.FS = fs.CrashClone(vfs.CrashCloneCfg{RNG: rand.New(rand.NewPCG(1, 1))})
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		after, err := buffer.Open(dir, opts)
		if err != nil {
			t.Fatal(err)
		}
		if st, _ := after.SinkStats("a"); st.Accepted != 3 {
			t.Errorf("%s: %d rows after the cut, want 3", dir, st.Accepted)
		}
		if err := after.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// An outage of the target must not fill staging without bound.
func TestBacklogInStagingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		down := true
		mem.Before = func(_ context.Context, c buffertest.Call) error {
			if down && c.Op == buffertest.OpImport {
				return errors.New("the target is down")
			}
			return nil
		}
		opts := memoryOptions(mem)
		opts.MaxDiskBytes = 1 << 20
		b := open(t, opts)
		s := define(t, b, "a", func(c *buffer.SinkConfig) { c.Encoding = buffer.None; c.Upload.Size = 100 << 10 })
		var over *buffer.OverloadError
		n := 0
		for ; n < 1000 && over == nil; n++ {
			ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(n, strings.Repeat("x", 10<<10)), Count: 1})
			if errors.As(err, &over) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := ticket.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if over == nil || over.Resource != "disk" || n < 50 {
			t.Fatalf("after %d rows of 10 KiB: %v, want an overload of the disk at 1 MiB", n, over)
		}
		if over := s.Full(); over == nil {
			t.Error("the sink is over its share and does not say so")
		}
		down = false
		if err := b.Flush(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		put(t, b, s, n, n+1)
		if s.Full() != nil {
			t.Error("the sink is still full after its rows have gone")
		}
	})
}

// The process was down longer than the retention, and the table was mended meanwhile: the rows are imported. They were
// given up without an attempt once.
func TestRowsExpireOnlyAfterAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		opts := memoryOptions(mem)
		b, err := buffer.Open("data", opts)
		if err != nil {
			t.Fatal(err)
		}
		mustEnsure(t, mem)
		mem.Alter("in.c-test.a", "id", "other")
		put(t, b, define(t, b, "a"), 0, 3)
		if err := b.Flush(t.Context(), "a"); err == nil {
			t.Fatal("imported into other columns")
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(8 * 24 * time.Hour)
		mem.Alter("in.c-test.a", columns...)
		b = open(t, opts)
		if err := b.Flush(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		wantIDs(t, mem, "in.c-test.a", 0, 3)
	})
}

func mustEnsure(t *testing.T, mem *buffertest.Memory) {
	t.Helper()
	if err := mem.Ensure(t.Context(), buffer.Table{ID: "in.c-test.a", Columns: columns}); err != nil {
		t.Fatal(err)
	}
}

// A mended table is found without anybody's asking.
func TestMendedTableIsFoundByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		b := open(t, memoryOptions(mem))
		mustEnsure(t, mem)
		mem.Alter("in.c-test.a", "id", "other")
		put(t, b, define(t, b, "a"), 0, 3)
		time.Sleep(10 * time.Minute)
		mem.Alter("in.c-test.a", columns...)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		wantIDs(t, mem, "in.c-test.a", 0, 3)
	})
}

func TestExpiryIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		opts := memoryOptions(mem)
		opts.Retention = time.Hour
		var log strings.Builder
		opts.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))
		b := open(t, opts)
		mustEnsure(t, mem)
		mem.Alter("in.c-test.a", "id", "other")
		put(t, b, define(t, b, "a"), 0, 3)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if text := log.String(); !strings.Contains(text, "expired") || !strings.Contains(text, "sink=a") || !strings.Contains(text, "rows=3") {
			t.Errorf("log: %q", text)
		}
	})
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

// A logger may look at the counters, for example to send them along.
func TestLoggerMayReadStats(t *testing.T) {
	mem := buffertest.NewMemory()
	opts := memoryOptions(mem)
	var stats func()
	opts.Logger = slog.New(statsHandler{&stats})
	b := open(t, opts)
	stats = func() { b.Stats() }
	put(t, b, define(t, b, "a"), 0, 3)
	if err := b.Flush(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
}

type statsHandler struct{ stats *func() }

func (h statsHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h statsHandler) Handle(context.Context, slog.Record) error {
	if *h.stats != nil {
		(*h.stats)()
	}
	return nil
}

func (h statsHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h statsHandler) WithGroup(string) slog.Handler      { return h }

// Rows for two sinks that come while the buffer closes are in both or in none, and the answer says which.
func TestAppendAtCloseIsAllOrNone(t *testing.T) {
	for round := range 20 {
		mem := buffertest.NewMemory()
		opts := memoryOptions(mem)
		b, err := buffer.Open("data", opts)
		if err != nil {
			t.Fatal(err)
		}
		s1, s2 := define(t, b, "a"), define(t, b, "b")
		var accepted int64
		var appender sync.WaitGroup
		begun := make(chan struct{})
		appender.Go(func() {
			for i := 0; ; i++ {
				_, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s1, Data: row(i, "v"), Count: 1},
					buffer.Rows{Sink: s2, Data: row(i, "v"), Count: 1})
				if i == round*10 {
					close(begun)
				}
				if err != nil {
					if !errors.Is(err, buffer.ErrClosed) {
						t.Error(err)
					}
					return
				}
				accepted++
			}
		})
		<-begun
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		appender.Wait()
		after := open(t, opts)
		for _, id := range []string{"a", "b"} {
			if st, _ := after.SinkStats(id); st.Accepted != accepted {
				t.Fatalf("round %d: sink %s has %d rows, %d were accepted", round, id, st.Accepted, accepted)
			}
		}
	}
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

func put1(t *testing.T, b *buffer.Buffer, s *buffer.Sink, id int, value string) {
	t.Helper()
	ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(id, value), Count: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := ticket.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
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

func TestFirstAndLastRecordOfEveryLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		b := open(t, memoryOptions(mem))
		s := define(t, b, "a", func(c *buffer.SinkConfig) { c.Upload.Interval = 10 * time.Second })
		begin := time.Now().UTC()
		put(t, b, s, 0, 1)
		time.Sleep(4 * time.Second)
		put(t, b, s, 1, 2)
		check := func(what string, l buffer.Level) {
			t.Helper()
			if l.Rows != 2 || !l.FirstAt.Equal(begin) || !l.LastAt.Equal(begin.Add(4*time.Second)) {
				t.Errorf("%s: %+v, want 2 rows from %s to 4 s later", what, l, begin)
			}
		}
		st, _ := b.SinkStats("a")
		check("local", st.Local)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		st, _ = b.SinkStats("a")
		check("staging", st.Staging)
		time.Sleep(time.Minute)
		synctest.Wait()
		st, _ = b.SinkStats("a")
		check("target", st.Target)
	})
}

// Verify must find what is wrong, not only say that all is well.
func TestVerifyFindsWhatIsWrongInStaging(t *testing.T) {
	for name, tc := range map[string]struct {
		harm func(t *testing.T, mem *buffertest.Memory, obj buffer.Object)
		want string
	}{
		"missing": {func(t *testing.T, mem *buffertest.Memory, obj buffer.Object) {
			if err := mem.Delete(t.Context(), obj); err != nil {
				t.Fatal(err)
			}
		}, "not in staging any more"},
		"fewer rows": {func(t *testing.T, mem *buffertest.Memory, obj buffer.Object) {
			replace(t, mem, obj, row(0, "v"))
		}, "the ledger has 3"},
		"torn row": {func(t *testing.T, mem *buffertest.Memory, obj buffer.Object) {
			replace(t, mem, obj, []byte(`"0","v`))
		}, "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := buffertest.NewMemory()
				b := open(t, memoryOptions(mem))
				mustEnsure(t, mem)
				mem.Alter("in.c-test.a", "id", "other")
				put(t, b, define(t, b, "a", func(c *buffer.SinkConfig) { c.Encoding = buffer.None }), 0, 3)
				if err := b.Flush(t.Context(), "a"); err == nil {
					t.Fatal("imported into other columns")
				}
				verify(t, b)
				tc.harm(t, mem, mem.Objects()[0])
				report, err := b.Verify(t.Context())
				if err != nil || report.OK() || !strings.Contains(strings.Join(report.Sinks[0].Differences, "\n"), tc.want) {
					t.Errorf("%+v %v, want a difference that tells %q", report, err, tc.want)
				}
			})
		})
	}
}

// replace stores other bytes under the id of an object.
func replace(t *testing.T, mem *buffertest.Memory, obj buffer.Object, data []byte) {
	t.Helper()
	if err := mem.Delete(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	if err := mem.Put(t.Context(), obj, plainSource(data)); err != nil {
		t.Fatal(err)
	}
}

type plainSource []byte

func (p plainSource) Open() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(p)), nil }

func (p plainSource) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(p)
	return int64(n), err
}
