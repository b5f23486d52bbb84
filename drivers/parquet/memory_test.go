package parquet

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"

	pq "github.com/parquet-go/parquet-go"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/parts"
	"github.com/forebay/forebay/internal/drivertest"
)

// heapReader makes rows while they are read, and looks now and then how much memory is in use.
type heapReader struct {
	row  func(i int) string
	n    int // rows that are left
	rest string
	read int
	most uint64
}

func (r *heapReader) Read(p []byte) (int, error) {
	if r.rest == "" {
		if r.n == 0 {
			return 0, io.EOF
		}
		r.n--
		r.rest = r.row(r.n)
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	if r.read += n; r.read > 4<<20 {
		r.read = 0
		r.most = max(r.most, heap())
	}
	return n, nil
}

func (r *heapReader) Close() error { return nil }

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// The memory of an import does not grow with its file, neither with the bytes of a row nor with the days. The row groups of this test
// are smaller than by default.
func TestMemoryOfAnImport(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector, which runs with -short, takes memory of its own")
	}
	const groups, file = 8 << 20, 64 << 20
	rng := rand.New(rand.NewPCG(1, 2))
	body := func(n int) string {
		text := make([]byte, n)
		for i := range text {
			text[i] = byte('a' + rng.IntN(26))
		}
		return string(text)
	}
	for name, c := range map[string]struct {
		cell, days int
		by         string
	}{"wide rows": {100 << 10, 1, ""}, "many days": {500, 300, "at"}} {
		t.Run(name, func(t *testing.T) {
			target := &Target{parts.NewTables(t.TempDir(), format{rowGroup: 1 << 40, groups: groups, codec: &pq.Uncompressed, spare: new(sparePages)},
				parts.Options{Driver: "parquet", PartitionBy: c.by})}
			text := body(c.cell)
			in := &heapReader{n: file / c.cell, row: func(i int) string {
				return fmt.Sprintf("\"%04d-01-01T00:00:00.000000Z\",\"%s\"\n", 1900+i%c.days, text)
			}}
			f := &driver.File{
				ID: "file-1", Slices: []driver.Object{{ID: "s", Rows: int64(in.n)}},
				Table: driver.Table{ID: "events", Columns: []datatype.Column{
					{Name: "at", Type: datatype.Timestamp, Required: true}, {Name: "body", Type: datatype.String, Required: true},
				}},
				OpenSlice: func(context.Context, driver.Object) (io.ReadCloser, error) { return in, nil },
			}
			before := heap()
			drivertest.Import(t, target, f)
			t.Logf("%d MiB more while %d MiB were imported", (in.most-before)>>20, file>>20)
			// The open pages, which have up to half of their length to spare while they grow, the encoder's memory for ending row groups,
			// with their bounds and indexes, and waiting pages. A file takes more than twice as much.
			if most := uint64(3*groups + inFlight); in.most > before+most {
				t.Errorf("the import takes %d MiB of memory, want at most %d", (in.most-before)>>20, most>>20)
			}
		})
	}
}

// A column that is wider than its cells costs no allocation for a cell.
func TestWiderColumnAllocatesNothing(t *testing.T) {
	c := newColumn("n", datatype.Column{Type: datatype.Decimal(12, 2)}, datatype.Column{Type: datatype.Int64, Required: true})
	p, cell := new(page), []byte("-17")
	add := func() {
		p.reset()
		if err := c.addCell(p, cell); err != nil {
			t.Fatal(err)
		}
	}
	if add(); p.longs[0] != -1700 {
		t.Errorf("got %d, want -1700", p.longs[0])
	}
	if n := testing.AllocsPerRun(100, add); n > 0 {
		t.Errorf("got %v allocations a cell, want 0", n)
	}
}
