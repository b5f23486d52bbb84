//go:build !linux

package main

import (
	"os"
	"time"
)

// datasync is a full sync where the system has no cheaper one.
func datasync(f *os.File) error { return f.Sync() }

// stall waits.
func stall(d time.Duration) { time.Sleep(d) }

func syncDisks() {}

// deviceWritten is not known.
func deviceWritten(string) int64 { return -1 }

func inMemory(string) bool { return false }
