package main

import (
	"fmt"
	"os"
	"time"
)

// watch shows how the levels fill and empty: one line in place on a terminal, now and then a line elsewhere.
type watch struct {
	quit chan struct{}
	done chan time.Duration
}

func startWatch(out *os.File, n int, l *ledger, svc service, start time.Time) *watch {
	w := &watch{quit: make(chan struct{}), done: make(chan time.Duration, 1)}
	terminal := isTerminal(out)
	pause := 5 * time.Second
	if terminal {
		pause = 200 * time.Millisecond
	}
	before := svc.levels().Table // rows of an earlier run
	go func() {
		var firstRow time.Duration
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		shown, received := start, int64(0)
		show := func(now time.Time, end string) {
			lv, r := svc.levels(), l.received()
			rate := float64(r-received) / max(now.Sub(shown).Seconds(), 0.001)
			shown, received = now, r
			line := fmt.Sprintf("received %d/%d   local %d   staging %d   table %d   %.0f/s",
				r, n, lv.Local, lv.Staging, max(0, lv.Table-before), rate)
			if terminal {
				line = "\r\x1b[K" + line
			}
			fmt.Fprint(out, line, end)
		}
		end := "\n"
		if terminal {
			end = ""
		}
		for {
			select {
			case now := <-tick.C:
				if firstRow == 0 && svc.levels().Table > before {
					firstRow = now.Sub(start)
				}
				if now.Sub(shown) >= pause {
					show(now, end)
				}
			case <-w.quit:
				now := time.Now()
				if firstRow == 0 {
					firstRow = now.Sub(start)
				}
				show(now, "\n")
				w.done <- firstRow
				return
			}
		}
	}()
	return w
}

// stop shows the final state and returns the time from the start to the first row in a table.
func (w *watch) stop() time.Duration {
	close(w.quit)
	return <-w.done
}

// isTerminal is right for terminals, pipes and files; it takes other character devices for a terminal as well.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}
