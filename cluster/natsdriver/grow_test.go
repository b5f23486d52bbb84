package natsdriver

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/internal/clustertest"
	"github.com/forebay/forebay/cluster/natsserver"
	"github.com/forebay/forebay/internal/seedtest"
)

// used appends until the log takes so many bytes, or until the log refuses a record.
func used(t *testing.T, l *Log, w changelog.Writer, instance string, number *uint64, bytes int64) (changelog.Stat, error) {
	t.Helper()
	stat, err := l.Stat(within(t), instance)
	if err != nil {
		t.Fatal(err)
	}
	var tickets []changelog.Ticket
	for n := (bytes - stat.Bytes) / changelog.PartBytes; n > 0; n-- {
		*number++
		tickets = append(tickets, w.Append(batch(1, *number, strings.Repeat("x", changelog.PartBytes))))
	}
	for _, ticket := range tickets {
		if _, failed := ticket.Wait(within(t)); failed != nil && err == nil {
			err = failed
		}
	}
	stat, late := l.Stat(within(t), instance)
	if late != nil {
		t.Fatal(late)
	}
	return stat, err
}

// Servers with room for ten small reservations keep nine logs, each of which may grow to 1 GiB. Logs that grow reserve more for as long as
// there is room. When it ends, the error says what to do, and a log that is deleted gives its room to another.
func TestReservationsFollowTheLogs(t *testing.T) {
	t.Parallel()
	c, err := clustertest.Start(func(o *natsserver.Options) { o.MaxStore = 10*firstBytes + firstBytes/2 })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	conn, err := c.Connect(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	l, err := NewLog(conn, patient(Options{MaxBytes: 1 << 30}))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 9 {
		if err := l.Create(t.Context(), fmt.Sprint("i", i)); err != nil {
			t.Fatalf("log %d of 9: %v", i+1, err)
		}
	}
	const small, large = firstBytes - markerBytes, 2*firstBytes - markerBytes
	first, n := open(t, l, "i0", 1), uint64(0)
	for _, step := range []struct{ bytes, want int64 }{{small / 2, small}, {small/2 + 3*changelog.PartBytes, large}} {
		if stat, err := used(t, l, first, "i0", &n, step.bytes); err != nil || stat.MaxBytes != step.want {
			t.Fatalf("a log with %d bytes: MaxBytes is %d, %v, want %d", stat.Bytes, stat.MaxBytes, err, step.want)
		}
	}
	second, m := open(t, l, "i1", 1), uint64(0)
	stat, err := used(t, l, second, "i1", &m, 2*small)
	if !errors.Is(err, changelog.ErrFull) || !strings.Contains(err.Error(), "MaxStore") || stat.MaxBytes != small {
		t.Errorf("append without room on the servers = %v, with MaxBytes %d, want changelog.ErrFull, MaxStore and %d", err, stat.MaxBytes, small)
	}
	hasty, err := NewLog(conn, Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	// The leader of the servers knows what another server has reserved only after some seconds, and allows a log too many until then.
	if err := clustertest.Eventually(func() error {
		err := hasty.Create(t.Context(), "i9")
		if err != nil && strings.Contains(err.Error(), "MaxStore") {
			return nil
		}
		return errors.Join(fmt.Errorf("create without room on the servers = %v, want an error that names MaxStore", err), l.Delete(t.Context(), "i9"))
	}); err != nil {
		t.Fatal(err)
	}
	if err := l.Delete(t.Context(), "i8"); err != nil {
		t.Fatal(err)
	}
	if err := clustertest.Eventually(func() error {
		stat, err := l.Stat(within(t), "i1")
		if err == nil && stat.MaxBytes != large {
			err = fmt.Errorf("MaxBytes is %d after another log was deleted, want %d", stat.MaxBytes, large)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	// The next owner needs less.
	if err := l.Trim(within(t), "i1", stat.Last); err != nil {
		t.Fatal(err)
	}
	if stat, err := l.Stat(within(t), "i1"); err != nil || stat.MaxBytes != large {
		t.Errorf("after the trim MaxBytes is %d, %v, want %d: its writer counts on that", stat.MaxBytes, err, large)
	}
	open(t, l, "i1", 2)
	if stat, err := l.Stat(within(t), "i1"); err != nil || stat.MaxBytes != small {
		t.Errorf("with the next owner MaxBytes is %d, %v, want %d", stat.MaxBytes, err, small)
	}
}

// A writer alone reserves more, up to the bound of the log and not beyond it. Every record is there afterwards.
func TestWriterReservesMore(t *testing.T) {
	l := newLog(t, 1, Options{MaxBytes: firstBytes + minBytes})
	instance := created(t, l)
	w, n := open(t, l, instance, 1), uint64(0)
	stat, err := used(t, l, w, instance, &n, 4*firstBytes)
	if want := int64(firstBytes + minBytes - markerBytes); !errors.Is(err, changelog.ErrFull) || stat.MaxBytes != want || stat.Bytes < want-2*changelog.PartBytes {
		t.Errorf("a full log has %d of %d bytes (%v), want at most %d and changelog.ErrFull", stat.Bytes, stat.MaxBytes, err, want)
	}
	batches := read(t, l, instance)
	for i, e := range batches {
		if e.Number != uint64(i+1) {
			t.Fatalf("batch %d is at place %d", e.Number, i+1)
		}
	}
	if got := int64(len(batches)) * changelog.PartBytes; got < stat.MaxBytes-4*changelog.PartBytes {
		t.Errorf("%d batches are there, with %d of %d bytes, want at least %v", len(batches), got, stat.MaxBytes, stat.MaxBytes-4*changelog.PartBytes)
	}
}

// Two callers may change a reservation at once, and the later change may be the smaller one. A log then refuses records, and loses none. It accepts
// records again after the next Stat.
func TestReservationBelowTheSizeLosesNothing(t *testing.T) {
	l := newLog(t, 1, Options{})
	instance := created(t, l)
	w, n := open(t, l, instance, 1), uint64(0)
	if _, err := used(t, l, w, instance, &n, 8*changelog.PartBytes); err != nil {
		t.Fatal(err)
	}
	_, info, err := l.stream(within(t), instance)
	if err != nil {
		t.Fatal(err)
	}
	config := info.Config
	config.MaxBytes = changelog.PartBytes
	if _, err := l.js.UpdateStream(within(t), config); err != nil {
		t.Fatal(err)
	}
	if batches := read(t, l, instance); len(batches) != int(n) {
		t.Fatalf("with a reservation of %d bytes the log has %d batches, want all %d", config.MaxBytes, len(batches), n)
	}
	if _, err := l.Stat(within(t), instance); err != nil {
		t.Fatal(err)
	}
	n++
	if _, err := w.Append(batch(1, n, "x")).Wait(within(t)); err != nil {
		t.Errorf("append after Stat = %v, want nil", err)
	}
	if batches := read(t, l, instance); len(batches) != int(n) {
		t.Errorf("the log has %d batches, want all %d", len(batches), n)
	}
}

// A log uses at most half of its reservation, unless the limit is reached. A small log has a small reservation.
func TestWantedReservation(t *testing.T) {
	rng := seedtest.Rand(t)
	for range 1000 {
		bytes, most := rng.Int64N(1<<rng.IntN(34)+1), minBytes+rng.Int64N(4<<30)
		got := wanted(bytes, most)
		if got > most || got < min(firstBytes, most) || got < most && bytes > (got-markerBytes)/2 || got > firstBytes && got < most && bytes <= (got/2-markerBytes)/2 {
			t.Errorf("wanted(%d, %d) = %d", bytes, most, got)
		}
	}
}

// A log that an earlier release made has reserved all that it may have. Its next owner gives most of it back, and the log can grow to as much as before.
func TestLogOfAnEarlierReleaseGivesRoomBack(t *testing.T) {
	const most = 4 * firstBytes
	l := newLog(t, 0, Options{MaxBytes: firstBytes})
	instance := created(t, l)
	_, info, err := l.stream(t.Context(), instance)
	if err != nil {
		t.Fatal(err)
	}
	before := info.Config
	before.MaxBytes = most
	delete(before.Metadata, metaBound)
	if _, err := l.js.UpdateStream(within(t), before); err != nil {
		t.Fatal(err)
	}
	if stat, err := l.Stat(within(t), instance); err != nil || stat.MaxBytes != most-markerBytes {
		t.Fatalf("before it is opened MaxBytes is %d, %v, want %d", stat.MaxBytes, err, most-markerBytes)
	}
	open(t, l, instance, 1)
	_, info, err = l.stream(t.Context(), instance)
	if err != nil || info.Config.MaxBytes != firstBytes || limit(info) != most {
		t.Errorf("then it reserves %d of at most %d bytes, %v, want %d of %d", info.Config.MaxBytes, limit(info), err, firstBytes, most)
	}
}
