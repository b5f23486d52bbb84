package buffertest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/forebay/forebay/driver"
)

// NewFile returns a file for tests of a driver, with the rows in plain slices of at most 20. [Null] stands for NULL. SaveProgress sets Progress, so that
// a repeated Import of the file counts as its next attempt. Attempts must not run at the same time.
func NewFile(id string, table driver.Table, rows ...[]string) *driver.File {
	f := &driver.File{ID: id, SinkID: "source/sink", Table: table, Rows: int64(len(rows))}
	stored := make(map[string][]byte)
	for part := range slices.Chunk(rows, 20) {
		data := encode(driver.None, part, 1)
		obj := driver.Object{
			ID: fmt.Sprintf("%s-slice-%d", id, len(f.Slices)), FileID: id, SinkID: f.SinkID, Rows: int64(len(part)), RawBytes: int64(len(data)),
		}
		stored[obj.ID] = data
		f.Slices = append(f.Slices, obj)
		f.RawBytes += obj.RawBytes
	}
	f.OpenSlice = func(_ context.Context, obj driver.Object) (io.ReadCloser, error) {
		data, found := stored[obj.ID]
		if !found {
			return nil, fmt.Errorf("OpenSlice: no slice %s", obj.ID)
		}
		return io.NopCloser(bytes.NewReader(data)), nil
	}
	f.SaveProgress = func(_ context.Context, note []byte) error {
		f.Progress = slices.Clone(note)
		return nil
	}
	return f
}
