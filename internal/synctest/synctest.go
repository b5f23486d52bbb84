// Package synctest is testing/synctest for the tests of this repository. With the race detector its bubbles run on one processor.
//
// In Go 1.26 the timers of a bubble share one context of the race detector. If two goroutines read a lapsed timer at the same moment, on
// two processors, that context is damaged, and the program ends with a segmentation fault in __sanitizer::StackDepotBase::Put or with
// another failure of the detector (golang/go issue 78156). The tests of package changelog ended so in one run of three. The detector finds
// races on one processor too, because it looks at the order that locks and channels give, and not at what ran at once.
//
// When TestTimersOfABubble passes with testing/synctest, replace this package by it.
package synctest

import (
	"testing"
	"testing/synctest"
)

// Test runs f in a bubble, as the Test of testing/synctest does. With the race detector, tests that run at the same time share its processor.
func Test(t *testing.T, f func(*testing.T)) {
	t.Helper()
	defer oneProcessor()()
	synctest.Test(t, f)
}

// Wait is the Wait of testing/synctest.
func Wait() { synctest.Wait() }
