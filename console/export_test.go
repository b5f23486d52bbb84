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

// SetSlowAnswer replaces the time that answers to many wrong tokens are held back.
func SetSlowAnswer(c *Console, d time.Duration) { c.slowly = d }

// SetRightsEvery replaces the time after which a stream asks again what its viewer may see.
func SetRightsEvery(c *Console, d time.Duration) { c.rightsEvery = d }

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
