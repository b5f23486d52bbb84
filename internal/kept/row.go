package kept

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/mapping"
)

// ArchiveSink is the id of the archive among the sinks of a source.
const ArchiveSink = ".archive"

// ArchiveID names the archive of a source. It is the id, and with a generation the id, a dot and the generation.
func ArchiveID(source, generation string) string {
	if generation == "" {
		return source
	}
	return source + "." + generation
}

// RowGrowth bounds the size of a row of an archive, as a multiple of the largest row of a table, because quotes of the body are doubled in it.
const RowGrowth = 4

// archiveVersion is the version of a row, and erasedVersion the version of a row whose record was erased.
const archiveVersion, erasedVersion = 1, 2

// archivedHead is a record without its body in an archive.
type archivedHead struct {
	Version int    `json:"v"`
	Signal  string `json:"signal,omitempty"`
	// Erased is set if the record was erased. The row stays, because replays count rows. It has only the hour of the arrival, and no body.
	Erased bool `json:"erased,omitempty"`
	head
}

// RowColumns returns the columns of an archive.
func RowColumns() []datatype.Column {
	return []datatype.Column{
		{Name: "received", Type: datatype.Timestamp, Required: true}, {Name: "head", Type: datatype.JSON, Required: true}, {Name: "body"},
	}
}

// AppendRow appends the row of a raw record to the rows of an archive. signal is the kind of telemetry, if it is some. A document without a
// JSON form is an error, and so is a year that an archive has no folder for.
func (e *Encoder) AppendRow(dst []byte, rec *mapping.Record, signal string, by *Redactor) ([]byte, error) {
	if year := rec.Received.UTC().Year(); year < 0 || year > 9999 {
		return dst, &mapping.Error{Reason: mapping.InvalidBody, Err: fmt.Errorf("the record was received in the year %d, which an archive has no folder for", year)}
	}
	text, ok := e.encode(archiveVersion, signal, rec, by)
	if !ok {
		var err error
		if text, err = json.Marshal(archivedHead{Version: archiveVersion, Signal: signal, head: headOf(rec, by).encodable()}); err != nil {
			return dst, fmt.Errorf("forebay: keep the record: %w", err)
		}
	}
	body, err := e.bodyOf(rec)
	if err != nil {
		return dst, &mapping.Error{Reason: mapping.InvalidBody, Err: err}
	}
	row := append(dst, '"')
	row = appendArrival(row, rec.Received)
	row = appendQuoted(append(row, `","`...), text)
	row = appendQuoted(append(row, `","`...), body)
	return append(row, '"', '\n'), nil
}

// appendArrival appends a time as 2006-01-02T15:04:05.000000Z. The layout of the library is formatted faster than any other.
func appendArrival(dst []byte, t time.Time) []byte {
	dst = t.UTC().AppendFormat(dst, time.RFC3339)
	dst[len(dst)-1] = '.'
	micros := t.Nanosecond() / 1000
	for unit := 100_000; unit > 0; unit /= 10 {
		dst = append(dst, byte('0'+micros/unit%10))
	}
	return append(dst, 'Z')
}

// appendQuoted appends a text with its quotes doubled, eight bytes at a time. A head has a quote every few bytes.
func appendQuoted(dst, text []byte) []byte {
	const ones, highs, block = 0x0101010101010101, 0x8080808080808080, 4 << 10
	for len(text) > 0 {
		src := text[:min(len(text), block)]
		text = text[len(src):]
		dst = slices.Grow(dst, 2*len(src))
		out, n, i := dst[:cap(dst)], len(dst), 0
		for i+8 <= len(src) {
			word := binary.LittleEndian.Uint64(src[i:])
			binary.LittleEndian.PutUint64(out[n:], word)
			differ := word ^ '"'*ones                  // a byte is 0 at a quote
			marks := (differ - ones) &^ differ & highs // the lowest mark is reliable
			if marks == 0 {
				i, n = i+8, n+8
				continue
			}
			to := bits.TrailingZeros64(marks)>>3 + 1
			out[n+to] = '"'
			i, n = i+to, n+to+1
		}
		for _, c := range src[i:] {
			out[n] = c
			n++
			if c == '"' {
				out[n] = c
				n++
			}
		}
		dst = out[:n]
	}
	return dst
}

// ParseRow reads a row of an archive. The record aliases the cells. It is nil if it was erased.
func ParseRow(cells [][]byte) (rec *mapping.Record, signal string, err error) {
	if want := len(RowColumns()); len(cells) != want {
		return nil, "", fmt.Errorf("the row has %d cells, want %d", len(cells), want)
	}
	var head archivedHead
	if err := json.Unmarshal(cells[1], &head); err != nil {
		return nil, "", fmt.Errorf("the head cannot be read: %w", err)
	}
	if head.Version == erasedVersion && head.Erased {
		return nil, "", nil
	}
	if head.Version != archiveVersion {
		return nil, "", fmt.Errorf("the row has version %d, this library reads %d", head.Version, archiveVersion)
	}
	head.restoreRaw()
	return head.record(cells[2]), head.Signal, nil
}

// ErasedRow returns the row that replaces a row whose record is erased. It has the hour of the arrival, which is a part of the name of the object.
func ErasedRow(cells [][]byte) [][]byte {
	hour := []byte("2006-01-02T15")
	received := append(slices.Clone(cells[0][:min(len(hour), len(cells[0]))]), ":00:00.000000Z"...)
	return [][]byte{received, fmt.Appendf(nil, `{"v":%d,"erased":true}`, erasedVersion), {}}
}

// AppendCells appends cells as one row of CSV.
func AppendCells(dst []byte, cells [][]byte) []byte {
	for i, cell := range cells {
		if i > 0 {
			dst = append(dst, ',')
		}
		if cell != nil {
			dst = append(appendQuoted(append(dst, '"'), cell), '"')
		}
	}
	return append(dst, '\n')
}

// Cells returns the cells of a row that the target has refused. nil is NULL.
func Cells(p *buffer.Poison, row []byte) ([][]byte, error) {
	rows := driver.NewRowReader(bytes.NewReader(row))
	if !rows.Next() || len(rows.Cells()) != len(p.Columns) {
		return nil, fmt.Errorf("forebay: the kept row of file %s is damaged", p.FileID)
	}
	cells := make([][]byte, len(p.Columns))
	for i, cell := range rows.Cells() {
		cells[i] = slices.Clone(cell)
		if cell != nil && cells[i] == nil {
			cells[i] = []byte{}
		}
	}
	return cells, nil
}
