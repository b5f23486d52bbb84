package parquet

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/compress/snappy"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/parts"
)

// Options are options of [Tables]. All processes that write to one folder must use the same.
type Options struct {
	// PartitionBy names a column of type date or timestamp. A new table that has it keeps the rows of each day (UTC) in a
	// folder dt=2026-11-22, and rows whose value is NULL in dt=__HIVE_DEFAULT_PARTITION__. Files of several days have such folders in a
	// separate folder. Other tables, and tables that exist, are not split.
	PartitionBy string
	// MergeTo is the size in bytes up to which small parts are merged in the background. The default is 128 MiB, and -1
	// merges nothing. Merging takes up to twice the space for an hour.
	MergeTo int64
	// KeepFor, if not 0, is the age at which parts are removed. It counts from the end of their day in a partitioned table,
	// and from their import in other tables. Once the sink of a table is gone, its parts stay until [Target.Compact] is called.
	KeepFor time.Duration
	// RowGroup is the number of rows of a row group, the unit in which engines skip and share work. The default is 131,072.
	RowGroup int64
	// Bloom names columns of type string that are searched for single values, such as the id of a trace. Each row group of new parts gets a
	// Bloom filter of such a column, with which engines skip the groups without the value. It takes 10 bits for each different value.
	Bloom []string
	// Compression is the codec of new parts. The default is [Zstd].
	Compression Compression
	// EmptyPart keeps a part without rows in each table, _columns-N.parquet for N columns, in a partitioned table in the folder dt=1970-01-01.
	// DuckDB and others know the columns of a table only from a file, so without it they can neither query a table before its first import, or
	// after the removal of its last part, nor make a view of it.
	EmptyPart bool
	// OnImported, if not nil, is called after the rows of a file are durable and visible, with the paths of their parts. The
	// import counts as failed, and is repeated, until OnImported returns nil. It is called at least once a file.
	OnImported func(ctx context.Context, f *driver.File, parts []string) error
}

// Compression is a codec of column data. All readers of Parquet know these.
type Compression string

// The codecs. Zstd at its fastest level makes the smallest parts, Snappy costs less CPU.
const (
	Zstd   Compression = "zstd"
	Snappy Compression = "snappy"
	Plain  Compression = "none"
)

func (c Compression) codec() (compress.Codec, error) {
	switch c {
	case Zstd, "":
		return newZstdCodec(), nil
	case Snappy:
		return &snappy.Codec{}, nil
	case Plain:
		return &pq.Uncompressed, nil
	}
	return nil, fmt.Errorf("parquet: compression %q: use zstd, snappy or none", string(c))
}

const (
	defaultMergeTo  = 128 << 20
	defaultRowGroup = 128 << 10
	defaultGroups   = 128 << 20
)

// Target is a [driver.Target] that keeps each table in a folder of Parquet files. It imports each file exactly once. It is safe for
// concurrent use, even by several processes.
type Target struct{ folder *parts.Tables }

var (
	_ driver.Target      = (*Target)(nil)
	_ driver.Extender    = (*Target)(nil)
	_ driver.Limiter     = (*Target)(nil)
	_ driver.Counter     = (*Target)(nil)
	_ driver.Taker       = (*Target)(nil)
	_ driver.Uncreator   = (*Target)(nil)
	_ driver.Compactor   = (*Target)(nil)
	_ driver.LocalDriver = (*Target)(nil)
	_ driver.Exclusive   = (*Target)(nil)
	_ driver.Querier     = (*Target)(nil)
	_ driver.Tailer      = (*Target)(nil)
)

// Tables returns a target in the folder path, which the first Ensure or Import creates. It fails only for wrong options.
func Tables(path string, o Options) (*Target, error) {
	codec, err := o.Compression.codec()
	if err != nil {
		return nil, err
	}
	if o.RowGroup < 0 || o.MergeTo < -1 {
		return nil, fmt.Errorf("parquet: RowGroup is %d and MergeTo %d, must not be negative; MergeTo may be -1", o.RowGroup, o.MergeTo)
	}
	if o.RowGroup == 0 {
		o.RowGroup = defaultRowGroup
	}
	switch o.MergeTo {
	case 0:
		o.MergeTo = defaultMergeTo
	case -1:
		o.MergeTo = 0
	}
	return &Target{parts.NewTables(path, format{rowGroup: o.RowGroup, groups: defaultGroups, codec: codec, bloom: o.Bloom, spare: new(sparePages)}, parts.Options{
		Driver: "parquet", PartitionBy: o.PartitionBy, MergeTo: o.MergeTo, KeepFor: o.KeepFor, EmptyPart: o.EmptyPart, OnImported: o.OnImported,
	})}, nil
}

// Path returns the folder of a table, whether it exists or not. It is a link if parts are merged or split by day, so resolve it once, for
// example with [filepath.EvalSymlinks], and read the resulting folder within the hour.
func (t *Target) Path(table string) string { return t.folder.Path(table) }

// Query implements [driver.Querier]. The query returns the rows with the latest times, if the table has a time, else the rows of the newest files.
func (t *Target) Query(table driver.Table) (language, query string) {
	path := t.Path(table.ID)
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	files := strings.ReplaceAll(filepath.Join(path, "**", "*.parquet"), "'", "''")
	return "DuckDB", parts.FilesQuery("read_parquet", "'"+files+"', union_by_name = true, hive_partitioning = true", table.Columns, true)
}

// Columns returns the columns of a table. A missing table is an error that matches [io/fs.ErrNotExist].
func (t *Target) Columns(table string) ([]datatype.Column, error) { return t.folder.Columns(table) }

// Ensure implements [driver.Target].
func (t *Target) Ensure(ctx context.Context, table driver.Table) error {
	return t.folder.Ensure(ctx, table)
}

// Extend implements [driver.Extender]. New parts have the new columns. Readers match the columns of parts by name.
func (t *Target) Extend(ctx context.Context, table driver.Table) error {
	return t.folder.Extend(ctx, table)
}

// Limits implements [driver.Limiter]. The size of a page has 31 bits.
func (t *Target) Limits() datatype.Limits { return datatype.Limits{UTF8: true, MaxCell: 1 << 30} }

// Import implements [driver.Target], exactly once. A row with a cell that is not a canonical text of its type, or with text that is
// not UTF-8, is refused with a [*driver.RowsError].
func (t *Target) Import(ctx context.Context, f *driver.File) error { return t.folder.Import(ctx, f) }

// CountFile implements [driver.Counter]. It reads the number of rows in the footers of the parts.
func (t *Target) CountFile(ctx context.Context, table driver.Table, fileID string) (int64, error) {
	return t.folder.CountFile(ctx, table, fileID)
}

// TakenAway implements [driver.Taker]. A part that is missing as a whole from an existing table was removed by a user or by Options.KeepFor.
func (t *Target) TakenAway(ctx context.Context, table driver.Table, fileID string) (bool, error) {
	return t.folder.TakenAway(ctx, table, fileID)
}

// Compact implements [driver.Compactor]. It merges small parts and removes old ones, as the options say. It is safe alongside
// imports and readers, and after a crash at any point. The first call of a process, and one call an hour, does all pending work. The other calls
// wait until a quarter of the parts of the table can be merged or removed.
func (t *Target) Compact(ctx context.Context, table driver.Table) error {
	return t.folder.Compact(ctx, table)
}

// Drop deletes a table with all its rows. A missing table is no error. A later or concurrent import creates it again.
func (t *Target) Drop(ctx context.Context, table string) error { return t.folder.Drop(ctx, table) }

// Uncreate implements [driver.Uncreator].
func (t *Target) Uncreate(ctx context.Context, table, creation string) error {
	return t.folder.Uncreate(ctx, table, creation)
}

// Alone implements [driver.Exclusive]. Of several processes only one may create a table that is neither split by day nor merged. Everything
// else they do concurrently.
func (t *Target) Alone(table string) string { return t.folder.Alone(table) }

// Needs implements [driver.LocalDriver]. A part of many columns and few rows is larger than its rows, by about 1 KiB a column.
func (t *Target) Needs(_, raw int64) (folder string, bytes int64) {
	if raw == 0 {
		return t.folder.Root, t.folder.MergeTo // before Compact
	}
	return t.folder.Root, raw + 64<<10
}
