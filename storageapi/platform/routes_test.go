package platform

import "testing"

// Every route either reads or runs.
func TestRoutesHaveOneHandler(t *testing.T) {
	s, _ := openForTest(t)
	for _, rt := range s.routes {
		if (rt.run == nil) == (rt.read == nil) {
			t.Errorf("%s %s: want one of run and read", rt.method, rt.path)
		}
	}
}
