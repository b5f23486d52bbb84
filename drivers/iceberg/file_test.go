package iceberg_test

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// fileOf returns a file for the table "events".
func fileOf(id string, columns []datatype.Column, rows [][]string) *driver.File {
	var csv bytes.Buffer
	for _, row := range rows {
		for i, cell := range row {
			if i > 0 {
				csv.WriteByte(',')
			}
			if cell != buffertest.Null {
				csv.WriteString(`"` + strings.ReplaceAll(cell, `"`, `""`) + `"`)
			}
		}
		csv.WriteByte('\n')
	}
	f := &driver.File{
		ID: id, SinkID: "source/sink", Table: driver.Table{ID: "events", Columns: columns}, Rows: int64(len(rows)), RawBytes: int64(csv.Len()),
		Slices: []driver.Object{{ID: id + "-s", FileID: id, SinkID: "source/sink", Rows: int64(len(rows)), RawBytes: int64(csv.Len())}},
		OpenSlice: func(context.Context, driver.Object) (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(csv.Bytes())), nil
		},
	}
	f.SaveProgress = func(_ context.Context, note []byte) error {
		f.Progress = slices.Clone(note)
		return nil
	}
	return f
}
