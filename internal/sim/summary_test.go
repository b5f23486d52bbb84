package sim

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/forebay/forebay/buffer"
)

// summary counts what happened in all runs, and says how far they are.
type summary struct {
	first, total int
	begin        time.Time

	mu     sync.Mutex
	ended  int
	failed int
	said   time.Time
	counts map[string]int64
}

func newSummary() *summary {
	now := time.Now()
	return &summary{begin: now, said: now, counts: map[string]int64{}}
}

// add counts n things of a kind, "group: kind".
func (s *summary) add(kind string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[kind] += n
}

// progressEvery is the pause between two lines of progress.
const progressEvery = 10 * time.Second

// done counts a run that has ended. It is called outside of bubbles, where time is real.
func (s *summary) done(failed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended++
	if failed {
		s.failed++
	}
	if now := time.Now(); now.Sub(s.said) >= progressEvery {
		s.said = now
		fmt.Fprintf(os.Stderr, "simulation from seed %d: %d of %d seeds, %d failed, %s\n", s.first, s.ended, s.total, s.failed,
			now.Sub(s.begin).Round(time.Second))
	}
}

// print writes the outcome of all runs.
func (s *summary) print() {
	s.mu.Lock()
	defer s.mu.Unlock()
	groups := map[string][]string{}
	for _, kind := range sortedKeys(s.counts) {
		group, name, _ := strings.Cut(kind, ": ")
		groups[group] = append(groups[group], fmt.Sprintf("%s %d", name, s.counts[kind]))
	}
	var out strings.Builder
	fmt.Fprintf(&out, "simulation from seed %d: %d seeds, %d failed, %s\n", s.first, max(s.ended, 1), s.failed, time.Since(s.begin).Round(time.Millisecond))
	for _, group := range sortedKeys(groups) {
		fmt.Fprintf(&out, "  %s: %s\n", group, strings.Join(groups[group], ", "))
	}
	fmt.Fprint(os.Stderr, out.String())
}

// count adds the outcome of the run to the summary.
func (r *run) count(stats buffer.Stats, damage []buffer.Damage) {
	kind := "runs: buffer"
	if r.engine() {
		kind = "runs: engine"
	}
	r.sum.add(kind, 1)
	r.sum.add("rows: offered", int64(len(r.rows)))
	for _, x := range r.rows {
		if x.fate == acked {
			r.sum.add("rows: acknowledged", 1)
		}
	}
	for _, st := range stats.Sinks {
		r.sum.add("rows: imported", st.Target.Rows)
		r.sum.add("rows: expired", st.Expired.Rows)
		r.sum.add("rows: damaged", st.Damaged.Rows)
		r.sum.add("rows: discarded", st.Discarded.Rows)
	}
	r.sum.add("disk: damaged places reported", int64(len(damage)))
}
