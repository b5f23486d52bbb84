package buffertest

import (
	"context"
	"sync"
)

// tb is the part of [testing.T] that the checks use. The tests of this package run the checks with a recorder, to prove that
// they find broken drivers.
type tb interface {
	Helper()
	Context() context.Context
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
}

// together runs n concurrent calls and returns their errors by index.
func together(n int, call func(i int) error) []error {
	errs := make([]error, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = call(i)
		})
	}
	close(start)
	wg.Wait()
	return errs
}
