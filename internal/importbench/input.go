package importbench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// Table is the table of the input. A row has about 140 bytes.
func Table() driver.Table {
	return driver.Table{ID: "events", Columns: []datatype.Column{
		{Name: "id", Type: datatype.UUID, Required: true},
		{Name: "at", Type: datatype.Timestamp, Required: true},
		{Name: "n", Type: datatype.Int64},
		{Name: "kind", Type: datatype.String},
		{Name: "value", Type: datatype.Float64},
		{Name: "ok", Type: datatype.Bool},
		{Name: "body", Type: datatype.JSON},
	}}
}

const sliceBytes = 16 << 20

// makeInput writes the rows, the same in every run.
func makeInput(dir string, rows int64, encoding string) (in Input, err error) {
	encodings := map[string]driver.Encoding{"none": driver.None, "gzip": driver.Gzip, "zstd": driver.Zstd}
	e, ok := encodings[encoding]
	if !ok {
		return Input{}, fmt.Errorf("encoding %q: use none, gzip or zstd", encoding)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return Input{}, err
	}
	in = Input{CSV: filepath.Join(dir, "rows.csv"), File: &driver.File{ID: "bench-file", SinkID: "bench/events", Table: Table()}}
	in.File.OpenSlice = func(_ context.Context, obj driver.Object) (io.ReadCloser, error) {
		return os.Open(filepath.Join(dir, obj.ID))
	}
	in.File.SaveProgress = func(context.Context, []byte) error { return nil }
	all, err := os.Create(in.CSV)
	if err != nil {
		return Input{}, err
	}
	defer func() { err = errors.Join(err, all.Close()) }()
	rng := rand.New(rand.NewPCG(1, 2))
	var plain []byte
	obj := driver.Object{FileID: in.File.ID, SinkID: in.File.SinkID, Encoding: e}
	for i := range rows {
		plain = appendRow(plain, rng, i)
		if obj.Rows++; len(plain) < sliceBytes && i < rows-1 {
			continue
		}
		obj.ID, obj.RawBytes = fmt.Sprintf("bench-slice-%d", len(in.File.Slices)), int64(len(plain))
		if _, err := all.Write(plain); err != nil {
			return Input{}, err
		}
		if err := writeSlice(filepath.Join(dir, obj.ID), e, plain); err != nil {
			return Input{}, err
		}
		in.File.Slices = append(in.File.Slices, obj)
		in.File.Rows += obj.Rows
		in.File.RawBytes += obj.RawBytes
		plain, obj.Rows = plain[:0], 0
	}
	return in, nil
}

func writeSlice(path string, e driver.Encoding, plain []byte) error {
	var stored bytes.Buffer
	var w io.WriteCloser
	var err error
	switch e {
	case driver.Gzip:
		w, err = gzip.NewWriterLevel(&stored, gzip.BestSpeed)
	case driver.Zstd:
		w, err = zstd.NewWriter(&stored, zstd.WithEncoderLevel(zstd.SpeedFastest))
	default:
		return os.WriteFile(path, plain, 0o600)
	}
	if err != nil {
		return err
	}
	if _, err := w.Write(plain); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(path, stored.Bytes(), 0o600)
}

func appendRow(dst []byte, rng *rand.Rand, i int64) []byte {
	kinds := [...]string{"view", "click", "purchase", "search", "sign-in"}
	at := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC).Add(time.Duration(i) * 137 * time.Microsecond)
	hi, lo := rng.Uint64(), rng.Uint64()
	dst = fmt.Appendf(dst, `"%08x-%04x-4%03x-8%03x-%012x",`, hi>>32, hi>>16&0xffff, hi&0xfff, lo>>52&0xfff, lo&(1<<48-1))
	dst = at.AppendFormat(append(dst, '"'), `2006-01-02T15:04:05.000000Z`)
	dst = fmt.Appendf(dst, `","%d","%s",`, rng.Int64N(1<<40), kinds[rng.IntN(len(kinds))])
	if rng.IntN(20) > 0 {
		dst = datatype.AppendFloat64(append(dst, '"'), float64(rng.IntN(1_000_000))/100)
		dst = append(dst, '"')
	}
	return fmt.Appendf(dst, ",\"%t\",\"{\"\"page\"\":%d,\"\"ref\"\":\"\"r%d\"\"}\"\n", rng.IntN(2) == 0, rng.IntN(1000), rng.IntN(100))
}
