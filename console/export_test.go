package console

import (
	"net/http/httptest"
	"time"
)

// Sampling returns a function that takes a sample and makes the messages to some viewers of the first page. It returns the bytes.
func Sampling(c *Console, viewers int) func() int {
	all := make([]*viewer, viewers)
	r := httptest.NewRequest("GET", "/stream?page=overview", nil)
	for i := range all {
		all[i] = c.viewer(r, c.caller(r))
	}
	return func() (sent int) {
		c.sampler.mu.Lock()
		c.sampler.take()
		c.sampler.mu.Unlock()
		s := c.sampler.newest.Load()
		for _, v := range all {
			m, _ := v.next(s)
			sent += len(encode(m))
		}
		return sent
	}
}

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

// SetSlowAnswer replaces the delay of the responses to many wrong tokens.
func SetSlowAnswer(c *Console, d time.Duration) { c.slowly = d }

// SetRightsEvery replaces the time after which a stream checks its viewer's rights again.
func SetRightsEvery(c *Console, d time.Duration) { c.rightsEvery = d }

// SetTailTime replaces the time limit of the rows of tables.
func SetTailTime(c *Console, d time.Duration) { c.tailWithin = d }

// TakeTailSlots takes all places of tables and returns how to give them back.
func TakeTailSlots(c *Console) func() {
	for range tailSlots {
		c.tailing <- struct{}{}
	}
	return func() {
		for range tailSlots {
			<-c.tailing
		}
	}
}

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

// StopSampling ends the samples that continue after the last viewer, at the next one.
func StopSampling(c *Console) {
	c.sampler.mu.Lock()
	defer c.sampler.mu.Unlock()
	c.sampler.seen = time.Time{}
}

// Changing returns the names of the endpoints that change something.
func Changing(c *Console) (names []string) {
	for name, e := range c.endpoints {
		if e.change {
			names = append(names, name)
		}
	}
	return names
}
