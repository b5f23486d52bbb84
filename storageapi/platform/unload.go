package platform

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"

	"github.com/forebay/forebay/driverkit/jsontext"
	"github.com/forebay/forebay/storageapi"
)

// Formats of an export.
const (
	formatCSV  = storageapi.FormatCSV
	formatJSON = storageapi.FormatJSON
)

// exportSlice is how many bytes of rows go into one slice.
const exportSlice = 64 << 20

// unload writes the rows of an export as a sliced file, which is slices without a header, and a manifest. Without rows there are no
// slices.
type unload struct {
	s         *Server
	file      int64
	gzip      bool
	format    rowFormat
	sliceSize int64

	line    []byte
	entries []manifestEntry
	blob    *durableFile // the slice that is being written, nil between slices
	zip     *gzip.Writer
	inSlice int64

	plain, stored int64 // bytes of rows, and of slices
}

type manifestEntry struct {
	URL string `json:"url"`
}

func (u *unload) row(cells [][]byte) error {
	if u.blob == nil {
		if err := u.begin(); err != nil {
			return err
		}
	}
	u.line = u.format.appendRow(u.line[:0], cells)
	var w io.Writer = u.blob
	if u.gzip {
		w = u.zip
	}
	if _, err := w.Write(u.line); err != nil {
		return err
	}
	u.plain += int64(len(u.line))
	if u.inSlice += int64(len(u.line)); u.inSlice >= u.sliceSize {
		return u.end()
	}
	return nil
}

func (u *unload) begin() (err error) {
	name := fmt.Sprintf("part-%06d%s", len(u.entries), u.format.extension)
	if u.gzip {
		name += ".gz"
	}
	if u.blob, err = u.s.blobs.create(u.file, name); err != nil {
		return err
	}
	u.entries = append(u.entries, manifestEntry{sliceURL(u.file, name)})
	if u.gzip && u.zip == nil {
		if u.zip, err = gzip.NewWriterLevel(u.blob, gzip.BestSpeed); err != nil {
			return err
		}
	} else if u.gzip {
		u.zip.Reset(u.blob)
	}
	u.inSlice = 0
	return nil
}

// end completes a slice.
func (u *unload) end() error {
	if u.gzip {
		if err := u.zip.Close(); err != nil {
			return err
		}
	}
	blob := u.blob
	u.blob = nil
	size, err := blob.commit()
	u.stored += size
	return err
}

// finish completes the last slice and writes the manifest.
func (u *unload) finish() error {
	if u.blob != nil {
		if err := u.end(); err != nil {
			return err
		}
	}
	data, err := jsontext.Marshal(map[string]any{"entries": notNil(u.entries)})
	if err != nil {
		return err
	}
	_, err = u.s.blobs.write(u.file, storageapi.ManifestName, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
	return err
}

// abandon ends a slice that is not complete.
func (u *unload) abandon() {
	if u.blob != nil {
		u.blob.abandon()
	}
}

// rowFormat is how rows of an export are written.
type rowFormat struct {
	extension string
	// members of the JSON objects, nil for CSV.
	members []jsonMember
}

// jsonMember is a member of the objects. Its name is encoded and has the colon.
type jsonMember struct {
	name string
	// literal says that the cells of the column are numbers or booleans. What JSON has no literal for, such as NaN, is text.
	literal bool
	null    bool // an empty cell is null
}

// newRowFormat returns the format of a name. Jobs that were made when there was one format have none, and mean CSV.
func newRowFormat(format string, t table, names []string) rowFormat {
	if format != formatJSON {
		return rowFormat{extension: ".csv"}
	}
	f := rowFormat{extension: ".json"}
	for _, name := range names {
		m := jsonMember{name: string(jsontext.AppendString(nil, name, false)) + ":"}
		if at := t.find(name); t.Typed && at >= 0 {
			switch t.Columns[at].values() {
			case "INTEGER", "NUMERIC", "BOOLEAN", "FLOAT":
				m.literal, m.null = true, true
			case "DATE", "TIMESTAMP":
				m.null = true
			}
		}
		f.members = append(f.members, m)
	}
	return f
}

func (f rowFormat) appendRow(dst []byte, cells [][]byte) []byte {
	if f.members == nil {
		return appendRow(dst, cells)
	}
	for i, m := range f.members {
		dst = append(dst, "{,"[min(i, 1)])
		dst = append(dst, m.name...)
		switch {
		case m.null && len(cells[i]) == 0:
			dst = append(dst, "null"...)
		case m.literal && json.Valid(cells[i]):
			dst = append(dst, cells[i]...)
		default:
			dst = jsontext.AppendString(dst, string(cells[i]), false)
		}
	}
	return append(dst, '}', '\n')
}
