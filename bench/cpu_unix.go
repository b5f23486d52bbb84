//go:build unix

package main

import (
	"syscall"
	"time"
)

// processCPU returns the user and system time of this process since its start, -1 if unknown.
func processCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return -1
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
