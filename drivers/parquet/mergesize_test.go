package parquet

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	pq "github.com/parquet-go/parquet-go"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/parts"
	"github.com/forebay/forebay/internal/drivertest"
)

// residentPeak returns the most memory of this process that was in use since the last call, in bytes, and false where the system does not tell.
func residentPeak(t *testing.T) (int64, bool) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		var kilobytes int64
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kilobytes); n == 1 {
			return kilobytes << 10, os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) == nil
		}
	}
	return 0, false
}

var sizeColumns = []datatype.Column{
	{Name: "file", Type: datatype.Int64, Required: true},
	{Name: "id", Type: datatype.UUID, Required: true},
	{Name: "at", Type: datatype.Timestamp, Required: true},
	{Name: "kind", Type: datatype.String, Required: true},
	{Name: "value", Type: datatype.Float64, Required: true},
	{Name: "body", Type: datatype.JSON, Required: true},
}

// sizeReader makes the rows of a file while they are read.
type sizeReader struct {
	file, rows, row int
	rng             *rand.Rand
	rest            []byte
	sum             *fileSum
}

func (r *sizeReader) Close() error { return nil }

func (r *sizeReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		if r.row == r.rows {
			return 0, io.EOF
		}
		body := make([]byte, 0, 200)
		for range 6 {
			body = fmt.Appendf(body, `,"field":"%x"`, r.rng.Uint64())
		}
		body[0] = '{'
		body = append(body, '}')
		cells := []string{
			strconv.Itoa(r.file), fmt.Sprintf("%08x-0000-4000-8000-%012x", r.rng.Uint32(), r.rng.Uint64()>>16),
			time.UnixMicro(1_795_000_000_000_000 + int64(r.row)*1000).UTC().Format("2006-01-02T15:04:05.000000Z"),
			[]string{"view", "click", "scroll", "purchase"}[r.rng.IntN(4)], string(datatype.AppendFloat64(nil, float64(r.rng.IntN(1e6))/64)), string(body),
		}
		h := uint64(0)
		for _, cell := range cells {
			r.rest = append(append(append(r.rest, '"'), strings.ReplaceAll(cell, `"`, `""`)...), '"', ',')
			h = cellHash(h, []byte(cell))
		}
		r.rest[len(r.rest)-1] = '\n'
		r.sum.add(h)
		r.row++
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

var sizeSeed = maphash.MakeSeed()

func cellHash(row uint64, cell []byte) uint64 { return row*31 + maphash.Bytes(sizeSeed, cell) }

// fileSum is the checksum of the rows of a file in their order.
type fileSum struct {
	rows int64
	sum  uint64
}

func (s *fileSum) add(row uint64) {
	s.rows++
	s.sum = s.sum*1099511628211 + row
}

// sumsOf adds the rows of a part to the checksums of their files, by row groups.
func sumsOf(t *testing.T, path string, sums []fileSum) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	p, err := pq.OpenFile(f, info.Size())
	if err != nil {
		t.Fatalf("%s: got %v, want no error", path, err)
	}
	for _, g := range p.RowGroups() {
		files, rows := make([]int, 0, g.NumRows()), make([]uint64, g.NumRows())
		for i, c := range sizeColumns {
			column, at := newColumn(c.Name, c, c), 0
			pages := g.ColumnChunks()[i].Pages()
			for {
				page, err := pages.ReadPage()
				if errors.Is(err, io.EOF) {
					break
				}
				if err == nil {
					err = eachInPage(page, make([]pq.Value, batchRows), func(values []pq.Value) error {
						for _, v := range values {
							if i == 0 {
								files = append(files, int(v.Int64()))
							}
							rows[at] = cellHash(rows[at], column.textOf(v))
							at++
						}
						return nil
					})
				}
				if err != nil {
					t.Fatalf("%s: got %v, want no error", path, err)
				}
				pq.Release(page)
			}
			if err := pages.Close(); err != nil || at != len(rows) {
				t.Fatalf("%s: column %s has %d values in %d rows, %v", path, c.Name, at, len(rows), err)
			}
		}
		for i, row := range rows {
			sums[files[i]].add(row)
		}
	}
}

// TestMergesAtSize imports files of 40,000 rows, whose parts have about 3 MB, and merges them after each eighth one with the default options, until parts
// have nearly 128 MiB. Then the rows of each file are the same, in the same order, and a merge takes as little memory as its page says.
//
//	FOREBAY_MERGE_FILES=120 go test -v -run TestMergesAtSize -timeout 1h .
func TestMergesAtSize(t *testing.T) {
	files, err := strconv.Atoi(os.Getenv("FOREBAY_MERGE_FILES"))
	if err != nil || files < parts.MergeFrom {
		t.Skip("set FOREBAY_MERGE_FILES to 120")
	}
	const rows = 40_000
	target, err := Tables(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	table := driver.Table{ID: "t", Columns: sizeColumns}
	sizes := func() (list []int64, all int64) {
		paths, err := filepath.Glob(filepath.Join(target.Path("t"), "*.parquet"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			info, err := os.Stat(path)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			list, all = append(list, info.Size()), all+info.Size()
		}
		return list, all
	}
	before, known := residentPeak(t)
	debug.FreeOSMemory()
	want := make([]fileSum, files)
	var imports, merges time.Duration
	var importPeak, mergePeak, largest int64
	for i := range files {
		f := &driver.File{
			ID: fmt.Sprintf("file-%05d", i), Table: table, Rows: rows, Slices: []driver.Object{{ID: "s", Rows: rows}},
			OpenSlice: func(context.Context, driver.Object) (io.ReadCloser, error) {
				want[i] = fileSum{}
				return &sizeReader{file: i, rows: rows, rng: rand.New(rand.NewPCG(uint64(i), 1)), sum: &want[i]}, nil
			},
		}
		begin := time.Now()
		drivertest.Import(t, target, f)
		imports += time.Since(begin)
		if (i+1)%parts.MergeFrom != 0 {
			continue
		}
		peak, _ := residentPeak(t)
		importPeak = max(importPeak, peak)
		debug.FreeOSMemory()
		_, _ = residentPeak(t)
		begin = time.Now()
		drivertest.Compact(t, target, table)
		took := time.Since(begin)
		merges += took
		peak, _ = residentPeak(t)
		mergePeak = max(mergePeak, peak)
		list, all := sizes()
		for _, size := range list {
			if size > largest {
				largest = size
				t.Logf("after %d files: %d parts of %d MB, the largest has %d MB; the merge took %v and at most %d MB of memory", i+1, len(list), all/1e6, size/1e6, took.Round(time.Millisecond), peak/1e6)
			}
		}
	}
	list, all := sizes()
	t.Logf("%d files of %d rows: imports took %v, at most %d MB in memory (%d MB before); merges took %v, at most %d MB", files, rows,
		imports.Round(time.Millisecond), importPeak/1e6, before/1e6, merges.Round(time.Millisecond), mergePeak/1e6)
	t.Logf("%d parts of %d MB: %d", len(list), all/1e6, list)
	for _, size := range list {
		if size > defaultMergeTo {
			t.Errorf("a part has %d bytes, want at most %d", size, defaultMergeTo)
		}
	}
	if files >= 64 && largest < defaultMergeTo*7/8 {
		t.Errorf("the largest part has %d bytes, which is not near %d", largest, defaultMergeTo)
	}
	// The page of the driver: 260 MiB for an import and a merge, on top of the process's memory.
	if most := int64(260<<20) + before; known && (mergePeak > most || importPeak > most) {
		t.Errorf("a merge took %d MB of memory, an import %d MB, want at most %d MB", mergePeak/1e6, importPeak/1e6, most/1e6)
	}
	begin := time.Now()
	got := make([]fileSum, files)
	paths, err := filepath.Glob(filepath.Join(target.Path("t"), "*.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		sumsOf(t, path, got)
	}
	for i := range files {
		if got[i] != want[i] {
			t.Errorf("file %d has %d rows with another checksum, want %d", i, got[i].rows, want[i].rows)
		}
		if n, err := target.CountFile(t.Context(), table, fmt.Sprintf("file-%05d", i)); n != rows || err != nil {
			t.Errorf("file %d: %d rows are counted, %v", i, n, err)
		}
	}
	t.Logf("all rows were read back and compared in %v", time.Since(begin).Round(time.Millisecond))
}
