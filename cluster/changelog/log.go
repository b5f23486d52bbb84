package changelog

import (
	"context"
	"iter"
)

// Position is the place of a record in a log. Positions grow; 0 is before the first.
type Position uint64

// Kind is the type of a record.
type Kind byte

// The kinds of records.
const (
	// Opened marks where a writer of a new epoch begins. Its Node says whose.
	Opened Kind = 'o'
	// Batch is one part of a batch of the local level.
	Batch Kind = 'b'
	// Checkpoint says that a checkpoint of everything up to Number is stored and named by the owner's record.
	Checkpoint Kind = 'c'
	// Closed ends a log whose instance no longer has rows.
	Closed Kind = 'z'
)

// Record is the content of one position of a log, without the log's own fields.
type Record struct {
	// Kind says which of the other fields the record has.
	Kind Kind
	// Epoch counts the owners of the instance, from 1. A record of a lower epoch after one of a higher epoch is void.
	Epoch uint64
	// Number counts the batches of a log without gaps, from 1, over all epochs. Closed carries the number of the last batch before it
	// that counts, and Checkpoint that one or a lower one. Opened carries 0. Its writer learns that number by reading up to the marker.
	Number uint64
	// Part of Parts, from 1. A batch larger than PartBytes is cut. Only records of batches have them, and Chain.
	Part, Parts int
	// Chain is a hash over the chain before, the number, the part and the data. See [Chain].
	Chain uint64
	// Node is the owner that appended the record.
	Node string
	// Data of a part. Whoever appends leaves the bytes alone until the ticket has ended. Whoever reads may keep them.
	Data []byte
}

// Entry is a record with its position.
type Entry struct {
	Position Position // in the log
	Record
}

// Log is a replicated log with one stream of records for each instance. It is implemented by drivers. Package
// changelogtest has a suite for them and one in memory. All methods may be called concurrently. A driver bounds the time of
// each call and of each append. A log that never responds ends them with ErrUnknown.
type Log interface {
	// Create makes the stream of an instance, which must happen while all replicas are well, when the instance joins and
	// never when it is missed. One that exists is left alone. A name is never used again after Delete. A Trim that was held up on its way
	// may arrive at a stream that was made later under the same name.
	Create(ctx context.Context, instance string) error
	// Open fences. It appends the marker, of the kind Opened, in such a way that no append by a writer that was opened before
	// can be accepted afterwards, or that it is void by its lower epoch. It fails with ErrFenced if the stream holds a
	// higher epoch, or the same epoch of another node. Everything before the marker is committed and stays. A full stream can be
	// opened as well, so that whoever owns it then can trim it.
	Open(ctx context.Context, instance string, marker Record) (Writer, error)
	// Read yields the entries from a position on up to the end that was committed when Read was called, without one missing. It
	// ends with ErrTrimmed if the position is no longer there, ErrHole if an entry in the middle is missing or
	// unreadable, and ErrMissing if there is no stream, which is never the same as an empty one. Position 0 stands for 1, the first of each stream.
	Read(ctx context.Context, instance string, from Position) iter.Seq2[Entry, error]
	// Trim removes the entries up to a position, and that one. Up to position 0 there is none.
	Trim(ctx context.Context, instance string, through Position) error
	// Stat describes the stream. The result may be old.
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
	// Bytes are what its records take. Append fails with ErrFull where they would exceed MaxBytes. Only markers may exceed it.
	Bytes, MaxBytes int64
	// Behind is how many copies of the stream lag or are away, as far as the leader knows, and Lag how many changes the slowest copy lacks.
	// A driver without copies that lag leaves them 0.
	Behind int
	Lag    uint64
}

// Writer appends for one epoch. One goroutine appends. Tickets may be waited for anywhere. The log's records of a writer
// before the next marker are a prefix of its appended records, each record once.
type Writer interface {
	// Marker is the position of the record that Open appended.
	Marker() Position
	// Append begins to append a record after the previous one, and blocks only while Window records are in flight, or while the log is
	// asked whether there is room. Their tickets end in order. After the first that fails the writer is dead. All later tickets fail
	// too, and the only remedy is to open the stream again.
	Append(r Record) Ticket
	// Close gives up pending appends. Their tickets end with ErrUnknown. It may be called while Append blocks, and ends it.
	Close() error
}

// Ticket is an append in flight.
type Ticket interface {
	// Wait returns where the record stands, once it is durable as the log promises and its position follows directly on the one
	// before. ErrFenced means that another writer has opened the stream. ErrFull means that the record was not stored, and nothing after it. After any
	// other error it is not known whether the record was stored, or will be.
	//
	// The end of ctx ends the waiting and nothing else. A ticket that has ended returns its outcome, even if ctx has ended.
	Wait(ctx context.Context) (Position, error)
}

// Window is how many records of one writer may be in flight. Open of a driver that fences by positions leaves a gap of as many.
const Window = 8

// PartBytes is the most data that a record carries. Chains depend on it, so it is the same for all writers of a log.
const PartBytes = 256 << 10
