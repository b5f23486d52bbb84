package cputime_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/forebay/forebay/internal/cputime"
)

// A process that computes uses CPU time, and never more than all processors have.
func TestProcess(t *testing.T) {
	if !cputime.Known {
		t.Skip("this system does not tell")
	}
	began, before := time.Now(), cputime.Process()
	for cputime.Process()-before < 5*time.Millisecond {
	}
	used, most := cputime.Process()-before, time.Since(began)*time.Duration(runtime.NumCPU())
	if used > most+20*time.Millisecond { // the kernel counts in ticks
		t.Errorf("%v of processor time are used, and there were %v, want at most %v", used, most, most+20*time.Millisecond)
	}
	if cputime.Children() < 0 {
		t.Error("children have used less than nothing")
	}
}
