// Package buffertest checks drivers of the buffer's levels, and has an in-memory one for tests of everything above.
//
// [Staging] and [Target] run the conformance suites: the promises of [buffer.Staging] and [buffer.Target], one subtest
// for each. A driver is tested by one call:
//
//	func TestConformance(t *testing.T) {
//		buffertest.Staging(t, func(t *testing.T) buffer.Staging { return mydriver.Open(t.TempDir()) })
//	}
//
// The suites inject their faults through the arguments of the driver (a source that breaks off, a slice that cannot be
// opened, a context that is cancelled in the middle), so they need no access to the inside of a driver. What a driver
// does when its own disk or network fails is for its own tests.
//
// [Memory] keeps both levels in memory, records every call, and lets a test fail, delay or hang any of them, before or
// after its effect.
package buffertest
