package forebay_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/mapping"
)

// One call with many records stops at the bounds, as many calls do.
func TestFullQuarantineInOneCall(t *testing.T) {
	var recs []*mapping.Record
	for range 40 {
		recs = append(recs, mapping.JSON([]byte(bad)))
	}
	for name, bounds := range map[string]buffer.QuarantineBounds{
		"records": {MaxRecords: 2},
		"bytes":   {MaxBytes: 1 << 10},
		"oldest":  {MaxRecords: 2, DropOldest: true},
	} {
		t.Run(name, func(t *testing.T) {
			e, _ := openMemory(t)
			mustDefine(t, e, events(keeping, func(s *forebay.Source) { s.Sinks[0].Quarantine = bounds }))
			_, atomicErr := e.IngestAtomic(t.Context(), "web", forebay.Batch{Records: slices.Values(recs)})
			if _, full := errors.AsType[*buffer.OverloadError](atomicErr); full == bounds.DropOldest {
				t.Errorf("an atomic batch: %v", atomicErr)
			}
			if n := len(rejectedOf(t, e, forebay.RejectedFilter{})); !bounds.DropOldest && n > 0 {
				t.Errorf("%d records of an atomic batch that was refused are kept", n)
			}
			results, err := e.IngestBatch(t.Context(), "web", recs)
			kept := 0
			for i, r := range results {
				switch r.Sinks[0].Status {
				case forebay.Quarantined:
					kept++
				case forebay.Failed:
				default:
					t.Errorf("record %d: %+v", i, r.Sinks[0])
				}
			}
			if bounds.DropOldest {
				if err != nil || kept != len(recs) {
					t.Errorf("%d records were kept: %v", kept, err)
				}
				kept = 2
			} else if _, full := errors.AsType[*buffer.OverloadError](err); !full || kept == 0 || kept > 2 {
				t.Errorf("%d records were kept: %v", kept, err)
			}
			for _, s := range e.Stats().Sinks {
				q := s.Quarantine
				if s.Sink == "users" && (q.Records != int64(kept) || q.Records > int64(q.Bounds.MaxRecords) || q.Bytes > q.Bounds.MaxBytes) {
					t.Errorf("%d records were kept, the quarantine has %+v", kept, q)
				}
			}
		})
	}
}

// A replay gets through a full quarantine, although each record that fails again takes a little more.
func TestReplayOfAFullQuarantine(t *testing.T) {
	e, _ := openMemory(t)
	mustDefine(t, e, events(keeping))
	for i := range 6 {
		body := []byte(bad)
		if i%2 == 0 {
			body = []byte(`{}`)
		}
		mustIngest(t, e, "web", mapping.JSON(body))
	}
	var bounds buffer.QuarantineBounds
	for _, s := range e.Stats().Sinks {
		if s.Sink == "users" {
			bounds = buffer.QuarantineBounds{MaxBytes: s.Quarantine.Bytes}
		}
	}
	mustDefine(t, e, events(keeping, lenient, func(s *forebay.Source) {
		s.Sinks[0].Quarantine = bounds
		s.Sinks[0].Table.Columns[1] = mapping.Path("user", "user.name", mapping.RawString())
	}))
	res, err := e.Sink("web", "users").Quarantine().ReplayAll(t.Context(), forebay.RejectedFilter{})
	if err != nil || res != (forebay.ReplayResult{Replayed: 3, Rejected: 3}) {
		t.Errorf("got %+v, %v, want no error and res == (forebay.ReplayResult{Replayed: 3, Rejected: 3})", res, err)
	}
}

// silent is a logger of a store for a test's changes to it.
type silent struct{}

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}
func (silent) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}

// A replay ends at a record whose bytes are lost. What it has mapped before is replayed.
func TestReplayOfALostRecord(t *testing.T) {
	disk := vfs.NewMem()
	on := func(o *forebay.Options) { o.Buffer = localdisk.On(o.Buffer, disk) }
	e, _ := openMemory(t, on)
	mustDefine(t, e, events(keeping))
	for range 3 {
		mustIngest(t, e, "web", mapping.JSON([]byte(bad)))
	}
	must(t, e.Close())
	db, err := pebble.Open("data/local", &pebble.Options{FS: disk, FormatMajorVersion: pebble.FormatNewest, Logger: silent{}})
	must(t, err)
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte("y"), UpperBound: []byte("z")})
	if err != nil || !it.First() || !it.Next() {
		t.Fatal("the second record is not stored", err)
	}
	must(t, errors.Join(db.Delete(it.Key(), pebble.Sync), it.Close(), db.Close()))
	e, _ = openMemory(t, on)
	mustDefine(t, e, events(keeping, lenient))
	q, all := e.Sink("web", "users").Quarantine(), rejectedOf(t, e, forebay.RejectedFilter{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a replay that spins ends
	defer cancel()
	res, err := q.ReplayAll(ctx, forebay.RejectedFilter{})
	if err == nil || !strings.Contains(err.Error(), all[1].ID) || res != (forebay.ReplayResult{Replayed: 1}) {
		t.Errorf("got %+v, %v, want an error and strings.Contains(err.Error(), all[1].ID) and res == (forebay.ReplayResult{Replayed: 1})", res, err)
	}
	if n, err := q.Discard(t.Context(), all[1].ID); n != 1 || err != nil {
		t.Errorf("discard: %d, %v", n, err)
	}
	if res, err = q.ReplayAll(t.Context(), forebay.RejectedFilter{}); err != nil || res != (forebay.ReplayResult{Replayed: 1}) {
		t.Errorf("got %+v, %v, want no error and res == (forebay.ReplayResult{Replayed: 1})", res, err)
	}
}
