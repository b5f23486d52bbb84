// Package casetest says how many of its cases a test plays, for tests that try many places in turn: each operation of a disk that may
// fail, each byte that may rot.
package casetest

import (
	"os"
	"testing"
)

// All reports whether each case is played: the environment says FOREBAY_CASES=all, as the stage cases of CI does.
func All() bool { return os.Getenv("FOREBAY_CASES") == "all" }

// Step is the distance between the cases to play: 1 if all are played, otherwise 5, or 12 with -short. The cases are the same in every
// run, and no usual period of operations divides these steps.
func Step() int {
	switch {
	case All():
		return 1
	case testing.Short():
		return 12
	}
	return 5
}
