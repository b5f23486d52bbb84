package quickstart

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/forebay/forebay/internal/program/show"
)

// watch shows how the levels fill and empty until ctx ends. It sends the time from the start to the first row in a table, 0
// if it saw none. When rows begin to wait after a failure, it says why.
func watch(ctx context.Context, out io.Writer, n int, l *ledger, svc service, start time.Time) <-chan time.Duration {
	line := show.NewProgress(out)
	before := svc.levels().Table // rows of an earlier run
	first := make(chan time.Duration, 1)
	go func() {
		var row time.Duration
		why := "" // of the levels that were seen last
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for ended := false; !ended; {
			select {
			case <-tick.C:
			case <-ctx.Done():
				ended = true
			}
			lv, received, elapsed := svc.levels(), l.answered.Load(), time.Since(start)
			if row == 0 && lv.Table > before {
				row = elapsed
			}
			line.Show("received %d/%d   local %d   staging %d   table %d   %.0f/s",
				received, n, lv.Local, lv.Staging, max(0, lv.Table-before), float64(received)/elapsed.Seconds())
			if lv.Why != why && lv.Why != "" {
				line.End()
				fmt.Fprintln(out, "rows wait:", lv.Why)
			}
			why = lv.Why
		}
		line.End()
		first <- row
	}()
	return first
}
