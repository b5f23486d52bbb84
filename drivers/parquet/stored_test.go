package parquet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	pq "github.com/parquet-go/parquet-go"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/parts"
	"github.com/forebay/forebay/internal/drivertest"
	"github.com/forebay/forebay/internal/seedtest"
)

var storedColumns = []datatype.Column{
	{Name: "id", Type: datatype.UUID, Required: true},
	{Name: "at", Type: datatype.Timestamp},
	{Name: "n", Type: datatype.Int64},
	{Name: "text", Type: datatype.String},
	{Name: "f", Type: datatype.Float64},
	{Name: "ok", Type: datatype.Bool},
	{Name: "body", Type: datatype.JSON, Required: true},
	{Name: "day", Type: datatype.Date},
	{Name: "small", Type: datatype.Decimal(8, 2)},
	{Name: "large", Type: datatype.Decimal(38, 3)},
	{Name: "data", Type: datatype.Bytes},
	{Name: "any"},
}

// storedCell returns a valid cell as it is stored.
func storedCell(rng *rand.Rand, c datatype.Column) string {
	if !c.Required && c.Type != datatype.Untyped && rng.IntN(6) == 0 {
		return "" // NULL
	}
	cell := ""
	switch c.Type {
	case datatype.UUID:
		cell = fmt.Sprintf("%08x-0000-4000-8000-%012x", rng.Uint32(), rng.Uint64()>>16)
	case datatype.Timestamp:
		cell = fmt.Sprintf("2026-11-%02dT07:47:19.%06dZ", 1+rng.IntN(30)/15, rng.IntN(1e6))
	case datatype.Date:
		cell = fmt.Sprintf("2026-11-%02d", 1+rng.IntN(30))
	case datatype.Int64:
		cell = fmt.Sprint(int64(rng.Uint64()) >> rng.IntN(64))
	case datatype.Float64:
		cell = string(datatype.AppendFloat64(nil, float64(rng.IntN(1e6))/128))
	case datatype.Bool:
		cell = fmt.Sprint(rng.IntN(2) == 0)
	case datatype.Decimal(8, 2):
		cell = fmt.Sprintf("%d.%02d", rng.IntN(1e6), rng.IntN(100))
	case datatype.Decimal(38, 3):
		cell = fmt.Sprintf("-%d%d.%03d", 1+rng.IntN(9), rng.Uint64(), rng.IntN(1000))
	case datatype.Bytes:
		cell = []string{"", "AAAA", "/+8=", "AQI="}[rng.IntN(4)]
	default:
		for range rng.IntN(1 << rng.IntN(9)) {
			cell += []string{"a", `""`, "\r\n", "é", "a longer piece, with a comma", "\x00", `"",""`}[rng.IntN(7)]
		}
	}
	return `"` + cell + `"`
}

func storedRow(rng *rand.Rand) string {
	var cells []string
	for _, c := range storedColumns {
		cells = append(cells, storedCell(rng, c))
	}
	return strings.Join(cells, ",") + "\n"
}

// What an import makes of rows does not depend on how many of them a read returns. Rows that are in memory as a whole are parsed as they are
// stored, and others by cells.
func TestStoredRowsMakeTheSameParts(t *testing.T) {
	t.Parallel()
	rng := seedtest.Rand(t)
	for round := range 8 {
		options := parts.Options{Driver: "parquet"}
		if round%2 == 1 {
			options.PartitionBy = "at"
		}
		var text []byte
		rows := 1 + rng.IntN(1500)
		bad := rng.IntN(rows)
		for i := range rows {
			row := storedRow(rng)
			if round%4 >= 2 && (i == bad || rng.IntN(100) == 0) {
				cells := strings.Split(row, ",")
				at := rng.IntN(len(cells))
				cells[at] = []string{``, `"x"`, `"` + "\xff" + `"`, `"1" "`, `"2026-02-30"`, cells[at] + `,"more"`}[rng.IntN(6)]
				row = strings.TrimSuffix(strings.Join(cells, ","), "\n") + "\n"
			}
			text = append(text, row...)
		}
		importOf := func(read func(io.Reader) io.Reader) (map[string]string, error) {
			// Row groups end at 700 rows, and all at 100 kB.
			target := &Target{parts.NewTables(t.TempDir(), format{rowGroup: 700, groups: 100_000, codec: &pq.Uncompressed, spare: new(sparePages)}, options)}
			f := &driver.File{
				ID: "file-1", Table: driver.Table{ID: "events", Columns: storedColumns}, Rows: int64(rows),
				Slices: []driver.Object{{ID: "s", Rows: int64(rows)}},
				OpenSlice: func(context.Context, driver.Object) (io.ReadCloser, error) {
					return io.NopCloser(read(bytes.NewReader(text))), nil
				},
			}
			err := target.Import(t.Context(), f)
			files := make(map[string]string)
			all, globErr := filepath.Glob(filepath.Join(target.Path("events"), "*.parquet"))
			days, daysErr := filepath.Glob(filepath.Join(target.Path("events"), "*", "*.parquet"))
			if globErr != nil || daysErr != nil {
				t.Fatal(globErr, daysErr)
			}
			imports, err2 := filepath.Glob(filepath.Join(target.Path("events"), "imports", "*", "*", "*.parquet"))
			if err2 != nil {
				t.Fatal(err2)
			}
			for _, path := range slices.Concat(all, days, imports) {
				data, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				files[strings.TrimPrefix(path, target.Path("events"))] = string(data)
			}
			return files, err
		}
		stored, err := importOf(func(r io.Reader) io.Reader { return r })
		cells, cellsErr := importOf(iotest.OneByteReader)
		if len(stored) == 0 && err == nil {
			t.Fatalf("round %d: no parts", round)
		}
		a, _ := errors.AsType[*driver.RowsError](err)
		b, _ := errors.AsType[*driver.RowsError](cellsErr)
		if fmt.Sprint(err) != fmt.Sprint(cellsErr) || !reflect.DeepEqual(a, b) {
			t.Fatalf("round %d: stored rows: %v, by cells: %v", round, err, cellsErr)
		}
		if !reflect.DeepEqual(stored, cells) {
			t.Fatalf("round %d: stored rows have other parts than cells", round)
		}
	}
}

// Rows that are taken as they are stored end a page where pageRows are full, before any column has pageBytes.
func TestStoredRowsEndPages(t *testing.T) {
	const rows = 2*pageRows + 100
	columns := []datatype.Column{{Name: "id", Type: datatype.UUID}, {Name: "n", Type: datatype.Int64}, {Name: "ok", Type: datatype.Bool}}
	rng := rand.New(rand.NewPCG(1, 0))
	var text []byte
	for range rows {
		for i, c := range columns {
			if i > 0 {
				text = append(text, ',')
			}
			text = append(text, storedCell(rng, c)...)
		}
		text = append(text, '\n')
	}
	target := &Target{parts.NewTables(t.TempDir(), format{rowGroup: 1 << 40, groups: 1 << 40, codec: &pq.Uncompressed, spare: new(sparePages)},
		parts.Options{Driver: "parquet"})}
	f := &driver.File{
		ID: "file-1", Table: driver.Table{ID: "events", Columns: columns}, Rows: rows, Slices: []driver.Object{{ID: "s", Rows: rows}},
		OpenSlice: func(context.Context, driver.Object) (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(text)), nil
		},
	}
	drivertest.Import(t, target, f)
	files, err := filepath.Glob(filepath.Join(target.Path("events"), "*.parquet"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	part, err := pq.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	for i, chunk := range part.RowGroups()[0].ColumnChunks() {
		index, err := chunk.OffsetIndex()
		if err != nil {
			t.Fatal(err)
		}
		var begins []int64
		for k := range index.NumPages() {
			begins = append(begins, index.FirstRowIndex(k))
		}
		if !slices.Equal(begins, []int64{0, pageRows, 2 * pageRows}) {
			t.Errorf("the pages of column %s begin at rows %d", columns[i].Name, begins)
		}
	}
}

// A cell in the form that the engine writes is taken as it is stored, whatever its type. Otherwise imports would be right, but slow.
func TestStoredCellsAreTaken(t *testing.T) {
	rng := seedtest.Rand(t)
	for _, at := range storedColumns {
		c := newColumn(at.Name, at, at)
		stored, byCells := new(page), new(page)
		for range 500 {
			if rng.IntN(3) == 0 { // a later column refuses the row, which goes to another part
				c.addStored(stored, []byte(storedCell(rng, at)+","+strings.Repeat(" ", 100)))
				stored.undo(&c)
			}
			cell := storedCell(rng, at)
			n, size, ok := c.addStored(stored, []byte(cell+","+strings.Repeat(" ", 100)))
			if !ok || n != len(cell) {
				t.Fatalf("%s: %q: got %v, %d bytes taken, want true, %d", at, cell, ok, n, len(cell))
			}
			var plain []byte
			if cell != "" {
				plain = []byte(strings.ReplaceAll(cell[1:len(cell)-1], `""`, `"`))
			}
			if err := c.addCell(byCells, plain); err != nil || size != len(plain) {
				t.Fatalf("%s: %q: got %v, %d bytes, want no error, %d", at, cell, err, size, len(plain))
			}
		}
		for _, cell := range []string{"\"\xff\"", "x", "\"", "\"x"} { // add reports the fault
			if _, _, ok := c.addStored(stored, []byte(cell+strings.Repeat(",", 100))); ok {
				t.Errorf("%s: %q is taken", at, cell)
			}
		}
		if !bytes.Equal(stored.data, byCells.data) || !reflect.DeepEqual(stored.longs, byCells.longs) || !reflect.DeepEqual(stored.ints, byCells.ints) ||
			!bytes.Equal(stored.levels, byCells.levels) || stored.rows != byCells.rows || stored.nulls != byCells.nulls {
			t.Errorf("%s: got different pages, want the same", at)
		}
	}
}
