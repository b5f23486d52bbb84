// Package synctest is testing/synctest for the tests of this repository: [Test] runs on one processor while the race detector is on.
//
// In Go 1.26 the timers of a bubble share one context of the race detector. Two goroutines that read a lapsed timer at the same moment,
// each on a processor of its own, spoil it, and the program ends with a segmentation fault in __sanitizer::StackDepotBase::Put
// (golang/go issue 78156). The tests of package changelog did so in one run of three. On one processor no two goroutines are there at
// the same moment, and the detector still finds races: it compares what was ordered, not what happened at once.
//
// When [TestTimersOfABubble] passes without this package, replace its imports by testing/synctest.
package synctest

import (
	"testing"
	"testing/synctest"
)

// Test is [synctest.Test]. Tests that run beside one of a bubble have one processor for that time too, if the race detector is on.
func Test(t *testing.T, f func(*testing.T)) {
	t.Helper()
	defer oneProcessor()()
	synctest.Test(t, f)
}

// Wait is [synctest.Wait].
func Wait() { synctest.Wait() }
