package buffer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/internal/synctest"
)

func TestRowsError(t *testing.T) {
	cause := errors.New("cause")
	e := &buffer.RowsError{Err: cause}
	e.Add(buffer.RowError{Row: 3, Column: "n", Reason: "22003", Message: "out of range"})
	if !buffer.IsPermanent(fmt.Errorf("import: %w", e)) || !errors.Is(e, cause) {
		t.Errorf("%v is not permanent, or has lost its cause", e)
	}
	want := `the target refuses at least 1 of the rows: row 3, column "n": 22003: out of range`
	if e.Error() != want {
		t.Errorf("%s, want %s", e, want)
	}
	for i := int64(4); e.Add(buffer.RowError{Row: i}); i++ {
	}
	e.Complete = true
	want = strings.Replace(want, "at least 1", "1000", 1)
	if len(e.Rows) != buffer.MaxRowErrors || e.Error() != want {
		t.Errorf("%s with %d rows, want %s", e, len(e.Rows), want)
	}
	long := &buffer.RowsError{Rows: []buffer.RowError{{Message: strings.Repeat("é", 1<<20), Column: strings.Repeat("\xff", 1<<20)}}}
	if n := len(long.Error()); n > 2000 {
		t.Errorf("a text of %d bytes", n)
	}
	if empty := (&buffer.RowsError{}); empty.Error() == "" || empty.Unwrap() != nil {
		t.Errorf("an empty error: %v", empty)
	}
}

// The counters say which row of which slice is refused, and with HoldFiles the file waits until the table takes it.
func TestRefusedRowsHoldTheirFile(t *testing.T) {
	refuse := true
	drv := &twist{importer: func(_ context.Context, f *buffer.File) error {
		if !refuse {
			return nil
		}
		e := &buffer.RowsError{Complete: true, Err: errors.New("secret")}
		e.Add(buffer.RowError{Row: 0, Column: "id", Reason: "unique", Message: "exists"})
		return fmt.Errorf("import %s: %w", f.ID, e)
	}}
	withTwist(t, drv, func(t *testing.T, b *buffer.Buffer) {
		define(t, b, "a", quarantined(func(q *buffer.QuarantineBounds) { q.HoldFiles = true }))
		var held *buffer.HeldError
		if err := b.Flush(t.Context(), "a"); !errors.As(err, &held) {
			t.Fatalf("Flush = %v", err)
		}
		synctest.Wait()
		st, _ := b.SinkStats("a")
		f := st.Files[0]
		want := fmt.Sprintf(`import %s: the target refuses 1 of the rows: row 0, column "id": unique: exists (row 0 of the slice `, f.ID)
		if f.State != buffer.FileImporting || !strings.HasPrefix(f.RetryReason, want) || strings.Contains(f.RetryReason, "secret") {
			t.Errorf("%s: %s, want %s", f.State, f.RetryReason, want)
		}
		refuse = false
		if err := b.Retry(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if st, _ = b.SinkStats("a"); st.Target.Rows != 1 {
			t.Errorf("%d rows in the table", st.Target.Rows)
		}
	})
}
