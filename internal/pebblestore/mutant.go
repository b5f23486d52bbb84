package pebblestore

// The defects that a build with the tag forebay_mutants can have; see package buffer, whose simulation finds them.
const (
	mutantSkipSync    = "skip-sync"    // one fsync of the log in four is left out
	mutantBelieveSync = "believe-sync" // an fsync that failed is repeated, and the second answer is believed
)
