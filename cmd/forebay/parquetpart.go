package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"os"
	"time"

	"github.com/google/uuid"
	pq "github.com/parquet-go/parquet-go"

	"github.com/forebay/forebay/datatype"
)

// readPart yields the rows of a part, with cells in the order of columns. It returns fs.SkipAll when yield wants no more.
func readPart(f *os.File, name string, columns []datatype.Column, yield func([]string, error) bool) (err error) {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	part, err := pq.OpenFile(f, info.Size())
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	place := map[string]int{}
	for i, c := range columns {
		place[c.Name] = i
	}
	var to []int // the place of each column of the part
	for _, column := range part.Schema().Columns() {
		at, ok := place[column[0]]
		if !ok {
			return fmt.Errorf("%s: the table has no column %q", name, column[0])
		}
		to = append(to, at)
	}
	reader := pq.NewReader(part)
	defer func() { err = cmp.Or(err, reader.Close()) }()
	buf := make([]pq.Row, 64)
	for {
		n, err := reader.ReadRows(buf)
		for _, values := range buf[:n] {
			row := make([]string, len(columns))
			for _, v := range values {
				at := to[v.Column()]
				row[at] = parquetText(v, columns[at].Type)
			}
			if !yield(row, nil) {
				return fs.SkipAll
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
}

// parquetText writes a value of a column as a cell.
func parquetText(v pq.Value, t datatype.Type) string {
	_, scale, decimal := t.DecimalOf()
	switch {
	case v.IsNull():
		return ""
	case t == datatype.UUID:
		return uuid.UUID(v.ByteArray()).String()
	case t == datatype.Timestamp:
		return time.UnixMicro(v.Int64()).UTC().Format("2006-01-02T15:04:05.000000Z")
	case t == datatype.Date:
		return time.Unix(int64(v.Int32())*86400, 0).UTC().Format(time.DateOnly)
	case decimal:
		n := new(big.Int)
		switch v.Kind() {
		case pq.Int32:
			n.SetInt64(int64(v.Int32()))
		case pq.Int64:
			n.SetInt64(v.Int64())
		default: // two's complement, the highest byte first
			b := v.ByteArray()
			n.SetBytes(b)
			if len(b) > 0 && b[0] >= 0x80 {
				n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
			}
		}
		return new(big.Rat).SetFrac(n, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)).FloatString(scale)
	}
	return v.String()
}
