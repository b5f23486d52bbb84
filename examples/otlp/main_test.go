package main

import (
	"strings"
	"testing"
)

// What the shop tells of itself is in its tables, once.
func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), t.TempDir(), 6, &out); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]int{
		"  order, ": 6, "  payment, ": 6, "Error, yes\n": 2, "Unset, no\n": 6,
		"  shop.orders, sum, 6, , \n": 1, "  shop.order.amount, histogram, , 4, ": 1,
		"  WARN, card declined, 3, shop\n": 1, "  INFO, paid, ": 4,
	} {
		if got := strings.Count(out.String(), line); got != want {
			t.Errorf("%d lines with %q, want %d", got, line, want)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
}
