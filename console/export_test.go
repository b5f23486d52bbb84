package console

import "time"

// SetTryTime replaces the time limit of the playground.
func SetTryTime(c *Console, d time.Duration) { c.try.within = d }

// TakeTrySlots takes all places of the playground and returns how to give them back.
func TakeTrySlots(c *Console) func() {
	for range trySlots {
		c.try.slots <- struct{}{}
	}
	return func() {
		for range trySlots {
			<-c.try.slots
		}
	}
}

// SetTailTime replaces the time limit of the rows of tables.
func SetTailTime(c *Console, d time.Duration) { c.tailWithin = d }

// SetTraceTime replaces the time limit of the search of rows.
func SetTraceTime(c *Console, d time.Duration) { c.traceWithin = d }

// TakeTraceSlots takes all places of searches and returns how to give them back.
func TakeTraceSlots(c *Console) func() {
	for range traceSlots {
		c.tracing <- struct{}{}
	}
	return func() {
		for range traceSlots {
			<-c.tracing
		}
	}
}
