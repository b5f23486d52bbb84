package streamapi

import (
	"fmt"
	"slices"
	"testing"
)

// A list, and a task, take the records that one version of the sink has rejected, and no others.
func TestRejectedRecordsByVersion(t *testing.T) {
	s, _ := shop(t)
	_, address := s.secretOf("shop")
	send := func(n int) {
		t.Helper()
		for i := range n {
			if status := s.send(address, fmt.Sprintf(`{"price":"x%d"}`, i)); status != 200 {
				t.Fatalf("status %d", status)
			}
		}
	}
	send(2)
	s.done("PATCH", b+"/sources/shop/sinks/orders", `{"description":"the second version"}`)
	send(3)
	want := func(counts map[int]int) {
		t.Helper()
		for version, want := range counts {
			for _, limit := range []int{1, 100} {
				list := s.records(limit, fmt.Sprintf("&version=%d", version))
				if len(list) != want || slices.ContainsFunc(list, func(r rejectedBody) bool { return r.Version != version }) {
					t.Errorf("version %d in pages of %d: %+v, want %d records", version, limit, list, want)
				}
			}
		}
	}
	want(map[int]int{1: 2, 2: 3, 3: 0})
	if list := s.records(100, "&version=1&text=x1"); len(list) != 1 {
		t.Errorf("version and text together select %+v", list)
	}
	for _, wrong := range []string{"0", "-1", "two", "1.5"} {
		s.want(400, "", testToken, "GET", rejects+"?version="+wrong, "")
	}
	s.want(400, "", testToken, "POST", rejects+"/discard", `{"filter":{"version":-1}}`)
	s.done("POST", rejects+"/replay", `{"filter":{"version":2}}`) // they are rejected again, by the same version
	for _, r := range s.records(100, "") {
		if (r.Failed == 1) != (r.Version == 2) {
			t.Errorf("after a replay of version 2: %+v", r)
		}
	}
	s.done("POST", rejects+"/discard", `{"filter":{"version":1}}`)
	want(map[int]int{1: 0, 2: 3})
}
