package buffer_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/internal/synctest"
)

// openEmpty opens a buffer on a separate disk.
func openEmpty(t *testing.T) *buffer.Buffer {
	return openAt(t, "data", localdisk.On(memoryOptions(t, buffertest.NewMemory()), disktest.New(t)))
}

// receive moves the quarantines of another buffer up to the decision.
func receive(t *testing.T, b, other *buffer.Buffer, instance string, want int) {
	t.Helper()
	if n, err := b.Moves().ReceiveRejected(t.Context(), other, buffer.Mover{Instance: instance, Session: "s", Epoch: 7}); err != nil || n != want {
		t.Fatalf("ReceiveRejected from %s = %d, %v, want %d", instance, n, err, want)
	}
}

// described is what callers see of a record, with its bytes.
func described(t *testing.T, b *buffer.Buffer, sink string) (all []string) {
	t.Helper()
	for _, r := range list(t, b, sink) {
		_, record, came, err := b.Sink(sink).RejectedRecord(t.Context(), r.ID)
		must(t, err)
		r.Place = ""
		all = append(all, fmt.Sprintf("%+v %q %q", r, record, came))
	}
	return all
}

// A record that moves keeps its id, time, reason, revision, edit and bytes, over two engines. It can be listed after any record, edited,
// replayed and discarded, even after a restart.
func TestRejectedRecordsMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := openEmpty(t), openEmpty(t)
		disk, mem := disktest.New(t), buffertest.NewMemory()
		third := openAt(t, "data", localdisk.On(memoryOptions(t, mem), disk))
		reject(t, first, define(t, first, "a", quarantined()), "one", "two", "three", "four")
		reject(t, first, define(t, first, "gone", quarantined()), "five")
		edited := list(t, first, "a")[1]
		must(t, first.Sink("a").UpdateRejected(t.Context(), edited.ID, 0, []byte("still"), []byte("edited")))
		time.Sleep(time.Hour)
		want, gone := described(t, first, "a"), described(t, first, "gone")
		reject(t, third, define(t, third, "a", quarantined()), "own")
		own := described(t, third, "a")

		receive(t, second, first, "1st", 5)
		if n := list(t, second, "a"); len(n) > 0 {
			t.Errorf("the list has %v before the decision", n)
		}
		if _, err := second.Sink("a").DiscardRejected(t.Context(), edited.ID); err != nil {
			t.Fatal(err)
		}
		must(t, second.Moves().EndArrival(t.Context(), "1st", true))
		verify(t, second)
		receive(t, third, second, "2nd", 5)
		if got, want := third.Moves().Arrivals(), []buffer.Arrival{{Mover: buffer.Mover{Instance: "2nd", Session: "s", Epoch: 7}, Records: 5}}; !slices.Equal(got, want) {
			t.Errorf("Arrivals = %v, want %v", got, want)
		}
		closeBuffer(t, third)
		third = openAt(t, "data", localdisk.On(memoryOptions(t, mem), disk))
		must(t, third.Moves().EndArrival(t.Context(), "2nd", true))
		closeBuffer(t, third)
		third = openAt(t, "data", localdisk.On(memoryOptions(t, mem), disk))
		if got := described(t, third, "a"); !slices.Equal(got, append(own, want...)) {
			t.Errorf("the quarantine has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(append(own, want...), "\n"))
		}
		if got := described(t, third, "gone"); !slices.Equal(got, gone) {
			t.Errorf("the quarantine of a sink that the engine never had has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(gone, "\n"))
		}
		verify(t, third)
		all := list(t, third, "a")
		for i, r := range all {
			for _, after := range []string{r.ID, r.Place} {
				n := 0
				for range third.Sink("a").Rejected(t.Context(), after) {
					n++
				}
				if want := len(all) - 1 - i; n != want {
					t.Errorf("after %s there are %d records, want %d", after, n, want)
				}
			}
		}
		s := define(t, third, "a", quarantined())
		outcomes, err := s.ReplayRejected(t.Context(), time.Now(), buffer.ReplayRow{ID: all[1].ID, Row: row(1, "one")}, buffer.ReplayRow{ID: edited.ID, Revision: 0, Row: row(2, "x")})
		if err != nil || outcomes[0] != nil || !errors.Is(outcomes[1], buffer.ErrRejectedChanged) {
			t.Errorf("ReplayRejected = %v, %v", outcomes, err)
		}
		if n, err := third.Sink("a").DiscardRejected(t.Context(), all[3].ID, all[1].ID); n != 1 || err != nil {
			t.Errorf("DiscardRejected = %d, %v, want one of two", n, err)
		}
		if err := third.Sink("a").UpdateRejected(t.Context(), all[4].ID, 0, []byte("now"), []byte("4th")); err != nil {
			t.Error(err)
		}
		wantRecords(t, third, "a", "own, edited from two, 4th from four")
		verify(t, third)
		// They are an hour older than the record of this engine, and expire before it.
		time.Sleep(30*24*time.Hour - 30*time.Minute)
		synctest.Wait()
		wantRecords(t, third, "a", "own")
		verify(t, third)
	})
}

// Records that do not arrive after all leave nothing, and neither does an earlier attempt. A quarantine without room takes none.
func TestRejectedRecordsThatDoNotMove(t *testing.T) {
	first, second := openEmpty(t), openEmpty(t)
	rejectAt(t, time.Now().Add(-time.Hour), first, define(t, first, "a", quarantined()), "one", "two")
	define(t, second, "a", quarantined(func(q *buffer.QuarantineBounds) { q.MaxRecords = 3 }))
	for range 3 {
		receive(t, second, first, "1st", 2)
	}
	before := second.Stats().LocalBytes
	must(t, second.Moves().EndArrival(t.Context(), "1st", false))
	if len(second.Moves().Arrivals()) > 0 || len(list(t, second, "a")) > 0 || second.Stats().LocalBytes >= before {
		t.Errorf("left are %v, %v and %d of %d bytes", second.Moves().Arrivals(), list(t, second, "a"), second.Stats().LocalBytes, before)
	}
	reject(t, second, define(t, second, "a", quarantined(func(q *buffer.QuarantineBounds) { q.MaxRecords = 3 })), "own", "also own")
	full := (*buffer.OverloadError)(nil)
	if _, err := second.Moves().ReceiveRejected(t.Context(), first, buffer.Mover{Instance: "1st"}); !errors.As(err, &full) || full.Resource != "quarantine" {
		t.Errorf("ReceiveRejected into a full quarantine = %v, want an OverloadError", err)
	}
	wantRecords(t, first, "a", "one, two")
	wantRecords(t, second, "a", "own, also own")
	// The oldest make room if the sink says so.
	define(t, second, "a", quarantined(func(q *buffer.QuarantineBounds) { q.MaxRecords, q.DropOldest = 3, true }))
	receive(t, second, first, "1st", 2)
	must(t, second.Moves().EndArrival(t.Context(), "1st", true))
	wantRecords(t, second, "a", "own, also own, two")
	// The records of a sink that is forgotten do not arrive.
	receive(t, second, first, "other", 2)
	must(t, errors.Join(second.Sink("a").Drop(t.Context())))
	for _, r := range list(t, second, "a") {
		if _, err := second.Sink("a").DiscardRejected(t.Context(), r.ID); err != nil {
			t.Fatal(err)
		}
	}
	must(t, errors.Join(second.Sink("a").Forget(t.Context()), second.Moves().EndArrival(t.Context(), "other", true)))
	wantRecords(t, second, "a", "")
	verify(t, second)
}

// Whatever the moment of a power cut, each record is in one quarantine, the first engine's before the decision and the second's after it.
func TestMoveSurvivesAPowerCut(t *testing.T) {
	seed := seedtest.Of(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	for round := range 12 {
		first := openEmpty(t)
		records := 1 + rng.IntN(40)
		var names []string
		for i := range records {
			names = append(names, fmt.Sprintf("%d %s", i, strings.Repeat("x", rng.IntN(200_000))))
		}
		reject(t, first, define(t, first, "a", quarantined()), names...)
		disk, mem := disktest.New(t), buffertest.NewMemory()
		second := openAt(t, "data", localdisk.On(memoryOptions(t, mem), disk))
		define(t, second, "a", quarantined())

		cfg := vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rand.New(rand.NewPCG(seed, uint64(round)))}
		decided, done := make(chan bool), make(chan error, 1)
		go func() {
			_, err := second.Moves().ReceiveRejected(t.Context(), first, buffer.Mover{Instance: "1st"})
			decided <- true
			done <- errors.Join(err, second.Moves().EndArrival(t.Context(), "1st", true))
		}()
		// The cut comes when some of the records are there, or after the decision.
		decision := rng.IntN(2) == 0
		if decision {
			<-decided
		}
		for some := rng.IntN(records + 1); !decision && len(second.Moves().Arrivals()) < min(1, some) || !decision && some > 0 && second.Moves().Arrivals()[0].Records < some; {
			runtime.Gosched()
		}
		cut := disk.Cut(cfg)
		if !decision {
			<-decided
		}
		must(t, <-done)
		after := openAt(t, "data", localdisk.On(memoryOptions(t, mem), cut))
		must(t, after.Moves().EndArrival(t.Context(), "1st", decision))
		want := ""
		if decision {
			want = strings.Join(names, ", ")
		}
		if got := recordsIfKnown(t, after); got != want {
			t.Errorf("seed %d, round %d: the decision is %v, and the second engine has %d bytes of records, want %d", seed, round, decision, len(got), len(want))
		}
		verify(t, after)
		closeBuffer(t, after)
		closeBuffer(t, second)
		closeBuffer(t, first)
	}
}

// recordsIfKnown is records of the sink a, empty if there is no such sink.
func recordsIfKnown(t *testing.T, b *buffer.Buffer) string {
	if _, known := b.Sink("a").Stats(); !known {
		return ""
	}
	return records(t, b, "a")
}
