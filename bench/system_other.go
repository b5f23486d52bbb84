//go:build !linux

package main

import (
	"errors"
	"os"
	"runtime"
	"time"
)

// datasync is a full sync where the system has no cheaper one.
func datasync(f *os.File) error { return f.Sync() }

func stall(d time.Duration) { time.Sleep(d) }

func syncDisks() {}

// deviceWritten is not known.
func deviceWritten(string) int64 { return -1 }

func inMemory(string) bool { return false }

// withCores starts a process with all cores.
func withCores(n int, start func() error) error {
	if n != 0 {
		return errors.New("-cpu needs Linux")
	}
	return start()
}

func residentMemory() (now, peak int64) { return -1, -1 }

func privateMemory() int64 { return -1 }

func dropCache(string) {}

// processorName is not known.
func processorName() string { return runtime.GOARCH }

func memorySize() int64 { return 0 }

func fileSystem(string) string { return "" }

func loadAverage() string { return "" }
