package format

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"strconv"
)

// CopyFile is the name of the copy of the records of sinks, files and slices. It lies in the folder of the store.
//
// The copy is text. The first line names the data directory. Each other line is a record as a commit has written it, or without JSON says that a
// commit has deleted the record. The last line of a record counts. A line begins with the CRC-32C of what follows the space:
//
//	9ae0daaf i 0 3f1c9a5d77e0
//	40c9e7d2 s 1 {"id":"web/events",…}
//	1b2f7c04 f 17 {"sink":1,"state":"importing",…}
//	77c0f1aa l 23 {"file":17,"state":"uploaded",…}
//	5d0e3b19 l 23
//
// The store does not read it. A salvage does (see package salvage).
const CopyFile = "records"

// CopyInstance is the kind of the line that names the data directory. The other kinds are [PrefixSink],
// [PrefixFile] and [PrefixSlice].
const CopyInstance = 'i'

// AppendCopyLine appends the line of a record. Without content it says that the record is deleted.
func AppendCopyLine(b []byte, kind byte, num uint64, content []byte) []byte {
	start := len(b)
	b = append(b, "00000000 "...)
	b = strconv.AppendUint(append(b, kind, ' '), num, 10)
	if len(content) > 0 {
		b = append(append(b, ' '), content...)
	}
	sum := copySum(b[start+9:])
	copy(b[start:], sum[:])
	return append(b, '\n')
}

// copySum returns the checksum of a line as text. Thousands of lines are written a second, so it allocates nothing.
func copySum(body []byte) (text [8]byte) {
	var sum [4]byte
	binary.BigEndian.PutUint32(sum[:], crc32.Checksum(body, castagnoli))
	hex.Encode(text[:], sum[:])
	return text
}

// ParseCopyLine reads a line without its newline. A damaged line is not ok. content is part of line.
func ParseCopyLine(line []byte) (kind byte, num uint64, content []byte, ok bool) {
	sum, body, ok := bytes.Cut(line, []byte(" "))
	if !ok || len(body) < 3 || body[1] != ' ' {
		return 0, 0, nil, false
	}
	if want := copySum(body); !bytes.Equal(sum, want[:]) {
		return 0, 0, nil, false
	}
	digits, content, _ := bytes.Cut(body[2:], []byte(" "))
	num, err := strconv.ParseUint(string(digits), 10, 64)
	return body[0], num, content, err == nil
}
