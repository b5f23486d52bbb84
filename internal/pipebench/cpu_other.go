//go:build !unix

package pipebench

import "time"

// processCPU is not known.
func processCPU() time.Duration { return 0 }
