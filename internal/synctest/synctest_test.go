package synctest_test

import (
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay/internal/synctest"
)

// Goroutines read timers that lapsed while no goroutine waited for them. With the race detector and two processors, testing/synctest
// alone ends the program here.
func TestTimersOfABubble(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() {
					for range 20 {
						timer := time.NewTimer(time.Second)
						time.AfterFunc(time.Second, func() {})
						time.Sleep(2 * time.Second)
						<-timer.C
					}
				})
			}
			all.Wait()
		})
	}
}
