package driver_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/forebay/forebay/driver"
)

func TestRowsError(t *testing.T) {
	cause := errors.New("cause")
	e := &driver.RowsError{Err: cause}
	e.Add(driver.RowError{Row: 3, Column: "n", Reason: "22003", Message: "out of range"})
	if !driver.IsPermanent(fmt.Errorf("import: %w", e)) || !errors.Is(e, cause) {
		t.Errorf("%v is not permanent, or has lost its cause", e)
	}
	want := `the target refuses at least 1 of the rows: row 3, column "n": 22003: out of range`
	if e.Error() != want {
		t.Errorf("got %s, want %s", e, want)
	}
	for i := int64(4); e.Add(driver.RowError{Row: i}); i++ {
	}
	e.Complete = true
	want = strings.Replace(want, "at least 1", "1000", 1)
	if len(e.Rows) != driver.MaxRowErrors || e.Error() != want {
		t.Errorf("got %s with %d rows, want %s", e, len(e.Rows), want)
	}
	long := &driver.RowsError{Rows: []driver.RowError{{Message: "x" + strings.Repeat("é", 1<<20), Column: strings.Repeat("\xff", 1<<20)}}}
	if n := len(long.Error()); n > 2000 {
		t.Errorf("the text of refused rows has %d bytes, want at most 2000", n)
	}
	if got, want := long.Rows[0].Shown().Message, "x"+strings.Repeat("é", 127)+"…"; got != want {
		t.Errorf("a long message is shown as %q, want whole characters: %q", got, want)
	}
	if empty := (&driver.RowsError{}); empty.Error() == "" || empty.Unwrap() != nil {
		t.Errorf("an empty error: %v", empty)
	}
}
