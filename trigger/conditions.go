package trigger

import "time"

// Conditions are the bounds of one step. Whichever is met first moves what waits.
//
// A zero field stands for the default of the step; [Limits.WithDefaults] fills it in.
type Conditions struct {
	// Interval is the longest time that a row waits.
	Interval time.Duration
	// Size is the number of waiting bytes, as the owner of the load counts them.
	Size int64
	// Count is the number of waiting rows.
	Count int64
}

// Load is what waits for a step.
type Load struct {
	// Since is when the oldest of the rows began to wait. It has no meaning when Count is 0.
	Since time.Time
	// Size is in bytes, counted in the same way as Conditions.Size is meant.
	Size int64
	// Count is the number of rows. When it is 0 nothing waits.
	Count int64
}

// Resume returns l for use after a restart at the time now, which must come from [time.Now]. Since is moved to the
// monotonic clock of this process: the age that the wall clock shows now is kept, and from then on steps of the wall
// clock no longer matter. A Since that lies in the future, because the wall clock was set back in between, becomes
// now; so no row waits longer than one interval after a restart.
func (l Load) Resume(now time.Time) Load {
	// Round(0) drops the monotonic reading: one of an earlier process would be compared with that of this one.
	age := max(0, now.Round(0).Sub(l.Since.Round(0)))
	l.Since = now.Add(-age)
	return l
}

// Due returns the first condition that the load meets at the time now: [ByCount], [BySize], [ByInterval], in this
// order, or [None]. An empty load is never due.
//
// The conditions should be complete, see [Limits.WithDefaults]. A field that is still zero is met by every row, so
// that a forgotten default costs small files and never a row that waits for ever.
func (c Conditions) Due(l Load, now time.Time) Reason {
	switch {
	case l.Count <= 0:
		return None
	case l.Count >= c.Count:
		return ByCount
	case l.Size >= c.Size:
		return BySize
	case !now.Before(c.Deadline(l)):
		return ByInterval
	}
	return None
}

// Deadline returns when the interval condition will be met: from this moment on [Conditions.Due] is not [None].
// It is the zero time for an empty load, which has no deadline.
func (c Conditions) Deadline(l Load) time.Time {
	if l.Count <= 0 {
		return time.Time{}
	}
	return l.Since.Add(c.Interval)
}
