package stream

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// Requests share a context only for a short time, and each ends within storeTimeout.
func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d deadlines
		first := d.from(time.Now())
		time.Sleep(deadlineStep - time.Nanosecond)
		if d.from(time.Now()) != first {
			t.Error("a request within the step has a context of its own")
		}
		time.Sleep(time.Nanosecond)
		begin := time.Now()
		second := d.from(begin)
		if second == first {
			t.Error("a request after the step has the old context")
		}
		<-first.Done()
		if left := storeTimeout - time.Since(begin); left != deadlineStep {
			t.Errorf("the first context ended %v before the second should", left)
		}
		if second.Err() != nil {
			t.Error("the second context ended with the first")
		}
		<-second.Done()
		if waited := time.Since(begin); waited != storeTimeout || second.Err() != context.DeadlineExceeded {
			t.Errorf("the second context ended after %v with %v", waited, second.Err())
		}
	})
}
