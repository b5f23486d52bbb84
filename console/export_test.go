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
