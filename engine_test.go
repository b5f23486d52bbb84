package forebay_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/trigger"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openMemory(t *testing.T, change ...func(*forebay.Options)) (*forebay.Engine, *buffertest.Memory) {
	t.Helper()
	mem := buffertest.NewMemory()
	opts := forebay.Options{Staging: mem, Target: mem, Buffer: localdisk.On(buffer.Tuning{MemTableBytes: 1 << 20}, vfs.NewMem())}
	for _, f := range change {
		f(&opts)
	}
	e, err := forebay.Open("data", opts)
	must(t, err)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return e, mem
}

func events(change ...func(*forebay.Source)) forebay.Source {
	s := forebay.Source{ID: "web", Sinks: []forebay.Sink{
		{ID: "users", Table: forebay.Table{ID: "in.c-web.users", Columns: mapping.Columns{
			mapping.Path("id", "id"), mapping.Path("user", "user.name", mapping.RawString()),
		}}},
		{ID: "raw", Table: forebay.Table{ID: "in.c-web.raw", Columns: mapping.Columns{
			mapping.UUID("uuid"), mapping.Datetime("at"), mapping.Body("body"),
		}}},
	}}
	for _, f := range change {
		f(&s)
	}
	return s
}

func mustDefine(t *testing.T, e *forebay.Engine, s forebay.Source) {
	t.Helper()
	must(t, e.Define(t.Context(), s))
}

func TestOneEventBecomesOneRowInEveryTable(t *testing.T) {
	e, mem := openMemory(t)
	mustDefine(t, e, events())
	body := []byte(`{"id": 7, "user": {"name": "Ada \"the first\""}}`)
	res, err := e.Ingest(t.Context(), "web", mapping.JSON(body))
	must(t, err)
	for _, s := range res.Sinks {
		if s.Status != forebay.Stored || s.Err != nil {
			t.Errorf("sink %s: %v %v", s.Sink, s.Status, s.Err)
		}
	}
	must(t, e.Flush(t.Context(), "web"))
	if got := mem.Rows("in.c-web.users"); len(got) != 1 || got[0][0] != "7" || got[0][1] != `Ada "the first"` {
		t.Errorf("users: %q", got)
	}
	if got := mem.Rows("in.c-web.raw"); len(got) != 1 || got[0][2] != string(body) {
		t.Errorf("raw: %q", got)
	}
	if got := mem.Columns("in.c-web.raw"); strings.Join(datatype.Names(got), " ") != "uuid at body" {
		t.Errorf("columns %q", got)
	}
	report, err := e.Verify(t.Context())
	if err != nil || !report.OK() {
		t.Errorf("verify: %+v %v", report, err)
	}
}

// A record that one sink cannot map is kept by the others.
func TestRejectionIsForOneSinkOnly(t *testing.T) {
	e, mem := openMemory(t)
	mustDefine(t, e, events())
	res, err := e.Ingest(t.Context(), "web", mapping.JSON([]byte(`{"id": 1}`)))
	var sinkErr *forebay.SinkError
	var mapErr *mapping.Error
	if !errors.As(err, &sinkErr) || sinkErr.Sink != "users" || sinkErr.Source != "web" || sinkErr.Status != forebay.Rejected {
		t.Fatalf("error %v, want a SinkError of users", err)
	}
	if !errors.As(err, &mapErr) || mapErr.Column != "user" || mapErr.Reason != mapping.MissingValue {
		t.Fatalf("error %v, want a mapping.Error of column user", err)
	}
	if res.Sinks[0].Status != forebay.Rejected || res.Sinks[1].Status != forebay.Stored {
		t.Fatalf("result %+v", res)
	}
	must(t, e.Flush(t.Context(), "web"))
	if users, raw := len(mem.Rows("in.c-web.users")), len(mem.Rows("in.c-web.raw")); users != 0 || raw != 1 {
		t.Fatalf("got %d and %d rows, want 0 and 1", users, raw)
	}
	for _, s := range e.Stats().Sinks {
		if want := map[string]int64{"users": 1}[s.Sink]; s.Rejected["missingValue"] != want {
			t.Errorf("sink %s: rejected %v, want %d", s.Sink, s.Rejected, want)
		}
	}
}

func TestRowsAboveTheLimitAreRejected(t *testing.T) {
	e, _ := openMemory(t, func(o *forebay.Options) { o.MaxRowBytes = 100 })
	mustDefine(t, e, events())
	_, err := e.Ingest(t.Context(), "web", mapping.JSON([]byte(`{"id":1,"user":{"name":"`+strings.Repeat("x", 200)+`"}}`)))
	var tooLarge *forebay.RowTooLargeError
	if !errors.As(err, &tooLarge) || tooLarge.Limit != 100 || tooLarge.Size <= 200 {
		t.Fatalf("error %v", err)
	}
}

func TestIngestRefusesWhatItDoesNotKnow(t *testing.T) {
	e, _ := openMemory(t)
	mustDefine(t, e, events(func(s *forebay.Source) { s.Disabled = true }))
	for _, tc := range []struct {
		source string
		want   error
	}{{"web", forebay.ErrDisabledSource}, {"nothing", forebay.ErrUnknownSource}} {
		if _, err := e.Ingest(t.Context(), tc.source, mapping.JSON([]byte("{}"))); !errors.Is(err, tc.want) {
			t.Errorf("source %s: %v, want %v", tc.source, err, tc.want)
		}
	}
	if err := e.Flush(t.Context(), "nothing"); !errors.Is(err, forebay.ErrUnknownSource) {
		t.Errorf("flush: %v", err)
	}
	if err := e.Flush(t.Context(), "web", "nothing"); !errors.Is(err, forebay.ErrUnknownSink) {
		t.Errorf("flush: %v", err)
	}
}

func TestUnsafeSinksAnswerAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, mem := openMemory(t, func(o *forebay.Options) { o.Buffer.SyncInterval = time.Hour })
		mustDefine(t, e, events(func(s *forebay.Source) { s.Settings.Sync = forebay.SyncUnsafe }))
		before := time.Now()
		res, err := e.Ingest(t.Context(), "web", mapping.JSON([]byte(`{"id":1,"user":{"name":"x"}}`)))
		if err != nil || res.Sinks[0].Status != forebay.Queued || !time.Now().Equal(before) {
			t.Fatalf("got %+v %v after %s, want a queued record at once, no error", res, err, time.Since(before))
		}
		must(t, e.Flush(t.Context(), "web"))
		if n := len(mem.Rows("in.c-web.users")); n != 1 {
			t.Fatalf("got %d rows, want 1", n)
		}
	})
}

func TestBatchGivesAVerdictForEachRecord(t *testing.T) {
	e, mem := openMemory(t)
	mustDefine(t, e, events())
	var recs []*mapping.Record
	for i := range 10 {
		body := fmt.Sprintf(`{"id":%d,"user":{"name":"x"}}`, i)
		if i == 3 {
			body = `{"id":3}`
		}
		recs = append(recs, mapping.JSON([]byte(body)))
	}
	results, err := e.IngestBatch(t.Context(), "web", recs)
	if err == nil || !strings.Contains(err.Error(), "record 3") {
		t.Fatalf("error %v, want one that names record 3", err)
	}
	for i, r := range results {
		if kept := r.Sinks[0].Status == forebay.Stored; kept != (i != 3) {
			t.Errorf("record %d: %+v", i, r)
		}
	}
	must(t, e.Flush(t.Context(), "web"))
	users := mem.Rows("in.c-web.users")
	if len(users) != 9 || users[3][0] != "4" || len(mem.Rows("in.c-web.raw")) != 10 {
		t.Fatalf("users %q", users)
	}
}

func TestClosedEngineRefuses(t *testing.T) {
	e, _ := openMemory(t)
	mustDefine(t, e, events())
	mustDefine(t, e, forebay.Source{ID: "without-sinks"})
	must(t, e.Close())
	if _, err := e.Ingest(t.Context(), "without-sinks", mapping.JSON([]byte(`{}`))); !errors.Is(err, forebay.ErrClosed) {
		t.Errorf("ingest without sinks: %v", err)
	}
	if _, err := e.Ingest(t.Context(), "web", mapping.JSON([]byte(`{"id":1,"user":{"name":"x"}}`))); !errors.Is(err, forebay.ErrClosed) {
		t.Errorf("ingest: %v", err)
	}
	if err := e.Define(t.Context(), events()); err == nil {
		t.Error("define succeeded")
	}
	if err := e.Flush(t.Context(), "web"); !errors.Is(err, forebay.ErrClosed) {
		t.Errorf("flush: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}

func TestEndedContextStoresNothing(t *testing.T) {
	e, _ := openMemory(t)
	mustDefine(t, e, events())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Ingest(ctx, "web", mapping.JSON([]byte(`{"id":1,"user":{"name":"x"}}`))); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	must(t, e.FlushAll(t.Context()))
	for _, s := range e.Stats().Sinks {
		if s.Accepted != 0 {
			t.Errorf("sink %s has %d rows", s.Sink, s.Accepted)
		}
	}
}

// The disk hangs while a caller waits. The caller's error says that the outcome is unknown, and the row is kept.
func TestCancelledWaitReportsUnknownOutcome(t *testing.T) {
	var hang atomic.Bool
	hung, release := make(chan struct{}, 1), make(chan struct{})
	fs := disktest.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		syncs := op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo
		if syncs && hang.CompareAndSwap(true, false) {
			hung <- struct{}{}
			<-release
		}
		return nil
	}))
	e, mem := openMemory(t, func(o *forebay.Options) { o.Buffer = localdisk.On(o.Buffer, fs) })
	mustDefine(t, e, events())
	ctx, cancel := context.WithCancel(t.Context())
	hang.Store(true)
	go func() {
		<-hung
		cancel()
	}()
	res, err := e.Ingest(ctx, "web", mapping.JSON([]byte(`{"id":1,"user":{"name":"x"}}`)))
	if !errors.Is(err, context.Canceled) || res.Sinks[0].Status != forebay.Failed {
		t.Fatalf("got %+v %v, want Failed with the context's error", res, err)
	}
	close(release)
	must(t, e.Flush(t.Context(), "web"))
	if n := len(mem.Rows("in.c-web.users")); n != 1 {
		t.Fatalf("got %d rows, want 1", n)
	}
}

// A target that takes nothing holds up its own sink alone. At its bound the sink refuses records, and the other sink continues.
func TestHeldSinkRefusesAtItsBoundAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, mem := openMemory(t, func(o *forebay.Options) { o.Buffer.MaxSinkBytes = 64 << 10 })
		src := events(func(s *forebay.Source) {
			s.Settings = forebay.Settings{Compression: forebay.CompressionNone, Upload: trigger.Conditions{Size: 10 << 10}, Import: trigger.Conditions{Size: 10 << 10}}
		})
		mustDefine(t, e, src)
		mem.Alter("in.c-web.raw", datatype.UntypedColumns("other")...)
		body := []byte(`{"id":1,"user":{"name":"` + strings.Repeat("x", 4000) + `"}}`)
		var over *buffer.OverloadError
		for range 100 {
			res, err := e.Ingest(t.Context(), "web", mapping.JSON(body))
			synctest.Wait()
			if res.Sinks[0].Status != forebay.Stored {
				t.Fatalf("users: %+v", res)
			}
			if errors.As(err, &over) {
				break
			}
		}
		if over == nil || over.Resource != "sink" {
			t.Fatalf("no overload of the sink that is held up: %v", over)
		}
		mem.Alter("in.c-web.raw", datatype.UntypedColumns("uuid", "at", "body")...)
		must(t, e.Flush(t.Context(), "web"))
		synctest.Wait()
		if _, err := e.Ingest(t.Context(), "web", mapping.JSON(body)); err != nil {
			t.Fatalf("after the mending: %v", err)
		}
	})
}

func TestOptionsAreRefusedTogether(t *testing.T) {
	err := forebay.Options{MaxRowBytes: -1, Buffer: buffer.Tuning{SyncInterval: -1}}.Validate()
	for _, want := range []string{"MaxRowBytes", "SyncInterval"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not tell of %s", err, want)
		}
	}
	if _, err := forebay.Open("", forebay.Options{}); err == nil {
		t.Error("a data directory without a name was opened")
	}
}

func TestSecretIsNotPrinted(t *testing.T) {
	s := events(func(s *forebay.Source) { s.Secret = "hush" })
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("defined", "source", s)
	if text := fmt.Sprintf("%v %+v %s", s, s, log.String()); strings.Contains(text, "hush") {
		t.Errorf("the secret shows in %s", text)
	}
}

// A large body for many sinks is more than the memory bound of the buffer, so it goes in portions.
func TestLargeBodyForManySinks(t *testing.T) {
	e, _ := openMemory(t, func(o *forebay.Options) { o.Buffer.MaxPendingBytes, o.Buffer.AdmissionWait = 8<<20, time.Minute })
	src := forebay.Source{ID: "web"}
	for i := range 30 {
		src.Sinks = append(src.Sinks, forebay.Sink{ID: fmt.Sprint("s", i), Table: forebay.Table{
			ID: fmt.Sprint("in.c-web.t", i), Columns: mapping.Columns{mapping.Body("body")},
		}})
	}
	mustDefine(t, e, src)
	recs := []*mapping.Record{
		mapping.JSON([]byte(`"` + strings.Repeat("x", 1<<20) + `"`)), mapping.JSON([]byte(`"small"`)),
	}
	results, err := e.IngestBatch(t.Context(), "web", recs)
	must(t, err)
	for i, r := range results {
		for _, s := range r.Sinks {
			if s.Status != forebay.Stored {
				t.Errorf("record %d, sink %s: %v %v", i, s.Sink, s.Status, s.Err)
			}
		}
	}
	for _, s := range e.Stats().Sinks {
		if s.Accepted != 2 {
			t.Errorf("sink %s has %d rows, want 2", s.Sink, s.Accepted)
		}
	}
}

// When a bound is reached in the middle of a batch, the results tell which rows were stored.
func TestOverloadInTheMiddleOfABatch(t *testing.T) {
	e, mem := openMemory(t, func(o *forebay.Options) { o.Buffer.MaxDiskBytes, o.Buffer.MaxSinkBytes = 4<<20, 8<<20 })
	mustDefine(t, e, events(func(s *forebay.Source) {
		s.Sinks = s.Sinks[1:]
		s.Settings.Compression = forebay.CompressionNone
	}))
	var recs []*mapping.Record
	for range 20 {
		recs = append(recs, mapping.JSON([]byte(`"`+strings.Repeat("x", 500<<10)+`"`)))
	}
	results, err := e.IngestBatch(t.Context(), "web", recs)
	var over *buffer.OverloadError
	if !errors.As(err, &over) {
		t.Fatalf("error %v, want an overload", err)
	}
	stored := 0
	for i, r := range results {
		switch s := r.Sinks[0]; {
		case s.Status == forebay.Stored && s.Err == nil:
			stored++
		case s.Status != forebay.Failed || !errors.As(s.Err, &over):
			t.Errorf("record %d: %+v", i, s)
		}
	}
	must(t, e.FlushAll(t.Context()))
	if rows := len(mem.Rows("in.c-web.raw")); stored == 0 || stored == len(recs) || rows != stored {
		t.Errorf("%d of %d records are said to be stored, the table has %d", stored, len(recs), rows)
	}
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
}

// mustIngest ends the test if the record is not taken by an engine or an intake.
func mustIngest(t testing.TB, in interface {
	Ingest(ctx context.Context, source string, rec *mapping.Record) (forebay.Result, error)
}, source string, rec *mapping.Record,
) {
	t.Helper()
	_, err := in.Ingest(t.Context(), source, rec)
	must(t, err)
}
