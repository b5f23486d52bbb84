package buffertest

import (
	"context"
	"errors"
	"sync"

	"github.com/forebay/forebay/buffer"
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

// mustTogether reports the errors of n concurrent calls.
func mustTogether(t tb, what string, n int, call func(i int) error) {
	t.Helper()
	for i, err := range together(n, call) {
		if err != nil {
			t.Errorf("%s, call %d of several at once: %v", what, i, err)
		}
	}
}

// expectRetryable demands an error after which a retry may succeed, and that wraps cause unless that is nil.
func expectRetryable(t tb, what string, err, cause error) {
	t.Helper()
	switch {
	case err == nil:
		t.Errorf("%s = nil, want an error", what)
	case cause != nil && !errors.Is(err, cause):
		t.Errorf("%s = %v, which does not wrap the error of its source", what, err)
	case buffer.IsPermanent(err):
		t.Errorf("%s = %v is permanent, but a retry may succeed", what, err)
	}
}
