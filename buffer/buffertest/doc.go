// Package buffertest checks drivers of the buffer and has a driver in memory for tests of everything above them.
//
// [Staging] and [Target] run the conformance suites, with one subtest for each promise of [driver.Staging] and [driver.Target].
// One call tests a driver:
//
//	func TestStagingConformance(t *testing.T) {
//		buffertest.Staging(t, func(t *testing.T) driver.Staging { return mystaging.Open(t.TempDir()) })
//	}
//
//	func TestTargetConformance(t *testing.T) {
//		var path string
//		buffertest.Target(t, buffertest.TargetHarness{
//			Open:   func(t *testing.T) driver.Target { path = t.TempDir(); return mytarget.Open(path) },
//			Reopen: func(t *testing.T) driver.Target { return mytarget.Open(path) },
//			Rows:   func(t *testing.T, table string) [][]string { return readTable(t, path, table) },
//		})
//	}
//
// [Archive] does the same for archives of raw records.
//
// [Kills] kills a process that imports, again and again.
//
// The suites inject faults through the arguments of the driver, such as a source that breaks off, a slice that cannot be opened, a
// context that is cancelled. They need no access to its internals. Test failures of the driver's own disk or network
// yourself.
//
// [Memory] keeps both levels in memory, records every call, and lets a test fail, delay or hang each of them, before or
// after its effect.
package buffertest
