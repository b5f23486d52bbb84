//go:build forebay_mutants

package pebblestore

import "os"

// mutant chooses the defect of this build, which exists to prove that the simulation finds such defects
// (internal/sim, TestMutantsAreCaught).
var mutant = os.Getenv("FOREBAY_MUTANT")
