// Command soak loads an engine on a real disk for hours, at half of its measured peak, with a fault every few seconds, and
// watches whether memory and file handles stay constant.
//
//	go run ./internal/soak -duration 1h -out soak
//
// It measures the peak first, unless -rate sets the events per second. It writes soak.csv with one line a second and
// soak.svg with the plot. It exits with status 1 if a row was lost or duplicated, if the ledger does not hold, or if
// something is not drained. docs/reliability.md has its figures.
//
// The tests of this package need real processes and a real, full disk.
package main
