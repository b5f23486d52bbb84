package buffer_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
)

// quarantined defines the sink with a quarantine.
func quarantined(change ...func(*buffer.QuarantineBounds)) func(*buffer.SinkConfig) {
	return func(c *buffer.SinkConfig) {
		c.Quarantine = &buffer.QuarantineBounds{}
		for _, f := range change {
			f(c.Quarantine)
		}
	}
}

// reject appends rejected records in one call and waits for them.
func reject(t *testing.T, b *buffer.Buffer, s *buffer.DefinedSink, data ...string) {
	t.Helper()
	rejectAt(t, time.Now(), b, s, data...)
}

func rejectAt(t *testing.T, at time.Time, b *buffer.Buffer, s *buffer.DefinedSink, data ...string) {
	t.Helper()
	rows := buffer.Rows{Sink: s}
	for _, d := range data {
		rows.Rejects = append(rows.Rejects, buffer.Reject{Info: []byte("why " + d), Data: []byte(d)})
	}
	ticket, err := b.Append(t.Context(), at, rows)
	if err == nil {
		err = ticket.Wait(t.Context())
	}
	must(t, err)
}

// list returns the quarantine of a sink.
func list(t *testing.T, b *buffer.Buffer, sink string) (all []buffer.Rejected) {
	t.Helper()
	for r, err := range b.Sink(sink).Rejected(t.Context(), "") {
		must(t, err)
		all = append(all, r)
	}
	return all
}

// records returns the records of a quarantine as they are now.
func records(t *testing.T, b *buffer.Buffer, sink string) string {
	t.Helper()
	var all []string
	for _, r := range list(t, b, sink) {
		_, record, came, err := b.Sink(sink).RejectedRecord(t.Context(), r.ID)
		must(t, err)
		text := string(record)
		if string(came) != text {
			text += " from " + string(came)
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func wantRecords(t *testing.T, b *buffer.Buffer, sink, want string) {
	t.Helper()
	if got := records(t, b, sink); got != want {
		t.Errorf("the quarantine of %s has %q, want %q", sink, got, want)
	}
}

// replay moves records to the table. The row of a record has its place and value.
func replay(t *testing.T, b *buffer.Buffer, s *buffer.DefinedSink, first int, records ...buffer.Rejected) []error {
	t.Helper()
	var rows []buffer.ReplayRow
	for i, r := range records {
		rows = append(rows, buffer.ReplayRow{ID: r.ID, Revision: r.Revision, Row: row(first+i, "v")})
	}
	outcomes, err := s.ReplayRejected(t.Context(), time.Now(), rows...)
	must(t, err)
	return outcomes
}

func quarantineOf(t *testing.T, b *buffer.Buffer, sink string) buffer.QuarantineStats {
	t.Helper()
	st, ok := b.Sink(sink).Stats()
	if !ok {
		t.Fatalf("no sink %s", sink)
	}
	return st.Quarantine
}

// Rejected records are durable with their call, stay over a restart, and become rows once. The ledger counts each way out.
func TestQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, disk := buffertest.NewMemory(), disktest.New(t)
		opts := localdisk.On(memoryOptions(t, mem), disk)
		b := openAt(t, "data", opts)
		s := define(t, b, "a", quarantined())
		ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{
			Sink: s, Data: row(0, "v"), Count: 1, Rejects: []buffer.Reject{{Info: []byte("column n"), Data: []byte("one")}},
		})
		if err == nil {
			err = ticket.Wait(t.Context())
		}
		must(t, err)
		began := time.Now()
		time.Sleep(time.Hour)
		reject(t, b, s, "two", "three", "", "five")
		closeBuffer(t, b)
		wantFormat(t, disk, "3/3")

		b = openAt(t, "data", opts)
		s = define(t, b, "a", quarantined())
		wantRecords(t, b, "a", "one, two, three, , five")
		all := list(t, b, "a")
		if r := all[0]; string(r.Info) != "column n" || !r.At.Equal(began) || r.SinkID != "a" || r.Revision != 0 || r.Edited || r.Size != 256+8+3 {
			t.Errorf("the first record is %+v", r)
		}
		for r, err := range b.Sink("a").Rejected(t.Context(), all[2].ID) {
			if err != nil || r.ID != all[3].ID {
				t.Errorf("behind the third record is %+v, %v", r, err)
			}
			break
		}
		verify(t, b)
		if got := replay(t, b, s, 1, all[1], all[0], all[1]); got[0] != nil || got[1] != nil || !errors.Is(got[2], buffer.ErrUnknownRejected) {
			t.Errorf("replay: %v", got)
		}
		if n, err := b.Sink("a").DiscardRejected(t.Context(), all[3].ID, all[0].ID, "nobody"); n != 1 || err != nil {
			t.Errorf("discard: %d, %v", n, err)
		}
		wantRecords(t, b, "a", "three, five")
		st := quarantineOf(t, b, "a")
		if !st.OldestAt.Equal(all[2].At) || st.Bytes != all[2].Size+all[4].Size {
			t.Errorf("got %+v, want the age and size of %+v", st, all[2])
		}
		st.Bounds, st.OldestAt, st.Bytes = buffer.QuarantineBounds{}, time.Time{}, 0
		if want := (buffer.QuarantineStats{On: true, Records: 2, Added: 5, Replayed: 2, Discarded: 1}); st != want {
			t.Errorf("the counters are %+v, want %+v", st, want)
		}
		report, err := b.Verify(t.Context())
		if err != nil || !report.OK() || report.Sinks[0].Quarantined != 2 || report.Sinks[0].Accepted != 3 {
			t.Errorf("verify: %+v, %v", report, err)
		}
		flush(t, b, "a")
		wantIDs(t, mem, "in.c-test.a", 0, 3)
		closeBuffer(t, b)

		i, err := buffer.Inspect("data", localdisk.On(buffer.InspectOptions{}, localdisk.Of(opts)))
		must(t, err)
		defer i.Close()
		for r, err := range i.Rejected(t.Context(), "a", "") {
			if _, record, _, e := i.RejectedRecord(t.Context(), "a", r.ID); string(record) != "three" || errors.Join(err, e) != nil {
				t.Errorf("an inspection finds %q, %v, %v", record, err, e)
			}
			break
		}
		if report, err := i.Verify(t.Context()); err != nil || !report.OK() || report.Sinks[0].Quarantined != 2 {
			t.Errorf("verify: %+v, %v", report, err)
		}
	})
}

// An edit keeps the original record. What rests on an earlier revision is refused, so that no edit is lost in a replay.
func TestEditsOfRejectedRecords(t *testing.T) {
	mem := buffertest.NewMemory()
	opts := memoryOptions(t, mem)
	b := openAt(t, "data", opts)
	s := define(t, b, "a", quarantined())
	reject(t, b, s, "bad")
	before := list(t, b, "a")[0]
	update := func(revision int, info, data string) error {
		edit := []byte(data)
		if data == "-" {
			edit = nil
		}
		return b.Sink("a").UpdateRejected(t.Context(), before.ID, revision, []byte(info), edit)
	}
	for i, u := range []struct{ data, want string }{{"good", "good from bad"}, {"-", "good from bad"}, {"better", "better from bad"}} {
		must(t, update(i, fmt.Sprint("info ", i), u.data))
		wantRecords(t, b, "a", u.want)
		if err := update(i, "late", "late"); !errors.Is(err, buffer.ErrRejectedChanged) {
			t.Errorf("an update of revision %d: %v", i, err)
		}
		verify(t, b)
	}
	closeBuffer(t, b)
	b = openAt(t, "data", opts)
	s = define(t, b, "a", quarantined())
	wantRecords(t, b, "a", "better from bad")
	r := list(t, b, "a")[0]
	if r.Revision != 3 || !r.Edited || string(r.Info) != "info 2" || !r.At.Equal(before.At) || r.Size != 256+int64(len("info 2"+"better"+"bad")) {
		t.Errorf("after the edits: %+v", r)
	}
	if got := replay(t, b, s, 0, before); !errors.Is(got[0], buffer.ErrRejectedChanged) {
		t.Errorf("replay of the first revision: %v", got)
	}
	if got := replay(t, b, s, 0, r); got[0] != nil {
		t.Errorf("replay of the last revision: %v", got)
	}
	if err := update(3, "x", "x"); !errors.Is(err, buffer.ErrUnknownRejected) {
		t.Errorf("an update after the replay: %v", err)
	}
	if _, _, _, err := b.Sink("a").RejectedRecord(t.Context(), r.ID); !errors.Is(err, buffer.ErrUnknownRejected) {
		t.Errorf("a look after the replay: %v", err)
	}
	closeBuffer(t, b)
	if left := storedKinds(t, localdisk.Of(opts)); strings.ContainsAny(left, "xy") {
		t.Errorf("the store still has records of the kinds %s", left)
	}
}

// Any number of replays of a record make one row.
func TestReplaysAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		b := open(t, memoryOptions(t, mem))
		s := define(t, b, "a", quarantined())
		reject(t, b, s, "bad")
		r := list(t, b, "a")[0]
		results := make(chan error)
		const calls = 8
		for range calls {
			go func() {
				outcomes, err := s.ReplayRejected(t.Context(), time.Now(), buffer.ReplayRow{ID: r.ID, Row: row(0, "v")})
				if err == nil {
					err = outcomes[0]
				}
				results <- err
			}()
		}
		done := 0
		for range calls {
			switch err := <-results; {
			case err == nil:
				done++
			case !errors.Is(err, buffer.ErrUnknownRejected):
				t.Error(err)
			}
		}
		if done != 1 {
			t.Errorf("%d calls have replayed the record, want 1", done)
		}
		flush(t, b, "a")
		wantIDs(t, mem, "in.c-test.a", 0, 1)
		verify(t, b)
	})
}

// A full quarantine refuses, or lets the oldest expire. Nothing goes without being counted.
func TestQuarantineBounds(t *testing.T) {
	const one = 256 + 5 + 1 // "why x" and "x"
	for name, change := range map[string]func(*buffer.QuarantineBounds){
		"bytes":   func(q *buffer.QuarantineBounds) { q.MaxBytes = 5*one + one/2 },
		"records": func(q *buffer.QuarantineBounds) { q.MaxRecords = 5 },
	} {
		for _, oldest := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, oldest out %v", name, oldest), func(t *testing.T) {
				b := open(t, memoryOptions(t, buffertest.NewMemory()))
				s := define(t, b, "a", quarantined(change, func(q *buffer.QuarantineBounds) { q.DropOldest = oldest }))
				for i := range 7 {
					err := s.QuarantineFull(one-256, 0, 0)
					over, full := errors.AsType[*buffer.OverloadError](err)
					if want := i >= 5 && !oldest; full != want || full && (over.Resource != "quarantine" || !strings.Contains(err.Error(), "quarantine")) {
						t.Errorf("before record %d: %v", i, err)
					}
					if !full {
						reject(t, b, s, fmt.Sprint(i))
					}
				}
				want, expired := "0, 1, 2, 3, 4", int64(0)
				if oldest {
					want, expired = "2, 3, 4, 5, 6", 2
				}
				wantRecords(t, b, "a", want)
				if st := quarantineOf(t, b, "a"); st.Expired != expired || st.Added != 5+expired {
					t.Errorf("the counters are %+v", st)
				}
				verify(t, b)
			})
		}
	}
	b := open(t, memoryOptions(t, buffertest.NewMemory()))
	s := define(t, b, "a", quarantined(func(q *buffer.QuarantineBounds) { q.MaxBytes = 1 << 10 }))
	var large *buffer.TooLargeError
	if err := s.QuarantineFull(1<<10, 0, 0); !errors.As(err, &large) || large.Limit != 1<<10 {
		t.Errorf("a record that never fits: %v", err)
	}
	reject(t, b, s, "x")
	var over *buffer.OverloadError
	if err := b.Sink("a").UpdateRejected(t.Context(), list(t, b, "a")[0].ID, 0, nil, make([]byte, 1000)); !errors.As(err, &over) {
		t.Errorf("an edit that does not fit: %v", err)
	}
	if err := b.Sink("a").UpdateRejected(t.Context(), list(t, b, "a")[0].ID, 0, make([]byte, 1000), nil); err != nil {
		t.Errorf("an Info that does not fit: %v", err)
	}
	wantRecords(t, b, "a", "x")

	plain := define(t, b, "plain")
	if err := plain.QuarantineFull(1, 0, 0); !errors.Is(err, buffer.ErrNoQuarantine) {
		t.Errorf("a sink without quarantine: %v", err)
	}
	if _, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: plain, Rejects: []buffer.Reject{{}}}); !errors.Is(err, buffer.ErrNoQuarantine) {
		t.Errorf("a sink without quarantine: %v", err)
	}
	err := (&buffer.QuarantineBounds{MaxBytes: 1, MaxRecords: -1, MaxAge: -1}).Validate()
	for _, field := range []string{"MaxBytes", "MaxRecords", "MaxAge"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("Validate does not name %s: %v", field, err)
		}
	}
}

// Records expire by their age from the first rejection on, also over a restart and without a definition.
func TestRejectedRecordsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := memoryOptions(t, buffertest.NewMemory())
		b := openAt(t, "data", opts)
		s := define(t, b, "a", quarantined(func(q *buffer.QuarantineBounds) { q.MaxAge = time.Hour }))
		reject(t, b, s, "one")
		time.Sleep(40 * time.Minute)
		reject(t, b, s, "two")
		must(t, b.Sink("a").UpdateRejected(t.Context(), list(t, b, "a")[0].ID, 0, []byte("again"), nil))
		closeBuffer(t, b)
		time.Sleep(10 * time.Minute)
		b = openAt(t, "data", opts)
		wantRecords(t, b, "a", "one, two")
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		wantRecords(t, b, "a", "two")
		time.Sleep(40 * time.Minute)
		synctest.Wait()
		wantRecords(t, b, "a", "")
		if st := quarantineOf(t, b, "a"); st.Expired != 2 || st.Bytes != 0 {
			t.Errorf("the counters are %+v", st)
		}
		verify(t, b)
		closeBuffer(t, b)
	})
}

// A sink with records in its quarantine cannot be forgotten, and their numbers are not given again.
func TestForgetNeedsAnEmptyQuarantine(t *testing.T) {
	opts := memoryOptions(t, buffertest.NewMemory())
	b := openAt(t, "data", opts)
	reject(t, b, define(t, b, "a", quarantined()), "one")
	first := list(t, b, "a")[0].ID
	must(t, b.Sink("a").Drop(t.Context()))
	if err := b.Sink("a").Forget(t.Context()); !errors.Is(err, buffer.ErrSinkInUse) {
		t.Errorf("with a record: %v", err)
	}
	if n, err := b.Sink("a").DiscardRejected(t.Context(), first); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if err := b.Sink("a").Forget(t.Context()); err != nil {
		t.Error(err)
	}
	closeBuffer(t, b)
	b = openAt(t, "data", opts)
	defer closeBuffer(t, b)
	reject(t, b, define(t, b, "a", quarantined()), "two")
	all := list(t, b, "a")
	if len(all) != 1 || all[0].ID <= first {
		t.Errorf("after %s the quarantine has %+v", first, all)
	}
	verify(t, b)
}

// storedKinds returns the first bytes of all keys of a store.
func storedKinds(t *testing.T, disk vfs.FS) (kinds string) {
	t.Helper()
	db, err := pebble.Open("data", &pebble.Options{FS: disk, ReadOnly: true, Logger: quiet{}})
	must(t, err)
	defer db.Close()
	it, err := db.NewIter(nil)
	must(t, err)
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		if kind := string(it.Key()[:1]); !strings.HasSuffix(kinds, kind) {
			kinds += kind
		}
	}
	return kinds
}
