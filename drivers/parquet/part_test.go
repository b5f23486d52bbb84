package parquet_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"testing"

	pq "github.com/parquet-go/parquet-go"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/parquet"
	"github.com/forebay/forebay/internal/drivertest"
	"github.com/forebay/forebay/internal/seedtest"
)

// Engines leave out the row groups and pages whose bounds say that no value fits, so each value must be within them. The columns have
// pages without a value, negative decimals, NaN, texts that are longer than a bound, and a dictionary that becomes too large.
func TestValuesAreWithinBounds(t *testing.T) {
	t.Parallel()
	rng := seedtest.Rand(t)
	columns := []datatype.Column{
		{Name: "wide", Type: datatype.Decimal(30, 2)},
		{Name: "narrow", Type: datatype.Decimal(12, 1)},
		{Name: "f", Type: datatype.Float64},
		{Name: "ok", Type: datatype.Bool},
		{Name: "d", Type: datatype.Date},
		{Name: "id", Type: datatype.UUID},
		{Name: "long", Type: datatype.String},
		{Name: "bytes", Type: datatype.Bytes},
		{Name: "grows", Type: datatype.String},
		{Name: "nan", Type: datatype.Float64},
	}
	var rows [][]string
	for i := range 40_000 {
		row := []string{
			fmt.Sprintf("%d.%02d", rng.Int64()>>rng.IntN(64)*int64(1-2*rng.IntN(2)), rng.IntN(100)), fmt.Sprintf("-%d.%d", rng.IntN(1000)+1, rng.IntN(10)),
			[]string{"NaN", "-0", "0", "1.5", "-Infinity", "-2.25"}[rng.IntN(6)], fmt.Sprint(i/10_000 == 3), fmt.Sprintf("%04d-02-28", 1+rng.IntN(9999)),
			fmt.Sprintf("%08x-0000-4000-8000-%012x", rng.Uint32(), i), strings.Repeat([]string{"é", "z", "\U0010ffff日"}[rng.IntN(3)], rng.IntN(60)),
			[]string{"", "AA==", "/////w=="}[rng.IntN(3)], strings.Repeat("x", 200) + fmt.Sprint(max(0, i-8_000)), "NaN",
		}
		if i/16_384 == 1 || rng.IntN(50) == 0 {
			for at := range row {
				row[at] = buffertest.Null
			}
		}
		rows = append(rows, row)
	}
	target := mustTables(t, t.TempDir(), parquet.Options{RowGroup: 30_000})
	drivertest.Import(t, target, fileOf("file-1", driver.Table{ID: "events", Columns: columns}, rows...))
	expectRows(t, target, "events", rows)
	p := opened(t, partsOf(t, target, "events")[0])
	checked, without := 0, 0
	for g, group := range p.RowGroups() {
		for i, chunk := range group.ColumnChunks() {
			least, most, bounded := chunk.(*pq.FileColumnChunk).Bounds()
			index, err := chunk.ColumnIndex()
			if err != nil || index.NumPages() == 0 {
				index = nil
			}
			if bounded == (columns[i].Name == "nan") || bounded != (index != nil) {
				t.Errorf("row group %d, column %s: bounds %v, index %v", g, columns[i].Name, bounded, index)
			}
			pages := chunk.Pages()
			for at := 0; ; at++ {
				page, err := pages.ReadPage()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				values := make([]pq.Value, page.NumValues())
				if _, err := page.Values().ReadValues(values); err != nil && !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
				for _, v := range values {
					switch {
					case v.IsNull():
					case !bounded:
						without++
					case !within(columns[i].Type, v, least, most):
						t.Fatalf("row group %d, column %s: %v is not between %v and %v", g, columns[i].Name, v, least, most)
					case index.NullPage(at) || !within(columns[i].Type, v, index.MinValue(at), index.MaxValue(at)):
						t.Fatalf("page %d, column %s: %v is not between %v and %v", at, columns[i].Name, v, index.MinValue(at), index.MaxValue(at))
					default:
						checked++
					}
				}
				pq.Release(page)
			}
			pages.Close()
		}
	}
	if checked < 9*20_000 || without < 20_000 {
		t.Errorf("%d values were compared, and %d have no bounds", checked, without)
	}
	if c := p.Metadata().RowGroups[0].Columns[8].MetaData; c.DictionaryPageOffset == 0 || len(c.Encoding) != 3 {
		t.Errorf("the text that repeats at first has the encodings %v", c.Encoding)
	}
}

// within reports whether a value is between two others in the order of its type. NaN is between any.
func within(typ datatype.Type, v, least, most pq.Value) bool {
	compare := func(a, b pq.Value) int {
		switch a.Kind() {
		case pq.Double:
			return cmp.Compare(a.Double(), b.Double())
		case pq.Int32, pq.Int64:
			return cmp.Compare(a.Int64(), b.Int64())
		case pq.Boolean:
			return bytes.Compare(a.Bytes(), b.Bytes())
		}
		if strings.HasPrefix(string(typ), "decimal") {
			a, b := bytes.Clone(a.ByteArray()), bytes.Clone(b.ByteArray())
			a[0] ^= 0x80
			b[0] ^= 0x80
			return bytes.Compare(a, b)
		}
		return bytes.Compare(a.ByteArray(), b.ByteArray())
	}
	return v.Kind() == pq.Double && math.IsNaN(v.Double()) || compare(least, v) <= 0 && compare(v, most) <= 0
}

// opened opens a part with the library until the test ends.
func opened(t *testing.T, path string) *pq.File {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	p, err := pq.OpenFile(f, info.Size())
	if err != nil {
		t.Fatalf("%s: got %v, want no error", path, err)
	}
	return p
}
