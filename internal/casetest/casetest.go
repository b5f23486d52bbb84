// Package casetest says how many of its cases a test plays, for tests that try many places in turn: each operation of a disk that may
// fail, each byte that may rot. The cases are the same in every run.
package casetest

import (
	"os"
	"testing"
)

// All reports whether each case is played: the environment says FOREBAY_CASES=all, as the stage cases of CI does.
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

// Step is the distance between the operations that fail in turn.
func Step() int { return Of(1, 7, 12) }
