package main

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestMeasureCountsTheWindowAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := measure(t.Context(), &env{duration: time.Second}, load{
			callers: 3, rowBytes: 10, every: 1,
			start: func(int) operation {
				ticker := time.NewTicker(10 * time.Millisecond)
				return func() (int, error) { <-ticker.C; return 2, nil }
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		// 100 operations of each caller in a second, one more or less at either edge.
		if want := int64(3 * 100 * 2); s.Rows < want-12 || s.Rows > want+12 {
			t.Errorf("got %d rows in the window, want about %d", s.Rows, want)
		}
		if s.Elapsed != time.Second {
			t.Errorf("the window is %v, want 1s", s.Elapsed)
		}
		if s.Bytes != 10*s.Rows {
			t.Errorf("got %d bytes for %d rows of 10, want %v", s.Bytes, s.Rows, 10*s.Rows)
		}
		if want := s.Rows + 3*25*2; s.Total < want-12 || s.Total > want+12 {
			t.Errorf("got %d rows in total, want about %d: the warm-up belongs to it", s.Total, want)
		}
		if got := s.Latency.quantile(0.5); got < 10*time.Millisecond || got > 11*time.Millisecond {
			t.Errorf("median latency is %v, want 10ms", got)
		}
		if int64(s.Latency.Total)*2 != s.Rows {
			t.Errorf("got %d latencies, want one for each of %d operations", s.Latency.Total, s.Rows/2)
		}
	})
}

func TestMeasureEndsWithTheFirstError(t *testing.T) {
	cause := errors.New("disk is gone")
	var calls atomic.Int64
	_, err := measure(t.Context(), &env{duration: time.Hour}, load{
		callers: 4, rowBytes: 1, every: 1,
		start: func(int) operation {
			return func() (int, error) {
				if calls.Add(1) == 100 {
					return 0, cause
				}
				return 1, nil
			}
		},
	})
	if !errors.Is(err, cause) {
		t.Errorf("error is %v, want the one of the operation", err)
	}
}

func TestMeasureEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := measure(ctx, &env{duration: time.Hour}, load{
		callers: 1, rowBytes: 1, every: 1,
		start: func(int) operation { return func() (int, error) { cancel(); return 1, nil } },
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want context.Canceled", err)
	}
}

func TestMeasureWaitsForAStalledDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := measure(t.Context(), &env{duration: time.Second}, load{
			callers: 1, rowBytes: 1, every: 1,
			start: func(int) operation {
				return func() (int, error) { time.Sleep(7 * time.Second); return 1, nil }
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		// The warm-up of a quarter of a second belongs to the operation, not to the window.
		if s.Rows != 1 || s.Elapsed != 6750*time.Millisecond {
			t.Errorf("got %d rows in %v, want 1 in 6.75s", s.Rows, s.Elapsed)
		}
	})
}

func TestMeasureRefusesAnEmptyWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := measure(t.Context(), &env{duration: time.Millisecond}, load{
			callers: 1, rowBytes: 1, every: 1,
			start: func(int) operation {
				timer := time.NewTimer(time.Hour)
				return func() (int, error) { <-timer.C; return 1, nil }
			},
		})
		if err == nil {
			t.Error("a window without a row gave a sample")
		}
	})
}
