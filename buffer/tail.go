package buffer

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/pebblestore"
)

// TailBatch is one of the last batches of a local level, of which it has a copy because a [Changelog] may lack it.
type TailBatch struct {
	// Number is the number that Changelog.Append got, and Mark what Changelog.Mark returned before it.
	Number uint64
	Mark   []byte
	// Rows are the rows of the batch, of all sinks. Rows of slices that were given up since are not among them.
	Rows []TailRows
}

// TailRows are the rows of one sink in a batch.
type TailRows struct {
	// SinkID names the sink. Columns are the columns of its table when the rows were mapped.
	SinkID  string
	Columns []datatype.Column
	// At is when the last one was accepted.
	At time.Time
	// Data is CSV as in [Rows], of so many rows.
	Data  []byte
	Count int
}

// Tail yields the batches that the local level keeps copies of, in order. See LogPosition.Tail. They are the last ones, up to LogPosition.Number,
// unless no copy was needed for that.
func (i *Inspection) Tail() iter.Seq2[TailBatch, error] {
	return func(yield func(TailBatch, error) bool) {
		o := i.b.store.Opening()
		if err := o.Read(); err != nil {
			yield(TailBatch{}, err)
			return
		}
		defer o.Release()
		for b, err := range tailOf(o.DB) {
			var batch TailBatch
			if err == nil {
				batch, err = i.tailBatch(b)
			}
			if !yield(batch, err) || err != nil {
				return
			}
		}
	}
}

// tailBatch reads the copy of a batch.
func (i *Inspection) tailBatch(b LogBatch) (TailBatch, error) {
	batch := TailBatch{Number: b.Number}
	if _, err := checkBatch(b); err != nil {
		return batch, pebblestore.Damaged("the copy of batch %d: %v", b.Number, err)
	}
	for ops := batchrepr.Read(b.Data); ; {
		kind, key, value, more, err := ops.Next()
		switch {
		case err != nil:
			return batch, pebblestore.Damaged("the copy of batch %d cannot be read: %v", b.Number, err)
		case !more:
			return batch, nil
		case kind != pebble.InternalKeyKindSet:
		case bytes.Equal(key, []byte(format.KeyLog)):
			_, mark, _ := format.ParseLogPosition(value) // checkBatch has looked
			batch.Mark = bytes.Clone(mark)
		case len(key) == format.ChunkKeySize && key[0] == format.PrefixChunk:
			rows, err := i.tailRows(key, value)
			if err != nil {
				return batch, fmt.Errorf("batch %d: %w", b.Number, err)
			}
			if rows.Count > 0 {
				batch.Rows = append(batch.Rows, rows)
			}
		}
	}
}

// tailRows reads a chunk. Without rows its slice is gone.
func (i *Inspection) tailRows(key, value []byte) (TailRows, error) {
	num, _ := format.ParseChunkKey(key)
	sl := i.b.mu.slices[num]
	if sl == nil {
		return TailRows{}, nil
	}
	head, payload, err := format.ParseChunk(value)
	if err != nil {
		return TailRows{}, pebblestore.Damaged("a chunk of slice %s: %v", i.b.sliceID(sl), err)
	}
	in, err := driver.Decode(driver.Encoding(head.Encoding), io.NopCloser(bytes.NewReader(payload)))
	if err != nil {
		return TailRows{}, fmt.Errorf("a chunk of slice %s: %w", i.b.sliceID(sl), err)
	}
	defer in.Close()
	data, err := io.ReadAll(in)
	if err == nil && int64(len(data)) != head.Raw {
		err = pebblestore.Damaged("it has %d bytes of rows instead of %d", len(data), head.Raw)
	}
	if err != nil {
		return TailRows{}, fmt.Errorf("a chunk of slice %s: %w", i.b.sliceID(sl), err)
	}
	return TailRows{
		SinkID: sl.file.sink.id, Columns: sl.file.rec.Def.Table.Columns, At: time.UnixMilli(head.Last), Data: data, Count: int(head.Rows),
	}, nil
}
