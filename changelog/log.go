package changelog

import (
	"context"
	"iter"
)

// Position is the place of a record in a log. Positions grow; 0 is before the first.
type Position uint64

// Kind says what a record is for.
type Kind byte

// The kinds of records.
const (
	// Opened marks where a writer of a new epoch begins. Its Node says whose.
	Opened Kind = 'o'
	// Batch is one part of a batch of the local level.
	Batch Kind = 'b'
	// Checkpoint says that a checkpoint of everything up to Number is stored and named by the owner's record.
	Checkpoint Kind = 'c'
	// Closed ends a log whose instance has no rows any more.
	Closed Kind = 'z'
)

// Record is what a log keeps for one position, besides its own fields.
type Record struct {
	// Kind says which of the other fields the record has.
	Kind Kind
	// Epoch counts the owners of the instance, from 1. A record of a lower epoch behind one of a higher epoch is void.
	Epoch uint64
	// Number counts the batches of a log without gaps, from 1, over all epochs. Closed carries the number of the last batch before it
	// that counts, and Checkpoint that one or a lower one. Opened carries 0: its writer learns that number by reading up to the marker.
	Number uint64
	// Part of Parts, from 1: a batch larger than PartBytes is cut. Only records of batches have them, and Chain.
	Part, Parts int
	// Chain is a hash over the chain before, the number, the part and the data: see [Chain].
	Chain uint64
	// Node is the owner that appended the record.
	Node string
	// Data of a part. Whoever appends leaves the bytes alone until the ticket has ended; whoever reads may keep them.
	Data []byte
}

// Entry is a record with its position.
type Entry struct {
	Position Position // in the log
	Record
}

// Log is a replicated log with one stream of records for each instance. It is implemented by drivers; package
// changelogtest has a suite for them and one in memory. All methods may be called concurrently. A driver bounds the time of
// each call and of each append: a log that never answers ends them with ErrUnknown.
type Log interface {
	// Create makes the stream of an instance, which must happen while all replicas are well: when the instance joins,
	// never when it is missed. One that exists is left alone. A name is never used again after Delete: a Trim that was held up on its way
	// may arrive at a stream that was made later under the same name.
	Create(ctx context.Context, instance string) error
	// Open fences: it appends the marker, of the kind Opened, in such a way that no append by a writer that was opened before
	// can be accepted afterwards, or that it is void by its lower epoch. It fails with ErrFenced if the stream holds a
	// higher epoch, or the same epoch of another node. Everything in front of the marker is committed and stays. A full stream can be
	// opened as well, so that whoever owns it then can trim it.
	Open(ctx context.Context, instance string, marker Record) (Writer, error)
	// Read yields the entries from a position on up to the end that was committed when Read was called, without one missing. It
	// ends with ErrTrimmed if the position is no longer there, ErrHole if an entry in the middle is missing or
	// unreadable, and ErrMissing if there is no stream: that is never an empty one. Position 0 stands for 1, the first of each stream.
	Read(ctx context.Context, instance string, from Position) iter.Seq2[Entry, error]
	// Trim removes the entries up to a position, and that one. Up to position 0 there is none.
	Trim(ctx context.Context, instance string, through Position) error
	// Stat describes the stream. The answer may be old.
	Stat(ctx context.Context, instance string) (Stat, error)
	// Delete removes the stream. One that is not there is no error. Writers of it cannot append to a stream that is made later.
	Delete(ctx context.Context, instance string) error
}

// Stat describes the stream of an instance.
type Stat struct {
	// ID is random and new for each stream, so that a stream which was made again is not taken for the one before.
	ID string
	// First and Last are the positions that are there. Of an empty stream First is Last + 1.
	First, Last Position
	// Bytes are what its records take. Append fails with ErrFull where they would exceed MaxBytes; only markers may.
	Bytes, MaxBytes int64
	// Behind is how many copies of the stream lag or are away, as far as the leader knows, and Lag how many changes the one that lags most lacks.
	// A driver without copies that lag leaves them 0.
	Behind int
	Lag    uint64
}

// Writer appends for one epoch. One goroutine appends; tickets may be waited for anywhere. What the log stores of a writer in
// front of the next marker is a prefix of what it appended, each record once.
type Writer interface {
	// Marker is the position of the record that Open appended.
	Marker() Position
	// Append begins to append a record behind the one before, and blocks only while Window records are under way, or while the log is
	// asked whether there is room. Their tickets end in order. After the first that fails the writer is dead: all later tickets fail
	// too, and the only way on is to open the stream again.
	Append(r Record) Ticket
	// Close gives up what is under way: its tickets end with ErrUnknown. It may be called while Append blocks, and ends it.
	Close() error
}

// Ticket is an append that is under way.
type Ticket interface {
	// Wait returns where the record stands, once it is durable as the log promises and its position follows directly on the one
	// before. ErrFenced: another writer has opened the stream. ErrFull: the record was not stored, and nothing after it. Any
	// other error: it is not known whether the record was stored, or will be.
	//
	// The end of ctx ends the waiting and nothing else. A ticket that has ended gives its outcome, also when ctx has ended.
	Wait(ctx context.Context) (Position, error)
}

// Window is how many records of one writer may be under way. Open of a driver that fences by positions leaves a gap of as many.
const Window = 8

// PartBytes is the most data that a record carries. Chains depend on it, so it is the same for all writers of a log.
const PartBytes = 256 << 10
