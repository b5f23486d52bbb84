package buffer

// The defects that a build with the tag forebay_mutants can have, beside those of internal/pebblestore. Each is one
// line at the place that does it right.
const (
	mutantEarlyAck     = "early-ack"     // rows are acknowledged before the commit
	mutantLateSync     = "late-sync"     // rows that nobody waits for are committed far too late
	mutantNewID        = "new-id"        // every attempt of an import has an id of its own
	mutantReuseID      = "reuse-id"      // the highest id given out is not recorded
	mutantForgetSlice  = "forget-slice"  // a file that is closed forgets its open slice
	mutantEarlyDelete  = "early-delete"  // staged objects are deleted before the import is recorded
	mutantEarlyWipe    = "early-wipe"    // local rows are deleted before the upload is recorded
	mutantLeakObject   = "leak-object"   // staged objects of an imported file stay
	mutantReverse      = "reverse"       // the slices of a file are imported in the wrong order
	mutantWrongColumns = "wrong-columns" // late rows of an earlier definition go into the current file
	mutantEarlyEffect  = "early-effect"  // what follows from a commit begins before it is on disk
	mutantTrustMemory  = "trust-memory"  // the state in memory is kept when the store is reopened
	mutantEarlyExpiry  = "early-expiry"  // files expire after half of the retention
	mutantSilentExpiry = "silent-expiry" // rows that expire are not counted
	mutantSilentDamage = "silent-damage" // what is damaged is set aside without a record of the place
	mutantWrongPlace   = "wrong-place"   // damage is recorded one chunk beside its place
	mutantKeepDiscard  = "keep-discard"  // the staged objects of a discarded file stay after a restart
	mutantClockBack    = "clock-back"    // times that lie in the future, after the clock was set back, are believed
	mutantNoPressure   = "no-pressure"   // files that fill a bound wait for their conditions
)
