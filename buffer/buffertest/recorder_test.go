package buffertest

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/forebay/forebay/buffer"
)

// recorder is a tb that remembers whether a check has failed.
type recorder struct {
	ctx  context.Context
	mu   sync.Mutex
	errs []string
}

func (*recorder) Helper()                     {}
func (r *recorder) Context() context.Context  { return r.ctx }
func (r *recorder) Skipf(string, ...any)      { runtime.Goexit() }
func (r *recorder) Fatalf(f string, a ...any) { r.Errorf(f, a...); runtime.Goexit() }
func (r *recorder) Errorf(f string, a ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, fmt.Sprintf(f, a...))
}

// failures runs one check, which may end its goroutine.
func failures(t *testing.T, check func(t tb)) []string {
	r := &recorder{ctx: t.Context()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		check(r)
	}()
	<-done
	return r.errs
}

// failedStaging runs the checks of that name, or all if it is empty, and returns those that fail.
func failedStaging(t *testing.T, name string, open func() buffer.Staging) (failed []string) {
	for _, c := range stagingChecks {
		if name != "" && c.name != name {
			continue
		}
		if errs := failures(t, func(r tb) { c.run(r, open()) }); errs != nil {
			t.Logf("%s: %s", c.name, errs[0])
			failed = append(failed, c.name)
		}
	}
	return failed
}

// failedTarget is failedStaging for targets.
func failedTarget(t *testing.T, name string, open func() *bench) (failed []string) {
	for _, c := range targetChecks {
		if name != "" && c.name != name {
			continue
		}
		if errs := failures(t, func(r tb) {
			b := open()
			b.t = r
			c.run(r, b)
		}); errs != nil {
			t.Logf("%s: %s", c.name, errs[0])
			failed = append(failed, c.name)
		}
	}
	return failed
}
