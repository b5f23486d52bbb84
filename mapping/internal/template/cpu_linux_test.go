//go:build !forebay_notemplates

package template

import (
	"runtime"
	"syscall"
	"time"
)

// cpuOf returns the processor time that f takes. It does not depend on what else the machine does, as the time on a
// clock would.
func cpuOf(f func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	used := func() time.Duration {
		const thread = 1 // RUSAGE_THREAD
		var u syscall.Rusage
		if err := syscall.Getrusage(thread, &u); err != nil {
			panic(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := used()
	f()
	return used() - before
}
