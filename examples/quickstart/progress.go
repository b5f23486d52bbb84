package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

// watch shows how the levels fill and empty until ctx ends: one line in place on a terminal, now and then a line elsewhere.
// It sends the time from the start to the first row in a table.
func watch(ctx context.Context, out *os.File, n int, l *ledger, svc service, start time.Time) <-chan time.Duration {
	info, err := out.Stat()
	pause, clear, end := 5*time.Second, "", "\n"
	if err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb" {
		pause, clear, end = 200*time.Millisecond, "\r\x1b[K", ""
	}
	before := svc.levels().Table // rows of an earlier run
	shown, received := start, int64(0)
	show := func(now time.Time, end string) {
		lv, r := svc.levels(), l.answered.Load()
		rate := float64(r-received) / max(now.Sub(shown).Seconds(), 0.001)
		shown, received = now, r
		fmt.Fprintf(out, "%sreceived %d/%d   local %d   staging %d   table %d   %.0f/s%s",
			clear, r, n, lv.Local, lv.Staging, max(0, lv.Table-before), rate, end)
	}
	first := make(chan time.Duration, 1)
	go func() {
		var row time.Duration
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				show(time.Now(), "\n")
				first <- row
				return
			}
			now := time.Now()
			if row == 0 && svc.levels().Table > before {
				row = now.Sub(start)
			}
			if now.Sub(shown) >= pause {
				show(now, end)
			}
		}
	}()
	return first
}
