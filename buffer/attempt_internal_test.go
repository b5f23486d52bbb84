package buffer

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/synctest"
)

// However long a call takes, it ends once, in time, after its time, or late. left and late come in pairs.
func TestAttemptEndsOnce(t *testing.T) {
	const timeout = time.Minute
	away := errors.New("away")
	for name, c := range map[string]struct {
		takes      time.Duration
		err        error
		want       error // nil stands for the error of the call
		left, late int
	}{
		"in time":                      {takes: time.Second},
		"in time, and fails":           {takes: time.Second, err: away},
		"at the end of its time":       {takes: timeout},
		"after its time":               {takes: timeout + abandonAfter/2},
		"after its time, and fails":    {takes: timeout + abandonAfter/2, err: driver.Permanent(away)},
		"just before it is left alone": {takes: timeout + abandonAfter - 1},
		"left alone":                   {takes: timeout + 2*abandonAfter, want: errLeftAlone, left: 1, late: 1},
		"left alone, and fails":        {takes: time.Hour, err: away, want: errLeftAlone, left: 1, late: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				left, late := 0, 0
				var lateErr error
				err := runAttempt(t.Context(), timeout, func(context.Context) error { // ignores its context
					time.Sleep(c.takes)
					return c.err
				}, &lateEnd{func() { left++ }, func(err error) { late++; lateErr = err }})
				want := c.want
				if want == nil {
					want = c.err
				}
				if (err == nil) != (want == nil) || err != nil && err.Error() != want.Error() || driver.IsPermanent(err) != driver.IsPermanent(want) {
					t.Errorf("the attempt ends with %v, want %v", err, want)
				}
				if left != c.left || c.want == nil && late != 0 {
					t.Errorf("left alone %d times, late %d times", left, late)
				}
				time.Sleep(2 * time.Hour)
				synctest.Wait()
				if late != c.late || late > 0 && (lateErr == nil) != (c.err == nil) {
					t.Errorf("late %d times with %v, want %d times with %v", late, lateErr, c.late, c.err)
				}
			})
		})
	}
}

// The moment in which a call is left alone may be the one in which it returns. Whoever is first, left and late are paired.
func TestAttemptThatReturnsAsItIsLeftAlone(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			left, late := make(chan int, 2), make(chan int, 2)
			err := runAttempt(t.Context(), time.Minute, func(context.Context) error {
				time.Sleep(time.Minute + abandonAfter)
				return nil
			}, &lateEnd{func() { left <- 1 }, func(error) { late <- 1 }})
			synctest.Wait()
			if len(left) != len(late) || errors.Is(err, errLeftAlone) && len(left) == 0 {
				t.Fatalf("left alone %d times, late %d times, outcome %v", len(left), len(late), err)
			}
		})
	}
}
