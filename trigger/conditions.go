package trigger

import "time"

// Conditions are the bounds of one step. The first one that is met moves the waiting rows.
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

// Load describes the rows that wait for a step.
type Load struct {
	// Since is when the oldest row began to wait. It is ignored if Count is 0.
	Since time.Time
	// Size is in bytes, counted as for Conditions.Size.
	Size int64
	// Count is the number of rows; 0 means that nothing waits.
	Count int64
}

// Resume returns l for use after a restart. now must come from [time.Now]. Since moves to the monotonic clock of this
// process. The age that the wall clock shows now is kept, and later steps of the wall clock have no effect. A Since in the
// future, because the wall clock was set back, becomes now, so no row waits longer than one interval after a restart.
func (l Load) Resume(now time.Time) Load {
	// Round(0) drops the monotonic reading, which is only meaningful in the process that took it.
	age := max(0, now.Round(0).Sub(l.Since.Round(0)))
	l.Since = now.Add(-age)
	return l
}

// Due returns the first condition that the load meets at now, in the order [ByCount], [BySize], [ByInterval], or [None]. An
// empty load is never due.
//
// The conditions should be complete, see [Limits.WithDefaults]. Every row meets a zero field, so a forgotten default causes
// small files but never a row that waits forever.
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

// Deadline returns when the interval condition will be met. From then on [Conditions.Due] is not [None]. An empty load has
// no deadline, so its deadline is the zero time.
func (c Conditions) Deadline(l Load) time.Time {
	if l.Count <= 0 {
		return time.Time{}
	}
	return l.Since.Add(c.Interval)
}
