// Package casetest says how many of its cases a test plays, for tests that try many places in turn, such as each operation of a disk that may
// fail, each byte that may rot. The cases are the same in every run, except for the cases that [Sample] draws.
package casetest

import (
	"os"
	"slices"
	"testing"

	"github.com/forebay/forebay/internal/seedtest"
)

// All reports whether each case is played, that is, the environment says FOREBAY_CASES=all, as the stage cases of CI does.
func All() bool { return os.Getenv("FOREBAY_CASES") == "all" }

// Of returns all if each case is played, few with -short, and some otherwise.
func Of(all, some, few int) int {
	switch {
	case All():
		return all
	case testing.Short():
		return few
	}
	return some
}

// Sample returns all cases if each is played. Otherwise it draws some of them, or few with -short, from the seed of the test, so that runs
// with different seeds play different cases. It keeps their order.
func Sample[T any](t testing.TB, all []T, some, few int) []T {
	t.Helper()
	n := Of(len(all), some, few)
	if n >= len(all) {
		return all
	}
	drawn := seedtest.Rand(t).Perm(len(all))[:n]
	slices.Sort(drawn)
	sample := make([]T, n)
	for i, at := range drawn {
		sample[i] = all[at]
	}
	return sample
}

// Steps returns the operation that fails first in a test that lets operations fail in turn, which it draws from the seed of the test, and Step.
func Steps(t testing.TB) (first, step int) {
	t.Helper()
	step = Step()
	return seedtest.Rand(t).IntN(step), step
}

// Step is the distance between the operations that fail in turn.
func Step() int { return Of(1, 7, 12) }
