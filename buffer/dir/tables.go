package dir

import (
	"context"
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/parts"
)

// TablesOptions are options of [TablesWith]. All processes that write to one folder must use the same.
//
// # Days, merging, retention
//
// [TablesOptions.PartitionBy] splits the rows of a file by day, [TablesOptions.MergeTo] merges small parts in the background,
// and [TablesOptions.KeepFor] removes old ones. In a table that is split, the part of a file and a day is dt=DAY/<id>.<rows>.csv.
// Merging takes eight or more parts of about one size, soon after an import and every hour. A program that ends right after its
// imports merges nothing unless it calls [TableDir.Compact].
//
// A file with rows of several days has its parts in imports/<id>/dt=DAY/, so that one rename of a folder makes all of them visible:
//
//	tables/in.c-web.events/
//	  dt=2026-11-22/<id>.120.csv               a file of one day
//	  imports/<id>/dt=2026-11-22/<id>.3.csv    a file of several days
//	  imports/<id>/dt=2026-11-23/<id>.95.csv
//
// Read a table with **/*.csv and one day with **/dt=2026-11-22/*.csv. A reader of dt=2026-11-22/*.csv alone misses late rows that were imported
// with rows of other days. A program that wants all folders of days at one depth has to be configured to walk the tree.
//
// The directory of a table that is split or merged is a link to its newest version. An import adds to this version, with one rename. Merges
// and the removal of old parts make a new version. A version stays for an hour after it was replaced, or until there are 1,000 newer ones. A
// reader that resolves the link first reads one moment of the table, in which each imported file is there whole or not at all, each row once.
//
//	dir=$(readlink -f tables/in.c-web.events)     # the parts of this moment: $dir/**/*.csv
//
// A reader that does not resolve the link, and lists all parts before it opens them, may find that a listed part is gone, because a version was
// replaced. Without this error it has each imported row once, and each file whole unless its rows were too old and were removed. A reader that opens
// parts while it still lists folders must resolve the link.
//
// A merged part is named <first>~<last>~<files>.csv after the ids of its files. The hidden .json next to it lists all of them,
// with their places in the part, so a repeated import of each is still a no-op, and rows are still counted by file.
//
// Splitting and merging need symbolic links, hard links and flock: POSIX, and a file system that has them. A plain directory
// becomes a link when its parts are first merged, which needs Linux and a file system that can exchange names (ext4, XFS, Btrfs,
// tmpfs). Elsewhere the option must be set before the table is created.
//
// A new version links every part of the table, about 10 to 50 µs a part. So [TableDir.Compact] makes one only if it concerns a quarter of the parts,
// or on the first call of a process, or after an hour. The cost of an import depends on its own rows and days, however many parts the table has:
// 10 more days take 79 ms in a table of 1,000 days and 90 ms in a table of one, and make 21 names. See the measurements in docs/internals/performance.md.
type TablesOptions struct {
	// Gzip stores parts as .csv.gz. Gzip slices are copied, others are compressed at the fastest level. Default: plain .csv.
	// One table can have parts of both kinds, so the option may change between two runs.
	Gzip bool
	// NoHeader creates tables whose parts have no line with the column names, as all tables of earlier releases. Such a table
	// cannot grow. An existing table keeps its form.
	NoHeader bool
	// PartitionBy names a column of type date or timestamp. A new table that has it keeps the rows of each day (UTC) in a
	// folder dt=2026-11-22, and rows whose value is NULL in dt=__HIVE_DEFAULT_PARTITION__. Files of several days have such folders in a
	// separate folder. Other tables, and tables that exist, are not split. Needs POSIX.
	PartitionBy string
	// MergeTo, if not 0, is the size in stored bytes up to which small parts are merged. Needs POSIX, and up to twice the
	// space for an hour. Do not combine it with readers that delete parts, because a part that is deleted while the table switches to its
	// next version comes back.
	MergeTo int64
	// KeepFor, if not 0, is the age at which parts are removed. It counts from the end of their day in a partitioned table, and
	// from their import in others. Rows of a day that has passed its time are removed within an hour after their import. It applies to the
	// tables of defined sinks. Once the sink of a table is gone, its parts stay until [TableDir.Compact] is called or they are deleted.
	KeepFor time.Duration
	// EmptyPart keeps a part without rows in each table that has header lines, _columns-N.csv for N columns, in a partitioned table in the folder
	// dt=1970-01-01. Views in SQL can then be made before the first row is imported.
	EmptyPart bool
	// OnImported, if not nil, is called after the rows of a file are durable and visible, with the paths of their parts. The
	// import counts as failed, and is repeated, until OnImported returns nil. It is called at least once a file, because a crash
	// after it repeats the call, and a part that it had deleted is imported again first. Whoever loads parts elsewhere must
	// therefore record f.ID with the rows, in one transaction.
	OnImported func(ctx context.Context, f *driver.File, parts []string) error
}

// TableDir is a [driver.Target] that keeps each table in a directory. It imports each file exactly once. It is safe for
// concurrent use.
//
// # Reading
//
// Every value is quoted, and NULL is an unquoted empty cell. The header tells which columns a part has. A table that was
// extended has older parts without the new columns, so columns are matched by name. In DuckDB:
//
//	SELECT * FROM read_csv('tables/in.c-web.events/**/*.csv', header = true, all_varchar = true, union_by_name = true,
//	  delim = ',', quote = '"', escape = '"', allow_quoted_nulls = false, hive_partitioning = true)
//
// Without allow_quoted_nulls = false DuckDB takes the empty text for NULL. types = {'id': 'BIGINT', …} instead of all_varchar
// gives a column its type. Without both DuckDB guesses. In sqlite3,
//
//	.mode csv
//	.import tables/in.c-web.events/0197c5a1-….csv events
//	.import --skip 1 tables/in.c-web.events/0197c5a2-….csv events
//
// makes text columns from the header line of the first part, and skips the other header lines. Begin with the newest part, because an older one
// may lack the last columns. This import knows no NULL: NULL and the empty text both become the empty text. The command that
// examples/quickstart prints keeps them apart.
//
// PostgreSQL reads NULL as NULL and "" as the empty text. Name the columns of the part's header line:
//
//	\copy events (id, at, user) FROM 'tables/in.c-web.events/0197c5a1-….csv' (FORMAT csv, HEADER true)
type TableDir struct {
	folder *parts.Tables
	csv    csvFormat
}

var (
	_ driver.Target      = (*TableDir)(nil)
	_ driver.Extender    = (*TableDir)(nil)
	_ driver.Counter     = (*TableDir)(nil)
	_ driver.Taker       = (*TableDir)(nil)
	_ driver.Uncreator   = (*TableDir)(nil)
	_ driver.Compactor   = (*TableDir)(nil)
	_ driver.LocalDriver = (*TableDir)(nil)
	_ driver.Exclusive   = (*TableDir)(nil)
	_ driver.Querier     = (*TableDir)(nil)
	_ driver.Tailer      = (*TableDir)(nil)
)

// Tables returns a target in the directory path, with the default options. The first Ensure or Import creates the directory.
func Tables(path string) *TableDir { return TablesWith(path, TablesOptions{}) }

// TablesWith is [Tables] with options.
func TablesWith(path string, o TablesOptions) *TableDir {
	format := csvFormat{gzip: o.Gzip}
	return &TableDir{csv: format, folder: parts.NewTables(path, format, parts.Options{
		Driver: "table directory", NoHeader: o.NoHeader, PartitionBy: o.PartitionBy, MergeTo: o.MergeTo, KeepFor: o.KeepFor,
		EmptyPart: o.EmptyPart && !o.NoHeader, OnImported: o.OnImported,
	})}
}

// Path returns the directory of a table, whether it exists or not. A part is complete when it has its name, and never
// changes. If parts are merged or split by day, the directory is a link. Resolve it once, for example with
// [filepath.EvalSymlinks], and read the resolved directory within the hour.
func (t *TableDir) Path(table string) string { return t.folder.Path(table) }

// Columns returns the columns of a table. A missing table is an error that matches [fs.ErrNotExist].
func (t *TableDir) Columns(table string) ([]datatype.Column, error) { return t.folder.Columns(table) }

// Ensure implements [driver.Target].
func (t *TableDir) Ensure(ctx context.Context, table driver.Table) error {
	return t.folder.Ensure(ctx, table)
}

// Extend implements [driver.Extender]. New columns are in table.json and in the header of new parts, so readers match the columns
// of parts by name.
func (t *TableDir) Extend(ctx context.Context, table driver.Table) error {
	return t.folder.Extend(ctx, table)
}

// Import implements [driver.Target], exactly once. It checks the form and the number of the rows, so a slice that was cut
// off in staging is found before its rows count as imported. An existing part with another number of rows than f is a
// [driver.Permanent] error, because the id was used for something else, or the part was changed. If the table is split by day, rows whose day
// is neither a date nor a timestamp are refused with a [*driver.RowsError].
func (t *TableDir) Import(ctx context.Context, f *driver.File) error { return t.folder.Import(ctx, f) }

// CountFile implements [driver.Counter]. It counts the rows in the parts and trusts no stored number.
func (t *TableDir) CountFile(ctx context.Context, table driver.Table, fileID string) (int64, error) {
	return t.folder.CountFile(ctx, table, fileID)
}

// TakenAway implements [driver.Taker]. A whole part that is missing from an existing table was taken away, by a reader or by
// TablesOptions.KeepFor. The directory cannot tell by whom, so it does not detect parts that a broken disk loses.
func (t *TableDir) TakenAway(ctx context.Context, table driver.Table, fileID string) (bool, error) {
	return t.folder.TakenAway(ctx, table, fileID)
}

// Compact implements [driver.Compactor]. It merges small parts and removes old ones, as the options say. It is safe during imports and reads, and
// after a crash at any point. A half-done change is not visible and is removed later. While another process compacts the table it does nothing.
// The first call of a process, and one call an hour, does all that there is to do. Other calls do nothing until a quarter of the parts of the
// table can be merged or removed.
func (t *TableDir) Compact(ctx context.Context, table driver.Table) error {
	return t.folder.Compact(ctx, table)
}

// Drop deletes a table with all its rows. A missing table is no error. A later or concurrent import creates it again.
func (t *TableDir) Drop(ctx context.Context, table string) error { return t.folder.Drop(ctx, table) }

// Uncreate implements [driver.Uncreator].
func (t *TableDir) Uncreate(ctx context.Context, table, creation string) error {
	return t.folder.Uncreate(ctx, table, creation)
}

// Alone implements [driver.Exclusive]. Of several processes only one may create a table that is neither split by day nor merged. They do
// everything else concurrently.
func (t *TableDir) Alone(table string) string { return t.folder.Alone(table) }

// Needs implements [driver.LocalDriver].
func (t *TableDir) Needs(stored, raw int64) (folder string, bytes int64) {
	if raw == 0 {
		return t.folder.Root, t.folder.MergeTo // before Compact
	}
	if t.csv.gzip { // slices of another encoding are compressed again, perhaps less
		return t.folder.Root, min(raw, 2*stored)
	}
	return t.folder.Root, raw
}
