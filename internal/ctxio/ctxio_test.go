package ctxio_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/forebay/forebay/internal/ctxio"
)

func TestWriterEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var got bytes.Buffer
	w := ctxio.Writer(ctx, &got)
	if n, err := w.Write([]byte("before")); n != 6 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	cancel()
	if n, err := w.Write([]byte("after")); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d, %v", n, err)
	}
	if got.String() != "before" {
		t.Errorf("wrote %q", &got)
	}
}
