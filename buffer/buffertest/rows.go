package buffertest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/forebay/forebay/driver"
)

// encodings are all encodings that a driver must accept.
var encodings = []driver.Encoding{driver.None, driver.Gzip, driver.Zstd}

// Null stands for NULL where this package has the cells of rows as strings.
const Null = "\U000F0000NULL"

// appendRow writes a row as the buffer does: NULL is an empty cell, every other cell is quoted, quotes doubled, "\n" at the end.
func appendRow(dst []byte, row []string) []byte {
	for i, cell := range row {
		if i > 0 {
			dst = append(dst, ',')
		}
		if cell == Null {
			continue
		}
		dst = append(dst, '"')
		dst = append(dst, strings.ReplaceAll(cell, `"`, `""`)...)
		dst = append(dst, '"')
	}
	return append(dst, '\n')
}

// parseRows is the inverse of appendRow.
func parseRows(data []byte) (rows [][]string, err error) {
	in := driver.NewRowReader(bytes.NewReader(data))
	for in.Next() {
		rows = append(rows, texts(in.Cells()))
	}
	return rows, in.Err()
}

// texts returns a copy of the cells of a row.
func texts(cells [][]byte) []string {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = string(cell)
		if cell == nil {
			row[i] = Null
		}
	}
	return row
}

// encode returns the rows as stored, in the given number of independent gzip members or zstd frames.
func encode(e driver.Encoding, rows [][]string, members int) []byte {
	var out bytes.Buffer
	for m := range members {
		var plain []byte
		for _, row := range rows[len(rows)*m/members : len(rows)*(m+1)/members] {
			plain = appendRow(plain, row)
		}
		switch e {
		case driver.None:
			out.Write(plain)
		case driver.Gzip:
			w := gzip.NewWriter(&out)
			must(w.Write(plain))
			must(0, w.Close())
		case driver.Zstd:
			w, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
			must(0, err)
			must(w.Write(plain))
			must(0, w.Close())
		}
	}
	return out.Bytes()
}

// must panics on errors of writes into memory.
func must(_ int, err error) {
	if err != nil {
		panic(err)
	}
}

// makeRows returns n rows of the given number of cells. Rows of different seeds differ.
func makeRows(seed uint64, n, cells int) [][]string {
	rng := rand.New(rand.NewPCG(seed, 0))
	rows := make([][]string, n)
	for i := range rows {
		row := make([]string, cells)
		row[0] = fmt.Sprintf("%d-%d", seed, i)
		for c := 1; c < cells; c++ {
			row[c] = fmt.Sprintf("cell %x", rng.Uint64())
		}
		rows[i] = row
	}
	return rows
}

// largeRows returns rows of about 2 KB, to make a few megabytes from few rows.
func largeRows(seed uint64, n, cells int) [][]string {
	rows := makeRows(seed, n, cells)
	for _, row := range rows {
		row[cells-1] = strings.Repeat(row[cells-1], 100)
	}
	return rows
}
