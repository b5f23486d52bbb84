package changelog_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/changelog/changelogtest"
	"github.com/forebay/forebay/internal/synctest"
)

// options of an appender of a log in memory that has a stream for it.
func appenderOptions(t *testing.T, log changelog.Log) changelog.AppenderOptions {
	t.Helper()
	if err := log.Create(t.Context(), "i"); err != nil {
		t.Fatal(err)
	}
	epoch := uint64(0)
	return changelog.AppenderOptions{
		Log: log, Instance: "i", Node: "a",
		Apply:     func(context.Context, changelog.StoredBatch) error { return nil },
		NextEpoch: func(context.Context) (uint64, error) { epoch++; return epoch, nil },
		Valid:     func() bool { return true },
	}
}

func openAppender(t *testing.T, opts changelog.AppenderOptions) *changelog.Appender {
	t.Helper()
	a, err := changelog.OpenAppender(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

func TestAppenderOptions(t *testing.T) {
	good := appenderOptions(t, changelogtest.NewLog(1, changelogtest.Faults{}))
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	err := changelog.AppenderOptions{Node: "a b", MaxBytes: -1, RetryMin: 2, RetryMax: 1}.Validate()
	if err == nil {
		t.Fatal("wrong options pass")
	}
	for _, want := range []string{
		"Log is required", "Instance is required", `Node is "a b"`, "Apply is required", "NextEpoch is required", "Valid is required",
		"MaxBytes is -1", "RetryMin is 2ns and RetryMax 1ns",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	good.Node = ""
	if _, err := changelog.OpenAppender(t.Context(), good); err == nil {
		t.Error("an appender was opened with wrong options")
	}
}

// At MaxBytes Append waits until something is released or the appender ends. One batch that is larger is let through alone.
func TestAppendWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := changelogtest.NewLog(1, changelogtest.Faults{})
		opts := appenderOptions(t, log)
		opts.MaxBytes = 100 + 2*changelog.BatchOverhead
		a := openAppender(t, opts)
		heal := log.Cut("i", 1, 2)
		larger := a.Append(make([]byte, 2000))
		appended := make(chan *changelog.Pending, 3)
		go func() {
			for range 3 {
				appended <- a.Append(make([]byte, 60))
			}
		}()
		synctest.Wait()
		if n := len(appended); n != 0 {
			t.Fatalf("%d batches were taken at the bound, want 0", n)
		}
		heal()
		if err := larger.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		for want := uint64(2); want <= 4; want++ {
			p := <-appended
			if err := p.Wait(t.Context()); err != nil || p.Number() != want {
				t.Errorf("batch %d: %v, want number %d", p.Number(), err, want)
			}
		}

		log.Cut("i", 1, 2)
		a.Append(make([]byte, 100))
		go func() { appended <- a.Append(make([]byte, 60)) }()
		synctest.Wait()
		a.Close()
		p := <-appended
		if err := p.Wait(t.Context()); !errors.Is(err, changelog.ErrUnknown) || p.Number() != 0 {
			t.Errorf("an append that waited for room when the appender was closed: %d, %v", p.Number(), err)
		}
	})
}

// Calls of several goroutines get one number each, and the log has their batches in the order of the numbers.
func TestAppendConcurrently(t *testing.T) {
	log := changelogtest.NewLog(1, changelogtest.Faults{})
	opts := appenderOptions(t, log)
	opts.MaxBytes = 100 + 3*changelog.BatchOverhead // so that some wait for room
	a := openAppender(t, opts)
	var appended sync.Map // by number
	var callers sync.WaitGroup
	const each = 50
	for caller := range 4 {
		callers.Go(func() {
			for i := range each {
				data := fmt.Sprintf("%d of caller %d", i, caller)
				p := a.Append([]byte(data))
				if err := p.Wait(t.Context()); err != nil {
					t.Errorf("batch %d: %v", p.Number(), err)
				}
				if other, twice := appended.LoadOrStore(p.Number(), data); twice {
					t.Errorf("%q and %q have the number %d", data, other, p.Number())
				}
			}
		})
	}
	callers.Wait()
	read := uint64(0)
	for b, err := range changelog.Batches(t.Context(), log, "i", changelog.Point{}) {
		if err != nil {
			t.Fatal(err)
		}
		read = b.Number
		if want, _ := appended.Load(b.Number); want != string(b.Data) {
			t.Errorf("batch %d is %q, was appended as %q", b.Number, b.Data, want)
		}
	}
	if read != 4*each || a.State().Released.Number != read {
		t.Errorf("the log ends with batch %d, %d were appended, state %+v", read, 4*each, a.State())
	}
}

// lagging is a log whose first reads are served by a replica that has nothing yet.
type lagging struct {
	changelog.Log
	reads int
}

func (l *lagging) Read(ctx context.Context, instance string, from changelog.Position) iter.Seq2[changelog.Entry, error] {
	if l.reads > 0 {
		l.reads--
		return func(func(changelog.Entry, error) bool) {}
	}
	return l.Log.Read(ctx, instance, from)
}

// A log that has accepted a marker after the last batch has not gone back, even if a read ends before that batch.
func TestShortReadIsNotALogThatWentBack(t *testing.T) {
	log := &lagging{Log: changelogtest.NewLog(1, changelogtest.Faults{})}
	opts := appenderOptions(t, log)
	a := openAppender(t, opts)
	if err := a.Append([]byte("x")).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	at := a.State().Released
	a.Close()
	opts.Store = changelog.Mark{Number: 1, Released: at}
	log.reads = 1
	if _, err := changelog.OpenAppender(t.Context(), opts); !errors.Is(err, changelog.ErrUnknown) || errors.Is(err, changelog.ErrWentBack) {
		t.Errorf("after a short read: %v, want that the outcome is unknown", err)
	}
	openAppender(t, opts)
}

// The end of a context ends the waiting and nothing else.
func TestPendingOutlivesAContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := changelogtest.NewLog(1, changelogtest.Faults{Delay: time.Second})
		a := openAppender(t, appenderOptions(t, log))
		p := a.Append([]byte("x"))
		cause := errors.New("no time")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		if err := p.Wait(ctx); !errors.Is(err, cause) {
			t.Errorf("wait: %v, want %v", err, cause)
		}
		if err := p.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(ctx); err != nil {
			t.Errorf("a released batch is not released for a context that has ended: %v", err)
		}
	})
}

// Close ends an appender even if the log does not respond, and while the appender reopens the log.
func TestCloseWhileTheLogIsAway(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			log := changelogtest.NewLog(1, changelogtest.Faults{})
			a := openAppender(t, appenderOptions(t, log))
			log.Cut("i", 1, 2)
			var pending []*changelog.Pending
			for range 3 * changelog.Window {
				pending = append(pending, a.Append([]byte("x")))
			}
			time.Sleep(wait)
			begin := time.Now()
			a.Close()
			if took := time.Since(begin); took > 0 {
				t.Errorf("after %v Close takes %v", wait, took)
			}
			for _, p := range pending {
				if err := p.Wait(t.Context()); !errors.Is(err, changelog.ErrUnknown) {
					t.Errorf("after %v batch %d ended with %v", wait, p.Number(), err)
				}
			}
			if s := a.State(); s.Status != changelog.Ended || !errors.Is(s.Cause, changelog.ErrUnknown) || s.Waiting != 0 {
				t.Errorf("state %+v", s)
			}
		})
	}
}

// An error of the store ends the opening. What it has stored by then is not applied again by the next attempt.
func TestOpenFailsInTheMiddle(t *testing.T) {
	log := changelogtest.NewLog(1, changelogtest.Faults{})
	opts := appenderOptions(t, log)
	a := openAppender(t, opts)
	for _, data := range []string{"one", "two", "three"} {
		if err := a.Append([]byte(data)).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	full := errors.New("the disk is full")
	var store []changelog.StoredBatch
	opts.Node = "b"
	opts.Apply = func(_ context.Context, b changelog.StoredBatch) error {
		if len(store) == 2 && opts.Store.Number == 0 {
			return full
		}
		store = append(store, b)
		return nil
	}
	if _, err := changelog.OpenAppender(t.Context(), opts); !errors.Is(err, full) {
		t.Fatalf("open: %v, want %v", err, full)
	}
	opts.Store = changelog.Mark{Number: 2, Before: store[0].Chain, Released: store[0].Point}
	b := openAppender(t, opts)
	var got []string
	for _, s := range store {
		got = append(got, string(s.Data))
	}
	if text := strings.Join(got, " "); text != "one two three" {
		t.Errorf("the store has %q", text)
	}
	if p := b.Append([]byte("four")); p.Wait(t.Context()) != nil || p.Number() != 4 {
		t.Errorf("the next batch has number %d", p.Number())
	}
	local := errors.New("the store cannot be read")
	opts.Local = func(yield func([]byte, error) bool) { yield(nil, local) }
	if _, err := changelog.OpenAppender(t.Context(), opts); !errors.Is(err, local) {
		t.Errorf("open: %v, want %v", err, local)
	}
}

// A stream that is missing is never taken as an empty one.
func TestMissingLog(t *testing.T) {
	log := changelogtest.NewLog(1, changelogtest.Faults{})
	opts := appenderOptions(t, log)
	if err := log.Delete(t.Context(), "i"); err != nil {
		t.Fatal(err)
	}
	if _, err := changelog.OpenAppender(t.Context(), opts); !errors.Is(err, changelog.ErrMissing) {
		t.Errorf("open: %v, want %v", err, changelog.ErrMissing)
	}
}

// instantLog responds at once and stores nothing. It allocates nothing, so that only the appender is measured.
type instantLog struct{ entries }

type instantWriter struct{}

func (instantLog) Create(context.Context, string) error { return nil }

func (instantLog) Open(context.Context, string, changelog.Record) (changelog.Writer, error) {
	return instantWriter{}, nil
}

func (instantWriter) Marker() changelog.Position { return 1 }

func (instantWriter) Append(changelog.Record) changelog.Ticket { return instantWriter{} }

func (instantWriter) Close() error { return nil }

func (instantWriter) Wait(context.Context) (changelog.Position, error) { return 2, nil }

// A batch costs only its Pending, the channel to wait on, and a list of its parts if it has several.
func TestAppendAllocatesLittle(t *testing.T) {
	a := openAppender(t, appenderOptions(t, instantLog{entries{list: parseEntries("o1a")}}))
	ctx := t.Context()
	for size, most := range map[int]float64{100: 2, 2 * changelog.PartBytes: 3} {
		data := make([]byte, size)
		got := testing.AllocsPerRun(1000, func() {
			if err := a.Append(data).Wait(ctx); err != nil {
				t.Fatal(err)
			}
		})
		if got > most {
			t.Errorf("a batch of %d bytes costs %v allocations, at most %v", size, got, most)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	opts := changelog.AppenderOptions{
		Log: instantLog{entries{list: parseEntries("o1a")}}, Instance: "i", Node: "a",
		Apply:     func(context.Context, changelog.StoredBatch) error { return nil },
		NextEpoch: func(context.Context) (uint64, error) { return 1, nil },
		Valid:     func() bool { return true },
	}
	a, err := changelog.OpenAppender(b.Context(), opts)
	if err != nil {
		b.Fatal(err)
	}
	defer a.Close()
	data := make([]byte, 100<<10)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if err := a.Append(data).Wait(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
