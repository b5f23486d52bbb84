// Command soak loads an engine on a real disk for hours, at half of what the machine can do, with a fault every few
// seconds, and watches whether memory and file handles stay flat.
//
//	go run ./internal/soak -duration 1h -out soak
//
// It measures the peak first, unless -rate gives the events per second. It writes soak.csv with one line a second and
// soak.svg with the plot, and ends with status 1 when a row was lost or doubled, when the ledger does not hold, or when
// something does not drain. The figures of docs/reliability.md were made by it.
//
// The tests of this package are those that need real processes and a real, full disk.
package main
