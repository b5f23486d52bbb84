package deadline

import (
	"context"
	"testing"
	"time"

	"github.com/forebay/forebay/internal/synctest"
)

// Requests share a context only for a short time, and each ends within Timeout.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Shared
		first := s.From(time.Now())
		time.Sleep(Step - time.Nanosecond)
		if s.From(time.Now()) != first {
			t.Error("a request within the step has a context of its own")
		}
		time.Sleep(time.Nanosecond)
		begin := time.Now()
		second := s.From(begin)
		if second == first {
			t.Error("a request after the step has the old context")
		}
		<-first.Done()
		if left := Timeout - time.Since(begin); left != Step {
			t.Errorf("the first context ended %v before the second should", left)
		}
		if second.Err() != nil {
			t.Error("the second context ended with the first")
		}
		<-second.Done()
		if waited := time.Since(begin); waited != Timeout || second.Err() != context.DeadlineExceeded {
			t.Errorf("the second context ended after %v with %v", waited, second.Err())
		}
	})
}
