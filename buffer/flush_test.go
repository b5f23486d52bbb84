package buffer_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/driver"
)

func TestHeldErrorCountsTheRows(t *testing.T) {
	drv := &twist{importer: func(ctx context.Context, _ *driver.File) error { <-ctx.Done(); return ctx.Err() }}
	withTwist(t, drv, func(t *testing.T, b *buffer.Buffer) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var held *buffer.HeldError
		if err := b.Flush(ctx, "a"); !errors.As(err, &held) || held.Rows != 1 || strings.Contains(err.Error(), "0 failed") {
			t.Errorf("%v, want a HeldError of 1 row", err)
		}
	})
}
