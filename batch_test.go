package forebay_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/mapping"
)

// A batch that is larger than the buffer ever takes at once goes in portions. Refused as too large, it would be lost because senders
// do not make their batches smaller.
func TestBatchAboveMaxPendingBytes(t *testing.T) {
	mem := buffertest.NewMemory()
	e, err := forebay.Open("data", forebay.Options{
		Staging: mem, Target: mem, Buffer: localdisk.On(buffer.Tuning{MemTableBytes: 1 << 20, MaxPendingBytes: 1 << 20}, vfs.NewMem()),
	})
	must(t, err)
	defer e.Close()
	if err := e.Define(t.Context(), forebay.Source{ID: "app", Type: forebay.OTLP, Sinks: []forebay.Sink{{
		ID: "rows", Table: forebay.Table{ID: "in.c-app.rows", Columns: mapping.Columns{mapping.Path("n", "n")}},
	}}}); err != nil {
		t.Fatal(err)
	}
	texts := make([]string, 3000)
	for i := range texts {
		texts[i] = fmt.Sprintf(`{"n":"%d %s"}`, i, strings.Repeat("x", 1000))
	}
	res, err := e.IngestAtomic(t.Context(), "app", forebay.Batch{Records: bodies(texts...)})
	if err != nil || res.Records != len(texts) || res.Rejected != 0 {
		t.Fatalf("got %v, %+v, want no error and res.Records == %v and res.Rejected == 0", err, res, len(texts))
	}
	must(t, e.Flush(t.Context(), "app"))
	if n := len(mem.Rows("in.c-app.rows")); n != len(texts) {
		t.Errorf("got %d rows, want %v", n, len(texts))
	}
}

// bodies yields one reused record for each text.
func bodies(texts ...string) iter.Seq[*mapping.Record] {
	return func(yield func(*mapping.Record) bool) {
		var rec mapping.Record
		for _, text := range texts {
			rec.Reset()
			rec.Body, rec.Format = []byte(text), mapping.FormatJSON
			if !yield(&rec) {
				return
			}
		}
	}
}

func telemetry() forebay.Source {
	column := mapping.Columns{mapping.Path("n", "n")}
	return forebay.Source{ID: "app", Type: forebay.OTLP, Sinks: []forebay.Sink{
		{ID: "all", Table: forebay.Table{ID: "in.c-app.all", Columns: mapping.Columns{mapping.Body("body")}}},
		{ID: "logs", Table: forebay.Table{ID: "in.c-app.logs", Columns: column}, AllowedSignals: []forebay.Signal{forebay.SignalLogs}},
		{
			ID: "rest", Table: forebay.Table{ID: "in.c-app.rest", Columns: column},
			AllowedSignals: []forebay.Signal{forebay.SignalMetrics, forebay.SignalTraces},
		},
	}}
}

// Each sink gets the batches of the signals that it takes.
func TestIngestAtomicBySignal(t *testing.T) {
	e, mem := openMemory(t)
	ctx := context.Background()
	must(t, e.Define(ctx, telemetry()))
	for _, b := range []struct {
		signal forebay.Signal
		text   string
		sinks  int
	}{
		{forebay.SignalLogs, `{"n":1}`, 2},
		{forebay.SignalMetrics, `{"n":2}`, 2},
		{forebay.SignalTraces, `{"n":3}`, 2},
		{"", `{"n":4}`, 3},
	} {
		res, err := e.IngestAtomic(ctx, "app", forebay.Batch{Signal: b.signal, Records: bodies(b.text)})
		if err != nil || res != (forebay.BatchResult{Records: 1, Sinks: b.sinks}) {
			t.Errorf("%q: got %+v, %v, want no error and res == (forebay.BatchResult{Records: 1, Sinks: b.sinks})", b.signal, res, err)
		}
	}
	must(t, e.Flush(ctx, "app"))
	for table, want := range map[string]string{
		"in.c-app.all": `[[{"n":1}] [{"n":2}] [{"n":3}] [{"n":4}]]`, "in.c-app.logs": "[[1] [4]]", "in.c-app.rest": "[[2] [3] [4]]",
	} {
		if got := fmt.Sprint(mem.Rows(table)); got != want {
			t.Errorf("%s has %s, want %s", table, got, want)
		}
	}
}

// Records that cannot be mapped are counted, and the others are stored.
func TestIngestAtomicRejections(t *testing.T) {
	e, mem := openMemory(t)
	ctx := context.Background()
	must(t, e.Define(ctx, telemetry()))
	res, err := e.IngestAtomic(ctx, "app", forebay.Batch{
		Signal: forebay.SignalLogs, Records: bodies(`{"n":1}`, `{}`, `{"n":3}`, `{"m":4}`),
	})
	if err != nil || res.Records != 4 || res.Rejected != 2 || res.FirstRecord != 1 {
		t.Fatalf("got %+v, %v, want 4 records from 1, 2 of them rejected, no error", res, err)
	}
	var m *mapping.Error
	if res.First.Sink != "logs" || !errors.As(res.First, &m) || m.Column != "n" {
		t.Errorf("first rejection: %v", res.First)
	}
	must(t, e.Flush(ctx, "app"))
	if all, logs := len(mem.Rows("in.c-app.all")), fmt.Sprint(mem.Rows("in.c-app.logs")); all != 4 || logs != "[[1] [3]]" {
		t.Errorf("got %d rows, %s, want 4, [[1] [3]]", all, logs)
	}
}

// A batch of a signal that no sink takes is counted as dropped.
func TestIngestAtomicWithoutSink(t *testing.T) {
	e, _ := openMemory(t)
	ctx := context.Background()
	src := telemetry()
	src.Sinks = src.Sinks[1:2]
	must(t, e.Define(ctx, src))
	res, err := e.IngestAtomic(ctx, "app", forebay.Batch{Signal: forebay.SignalTraces, Records: bodies(`{}`, `{}`)})
	if err != nil || res != (forebay.BatchResult{Records: 2}) || e.Stats().Dropped["app"] != 2 {
		t.Errorf("got %+v, %v, %d dropped, want 2 records, both dropped, no error", res, err, e.Stats().Dropped["app"])
	}
}

// While one sink takes nothing the whole batch is refused, so that a caller that repeats it doubles no row of the other sinks.
func TestIngestAtomicIsAllOrNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, mem := openMemory(t, func(o *forebay.Options) { o.Buffer.MaxSinkBytes = 64 << 10 })
		ctx := context.Background()
		must(t, e.Define(ctx, telemetry()))
		mem.Alter("in.c-app.logs", datatype.UntypedColumns("other")...) // holds up the imports of this sink
		noise := make([]byte, 16<<10)                                   // what does not compress takes its size on disk
		rng := rand.New(rand.NewPCG(1, 0))
		for i := range noise {
			noise[i] = byte(rng.Uint32())
		}
		big := fmt.Sprintf(`{"n":"%x"}`, noise)
		var overload *buffer.OverloadError
		taken, refused := 0, 0
		for range 20 {
			_, err := e.IngestAtomic(ctx, "app", forebay.Batch{Signal: forebay.SignalLogs, Records: bodies(big, big)})
			switch {
			case err == nil:
				taken++
			case errors.As(err, &overload):
				refused++
			default:
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		if taken == 0 || refused == 0 {
			t.Fatalf("got %d taken, %d refused, want some of both", taken, refused)
		}
		must(t, e.Flush(ctx, "app", "all"))
		if got := len(mem.Rows("in.c-app.all")); got != 2*taken {
			t.Errorf("got %d rows of %d batches with 2 records each, want %v", got, taken, 2*taken)
		}
		for _, s := range e.Stats().Sinks {
			if s.Sink != "rest" && s.Rejected["failed"] != int64(2*refused) {
				t.Errorf("sink %s counts %v, %d batches of 2 were refused", s.Sink, s.Rejected, refused)
			}
		}
	})
}

// Rows above the greatest batch go in portions, and all of them arrive.
func TestIngestAtomicInPortions(t *testing.T) {
	e, mem := openMemory(t)
	ctx := context.Background()
	src := telemetry()
	src.Sinks = src.Sinks[:1]
	must(t, e.Define(ctx, src))
	texts := make([]string, 40)
	for i := range texts {
		texts[i] = fmt.Sprintf(`{"n":%d,"fill":"%s"}`, i, strings.Repeat("x", 1<<20))
	}
	res, err := e.IngestAtomic(ctx, "app", forebay.Batch{Records: bodies(texts...)})
	if err != nil || res.Records != len(texts) || res.Rejected != 0 {
		t.Fatalf("got %+v, %v, want no error and res.Records == %v and res.Rejected == 0", res, err, len(texts))
	}
	must(t, e.Flush(ctx, "app"))
	if got := len(mem.Rows("in.c-app.all")); got != len(texts) {
		t.Errorf("got %d rows, want %d", got, len(texts))
	}
}

// A batch is abandoned when its time is over, even if no record of it reaches the buffer.
func TestIngestAtomicEndsWithItsContext(t *testing.T) {
	e, _ := openMemory(t)
	src := telemetry()
	src.Sinks = src.Sinks[1:2]
	ctx, cancel := context.WithCancel(context.Background())
	must(t, e.Define(ctx, src))
	records := func(yield func(*mapping.Record) bool) {
		for rec := range bodies("{}", "{}", "{}") {
			if !yield(rec) {
				return
			}
			cancel()
		}
	}
	res, err := e.IngestAtomic(ctx, "app", forebay.Batch{Records: records})
	if !errors.Is(err, context.Canceled) || res != (forebay.BatchResult{}) {
		t.Errorf("got %+v, %v, want errors.Is(err, context.Canceled) and res == (forebay.BatchResult{})", res, err)
	}
	if n := e.Stats().Sinks[0].Rejected["failed"]; n != 3 {
		t.Errorf("%d records count as failed, want 3", n)
	}
}

func TestIngestAtomicErrors(t *testing.T) {
	e, _ := openMemory(t)
	ctx := context.Background()
	if _, err := e.IngestAtomic(ctx, "none", forebay.Batch{Records: bodies()}); !errors.Is(err, forebay.ErrUnknownSource) {
		t.Errorf("unknown source: %v", err)
	}
	src := telemetry()
	src.Sinks[0].AllowedSignals = []forebay.Signal{"profiles"}
	if err := e.Define(ctx, src); err == nil || !strings.Contains(err.Error(), `allowed signal "profiles"`) {
		t.Errorf("unknown signal: %v", err)
	}
	src = telemetry()
	src.Disabled = true
	must(t, e.Define(ctx, src))
	if _, err := e.IngestAtomic(ctx, "app", forebay.Batch{Records: bodies()}); !errors.Is(err, forebay.ErrDisabledSource) {
		t.Errorf("disabled source: %v", err)
	}
}
