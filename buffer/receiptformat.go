package buffer

import (
	"encoding/binary"
	"fmt"
	"time"
)

// A receipt is stored under its segment, the key of its call, the number of the sink, and a number that tells the receipts
// of one key and sink from each other. Its value is
//
//	offset size
//	0      1    version, now 1
//	1      8    when the rows were accepted, Unix milliseconds
//	9      4    life of the sink, see sinkRecord
//	13     …    Rows.Receipt
//
// all little endian. The receipt of rows is in the batch of their chunk.
const (
	receiptVersion = 1
	receiptHead    = 13
	receiptKeySize = 1 + 8 + len(Key{}) + 4 + 4
)

func receiptKey(segment uint64, key Key, sink, part uint32) []byte {
	b := make([]byte, 0, receiptKeySize)
	b = binary.BigEndian.AppendUint64(append(b, prefixReceipt), segment)
	b = binary.BigEndian.AppendUint32(append(b, key[:]...), sink)
	return binary.BigEndian.AppendUint32(b, part)
}

func parseReceiptKey(b []byte) (segment uint64, key Key, sink, part uint32, ok bool) {
	if len(b) != receiptKeySize {
		return 0, key, 0, 0, false
	}
	copy(key[:], b[9:])
	return binary.BigEndian.Uint64(b[1:]), key, binary.BigEndian.Uint32(b[25:]), binary.BigEndian.Uint32(b[29:]), true
}

// receiptBound is before all keys of a segment.
func receiptBound(segment uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{prefixReceipt}, segment)
}

func putReceiptTime(b []byte, at int64) { binary.LittleEndian.PutUint64(b[1:], uint64(at)) }

func putReceiptHead(b []byte, life int) {
	b[0] = receiptVersion
	binary.LittleEndian.PutUint32(b[9:], uint32(life))
}

// parseReceipt reads a value. The data alias b.
func parseReceipt(b []byte) (at time.Time, life int, data []byte, err error) {
	if len(b) < receiptHead || b[0] != receiptVersion {
		return at, 0, nil, badRecord("receipt of %d bytes: %w", len(b), errReceipt)
	}
	le := binary.LittleEndian
	return unixMilli(int64(le.Uint64(b[1:]))), int(le.Uint32(b[9:])), b[receiptHead:], nil
}

var errReceipt = fmt.Errorf("it is too short, or its version is not %d", receiptVersion)
