// Package suitetest is what conformance suites for drivers share.
package suitetest

import (
	"context"
	"fmt"
	"runtime"
	"sync"
)

// T is the part of testing.T that checks use. The tests of a suite run its checks with a recorder, to prove that they find broken
// drivers.
type T interface {
	// Helper marks a function whose line says nothing.
	Helper()
	// Context ends when the check does.
	Context() context.Context
	// Errorf reports a failure, from any goroutine.
	Errorf(format string, args ...any)
	// Fatalf reports a failure and ends the check. Only its own goroutine may call it.
	Fatalf(format string, args ...any)
	// Skipf ends the check.
	Skipf(format string, args ...any)
}

// Failures runs a check, which may end its goroutine, and returns its failure messages.
func Failures(ctx context.Context, check func(t T)) []string {
	r := &recorder{ctx: ctx}
	done := make(chan struct{})
	go func() {
		defer close(done)
		check(r)
	}()
	<-done
	return r.errs
}

type recorder struct {
	ctx  context.Context
	mu   sync.Mutex
	errs []string
}

func (*recorder) Helper()                     {}
func (r *recorder) Context() context.Context  { return r.ctx }
func (*recorder) Skipf(string, ...any)        { runtime.Goexit() }
func (r *recorder) Fatalf(f string, a ...any) { r.Errorf(f, a...); runtime.Goexit() }
func (r *recorder) Errorf(f string, a ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, fmt.Sprintf(f, a...))
}

// Together runs n concurrent calls and returns their errors by index.
func Together(n int, call func(i int) error) []error {
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
