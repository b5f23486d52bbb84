//go:build unix

package pipebench

import (
	"syscall"
	"time"
)

// processCPU is the processor time of this process, 0 if unknown.
func processCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
