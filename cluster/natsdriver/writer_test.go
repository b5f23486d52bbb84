package natsdriver

import (
	"errors"
	"strings"
	"testing"

	"github.com/forebay/forebay/cluster/changelog"
)

// A duplicate is acknowledged with the position of its first copy. That may be a void one before another owner's marker, so it says nothing
// about the place where the writer has just appended.
func TestDuplicateElsewhereIsNoSuccess(t *testing.T) {
	l := newLog(t, 0, Options{})
	instance := created(t, l)
	if _, err := open(t, l, instance, 1).Append(batch(1, 1, "x")).Wait(within(t)); err != nil {
		t.Fatal(err)
	}
	again := open(t, l, instance, 1) // the same epoch, so that the servers know the record
	if p, err := again.Append(batch(1, 1, "x")).Wait(within(t)); !errors.Is(err, changelog.ErrUnknown) || !strings.Contains(err.Error(), "duplicate: true") {
		t.Errorf("a duplicate = %d, %v, want changelog.ErrUnknown and that it is one", p, err)
	}
	if got := read(t, l, instance); len(got) != 1 {
		t.Errorf("the log has %d batches, want 1", len(got))
	}
}
