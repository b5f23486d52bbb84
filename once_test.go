package forebay_test

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/mapping"
)

// uniqueRows fails if a table does not have n rows, all different.
func uniqueRows(t *testing.T, mem *buffertest.Memory, table string, n int) {
	t.Helper()
	var rows []string
	for _, r := range mem.Rows(table) {
		rows = append(rows, strings.Join(r, "|"))
	}
	slices.Sort(rows)
	if len(rows) != n || len(slices.Compact(slices.Clone(rows))) != n {
		t.Errorf("table %s has %d rows, %d of them different, want %d", table, len(rows), len(slices.Compact(rows)), n)
	}
}

// numbered is a source whose sinks "a" and "b" take the member n, and "b" only of records that have an m as well.
func numbered() forebay.Source {
	return forebay.Source{ID: "web", Sinks: []forebay.Sink{
		{ID: "a", Table: forebay.Table{ID: "in.c-web.a", Columns: mapping.Columns{mapping.Path("n", "n"), mapping.Path("x", "x", mapping.Default(""))}}},
		{ID: "b", Table: forebay.Table{ID: "in.c-web.b", Columns: mapping.Columns{mapping.Path("n", "n"), mapping.Path("m", "m")}}},
	}}
}

func number(format string, args ...any) *mapping.Record {
	return mapping.JSON(fmt.Appendf(nil, format, args...))
}

// A call with a key is the same whenever and however often it is made. Its rows are stored once, and its rejections stand.
func TestOneCallIsStoredOnce(t *testing.T) {
	e, mem := openMemory(t)
	mustDefine(t, e, numbered())
	once := forebay.Once{Key: "k", Content: []byte("content")}
	for i := range 3 {
		res, err := e.IngestOnce(t.Context(), "web", once, []*mapping.Record{number(`{"n":1,"m":1}`), number(`{"n":2}`), number(`{"n":3,"m":1}`)})
		if rejected := (*forebay.SinkError)(nil); !errors.As(err, &rejected) || rejected.Sink != "b" || strings.Count(err.Error(), "record ") < 1 {
			t.Errorf("call %d: %v", i, err)
		}
		for r, want := range [][2]forebay.Status{{forebay.Stored, forebay.Stored}, {forebay.Stored, forebay.Rejected}, {forebay.Stored, forebay.Stored}} {
			for k, s := range res[r].Sinks {
				if s.Status != want[k] || s.Replayed != (i > 0 && want[k] == forebay.Stored) || (s.Err != nil) != (want[k] == forebay.Rejected) {
					t.Errorf("call %d, record %d: %+v", i, r, s)
				}
			}
		}
	}
	other := once
	other.Content = []byte("other")
	if _, err := e.IngestOnce(t.Context(), "web", other, []*mapping.Record{number(`{"n":9,"m":9}`)}); !errors.Is(err, forebay.ErrOtherContent) {
		t.Errorf("other content: %v", err)
	}
	if _, err := e.IngestOnce(t.Context(), "web", forebay.Once{}, nil); err == nil {
		t.Error("a call without a key is taken")
	}
	must(t, e.Flush(t.Context(), "web"))
	uniqueRows(t, mem, "in.c-web.a", 3)
	uniqueRows(t, mem, "in.c-web.b", 2)
}

// A call adds what an earlier one could not store, at a sink that was full, or that there was not.
func TestRepeatedCallAddsWhatIsMissing(t *testing.T) {
	e, mem := openMemory(t)
	def := numbered()
	without := def
	without.Sinks = def.Sinks[:1]
	mustDefine(t, e, without)
	recs := []*mapping.Record{number(`{"n":1,"m":1}`), number(`{"n":2,"m":1}`)}
	for i, src := range []forebay.Source{without, def, def} {
		mustDefine(t, e, src)
		res, err := e.IngestOnce(t.Context(), "web", forebay.Once{Key: "k"}, recs)
		must(t, err)
		for _, s := range res[1].Sinks {
			if want := i > 0 && s.Sink == "a" || i > 1; s.Replayed != want {
				t.Errorf("call %d: sink %s is replayed: %t", i, s.Sink, s.Replayed)
			}
		}
	}
	must(t, e.Flush(t.Context(), "web"))
	uniqueRows(t, mem, "in.c-web.a", 2)
	uniqueRows(t, mem, "in.c-web.b", 2)
}

// A key counts for as long as the call says.
func TestOnceWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := openMemory(t)
		mustDefine(t, e, numbered())
		for i, want := range []bool{false, true, false, true} {
			res, err := e.IngestOnce(t.Context(), "web", forebay.Once{Key: "k", Within: time.Minute}, []*mapping.Record{number(`{"n":1,"m":1}`)})
			if err != nil || res[0].Sinks[0].Replayed != want {
				t.Errorf("call %d: %+v, %v", i, res, err)
			}
			time.Sleep(31 * time.Second)
		}
	})
}

// Large calls go to the disk in portions. After a power cut at any moment, repeating each stores the missing records and
// nothing twice, at either sink, alone or together, with records that are rejected between the others.
func TestLargeCallsSurviveAPowerCut(t *testing.T) {
	seed := seedtest.Of(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	const calls, records = 6, 24
	batch := func(call int) (recs []*mapping.Record) {
		r := rand.New(rand.NewPCG(7, uint64(call))) // the same each time
		for i := range records {
			format := `{"n":%d,"x":"%s","m":1}`
			if r.IntN(4) == 0 {
				format = `{"n":%d,"x":"%s"}`
			}
			recs = append(recs, number(format, call*records+i, strings.Repeat("x", r.IntN(150<<10))))
		}
		return recs
	}
	sequence := func(recs []*mapping.Record) iter.Seq[*mapping.Record] { return slices.Values(recs) }
	matched := 0
	for call := range calls {
		for _, rec := range batch(call) {
			if strings.Contains(string(rec.Body), `"m"`) {
				matched++
			}
		}
	}
	for range 8 {
		fs := vfs.NewCrashableMem()
		open := func(fs vfs.FS) (*forebay.Engine, *buffertest.Memory) {
			e, mem := openMemory(t, func(o *forebay.Options) {
				o.Buffer = localdisk.On(o.Buffer, fs)
				o.Buffer.MaxPendingBytes = 8 << 20
			})
			mustDefine(t, e, numbered())
			return e, mem
		}
		store := func(e *forebay.Engine, call int) {
			once := forebay.Once{Key: fmt.Sprint(call)}
			var err error
			// Six calls of 2 MB share 8 MB of memory. With a slow processor some have to wait.
			if call%2 == 0 {
				_, err = e.WaitForRoom().IngestOnce(t.Context(), "web", once, batch(call))
			} else {
				_, err = e.WaitForRoom().IngestAtomic(t.Context(), "web", forebay.Batch{Once: once, Records: sequence(batch(call))})
			}
			if rejected := (*forebay.SinkError)(nil); err != nil && (!errors.As(err, &rejected) || rejected.Status != forebay.Rejected) {
				t.Error(err)
			}
		}
		e, _ := open(fs)
		clone := make(chan *vfs.MemFS, 1)
		var wg sync.WaitGroup
		for call := range calls {
			wg.Go(func() { store(e, call) })
		}
		keep, unsynced, wait := rng.IntN(101), rand.New(rand.NewPCG(seed, 1)), time.Duration(rng.IntN(30))*time.Millisecond
		timer := time.AfterFunc(wait, func() { clone <- fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: keep, RNG: unsynced}) })
		wg.Wait()
		disk := <-clone
		timer.Stop()
		must(t, e.Close())
		e, mem := open(disk)
		for call := range calls {
			store(e, call)
			store(e, call)
		}
		must(t, e.Flush(t.Context(), "web"))
		uniqueRows(t, mem, "in.c-web.a", calls*records)
		uniqueRows(t, mem, "in.c-web.b", matched)
		if report, err := e.Verify(t.Context()); err != nil || !report.OK() {
			t.Errorf("got %+v, %v, want no error and report.OK()", report, err)
		}
	}
}

// A batch that is stored is not refused because the source has no room for another.
func TestRepeatedBatchNeedsNoRoom(t *testing.T) {
	e, mem := openMemory(t, func(o *forebay.Options) { o.Buffer.MaxSinkBytes = 1 << 10 })
	mustDefine(t, e, numbered())
	store := func(key int) (forebay.BatchResult, error) {
		return e.IngestAtomic(t.Context(), "web", forebay.Batch{
			Once: forebay.Once{Key: fmt.Sprint(key)}, Records: slices.Values([]*mapping.Record{number(`{"n":%d,"m":"%s"}`, key, strings.Repeat("m", 300))}),
		})
	}
	n := 0
	for ; ; n++ {
		if _, err := store(n); err != nil {
			break
		}
	}
	if res, err := store(0); err != nil || res.Replayed != 1 {
		t.Errorf("got %+v, %v, want no error and res.Replayed == 1", res, err)
	}
	must(t, e.Flush(t.Context(), "web"))
	uniqueRows(t, mem, "in.c-web.a", n)
}
