package changelog

import (
	"context"
	"iter"
)

// Journal is a replicated log that all nodes of a cluster append to, one entry at a time. The nodes must agree on these entries, such as the
// commits of package catalog. It is implemented by drivers. Package changelogtest has one in memory. All methods may be called
// concurrently. A driver bounds the time of each call except Wait.
//
// At most one entry ever stands at a position. So a caller that does not know the outcome of an Append may repeat it with the same
// position, and Read tells in the end who was first.
type Journal interface {
	// Append appends an entry of at most PartBytes directly after a position, 0 for the first entry of all, and returns when it is
	// durable as the log promises. ErrLost means that this call appended nothing, because there is or was about to be another entry. After any other
	// error it is not known whether the entry was appended, or will be.
	Append(ctx context.Context, after Position, data []byte) error
	// Read yields the entries from a position on up to the end that was committed when Read was called, without one missing.
	// Position 0 stands for the first that is there. It ends with ErrTrimmed if the position is no longer there, ErrWentBack if the log
	// ends before the previous position, ErrHole if an entry in the middle is missing, and ErrMissing if there is no log.
	Read(ctx context.Context, from Position) iter.Seq2[JournalEntry, error]
	// Wait returns when there is an entry after a position. It may return without one. It fails when ctx ends, or if it cannot wait.
	Wait(ctx context.Context, after Position) error
	// Trim removes the entries up to and including a position. There must be an entry after it. Up to position 0 there is none.
	Trim(ctx context.Context, through Position) error
}

// JournalEntry is an entry with its position.
type JournalEntry struct {
	// Position in the log: 1 is the first of all, and there are no gaps.
	Position Position
	// Data is the receiver's.
	Data []byte
}
