package buffer_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// Rows that were mapped for earlier columns go to a file with those columns, even if they arrive late.
func TestRowsOfAnEarlierDefinitionKeepTheirColumns(t *testing.T) {
	mem := buffertest.NewMemory()
	b := open(t, memoryOptions(t, mem))
	old := define(t, b, "a")
	moved := define(t, b, "a", func(c *buffer.SinkConfig) {
		c.Table = driver.Table{ID: "in.c-test.moved", Columns: datatype.UntypedColumns("other", "names")}
	})
	put(t, b, moved, 100, 103)
	put(t, b, old, 0, 2)
	put(t, b, moved, 103, 104)
	must(t, b.Sink("a").Flush(t.Context()))
	wantIDs(t, mem, "in.c-test.a", 0, 2)
	wantIDs(t, mem, "in.c-test.moved", 100, 104)
	verify(t, b)
}

// What comes while the caller goes away must not race with it.
func TestCallsThatEndEarly(t *testing.T) {
	b := open(t, memoryOptions(t, buffertest.NewMemory()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for i := range 50 {
		if s, err := b.Define(ctx, buffer.SinkConfig{ID: fmt.Sprint(i), Table: driver.Table{ID: "t", Columns: columns}}); err != nil && s != nil {
			t.Fatal("a handle beside an error")
		}
		_, _ = b.Verify(ctx)
		_ = b.Sink(fmt.Sprint(i)).Flush(ctx)
	}
}
