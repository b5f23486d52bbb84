// Package trigger decides when waiting rows move to the next level of the buffer.
//
// Each of the two steps, local to staging and staging to table, has three [Conditions]: an interval, a size and a
// count. The first one that is met moves what waits. The decision is a function of the conditions, of the [Load] that
// waits, and of the time: it holds no state, starts no goroutine and reads no clock, so its owner can ask after every
// write.
//
//	c := trigger.Upload().WithDefaults(trigger.Conditions{Count: 500})
//	if reason := c.Due(load, now); reason != trigger.None {
//		// seal the slice, and remember why
//	}
//
// Only the interval can be met while nothing is written: the owner asks again at [Conditions.Deadline].
//
// # Clocks
//
// Time is measured by the monotonic clock as long as the process lives, so a step of the wall clock neither delays
// nor hurries a move. A time that comes back from disk has lost its monotonic reading; [Load.Resume] gives it a new
// one and bounds what a wrong wall clock can do.
package trigger
