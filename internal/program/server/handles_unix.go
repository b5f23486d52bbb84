//go:build unix

package server

import "syscall"

// fileHandles is how many files and connections this process may have open.
func fileHandles() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return uint64(limit.Cur) // the runtime has raised it to the most that is allowed
}
