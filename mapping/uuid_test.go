package mapping

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

// UUIDs of one mapper ascend as each goroutine sees them, and no two are equal.
func TestUUIDsOfManyGoroutines(t *testing.T) {
	const workers, each = 16, 2000
	m := mustCompile(t, UUID("id"))
	made := make([][]string, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			r := new(Record)
			for range each {
				cell, err := m.AppendCell(nil, 0, r)
				if err != nil {
					t.Error(err)
					return
				}
				made[w] = append(made[w], string(cell))
			}
		})
	}
	wg.Wait()
	seen := make(map[string]bool, workers*each)
	for _, ids := range made {
		for i, id := range ids {
			if seen[id] {
				t.Fatalf("%s was made twice", id)
			}
			if i > 0 && id <= ids[i-1] {
				t.Fatalf("got %s after %s, want a larger one", id, ids[i-1])
			}
			// What others read in it is the version, the variant and the time.
			u, err := uuid.Parse(id)
			if err != nil || u.Version() != 7 || u.Variant() != uuid.RFC4122 || u.String() != id {
				t.Fatalf("%s: got version %d, variant %s, %v, want 7, %s, no error", id, u.Version(), u.Variant(), err, uuid.RFC4122)
			}
			if sec, nsec := u.Time().UnixTime(); time.Since(time.Unix(sec, nsec)).Abs() > time.Minute {
				t.Fatalf("%s is of %s", id, time.Unix(sec, nsec))
			}
			seen[id] = true
		}
	}
	if len(seen) != workers*each {
		t.Errorf("got %d values, want %d", len(seen), workers*each)
	}
}

// A wall clock that was set shows in the UUIDs after wallCheck. One that was set back does not make them descend.
func TestUUIDFollowsTheWallClock(t *testing.T) {
	for _, off := range []time.Duration{-time.Hour, time.Hour} {
		var s uuidSource
		s.begin()
		s.wall.Add(int64(off)) // the value of a source whose clock was right before it was set by -off
		first := string(s.appendText(nil))
		if ahead := time.Until(time.Unix(0, int64(s.now()))); (ahead - off).Abs() > time.Minute {
			t.Errorf("got an id that is %v ahead before the check, want %v", ahead, off)
		}
		s.checked.Store(int64(time.Since(s.start) - 2*wallCheck))
		if second := string(s.appendText(nil)); second <= first {
			t.Errorf("got %s after %s, want more than %v", second, first, first)
		}
		if ahead := time.Until(time.Unix(0, int64(s.now()))); ahead.Abs() > time.Minute {
			t.Errorf("got %v after the check, want at most a minute", ahead)
		}
	}
}
