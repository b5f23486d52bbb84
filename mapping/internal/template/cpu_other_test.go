//go:build !linux && !forebay_notemplates

package template

import "time"

// cpuOf returns the time that f takes. Not every system tells the processor time of a thread.
func cpuOf(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}
