// Package drivertest has the checks that the tests of several drivers share.
package drivertest

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay/driver"
)

// Rows compares the rows of a table, which have no order.
func Rows(tb testing.TB, table string, got, want [][]string) {
	tb.Helper()
	got, want = slices.Clone(got), slices.Clone(want)
	slices.SortFunc(got, slices.Compare[[]string])
	slices.SortFunc(want, slices.Compare[[]string])
	if !slices.EqualFunc(got, want, slices.Equal[[]string]) {
		tb.Errorf("table %s: got %.600q, want %.600q", table, got, want)
	}
}

// Retryable checks that an error is repeated soon.
func Retryable(tb testing.TB, what string, err error) {
	tb.Helper()
	var refused *driver.RowsError
	if err == nil || driver.IsPermanent(err) || errors.As(err, &refused) {
		tb.Errorf("%s: got %v, want an error that a retry fixes", what, err)
	}
}

// Permanent checks that an error requires an operator, and that its text has some words.
func Permanent(tb testing.TB, what string, err error, words ...string) {
	tb.Helper()
	var refused *driver.RowsError
	if err == nil || !driver.IsPermanent(err) || errors.As(err, &refused) {
		tb.Errorf("%s: got %v, want a permanent error", what, err)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			tb.Errorf("%s: got %v, want it to contain %q", what, err, word)
		}
	}
}
