package natsdriver

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/forebay/forebay/internal/synctest"
)

// A request whose response is lost is repeated soon, and a slow one gets more time with each attempt.
func TestAttemptsGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var waits []time.Duration
		got, err := withRetries(t.Context(), calls{Options: Options{Timeout: time.Minute}}, func(ctx context.Context) (string, error) {
			if len(waits) == 4 {
				return "response", nil
			}
			began := time.Now()
			<-ctx.Done()
			waits = append(waits, time.Since(began))
			return "", ctx.Err()
		})
		if want := []time.Duration{2 * time.Second, 3 * time.Second, 4500 * time.Millisecond, 5 * time.Second}; got != "response" || err != nil || !slices.Equal(waits, want) {
			t.Errorf("withRetries = %q, %v after attempts of %v, want attempts of %v", got, err, waits, want)
		}
	})
}
