package pebblestore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Logs are read here before pebble replays them. Where pebble cannot read a block of 32 KiB, it looks for valid chunks from the
// next block on. If it finds none, it takes the rest for a torn write that was never acknowledged, so it would drop acknowledged
// rows of a short log without an error. Here each chunk is checked, including chunks after unreadable bytes.
//
// The format is defined by pebble's package record: blocks of logBlock bytes with chunks in them. The head of a chunk:
//
//	offset size
//	0      4    masked CRC-32C of everything from offset 6 on
//	4      2    length of the payload
//	6      1    5 to 8: full, first, middle, last chunk of a record; 9 to 12: likewise, with the next but one field
//	7      4    number of the log
//	11     8    how many bytes of the log were synced when the chunk was written
//
// A closed log ends with a head that has no payload and the number of the next log.
const (
	logBlock     = 32 << 10
	logHeadSize  = 11
	syncHeadSize = 19
)

const (
	logFull = iota
	logFirst
	logMiddle
	logLast
)

type logChunk struct {
	at      int64
	kind    int
	payload []byte // valid during the call
	synced  int64
}

// parseLogChunk reads the chunk at the start of b. The size is 0 when there is none. closed is set at the end of the log.
func parseLogChunk(b []byte, num uint32) (c logChunk, size int, closed bool) {
	if len(b) < logHeadSize || b[6] < 5 || b[6] > 12 {
		return c, 0, false
	}
	le := binary.LittleEndian
	sum, length, number := le.Uint32(b), int(le.Uint16(b[4:])), le.Uint32(b[7:])
	if number == num+1 && b[6] == 5 && sum == 0 && length == 0 {
		return c, logHeadSize, true
	}
	head := logHeadSize
	if b[6] >= 9 {
		head = syncHeadSize
	}
	if number != num || len(b) < head+length || MaskedSum(b[6:head+length]) != sum {
		return c, 0, false
	}
	c = logChunk{kind: int(b[6]-5) % 4, payload: b[head : head+length]}
	if head == syncHeadSize {
		c.synced = int64(le.Uint64(b[11:]))
	}
	return c, head + length, false
}

// LogGap is a part of a log that cannot be read, the bytes from From to before To.
type LogGap struct{ From, To int64 }

// walkLog calls chunk for each whole chunk of a log, and gap for unreadable bytes between two of them. What follows the last
// chunk is no gap. closed is set when the log has its end.
func walkLog(r io.Reader, num uint32, chunk func(logChunk), gap func(LogGap)) (closed bool, err error) {
	var block [logBlock]byte
	bad := int64(-1)
	for base := int64(0); ; base += logBlock {
		n, err := io.ReadFull(r, block[:])
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return false, err
		}
		for at := 0; at < n; {
			c, size, closed := parseLogChunk(block[at:n], num)
			if size == 0 {
				if bad < 0 && !(n-at < syncHeadSize && allZero(block[at:n])) {
					bad = base + int64(at)
				}
				at = nextHead(block[:n], at+1, num)
				continue
			}
			if bad >= 0 {
				gap(LogGap{bad, base + int64(at)})
				bad = -1
			}
			if closed {
				return true, nil
			}
			c.at = base + int64(at)
			chunk(c)
			at += size
		}
		if n < logBlock {
			return false, nil
		}
	}
}

// nextHead returns the first place from at on where a head with the number of the log, or of the next one, may begin, or
// len(b). It must be fast, because a log that is written over ends with megabytes of an earlier one.
func nextHead(b []byte, at int, num uint32) int {
	next := len(b)
	for _, n := range [2]uint32{num, num + 1} {
		var number [4]byte
		binary.LittleEndian.PutUint32(number[:], n)
		if i := bytes.Index(b[min(at+7, len(b)):], number[:]); i >= 0 {
			next = min(next, at+i)
		}
	}
	return next
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// checkLog returns the unreadable parts of a log that were on disk once. A later chunk or the note says so, or the log has its
// end and later tells of a next log. Pebble syncs the end of a log before it makes the next one. The end alone proves nothing, because it is written
// with the data that was not synced yet, and a crash may keep it and lose that data. Other unreadable parts are writes that a crash has torn. end is
// the end of the last whole chunk.
func checkLog(disk vfs.FS, path string, num uint64, reached reach, later bool) (damaged []LogGap, end int64, err error) {
	var gaps []LogGap
	synced := int64(0)
	if reached.log == num {
		synced = reached.length
	}
	noted := synced
	closed, err := readLog(disk, path, uint32(num), func(c logChunk) {
		synced = max(synced, c.synced)
		end = c.at + syncHeadSize + int64(len(c.payload))
	}, func(g LogGap) { gaps = append(gaps, g) })
	if err != nil {
		return nil, 0, err
	}
	for _, g := range gaps {
		if closed && later || g.From < synced {
			damaged = append(damaged, g)
		}
	}
	// The rest of a block that has no room for a head is written too.
	whole := end
	if rest := logBlock - end%logBlock; rest < syncHeadSize {
		whole += rest
	}
	if !closed && whole < noted {
		damaged = append(damaged, LogGap{end, noted})
	}
	return damaged, end, nil
}

func readLog(disk vfs.FS, path string, num uint32, chunk func(logChunk), gap func(LogGap)) (bool, error) {
	f, err := disk.Open(path, vfs.SequentialReadsOption)
	if err != nil {
		return false, err
	}
	defer f.Close()
	return walkLog(f, num, chunk, gap)
}

// EachLogRecord calls fn with each whole record of a log, up to the first torn write. The record is valid during the call. damaged
// are the parts that were on disk and cannot be read.
func EachLogRecord(disk vfs.FS, path string, num uint32, fn func(record []byte) error) (damaged []LogGap, err error) {
	reached, err := readReach(disk, disk.PathDir(path))
	var bad *DamageError
	if err != nil && !errors.As(err, &bad) { // a damaged note says nothing
		return nil, err
	}
	names, err := disk.List(disk.PathDir(path))
	if err != nil {
		return nil, err
	}
	later := slices.ContainsFunc(names, func(name string) bool {
		n, kind := FileKind(name)
		return kind == "log" && n > uint64(num)
	})
	if damaged, _, err = checkLog(disk, path, uint64(num), reached, later); err != nil {
		return nil, err
	}
	var (
		record     []byte
		open, torn bool
		failure    error
	)
	_, err = readLog(disk, path, num, func(c logChunk) {
		if torn || failure != nil {
			return
		}
		switch c.kind {
		case logFull:
			open = false
			failure = fn(c.payload)
		case logFirst:
			open, record = true, append(record[:0], c.payload...)
		case logMiddle, logLast:
			if !open {
				return // its first chunk is lost
			}
			record = append(record, c.payload...)
			if c.kind == logLast {
				open = false
				failure = fn(record)
			}
		}
	}, func(g LogGap) {
		open = false
		known := false
		for _, d := range damaged {
			known = known || d == g
		}
		torn = torn || !known
	})
	return damaged, errors.Join(failure, err)
}
