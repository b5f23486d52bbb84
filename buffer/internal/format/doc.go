// Package format is the on-disk format of the buffer's local level: the keys of the store, and the bytes of chunks,
// receipts and records. It only encodes and decodes. It holds no state, opens nothing and knows nothing of package buffer.
//
// # Versions
//
// The format has a version. A data directory of an unknown version is refused before anything in it is changed. The
// folders in buffer/testdata/format were written by earlier releases. A test opens them forever.
//
//	1   the columns of a table are names, and no cell is NULL
//	2   a column may have a type and be required: a Table then has an object for it instead of a string
//	    an empty cell without quotes is NULL
//	    a table may grow (Table.Extend), and a Sink then has Version, Mapping and Retired
//	3   a sink may have a quarantine: Sink.Quarantine, Reject and its record
//	    a file may be split, and its refused rows go there: File.Split, Sink.Poison, Reject.Poison
//	    a sink may have positions: Sink.Positions
//	4   a quarantine may have records of other engines: Reject.Moved, Reject.From
//	5   a table may have the name of a target: Table.Target
//	6   a file may be of another engine: File.Number and Slice.Number, File.Leaving, ArrivingFile
//
// Every record and chunk of a version is valid in the next with the same meaning. So an upgrade changes the version and
// rewrites nothing. The version alone protects the new members, because an older release drops members that it does not know when it
// writes a record.
//
// # Keys
//
// A key is a prefix byte and big-endian numbers, so keys sort by creation.
//
//	m/format                                   format version, decimal text
//	m/instance                                 random name of the data directory, the first part of every id
//	m/counters                                 highest file number and slice number given out, 8 bytes each, big endian
//	m/log                                      with a changelog: number of the last batch, 8 bytes, big endian, and bytes of the changelog
//	s <sink 4>                                 Sink, JSON
//	f <file 8>                                 File, JSON
//	l <slice 8>                                Slice, JSON
//	c <slice 8> <seq 4>                        chunk
//	q <slice 8> <revision 4> <number 4>        Damage, JSON
//	k <segment 8> <key 16> <sink 4> <part 4>   receipt of a call with a key
//	m/rejects                                  highest number given to a rejected record, 8 bytes, big endian
//	x <sink 4> <number 8>                      Reject, JSON
//	y <sink 4> <number 8> <revision 4>         record of a Reject, bytes of the caller
//	a <number 8>                               ArrivingFile, JSON
//
// # Chunks
//
// A chunk is what one commit adds to one slice. It has a header of 56 bytes, little endian, and the payload.
//
//	 0        1          2    4        8        12       16             24             32
//	┌─────────┬──────────┬────┬────────┬────────┬────────┬──────────────┬──────────────┐
//	│ version │ encoding │ 0  │ CRC-32C│ rows   │ raw    │ slice rows   │ slice raw    │
//	└─────────┴──────────┴────┴────────┴────────┴────────┴──────────────┴──────────────┘
//	 32             40             48             56
//	┌──────────────┬──────────────┬──────────────┬─────────────
//	│ slice stored │ slice first  │ last         │ payload …
//	└──────────────┴──────────────┴──────────────┴─────────────
//
//	version        1
//	encoding       Encoding of the payload: None, or the encoding of the slice
//	CRC-32C        of bytes 0 to 3 and of everything from byte 8 on
//	rows, raw      rows of this chunk, and their bytes before compression
//	slice …        running totals of the slice, this chunk included: rows, bytes before compression, payload bytes
//	slice first    acceptance time of the first row of the slice, Unix milliseconds
//	last           acceptance time of the last row of this chunk, Unix milliseconds
//
// The running totals are in the chunk and not in a separate record. So counters and rows cannot disagree, one key for each
// commit and sink is enough, and recovery reads only the last chunk of an open slice.
//
// # Receipts
//
// A receipt records which rows of a call with a key one sink has stored. It is in the batch of the chunk that holds the rows.
//
//	 0         1          9        13
//	┌─────────┬──────────┬────────┬─────────
//	│ version │ accepted │ life   │ data …
//	└─────────┴──────────┴────────┴─────────
//
//	version    1
//	accepted   acceptance time of the rows, Unix milliseconds, little endian
//	life       Sink.Life when the rows were stored, little endian
//	data       bytes of the caller (buffer.Rows.Receipt)
//
// # The copy of the records
//
// The records of files and slices are in a second file too (see [CopyFile]).
//
// # Records
//
// Records are JSON. They are written once for each change of state, not once for each row, and a person can read them.
package format
