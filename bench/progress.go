package main

import (
	"fmt"
	"os"
)

// progress keeps one line on a terminal that names the scenario being measured. Elsewhere it writes nothing.
type progress struct {
	w                   *os.File
	done, total, rounds int
}

func newProgress(w *os.File, plans []plan, rounds int) *progress {
	p := &progress{w: w, rounds: rounds}
	info, err := w.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 || os.Getenv("TERM") == "dumb" || os.Getenv("CI") != "" {
		p.w = nil // there is no terminal to show it
	}
	for _, plan := range plans {
		p.total += rounds * len(plan.measured)
	}
	return p
}

func (p *progress) step(name string, round int) {
	p.done++
	p.print(fmt.Sprintf("%d of %d  round %d of %d  %s", p.done, p.total, round+1, p.rounds, name))
}

func (p *progress) clear() { p.print("") }

func (p *progress) print(line string) {
	if p.w != nil {
		fmt.Fprint(p.w, "\r\x1b[K", line)
	}
}
