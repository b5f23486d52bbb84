package parquet_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/klauspost/compress/gzip"
	kzstd "github.com/klauspost/compress/zstd"
	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/drivers/parquet"
)

// benchRow is a row as a program would give it to the library itself.
type benchRow struct {
	ID    uuid.UUID `parquet:"id,uuid"`
	At    int64     `parquet:"at,timestamp(microsecond)"`
	Count int64     `parquet:"count"`
	Kind  string    `parquet:"kind,dict"`
	Value *float64  `parquet:"value,optional"`
	OK    bool      `parquet:"ok"`
	Body  string    `parquet:"body"`
}

var benchTable = buffer.Table{ID: "events", Columns: []datatype.Column{
	{Name: "id", Type: datatype.UUID, Required: true},
	{Name: "at", Type: datatype.Timestamp, Required: true},
	{Name: "count", Type: datatype.Int64, Required: true},
	{Name: "kind", Type: datatype.String, Required: true},
	{Name: "value", Type: datatype.Float64},
	{Name: "ok", Type: datatype.Bool, Required: true},
	{Name: "body", Type: datatype.JSON, Required: true},
}}

func benchRows(n int) (rows []benchRow, csv []byte) {
	rng := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	for i := range n {
		r := benchRow{
			At: 1795361400000000 + int64(i)*1000 + rng.Int64N(900), Count: rng.Int64N(1 << 40), Kind: []string{"click", "view", "purchase", "signup"}[rng.IntN(4)],
			OK: rng.IntN(2) == 0, Body: fmt.Sprintf(`{"page":"/p/%d","ms":%d}`, rng.IntN(1000), rng.IntN(5000)),
		}
		for j := range r.ID {
			r.ID[j] = byte(rng.Uint32())
		}
		value := ""
		if rng.IntN(20) > 0 {
			f := float64(rng.IntN(1_000_000)) / 1000
			r.Value, value = &f, fmt.Sprintf(`"%s"`, datatype.AppendFloat64(nil, f))
		}
		fmt.Fprintf(&b, "\"%s\",\"%s\",\"%d\",\"%s\",%s,\"%v\",\"%s\"\n", r.ID, time.UnixMicro(r.At).UTC().Format("2006-01-02T15:04:05.000000Z"),
			r.Count, r.Kind, value, r.OK, strings.ReplaceAll(r.Body, `"`, `""`))
		rows = append(rows, r)
	}
	return rows, b.Bytes()
}

func encoded(tb testing.TB, e buffer.Encoding, csv []byte) []byte {
	var b bytes.Buffer
	var w io.WriteCloser
	var err error
	switch e {
	case buffer.Gzip:
		w, err = gzip.NewWriterLevel(&b, gzip.BestSpeed)
	case buffer.Zstd:
		w, err = kzstd.NewWriter(&b, kzstd.WithEncoderLevel(kzstd.SpeedFastest))
	default:
		return csv
	}
	if err == nil {
		_, err = w.Write(csv)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// BenchmarkImport imports staged slices, and beside it writes the same rows with the writer of the library from memory.
//
//	go test -run - -bench Import -benchtime 5x
//
// csvMB/cpu-s is the speed of a core with decoding of the slices; x-library compares the wall time with that of the library.
func BenchmarkImport(b *testing.B) {
	const n = 200_000
	rows, csv := benchRows(n)
	for _, c := range []struct {
		name     string
		encoding buffer.Encoding
	}{{"plain", buffer.None}, {"zstd", buffer.Zstd}, {"gzip", buffer.Gzip}} {
		b.Run("slices="+c.name, func(b *testing.B) {
			stored := encoded(b, c.encoding, csv)
			target, err := parquet.Tables(b.TempDir(), parquet.Options{MergeTo: -1})
			if err != nil {
				b.Fatal(err)
			}
			var ours, library cost
			i := 0
			for b.Loop() {
				i++
				f := &buffer.File{ID: fmt.Sprint("file-", i), Table: benchTable, Rows: n, RawBytes: int64(len(csv))}
				f.Slices = []buffer.Object{{ID: "slice", Encoding: c.encoding, Rows: n, RawBytes: int64(len(csv))}}
				f.OpenSlice = func(context.Context, buffer.Object) (io.ReadCloser, error) {
					return io.NopCloser(bytes.NewReader(stored)), nil
				}
				ours.measure(func() { err = target.Import(b.Context(), f) })
				if err != nil {
					b.Fatal(err)
				}
				library.measure(func() { err = writeByLibrary(rows) })
				if err != nil {
					b.Fatal(err)
				}
			}
			megabytes := float64(len(csv)) * float64(i) / 1e6
			b.ReportMetric(megabytes/ours.cpu.Seconds(), "csvMB/cpu-s")
			b.ReportMetric(megabytes/library.cpu.Seconds(), "library-csvMB/cpu-s")
			b.ReportMetric(library.wall.Seconds()/ours.wall.Seconds(), "x-library")
			b.ReportMetric(library.cpu.Seconds()/ours.cpu.Seconds(), "x-library-cpu")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func writeByLibrary(rows []benchRow) error {
	w := pq.NewGenericWriter[benchRow](io.Discard, pq.Compression(&zstd.Codec{Level: zstd.SpeedFastest}), pq.MaxRowsPerRowGroup(128<<10))
	for len(rows) > 0 {
		n, err := w.Write(rows[:min(len(rows), 1024)])
		if err != nil {
			return err
		}
		rows = rows[n:]
	}
	return w.Close()
}

type cost struct{ wall, cpu time.Duration }

func (c *cost) measure(fn func()) {
	wall, cpu := time.Now(), cpuTime()
	fn()
	c.wall += time.Since(wall)
	c.cpu += cpuTime() - cpu
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
