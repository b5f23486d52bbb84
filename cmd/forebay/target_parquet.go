package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
	pq "github.com/parquet-go/parquet-go"

	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/drivers/parquet"
	"github.com/forebay/forebay/internal/program/store"
)

func parquetTarget() targetKind {
	return targetKind{
		prefixes: []string{"parquet:"}, form: "parquet:FOLDER", summary: "folders of Parquet files", folders: true, limits: new(parquet.Target),
		open: func(rest string, o dir.TablesOptions) (*store.Store, error) {
			if o.NoHeader || o.Gzip {
				return nil, errors.New("-no-header and -gzip are for CSV files: leave them out with -target parquet:FOLDER")
			}
			target, err := parquet.Tables(rest, parquet.Options{PartitionBy: o.PartitionBy, MergeTo: o.MergeTo, KeepFor: o.KeepFor})
			if err != nil {
				return nil, fmt.Errorf("-target: %w", err)
			}
			return &store.Store{
				Target: target, Tables: parquetReader{target}, Drop: target.Drop,
				Hint: fmt.Sprintf(`duckdb -c "SELECT country, count(*), sum(total) FROM read_parquet('%s/in.c-shop.orders/**/*.parquet', union_by_name = true) GROUP BY 1"`, rest),
			}, nil
		},
	}
}

// parquetReader reads the parts of tables.
type parquetReader struct{ target *parquet.Target }

// Columns implements [store.Reader].
func (r parquetReader) Columns(table string) ([]datatype.Column, error) {
	return r.target.Columns(table)
}

// Rows implements [store.Reader]. It reads the parts of one version of the table.
func (r parquetReader) Rows(table string) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		columns, err := r.target.Columns(table)
		if err != nil {
			yield(nil, err)
			return
		}
		folder, err := filepath.EvalSymlinks(r.target.Path(table))
		if err != nil {
			yield(nil, err)
			return
		}
		err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".parquet") {
				return err
			}
			return readPart(path, columns, yield)
		})
		if err != nil && !errors.Is(err, fs.SkipAll) {
			yield(nil, err)
		}
	}
}

// readPart yields the rows of a part in the order of the columns. It returns fs.SkipAll when yield wants no more.
func readPart(path string, columns []datatype.Column, yield func([]string, error) bool) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	part, err := pq.OpenFile(f, info.Size())
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	place := map[string]int{}
	for i, c := range columns {
		place[c.Name] = i
	}
	var to []int // the place of each column of the part
	for _, name := range part.Schema().Columns() {
		at, ok := place[name[0]]
		if !ok {
			return fmt.Errorf("%s: the table has no column %q", path, name[0])
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
			return fmt.Errorf("%s: %w", path, err)
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
