package main

import (
	"fmt"
	"os"
	"time"
)

// The build of the tests has this file, and package time has what build_test.go adds to it. The file that the variable names contains how wrong the clock is
// and how long a sync takes at most, both in nanoseconds.
func init() {
	path := os.Getenv("FOREBAY_CLUSTER_CHAOS")
	go func() {
		for range time.Tick(20 * time.Millisecond) {
			var jump, delay int64
			if text, err := os.ReadFile(path); err == nil {
				_, _ = fmt.Sscan(string(text), &jump, &delay)
			}
			time.Jump.Store(jump)
			time.SyncDelay.Store(delay)
		}
	}()
}
