package pebblestore_test

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/pebblestore"
	"github.com/forebay/forebay/internal/synctest"
)

// failing is a store whose disk fails while broken is set.
type failing struct {
	*pebblestore.Store
	broken   atomic.Bool
	openings atomic.Int64
}

func openFailing(t *testing.T, change func(*pebblestore.StoreConfig)) *failing {
	t.Helper()
	f := &failing{}
	c := pebblestore.StoreConfig{
		Name: "store", InstanceKey: "instance", Prepare: func() error { f.openings.Add(1); return nil },
		Config: config(disktest.Wrap(disktest.New(t), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if f.broken.Load() && strings.HasPrefix(op.Path, "data") && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
				return syscall.EIO
			}
			return nil
		}))),
	}
	change(&c)
	f.Store = pebblestore.NewStore(c)
	must(t, f.Open())
	return f
}

func (f *failing) put() error {
	return f.Update(func(b *pebble.Batch) error { return b.Set([]byte("key"), []byte("value"), nil) })
}

// Calls that meet a failed store share one attempt to reopen it. After an attempt that failed they are refused until the next
// one is due.
func TestCallsShareOneReopening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openFailing(t, func(*pebblestore.StoreConfig) {})
		atOnce := func(call func() error) (errs []error) {
			var wait sync.WaitGroup
			errs = make([]error, 8)
			for i := range errs {
				wait.Go(func() { errs[i] = call() })
			}
			wait.Wait()
			return errs
		}
		s.broken.Store(true)
		var failed *pebblestore.FailedError
		if err := s.put(); !errors.As(err, &failed) || errors.Is(err, pebblestore.ErrNotCommitted) {
			t.Fatalf("commit to a broken disk: %v", err)
		}
		for _, err := range atOnce(s.Ready) {
			if !errors.As(err, &failed) || failed.RetryAfter != 100*time.Millisecond {
				t.Errorf("while the disk is broken: %v", err)
			}
		}
		if n := s.openings.Load(); n != 2 || s.Now().Phase != pebblestore.PhaseReopening {
			t.Errorf("got %d openings, want 2; %+v", n, s.Now())
		}
		s.broken.Store(false)
		if err := s.Ready(); !errors.As(err, &failed) {
			t.Errorf("before the next attempt is due: %v", err)
		}
		time.Sleep(100 * time.Millisecond)
		for _, err := range atOnce(s.put) {
			if err != nil {
				t.Errorf("on the repaired disk: %v", err)
			}
		}
		if c := s.Now(); s.openings.Load() != 3 || c.Phase != pebblestore.PhaseOpen || c.Epoch != 2 {
			t.Errorf("got %d openings, want 3; %+v", s.openings.Load(), c)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Ready(); !errors.Is(err, pebblestore.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// An owner with work in the background reopens the store without a call, and Stop ends that.
func TestReopenInBackground(t *testing.T) {
	for name, stop := range map[string]bool{"until it succeeds": false, "until Stop": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				failures := 0
				s := openFailing(t, func(c *pebblestore.StoreConfig) {
					c.Delay = func(int) time.Duration { return time.Hour }
					c.Failed = func() { failures++ }
				})
				var ended bool
				start := func() func() { return func() { ended = true } }
				if s.ReopenInBackground(start) {
					t.Error("a store that works is reopened")
				}
				s.broken.Store(true)
				_ = s.put()
				if !s.ReopenInBackground(start) || s.ReopenInBackground(start) {
					t.Error("the reopening does not begin once")
				}
				synctest.Wait()
				if !ended || failures != 1 || s.openings.Load() != 2 {
					t.Errorf("the work has ended: %v; %d failures, %d openings", ended, failures, s.openings.Load())
				}
				s.broken.Store(false)
				var failed *pebblestore.FailedError
				if stop {
					if err := s.Close(); !errors.As(err, &failed) || s.openings.Load() != 2 {
						t.Errorf("close: %v, %d openings", err, s.openings.Load())
					}
					return
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				if err := s.put(); err != nil || s.openings.Load() != 3 {
					t.Errorf("after the reopening: %v, %d openings", err, s.openings.Load())
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
}
