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
