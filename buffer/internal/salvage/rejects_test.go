package salvage

import (
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer/internal/format"
)

func (s *story) reject(seq uint64, edit uint32) {
	r := format.Reject{ID: format.RejectID("old", seq), SinkID: "a", At: 1, Came: 3, Revision: edit, Edit: edit}
	s.put(format.RejectKey(1, seq), format.Encode(&r))
}

func (s *story) record(seq uint64, revision uint32) {
	s.put(format.RecordKey(1, seq, revision), []byte("rec"))
}

// What is found of a quarantine is kept if head and record are there, and everything else is counted and reported.
func TestSettleRejects(t *testing.T) {
	bounds := format.Quarantine{On: true, MaxBytes: 1, MaxRecords: 1, MaxAge: time.Hour}
	with := func(added, replayed int64) format.Sink {
		q := bounds
		q.Added.Rows, q.Replayed.Rows = added, replayed
		return format.Sink{ID: "a", Quarantine: q}
	}
	for name, c := range map[string]struct {
		write       func(s *story)
		held, edits int
		added, lost int64
		reason      string // part of the only loss, empty for none
	}{
		"all is there": {func(s *story) {
			s.sink(1, with(2, 0))
			s.reject(1, 0)
			s.record(1, 0)
			s.record(2, 3)
			s.reject(2, 3)
			s.record(2, 0)
			s.reject(2, 0) // an earlier version, found later
		}, 2, 1, 2, 0, ""},
		"one of another engine arrives, one is there": {func(s *story) {
			s.sink(1, with(1, 0))
			s.reject(1, 0)
			s.record(1, 0)
			arriving := format.Reject{ID: "other-x1", SinkID: "a", At: 1, Came: 3, Moved: true, From: &format.Arrival{}}
			s.put(format.RejectKey(1, 2), format.Encode(&arriving))
			s.record(2, 0)
		}, 2, 0, 1, 0, ""},
		"a record is lost": {func(s *story) {
			s.sink(1, with(2, 0))
			s.reject(1, 0)
			s.record(1, 0)
			s.reject(2, 0)
		}, 1, 0, 2, 1, "1 records of the quarantine are lost"},
		"a head is lost": {func(s *story) {
			s.sink(1, with(1, 0))
			s.record(1, 0)
		}, 0, 0, 1, 1, "1 records of the quarantine are lost"},
		"an edit is lost": {func(s *story) {
			s.sink(1, with(1, 0))
			s.reject(1, 2)
			s.record(1, 0)
		}, 1, 0, 1, 0, "the edit of the rejected record old-x000000000001 is lost"},
		"what was replayed does not come back": {func(s *story) {
			s.remove(format.RejectKey(1, 1))
			s.remove(format.RecordKey(1, 1, 0))
			s.sink(1, with(1, 1))
			s.reject(1, 0)
			s.record(1, 0)
		}, 0, 0, 1, 0, ""},
		"the deletion is lost": {func(s *story) {
			s.sink(1, with(1, 1))
			s.reject(1, 0)
			s.record(1, 0)
		}, 1, 0, 2, 0, "look into the table before you replay them"},
		"the sink is lost": {func(s *story) {
			s.reject(1, 0)
			s.record(1, 0)
		}, 1, 0, 1, 0, "1 records more than its ledger"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &story{f: newFound(), t: t}
			c.write(s)
			lost := &losses{at: time.Unix(1000, 0), store: "damaged-1"}
			p := settle(s.f, lost, "new", format.Typed)
			var version string
			var sink format.Sink
			held, edits, arriving, wantVersion := 0, 0, 0, "3"
			for _, r := range p.records {
				switch {
				case string(r.key) == format.KeyFormat:
					version = string(r.value)
				case r.key[0] == format.PrefixSink:
					if err := format.Decode(r.value, &sink); err != nil {
						t.Fatal(err)
					}
				case r.key[0] == format.PrefixReject:
					var head format.Reject
					if err := format.Decode(r.value, &head); err != nil {
						t.Fatal(err)
					}
					if held++; head.Edit > 0 {
						edits++
					}
					if head.Moved {
						arriving, wantVersion = arriving+1, "4"
					}
				}
			}
			if n := len(p.keepRecords); held != c.held || edits != c.edits || n != held+edits {
				t.Errorf("%d heads with %d edits and %d records are kept, want %d and %d", held, edits, n, c.held, c.edits)
			}
			q := sink.Quarantine
			if sink.ID != "a" || q.Added.Rows != c.added || q.Lost.Rows != c.lost || q.Added.Rows != q.Left()+int64(held-arriving) || q.MaxAge == 0 || version != wantVersion {
				t.Errorf("format %s, sink %s has %+v", version, sink.ID, q)
			}
			switch {
			case c.reason == "" && len(lost.list) > 0, c.reason != "" && (len(lost.list) != 1 || !strings.Contains(lost.list[0].Reason, c.reason)):
				t.Errorf("the losses are %+v, want %q", lost.list, c.reason)
			}
		})
	}
}
