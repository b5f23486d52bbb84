//go:build race

package synctest

import (
	"runtime"
	"sync"
)

var bubbles struct {
	sync.Mutex
	open       int
	processors int // before the first of the open ones
}

// oneProcessor leaves the program one processor until the returned function is called, once for each call.
func oneProcessor() (end func()) {
	bubbles.Lock()
	defer bubbles.Unlock()
	if bubbles.open++; bubbles.open == 1 {
		bubbles.processors = runtime.GOMAXPROCS(1)
	}
	return func() {
		bubbles.Lock()
		defer bubbles.Unlock()
		if bubbles.open--; bubbles.open == 0 {
			runtime.GOMAXPROCS(bubbles.processors)
		}
	}
}
