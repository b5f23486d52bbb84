package journal

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/driverkit/jsontext"
)

// An entry of the journal is a part of a commit:
//
//	format  1 byte, 1
//	kind    1 byte: 'c' for a commit, 's' for a snapshot
//	id      16 random bytes, the same in all parts
//	part    4 bytes, from 1
//	parts   4 bytes
//	data    the rest; the data of all parts together is compressed with gzip
//
// The compressed data is a JSON object with the records by key. Null removes a record.
//
// A commit counts if its parts stand in the journal one directly after the other. Parts that another entry follows too early are void.
// A snapshot has all records of the state before it. The journal begins with its first commit, or was trimmed up to a snapshot.

const (
	journalFormat  = 1
	entryHeader    = 26
	commitKind     = 'c'
	snapshotKind   = 's'
	entryDataBytes = changelog.PartBytes - entryHeader
)

type entryID [16]byte

// entry is a decoded part.
type entry struct {
	kind        byte
	id          entryID
	part, parts uint32
	data        []byte
}

var errEntry = errors.New("an entry of the journal of definitions is damaged")

// FormatError says that a catalog of a later release has written to the journal. This one cannot read it. Update this one. Until
// then the definitions that were read before are in use and nothing can be changed.
type FormatError struct {
	// Format is the format found, Known the last format that this release reads.
	Format, Known int
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("the journal of definitions has entries of format %d, this release reads formats up to %d: update this node", e.Format, e.Known)
}

func decodeEntry(b []byte) (e entry, err error) {
	if len(b) > 0 && b[0] > journalFormat {
		return entry{}, &FormatError{Format: int(b[0]), Known: journalFormat}
	}
	if len(b) < entryHeader || b[0] != journalFormat {
		return entry{}, errEntry
	}
	e.kind, e.id = b[1], entryID(b[2:18])
	e.part, e.parts = binary.BigEndian.Uint32(b[18:]), binary.BigEndian.Uint32(b[22:])
	e.data = b[entryHeader:len(b):len(b)]
	if e.kind != commitKind && e.kind != snapshotKind || e.part < 1 || e.part > e.parts {
		return entry{}, errEntry
	}
	return e, nil
}

// entryReader makes commits of entries.
type entryReader struct {
	next changelog.Position // of the entry that it expects
	// part is the last one of a commit that is not complete, with the data up to it.
	part entry
}

// readCommit is a commit or snapshot. Its kind is 0 if there is none yet.
type readCommit struct {
	kind    byte
	id      entryID
	size    int
	records map[string][]byte
}

// take returns the commit that ends with an entry.
func (r *entryReader) take(e changelog.JournalEntry) (c readCommit, err error) {
	if e.Position != r.next {
		return c, fmt.Errorf("%w: %d stands in the place of %d", changelog.ErrHole, e.Position, r.next)
	}
	p, err := decodeEntry(e.Data)
	switch {
	case err != nil:
		return c, err
	case p.part > 1 && (p.id != r.part.id || p.part != r.part.part+1 || p.parts != r.part.parts):
		return c, fmt.Errorf("%w: it is a part without the one before", errEntry)
	case p.part > 1:
		p.data = append(r.part.data, p.data...)
	}
	if p.part == p.parts {
		c = readCommit{kind: p.kind, id: p.id, size: len(p.data)}
		if c.records, err = decodeRecords(p.data); err != nil {
			return c, err
		}
		p.data = nil
	}
	r.next++
	r.part = p
	return c, nil
}

// standing returns how many parts of a commit the journal ends with.
func (r *entryReader) standing(id entryID) int {
	if r.part.id != id {
		return 0
	}
	return int(r.part.part)
}

// encodeEntries returns the parts of a commit or snapshot. All records are JSON texts.
func encodeEntries(kind byte, id entryID, records map[string][]byte) [][]byte {
	texts := make(map[string]json.RawMessage, len(records))
	for key, record := range records {
		texts[key] = record
	}
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	text, err := jsontext.Marshal(texts)
	if err != nil {
		panic("journal: a record is no JSON text: " + err.Error()) // the catalog has made it
	}
	_, _ = w.Write(text) // a bytes.Buffer never fails
	_ = w.Close()
	chunks := slices.Collect(slices.Chunk(zipped.Bytes(), entryDataBytes))
	parts := make([][]byte, len(chunks))
	for i, chunk := range chunks {
		b := append(make([]byte, 0, entryHeader+len(chunk)), journalFormat, kind)
		b = append(b, id[:]...)
		b = binary.BigEndian.AppendUint32(b, uint32(i+1))
		b = binary.BigEndian.AppendUint32(b, uint32(len(chunks)))
		parts[i] = append(b, chunk...)
	}
	return parts
}

// decodeRecords is the inverse of encodeEntries for the data of all parts.
func decodeRecords(zipped []byte) (map[string][]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errEntry, err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errEntry, err)
	}
	var texts map[string]json.RawMessage
	if err := json.Unmarshal(text, &texts); err != nil {
		return nil, errEntry // without the cause, which could have a part of a secret
	}
	records := make(map[string][]byte, len(texts))
	for key, record := range texts {
		if records[key] = record; string(record) == "null" {
			records[key] = nil
		}
	}
	return records, nil
}
