//go:build !forebay_mutants

package pebblestore

// mutant names the defect of a build that is broken on purpose; see mutant_on.go. Here it is a constant, so that the
// compiler leaves nothing of the defects behind.
const mutant = ""
