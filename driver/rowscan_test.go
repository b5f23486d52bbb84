package driver_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/seedtest"
)

// Rows that lie in the buffer as a whole are read in one pass, others piece by piece. Both ways give the same cells and the same faults.
func TestRowReaderReadsWholeRowsAsPieces(t *testing.T) {
	rng := seedtest.Rand(t)
	const bytesOfCells, bytesOfNoise = "ab\r\n\x00\xff,\"\"", "aaaaa,,\"\"\"\"\n"
	for round := range 400 {
		var text []byte
		for range 1 + rng.IntN(40) {
			for i := range 1 + rng.IntN(6) {
				if i > 0 {
					text = append(text, ',')
				}
				if rng.IntN(5) == 0 {
					continue // NULL
				}
				text = append(text, '"')
				for range rng.IntN(1 << rng.IntN(8)) {
					c := bytesOfCells[rng.IntN(len(bytesOfCells))]
					if text = append(text, c); c == '"' {
						text = append(text, c)
					}
				}
				text = append(text, '"')
			}
			text = append(text, '\n')
		}
		for range rng.IntN(4) * (round % 2) { // faults
			text[rng.IntN(len(text))] = bytesOfNoise[rng.IntN(len(bytesOfNoise))]
		}
		whole, wholeErr := readRows(bytes.NewReader(text))
		pieces, piecesErr := readRows(iotest.OneByteReader(bytes.NewReader(text)))
		if !slices.EqualFunc(whole, pieces, slices.Equal[[]string]) || fmt.Sprint(wholeErr) != fmt.Sprint(piecesErr) {
			t.Fatalf("%q\ngot at once:  %q, %v\ngot in pieces: %q, %v\nwant the same", text, whole, wholeErr, pieces, piecesErr)
		}
	}
}

// BenchmarkRowReader reads rows of seven cells, one with quotes inside.
//
//	go test ./driver -run '^$' -bench RowReader -count 10 | benchstat -
func BenchmarkRowReader(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	var data []byte
	for range 4096 {
		data = fmt.Appendf(data, "\"%08x-0000-4000-8000-%012x\",\"2026-11-22T00:00:00.%06dZ\",\"%d\",\"click\",\"%d.25\",\"true\",\"{\"\"page\"\":%d,\"\"ref\"\":\"\"r%d\"\"}\"\n",
			rng.Uint32(), rng.Uint64()>>16, rng.IntN(1e6), rng.Int64N(1<<40), rng.IntN(10_000), rng.IntN(1000), rng.IntN(100))
	}
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		in, cells := driver.NewRowReader(bytes.NewReader(data)), 0
		for in.Next() {
			cells += len(in.Cells())
		}
		if err := in.Err(); err != nil || cells != 7*4096 {
			b.Fatal(cells, err)
		}
	}
}
