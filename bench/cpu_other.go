//go:build !unix

package main

import "time"

// processCPU is not known.
func processCPU() time.Duration { return -1 }
