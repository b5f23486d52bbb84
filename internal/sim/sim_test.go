package sim

import (
	"flag"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
)

var (
	oneSeed    = flag.Int64("seed", -1, "run this seed alone and print its story")
	seeds      = flag.Int("seeds", 30, "number of seeds to run; with -short or the race detector at most 25")
	fromSeed   = flag.Int("from", 0, "the first seed")
	plainRun   = flag.Bool("plain", false, "run the seed as a regression: the buffer alone, with the first set of faults")
	untypedRun = flag.Bool("untyped", false, "run the seed as a regression: without typed columns and tables that grow")
	refuseRun  = flag.Bool("refuse", false, "run the seed as a regression: without quarantines")
)

func TestSimulation(t *testing.T) {
	sum := newSummary()
	if *oneSeed >= 0 {
		sum.first = int(*oneSeed)
		simulate(t, scenario{seed: uint64(*oneSeed), plain: *plainRun, untyped: *untypedRun, refuse: *refuseRun, story: true}, sum)
		sum.print()
		return
	}
	n := *seeds
	if testing.Short() || underRace {
		n = min(n, 25)
	}
	run := slices.Clone(regressions)
	for i := range n {
		run = append(run, scenario{seed: uint64(*fromSeed + i)})
	}
	sum.first, sum.total = *fromSeed, len(run)
	var failed atomic.Bool
	t.Run("seeds", func(t *testing.T) {
		for _, s := range run {
			t.Run(s.String(), func(t *testing.T) {
				t.Parallel() // as many at once as there are cores
				if failed.Load() {
					t.Skip("another seed has failed")
				}
				t.Cleanup(func() {
					if t.Failed() {
						failed.Store(true)
						t.Logf("repeat with: %s", s.command())
					}
					sum.done(t.Failed())
				})
				simulate(t, s, sum)
			})
		}
	})
	sum.print()
}

// regressions are seeds that found a defect once. Plain ones are run as they were then.
var regressions = []scenario{
	{seed: 10433, plain: true},   // a verification during a reopening saw rows that were not there yet
	{seed: 21315, plain: true},   // an error of reading was taken for damage
	{seed: 1211, plain: true},    // a power cut kept the name of a marker and not of the file that it names
	{seed: 2455, plain: true},    // a compaction that could not read was repeated without a pause
	{seed: 27, untyped: true},    // nothing deleted the staged objects of a discarded file after a restart
	{seed: 3092, untyped: true},  // a slice of which damage had left nothing was uploaded once more
	{seed: 5793, untyped: true},  // an operation that waited while the store failed ran on the state after the reopening
	{seed: 5161, refuse: true},   // rows that waited for a table that had grown were not imported once the sink had left it
	{seed: 13432, untyped: true}, // the checkpoint of a store that had found no log had no list of its tables
	{seed: 5045, refuse: true},   // after a failed sync of the folder no later one counted, but the mistake was in the simulated disk
	{seed: 22612},                // a compaction that had met damage was repeated without a pause
}

// scenario is the input of a run.
type scenario struct {
	seed uint64
	// plain leaves out what came later, such as engines, expiry, damage, steps of the clock, typed columns.
	plain bool
	// untyped leaves out typed columns and tables that grow.
	untyped bool
	// refuse leaves out quarantines and targets that refuse rows. So do plain and untyped.
	refuse bool
	// story prints what happens.
	story bool
}

// engine tells whether the run drives an engine. Otherwise it drives the buffer alone, with handles of old definitions.
func (s scenario) engine() bool { return !s.plain && s.seed%3 != 0 }

func (s scenario) String() string {
	switch {
	case s.plain:
		return fmt.Sprintf("plain-%d", s.seed)
	case s.untyped:
		return fmt.Sprintf("untyped-%d", s.seed)
	case s.refuse:
		return fmt.Sprintf("refuse-%d", s.seed)
	}
	return fmt.Sprint(s.seed)
}

// command repeats a run. All decisions come from the seed, the order of goroutines does not. With one processor it is
// nearly always the same. So it plays the seed several times, in both ways.
func (s scenario) command() string {
	era := ""
	if s.plain {
		era = " -plain"
	} else if s.untyped {
		era = " -untyped"
	} else if s.refuse {
		era = " -refuse"
	}
	return fmt.Sprintf("go test ./internal/sim -run '^TestSimulation$' -seed %d%s -cpu 1,2 -count 10 -failfast", s.seed, era)
}
