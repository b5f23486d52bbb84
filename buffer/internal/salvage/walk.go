package salvage

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/forebay/forebay/buffer/internal/format"
)

// Chunk is a stored chunk of a slice, or its remains.
type Chunk struct {
	// Seq is its number in the slice.
	Seq uint32
	// Header and Payload are valid when Err is nil.
	Header  format.ChunkHeader
	Payload []byte
	// Value is the stored value, or nil when it cannot be read.
	Value []byte
	// Err says why the chunk cannot be used.
	Err error
	// Hidden is set when the part of the store that holds the chunk cannot be read. Whether there is such a chunk is then known
	// only of a sealed slice. In an open one, one hidden Chunk stands for all in that part.
	Hidden bool
}

// ChunkError says that a chunk cannot be read, permanently if [IsLost], else perhaps later.
type ChunkError struct {
	// Seq is the number of the chunk, Err the cause.
	Seq uint32
	Err error
}

func (e *ChunkError) Error() string { return fmt.Sprintf("read chunk %d: %v", e.Seq, e.Err) }
func (e *ChunkError) Unwrap() error { return e.Err }

// IsLost reports whether an error of reading a chunk means that its bytes are permanently wrong.
func IsLost(err error) bool { return errors.Is(err, format.ErrChunk) || pebble.IsCorruptionError(err) }

// farChunk is above the numbers of the chunks of any slice.
const farChunk = 1 << 30

// Walk calls fn for the chunks of a slice in order, without the chunks that ext leaves out, because their part of the store may be
// unreadable. The chunk that fn gets is valid during the call, and an error of fn ends the walk. A chunk that cannot be read
// ends it with a [*ChunkError], unless tolerate accepts the cause. Then fn gets the chunk with Err.
func Walk(db *pebble.DB, slice uint64, ext format.Extent, tolerate func(error) bool, fn func(Chunk) error) error {
	from, to := format.ChunkBounds(slice)
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return fmt.Errorf("read slice: %w", err)
	}
	defer it.Close()
	seek := func(seq uint32) bool { return seekChunk(it, slice, seq) }
	var (
		hiddenTo uint32 // below it the iterator fails
		cause    error  // of that
	)
	next, more := ext.Next(0)
	for ok := more && seek(next); more; {
		c := Chunk{Seq: next}
		if ok {
			_, c.Seq = format.ParseChunkKey(it.Key())
			c.Value, c.Err = it.ValueAndErr()
		} else {
			if next >= hiddenTo {
				if cause = it.Error(); cause == nil {
					return nil
				}
			}
			if c.Value = storedChunk(db, slice, next); c.Value == nil {
				c.Err, c.Hidden = cause, true
			}
		}
		if c.Err == nil {
			c.Header, c.Payload, c.Err = format.ParseChunk(c.Value)
		}
		if c.Err != nil && !tolerate(c.Err) {
			return &ChunkError{c.Seq, c.Err}
		}
		if c.Hidden && next >= hiddenTo {
			limit := cmp.Or(ext.Chunks, farChunk)
			if hiddenTo, err = passDamage(it, slice, next, limit, tolerate); err != nil {
				return err
			}
		}
		if err := fn(c); err != nil {
			return err
		}
		before := c.Seq
		if c.Hidden && ext.Chunks == 0 {
			before = hiddenTo - 1
		}
		if next, more = ext.Next(before + 1); next >= farChunk {
			return nil
		}
		switch {
		case !more || next < hiddenTo:
			ok = false
		case ok && next == before+1:
			ok = it.Next()
		default:
			ok = seek(next)
		}
	}
	return nil
}

// seekChunk moves an iterator to the first chunk of a slice from seq on. A mere SeekGE would step there through a part that
// cannot be read.
func seekChunk(it *pebble.Iterator, slice uint64, seq uint32) bool {
	var key [format.ChunkKeySize]byte
	format.PutChunkKey(key[:], slice, seq)
	_, to := format.ChunkBounds(slice)
	it.SetBounds(key[:], to)
	return it.First()
}

// storedChunk returns a copy of a chunk that an iterator cannot reach, nil when it is not there or cannot be read. An
// iterator fails when any part of the store that may hold the key is damaged, even a neighbouring one. This stops at the newest
// part that has the key.
func storedChunk(db *pebble.DB, slice uint64, seq uint32) []byte {
	var key [format.ChunkKeySize]byte
	format.PutChunkKey(key[:], slice, seq)
	value, closer, err := db.Get(key[:])
	if err != nil {
		return nil
	}
	defer closer.Close()
	return bytes.Clone(value)
}

// passDamage returns the number of the first chunk, up to limit, from which on a slice can be read again. first is in a block
// of the store that cannot be read. Reading fails in all of the block and succeeds after it, so the steps grow until one
// succeeds, and then close in on the end of the block.
func passDamage(it *pebble.Iterator, slice uint64, first, limit uint32, tolerate func(error) bool) (uint32, error) {
	var failure error
	readable := func(seq uint32) bool {
		seekChunk(it, slice, seq)
		if err := it.Error(); err != nil {
			if !tolerate(err) {
				failure = &ChunkError{seq, err}
			}
			return false
		}
		return true
	}
	low, high := first, limit // low cannot be read, high is taken for readable
	for step := uint32(1); step < limit-low && failure == nil; step *= 2 {
		if readable(low + step) {
			high = low + step
			break
		}
		low += step
	}
	for high-low > 1 && failure == nil {
		if mid := low + (high-low)/2; readable(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high, failure
}
