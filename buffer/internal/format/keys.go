package format

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// Versions of the format. This release reads and writes all of them.
const (
	// Oldest is the first version, in which all columns are untyped.
	Oldest = 1
	// Typed has typed columns, NULL and tables that grow. See [Definition.Version]. Open upgrades to it.
	Typed = 2
	// Kept has quarantines and positions. Only the definition of a sink with a quarantine, and the first position, upgrade to it.
	Kept = 3
	// Others has rejected records of other engines. The first such record upgrades the format.
	Others = 4
	// Targets has tables with the name of a target. The first definition of such a table upgrades the format.
	Targets = 5
	// Moves has files of other engines. The first file that leaves an engine or arrives in one upgrades the format.
	Moves = 6
	// Newest is the last version.
	Newest = Moves
)

// Keys of single values.
const (
	KeyFormat   = "m/format"
	KeyInstance = "m/instance"
	KeyCounters = "m/counters"
	KeyLog      = "m/log"     // only with a changelog
	KeyRejects  = "m/rejects" // only with a quarantine
)

// First bytes of the keys of each kind.
const (
	PrefixSink    = 's'
	PrefixFile    = 'f'
	PrefixSlice   = 'l'
	PrefixChunk   = 'c'
	PrefixDamage  = 'q'
	PrefixReceipt = 'k'
	PrefixReject  = 'x'
	PrefixRecord  = 'y'
	PrefixTail    = 't' // only with a changelog and sinks that do not wait for it
	PrefixArrival = 'a' // only while files of another engine arrive
)

// SinkKey is the key of a [Sink].
func SinkKey(num uint32) []byte { return binary.BigEndian.AppendUint32([]byte{PrefixSink}, num) }

// FileKey is the key of a [File].
func FileKey(num uint64) []byte { return binary.BigEndian.AppendUint64([]byte{PrefixFile}, num) }

// SliceKey is the key of a [Slice].
func SliceKey(num uint64) []byte { return binary.BigEndian.AppendUint64([]byte{PrefixSlice}, num) }

// ArrivalKey is the key of an [ArrivingFile]. Its number is one of the numbers of files.
func ArrivalKey(num uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{PrefixArrival}, num)
}

// ChunkKeySize is the length of the key of a chunk.
const ChunkKeySize = 1 + 8 + 4

// PutChunkKey fills b[:ChunkKeySize].
func PutChunkKey(b []byte, slice uint64, seq uint32) {
	b[0] = PrefixChunk
	binary.BigEndian.PutUint64(b[1:], slice)
	binary.BigEndian.PutUint32(b[9:], seq)
}

// ParseChunkKey reads a key of ChunkKeySize bytes.
func ParseChunkKey(key []byte) (slice uint64, seq uint32) {
	return binary.BigEndian.Uint64(key[1:]), binary.BigEndian.Uint32(key[9:])
}

// ChunkBounds are the bounds of all chunks of one slice. from is inside, to is outside.
func ChunkBounds(slice uint64) (from, to []byte) {
	from = binary.BigEndian.AppendUint64([]byte{PrefixChunk}, slice)
	to = binary.BigEndian.AppendUint64([]byte{PrefixChunk}, slice+1)
	return from, to
}

// DamageKey is the key of a [Damage]. Damage of the store as a whole has slice 0, which no slice has, and the Unix time as
// its revision.
func DamageKey(slice uint64, revision, number uint32) []byte {
	b := binary.BigEndian.AppendUint64([]byte{PrefixDamage}, slice)
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, revision), number)
}

// RejectKeySize and RecordKeySize are the lengths of the keys of a [Reject] and of its record.
const (
	RejectKeySize = 1 + 4 + 8
	RecordKeySize = RejectKeySize + 4
)

// RejectKey is the key of a [Reject].
func RejectKey(sink uint32, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32([]byte{PrefixReject}, sink), seq)
}

// ParseRejectKey reads what follows the prefix in the key of a [Reject] or of its record.
func ParseRejectKey(rest []byte) (sink uint32, seq uint64, ok bool) {
	if len(rest) < RejectKeySize-1 {
		return 0, 0, false
	}
	return binary.BigEndian.Uint32(rest), binary.BigEndian.Uint64(rest[4:]), true
}

// RecordKey is the key of the record of a [Reject]. Revision 0 is the original, others are edits.
func RecordKey(sink uint32, seq uint64, revision uint32) []byte {
	key := RejectKey(sink, seq)
	key[0] = PrefixRecord
	return binary.BigEndian.AppendUint32(key, revision)
}

// RejectID is the id of a rejected record, unique over engines by the instance, ascending by the number.
func RejectID(instance string, seq uint64) string { return fmt.Sprintf("%s-x%012x", instance, seq) }

// ParseRejectID reads an id of [RejectID].
func ParseRejectID(id string) (instance string, seq uint64, ok bool) {
	instance, digits, ok := strings.Cut(id, "-x")
	seq, err := strconv.ParseUint(digits, 16, 64)
	return instance, seq, ok && err == nil && id == RejectID(instance, seq)
}

// EncodeRejects encodes the value of KeyRejects, the highest number given out.
func EncodeRejects(last uint64) []byte { return binary.BigEndian.AppendUint64(nil, last) }

// ParseRejects reads the value of KeyRejects; 0 for a value of another length.
func ParseRejects(b []byte) uint64 {
	if len(b) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

// FileID is the id of a file for drivers, unique over engines by the instance, ascending by the number.
func FileID(instance string, num uint64) string { return objectID(instance, 'f', num) }

// objectID has the number in at least 12 hexadecimal digits. Statistics make thousands of ids each second.
func objectID(instance string, kind byte, num uint64) string {
	const zeros = "000000000000"
	var space [64]byte
	b := append(append(space[:0], instance...), '-', kind)
	digits := strconv.AppendUint(nil, num, 16)
	b = append(b, zeros[min(len(digits), len(zeros)):]...)
	return string(append(b, digits...))
}

// SliceID is likewise the id of a slice. It has the revision, because an id is never given to other rows.
func SliceID(instance string, num uint64, revision uint32) string {
	id := objectID(instance, 's', num)
	if revision > 0 {
		id += fmt.Sprintf("-r%d", revision)
	}
	return id
}

// EncodeCounters encodes the value of KeyCounters.
func EncodeCounters(file, slice uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, file), slice)
}

// ParseCounters reads the value of KeyCounters. A value of another length is not ok.
func ParseCounters(b []byte) (file, slice uint64, ok bool) {
	if len(b) != 16 {
		return 0, 0, false
	}
	return binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:]), true
}

// TailKey is the key of the copy of a batch that the changelog may lack.
func TailKey(number uint64) []byte { return binary.BigEndian.AppendUint64([]byte{PrefixTail}, number) }

// TailHeadSize is the length of the head that precedes the batch in the value of a TailKey. The head is a version and the number of rows that were
// acknowledged before the changelog had them.
const TailHeadSize = 1 + 8

// PutTailHead fills b[:TailHeadSize].
func PutTailHead(b []byte, rows int64) {
	b[0] = 1
	binary.BigEndian.PutUint64(b[1:], uint64(rows))
}

// ParseTail reads the value of a TailKey. One of another version is not ok. batch is part of b.
func ParseTail(b []byte) (rows int64, batch []byte, ok bool) {
	if len(b) < TailHeadSize || b[0] != 1 {
		return 0, nil, false
	}
	return int64(binary.BigEndian.Uint64(b[1:])), b[TailHeadSize:], true
}

// EncodeLogPosition encodes the value of KeyLog, which is the number of a batch in the changelog, and the mark that the changelog adds.
func EncodeLogPosition(number uint64, mark []byte) []byte {
	return append(binary.BigEndian.AppendUint64(nil, number), mark...)
}

// ParseLogPosition reads the value of KeyLog. A value without a number is not ok. mark is part of b.
func ParseLogPosition(b []byte) (number uint64, mark []byte, ok bool) {
	if len(b) < 8 {
		return 0, nil, false
	}
	return binary.BigEndian.Uint64(b), b[8:], true
}
