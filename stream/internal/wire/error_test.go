package wire

import (
	"strings"
	"testing"
)

func TestRequestIDs(t *testing.T) {
	seen := map[string]bool{}
	for range 10_000 {
		id := newRequestID()
		if len(id) != 15 || strings.Trim(id, "0123456789abcdefghijklmnopqrstuvwxyz") != "" || seen[id] {
			t.Fatalf("bad or repeated id %q", id)
		}
		seen[id] = true
	}
}
