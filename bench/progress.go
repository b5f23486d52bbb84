package main

import (
	"fmt"
	"os"
)

// progress keeps one line on a terminal that says what is being measured. Elsewhere it writes nothing.
type progress struct {
	w           *os.File // nil when nobody would see it
	done, total int
	rounds      int
}

func newProgress(w *os.File, plans []plan, rounds int) *progress {
	p := &progress{rounds: rounds}
	if isTerminal(w) {
		p.w = w
	}
	for _, plan := range plans {
		p.total += rounds * len(plan.measured)
	}
	return p
}

func (p *progress) step(name string, round int) {
	p.done++
	if p.w != nil {
		fmt.Fprintf(p.w, "\r\x1b[K%d of %d  round %d of %d  %s", p.done, p.total, round+1, p.rounds, name)
	}
}

func (p *progress) clear() {
	if p.w != nil {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// isTerminal reports whether a progress line on f would be seen by somebody.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb" && os.Getenv("CI") == ""
}
