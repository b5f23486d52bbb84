package format

import (
	"encoding/binary"
	"errors"
	"time"
)

const (
	receiptVersion = 1
	// ReceiptHeadSize is the length of what stands before the data of a receipt.
	ReceiptHeadSize = 13
	// ReceiptKeySize is the length of the key of a receipt.
	ReceiptKeySize = 1 + 8 + 16 + 4 + 4
	// ReceiptCopy is set in the part of a receipt that was copied from another buffer. The other bits are a hash of its value.
	ReceiptCopy = 1 << 31
)

// ReceiptKey is the key of a receipt. part tells the receipts of one key and sink from each other.
func ReceiptKey(segment uint64, key [16]byte, sink, part uint32) []byte {
	b := make([]byte, 0, ReceiptKeySize)
	b = binary.BigEndian.AppendUint64(append(b, PrefixReceipt), segment)
	b = binary.BigEndian.AppendUint32(append(b, key[:]...), sink)
	return binary.BigEndian.AppendUint32(b, part)
}

// ParseReceiptKey reads the key of a receipt. A key of another length is not ok.
func ParseReceiptKey(b []byte) (segment uint64, key [16]byte, sink, part uint32, ok bool) {
	if len(b) != ReceiptKeySize {
		return 0, key, 0, 0, false
	}
	copy(key[:], b[9:])
	return binary.BigEndian.Uint64(b[1:]), key, binary.BigEndian.Uint32(b[25:]), binary.BigEndian.Uint32(b[29:]), true
}

// ReceiptBound is at or before all keys of a segment, and after all keys of earlier segments.
func ReceiptBound(segment uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{PrefixReceipt}, segment)
}

// PutReceiptTime sets the acceptance time of a receipt, Unix milliseconds.
func PutReceiptTime(b []byte, at int64) { binary.LittleEndian.PutUint64(b[1:], uint64(at)) }

// PutReceiptLife sets the version of a receipt and the life of its sink.
func PutReceiptLife(b []byte, life int) {
	b[0] = receiptVersion
	binary.LittleEndian.PutUint32(b[9:], uint32(life))
}

// ErrReceipt is returned for a receipt that is too short or has an unknown version.
var ErrReceipt = errors.New("damaged receipt: it is too short, or its version is unknown")

// ParseReceipt reads a receipt. The data alias b.
func ParseReceipt(b []byte) (at time.Time, life int, data []byte, err error) {
	if len(b) < ReceiptHeadSize || b[0] != receiptVersion {
		return at, 0, nil, ErrReceipt
	}
	le := binary.LittleEndian
	return Time(int64(le.Uint64(b[1:]))), int(le.Uint32(b[9:])), b[ReceiptHeadSize:], nil
}
