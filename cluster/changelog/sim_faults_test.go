package changelog_test

import (
	"fmt"

	"github.com/forebay/forebay/cluster/changelog"
)

// goBack gives the instance to a node that had it before, with an epoch that others may have had. Its store can yield its batches.
// Otherwise the last one would not be compared.
func (s *simulation) goBack(n *simNode) {
	s.saw("went back")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owner, s.epoch = n, s.epoch-min(s.epoch, s.chaos.Uint64N(4))
}

// repeatEpoch lets the next adopter have the epoch of the owner, as if the store of owners had gone back and let both through. The owner
// does not know yet.
func (s *simulation) repeatEpoch() {
	s.saw("same epoch")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch -= min(s.epoch, 1)
}

// damage takes an entry from one of two replicas. The third is whole. Half of the time it is the last entry, and no later entry shows that it
// is missing, and that replica leads the next adopter to believe so.
func (s *simulation) damage() {
	stat, err := s.log.Stat(s.t.Context(), simInstance)
	if err != nil || stat.Last < stat.First {
		return
	}
	at, last := stat.Last, s.rng.IntN(2) == 0
	if !last {
		at = stat.First + changelog.Position(s.rng.Uint64N(uint64(stat.Last-stat.First+1)))
	}
	// An entry is lost once, because a replica that lags may need the other copy.
	replica := (s.whole + 1 + int(at%2)) % 3
	s.saw(fmt.Sprint("hole of replica ", replica))
	s.log.Hole(simInstance, replica, at)
	if last && s.log.Elect(simInstance, replica) {
		s.saw("hole at the end")
		s.adopt()
	}
}
