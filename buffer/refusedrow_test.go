package buffer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/synctest"
)

// The counters say which row of which slice is refused, and with HoldFiles the file waits until the table takes it.
func TestRefusedRowsHoldTheirFile(t *testing.T) {
	var refuse atomic.Bool
	refuse.Store(true)
	drv := &twist{importer: func(_ context.Context, f *driver.File) error {
		if !refuse.Load() {
			return nil
		}
		e := &driver.RowsError{Complete: true, Err: errors.New("secret")}
		e.Add(driver.RowError{Row: 0, Column: "id", Reason: "unique", Message: "exists"})
		return fmt.Errorf("import %s: %w", f.ID, e)
	}}
	withTwist(t, drv, func(t *testing.T, b *buffer.Buffer) {
		define(t, b, "a", quarantined(func(q *buffer.QuarantineBounds) { q.HoldFiles = true }))
		var held *buffer.HeldError
		if err := b.Sink("a").Flush(t.Context()); !errors.As(err, &held) {
			t.Fatalf("Flush = %v", err)
		}
		synctest.Wait()
		st, _ := b.Sink("a").Stats()
		f := st.Files[0]
		want := fmt.Sprintf(`import %s: the target refuses 1 of the rows: row 0, column "id": unique: exists (row 0 of the slice `, f.ID)
		if f.State != buffer.FileImporting || !strings.HasPrefix(f.RetryReason, want) || strings.Contains(f.RetryReason, "secret") {
			t.Errorf("%s: got %s, want %s", f.State, f.RetryReason, want)
		}
		refuse.Store(false)
		must(t, b.Sink("a").Retry(t.Context()))
		synctest.Wait()
		if st, _ = b.Sink("a").Stats(); st.Target.Rows != 1 {
			t.Errorf("got %d rows in the table, want 1", st.Target.Rows)
		}
	})
}
