// Package trigger decides when waiting rows move to the next level of the buffer.
//
// Each of the two steps, local to staging and staging to table, has three [Conditions], which are an interval, a size and a
// count. The first one that is met moves the waiting rows. The decision depends only on the conditions, the waiting [Load]
// and the time. The package holds no state, starts no goroutine and reads no clock, so its owner can ask after every write.
//
//	c := trigger.Upload().WithDefaults(trigger.Conditions{Count: 500})
//	if reason := c.Due(load, now); reason != trigger.None {
//		// seal the slice, and remember why
//	}
//
// Only the interval can be met while nothing is written, so the owner asks again at [Conditions.Deadline].
//
// # Clocks
//
// Time is measured by the monotonic clock while the process lives, so a step of the wall clock neither delays nor hastens a
// move. A time read back from disk has no monotonic reading: [Load.Resume] gives it a new one and bounds the effect of a
// wrong wall clock.
package trigger
