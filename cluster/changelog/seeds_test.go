package changelog_test

import (
	"flag"
	"fmt"
	"testing"
)

var (
	seeds    = flag.Int("seeds", 300, "number of seeds that each simulation plays; with -short at most 50")
	fromSeed = flag.Int("from", 0, "the first seed")
)

// eachSeed plays a simulation with one seed after the other and stops at the first that fails. A simulation whose seeds cost several
// times as much as others' plays fewer of them.
func eachSeed(t *testing.T, cost int, play func(t *testing.T, seed uint64)) {
	n := *seeds
	if testing.Short() {
		n = min(n, 50)
	}
	n = (n + cost - 1) / cost
	for seed := *fromSeed; seed < *fromSeed+n; seed++ {
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { play(t, uint64(seed)) }) {
			t.Fatalf("repeat with: go test ./changelog -run '^%s$' -from %d -seeds 1 -v", t.Name(), seed)
		}
	}
}
