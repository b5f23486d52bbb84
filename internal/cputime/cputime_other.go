//go:build !unix

package cputime

import "time"

// Known is not set, and the times are 0.
const Known = false

// Process is not known.
func Process() time.Duration { return 0 }

// Children is not known.
func Children() time.Duration { return 0 }
