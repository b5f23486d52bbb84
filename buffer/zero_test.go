package buffer_test

import (
	"testing"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/zerotest"
)

// TestZeroValues calls each method of a buffer, and of the values that it returns, with zero values. A method returns, with or without an
// error, and does not panic.
func TestZeroValues(t *testing.T) {
	t.Chdir(t.TempDir()) // a relative path is one of the values
	mem := &buffertest.Memory{}
	b := openAt(t, t.TempDir(), buffer.Options{Staging: mem, Target: mem})
	sink, err := b.Define(t.Context(), buffer.SinkConfig{ID: "s", Table: driver.Table{ID: "t", Columns: datatype.UntypedColumns("c")}, Quarantine: &buffer.QuarantineBounds{}})
	must(t, err)
	claim, err := b.Claim(t.Context(), buffer.Key{1})
	must(t, err)
	for _, receiver := range []any{b, b.Sink("s"), b.Moves(), sink, claim, buffer.Ticket{}} {
		zerotest.Calls(t, receiver, []string{"s"}, "Close", "Forget", "Drop")
	}
}
