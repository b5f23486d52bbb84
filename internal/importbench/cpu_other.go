//go:build !unix

package importbench

// cpuTime is not known: all figures of processor time are 0.
func cpuTime() float64 { return 0 }
