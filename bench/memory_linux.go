package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// residentMemory returns the bytes of this process that are in memory now, and the most that ever were; -1 if unknown.
func residentMemory() (now, peak int64) {
	now, peak = -1, -1
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return now, peak
	}
	for line := range strings.Lines(string(text)) {
		var kilobytes int64
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kilobytes); n == 1 {
			now = kilobytes << 10
		}
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kilobytes); n == 1 {
			peak = kilobytes << 10
		}
	}
	return now, peak
}

// dropCache makes the system forget the pages of all files below dir, so that they are read from the disk next, as
// after a restart of the machine. It is best effort.
func dropCache(dir string) {
	const dontNeed = 4 // POSIX_FADV_DONTNEED
	syscall.Sync()     // pages that wait to be written are kept
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return nil
		}
		defer f.Close()
		_, _, _ = syscall.Syscall6(syscall.SYS_FADVISE64, f.Fd(), 0, 0, dontNeed, 0, 0)
		return nil
	})
}
