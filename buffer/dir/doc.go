// Package dir keeps staging and tables in directories on the local disk. It is the default of both levels and the reference
// for other drivers: files only, exactly once.
//
// # Staging
//
// [Staging] stores each object as one file, <id>.slice, byte for byte.
//
// # Tables
//
// [Tables] stores each table as a directory:
//
//	tables/
//	  in.c-web.events/
//	    table.json                    names, types and NULL of the columns
//	    0197c5a1-….csv                a part: a header line and the rows of one imported file
//	    0197c5a2-….csv
//	  .tmp/                           files in progress; safe to delete while nobody writes
//	  .versions/                      versions of tables whose parts are merged or split by day
//
// A part is named by the id of the imported file, so repeating an import after a crash is a no-op. No second place remembers
// the id, so none can disagree with the rows. The no-op counts the rows of the part: a part with another number of rows is
// an error.
//
// Parts are plain CSV by default, because everything reads it. This costs one pass of decompression, which is cheap beside
// the write. [TablesOptions.Gzip] keeps parts compressed: gzip slices are then copied, at the price of readers that must know
// gzip. A part begins with a line of column names, which in a .csv.gz is a gzip member of its own. Tables of earlier releases have
// no such line: they have version 1 in table.json, stay as they are and cannot grow. [TablesOptions.NoHeader] makes new ones like
// them.
//
// # Reading
//
// Every value is quoted, and NULL is an unquoted empty cell. The header tells which columns a part has: a table that was
// extended has older parts without the new columns, so columns are matched by name. In DuckDB:
//
//	SELECT * FROM read_csv('tables/in.c-web.events/**/*.csv', header = true, all_varchar = true, union_by_name = true,
//	  delim = ',', quote = '"', escape = '"', allow_quoted_nulls = false, hive_partitioning = true)
//
// Without allow_quoted_nulls = false DuckDB takes the empty text for NULL. types = {'id': 'BIGINT', …} instead of all_varchar
// gives a column its type; without both DuckDB guesses. In sqlite3,
//
//	.mode csv
//	.import tables/in.c-web.events/0197c5a1-….csv events
//	.import --skip 1 tables/in.c-web.events/0197c5a2-….csv events
//
// makes text columns from the header line of the first part, and skips the other header lines. Begin with the newest part: an older one
// may lack the last columns. This import knows no NULL: NULL and the empty text both become the empty text. The command that
// examples/quickstart prints keeps them apart.
//
// PostgreSQL reads NULL as NULL and "" as the empty text. Name the columns of the part's header line:
//
//	\copy events (id, at, user) FROM 'tables/in.c-web.events/0197c5a1-….csv' (FORMAT csv, HEADER true)
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
// with rows of other days. A program that wants all folders of days at one depth has to be told to walk the tree.
//
// The directory of a table that is split or merged is a link to its newest version. An import adds to this version, with one rename. Merges
// and the removal of old parts make a new version. A version stays for an hour after it was replaced, or until there are 1,000 newer ones. A
// reader that resolves the link first reads one moment of the table: each imported file is there whole or not at all, each row once.
//
//	dir=$(readlink -f tables/in.c-web.events)     # the parts of this moment: $dir/**/*.csv
//
// A reader that does not resolve the link, and lists all parts before it opens them, may find that a listed part is gone, because a version was
// replaced. Without this error it has each imported row once, and each file whole unless its rows were too old and were removed. A reader that opens
// parts while it still lists folders must resolve the link.
//
// A merged part is named <first>~<last>~<files>.csv after the ids of its files. The hidden .json beside it has all of them, with
// their places in the part, so a repeated import of each is still a no-op, and rows are still counted by file.
//
// Splitting and merging need symbolic links, hard links and flock: POSIX, and a file system that has them. A plain directory
// becomes a link when its parts are first merged, which needs Linux and a file system that can exchange names (ext4, XFS, Btrfs,
// tmpfs); elsewhere the option must be set before the table is created.
//
// A new version links every part of the table, about 10 to 50 µs a part. So [TableDir.Compact] makes one only if it concerns a quarter of the parts,
// or on the first call of a process, or after an hour. The cost of an import depends on its own rows and days, however many parts the table has:
// 10 more days take 79 ms in a table of 1,000 days and 90 ms in a table of one, and make 21 names. See the measurements in docs/internals/performance.md.
//
// # Durability
//
// Before a call returns nil, everything is written to a temporary file, synced, renamed into place, and the directory is
// synced. A crash or a full disk at any point leaves the old state or the new one, and perhaps a file in .tmp. The repeated
// call removes that file, or else a later write when the file is an hour old. Directories have mode 0700, files 0600.
//
// Windows cannot sync a directory: a new name is durable there when the file system says so. Tables can neither be split nor merged
// there. The tests run on Linux; for macOS and Windows the code is vetted and no more.
//
// The folder of a table must be on the same disk as .tmp. To keep tables on another disk, move or link all of them.
//
// Several engines and processes may use one folder of staging, tables or archives at the same time, however they spell its path. All must agree on
// [TablesOptions]. Locks belong to files and folders, so a symbolic link or a bind mount does not matter. On a file system that refuses to lock folders,
// such as NFS, only one process at a time may create a table, unless [TablesOptions.PartitionBy] or [TablesOptions.MergeTo] is set. The engines of such
// processes need Leases, as the nodes of a cluster have: see [TableDir.Alone]. Windows has no such lock either.
package dir
