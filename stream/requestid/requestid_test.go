package requestid_test

import (
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/stream/requestid"
)

// An id has 15 small letters and digits, as the platform's, differs each time, and says when it was made.
func TestIDs(t *testing.T) {
	r := seedtest.Rand(t)
	first, last := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2059, 1, 1, 0, 0, 0, 0, time.UTC)
	for range 1_000 {
		at := first.Add(time.Duration(r.Int64N(int64(last.Sub(first)))))
		seen := map[string]bool{}
		for range 10 {
			id := requestid.New(at)
			if len(id) != 15 || strings.Trim(id, "0123456789abcdefghijklmnopqrstuvwxyz") != "" || seen[id] {
				t.Fatalf("bad or repeated id %q", id)
			}
			seen[id] = true
			if got, ok := requestid.Time(id); !ok || !got.Equal(at.Truncate(time.Millisecond)) {
				t.Fatalf("%s is of %v, %v; it was made at %v", id, got, ok, at)
			}
			if later := requestid.New(at.Add(time.Millisecond)); later <= id {
				t.Fatalf("%s is later than %s and not greater", later, id)
			}
		}
	}
}

func TestOtherTextsHaveNoTime(t *testing.T) {
	for _, text := range []string{"", "order-7", "0123456789abcd", "0123456789abcdef", "0123456789ABCDE", "0123456789abcd ", "0123456789abcdé"} {
		if at, ok := requestid.Time(text); ok {
			t.Errorf("%q is of %v", text, at)
		}
	}
}
