package buffertest

import (
	"errors"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/suitetest"
)

// tb is the part of a testing.T that the checks use.
type tb = suitetest.T

// mustTogether reports the errors of n concurrent calls.
func mustTogether(t tb, what string, n int, call func(i int) error) {
	t.Helper()
	for i, err := range suitetest.Together(n, call) {
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
	case driver.IsPermanent(err):
		t.Errorf("%s = %v is permanent, but a retry may succeed", what, err)
	}
}
