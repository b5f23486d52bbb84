// Package changelogtest checks drivers of a replicated log and has one in memory for tests of everything above them.
//
// [TestLog] and [TestOwners] run the conformance suites, one subtest for each promise of [changelog.Log] and
// [changelog.Owners]. One call tests a driver:
//
//	func TestConformance(t *testing.T) {
//		changelogtest.TestLog(t, changelogtest.LogHarness{
//			Open:     func(t *testing.T) changelog.Log { return mylog.Connect(t, server) },
//			MaxBytes: 16 << 20,
//		})
//	}
//
// The suites need a healthy cluster, of any speed. They cannot stop its servers, so write your own tests for the driver when
// a server dies or a response is lost.
//
// [Log] and [Owners] keep the contents of three replicas in memory. They draw [Faults] from a seed: lost, late and repeated messages,
// leaders that fail, stale reads. Separate methods bring about the faults of a whole cluster, such as a replica with a hole.
// Time comes from package time alone, so that both work in a bubble of testing/synctest too.
package changelogtest
