// Package dir keeps staging and tables in directories on the local disk. It is the default of both levels and the reference
// for other drivers, with files only, exactly once.
//
//	tables := dir.TablesWith("tables", dir.TablesOptions{PartitionBy: "at"})
//	engine, err := forebay.Open("data", forebay.Options{Target: tables, Staging: dir.Staging("staging")})
//
// # Staging
//
// [Staging] stores each object as one file, <id>.slice, byte for byte.
//
// # Tables
//
// [Tables] stores each table as a directory. [TableDir] describes how programs read it, and [TablesOptions] days, merging and retention.
//
//	tables/
//	  in.c-web.events/
//	    table.json                    names, types and NULL of the columns
//	    0197c5a1-….csv                a part: a header line and the rows of one imported file
//	    0197c5a2-….csv
//	  .tmp/                           files in progress; safe to delete while no program writes
//	  .versions/                      versions of tables whose parts are merged or split by day
//
// A part is named by the id of the imported file, so repeating an import after a crash is a no-op. No second place remembers
// the id, so none can disagree with the rows. The no-op counts the rows of the part. A part with another number of rows is
// an error.
//
// Parts are plain CSV by default, because everything reads it. This costs one pass of decompression, which is cheap compared with
// the write. [TablesOptions.Gzip] keeps parts compressed. Gzip slices are then copied, at the price of readers that must know
// gzip. A part begins with a line of column names, which in a .csv.gz is a separate gzip member. Tables of earlier releases have
// no such line. They have version 1 in table.json, stay as they are and cannot grow. [TablesOptions.NoHeader] makes new ones like
// them.
//
// # Durability
//
// Before a call returns nil, everything is written to a temporary file, synced, renamed into place, and the directory is
// synced. A crash or a full disk at any point leaves the old state or the new one, and perhaps a file in .tmp. The repeated
// call removes that file, or else a later write when the file is an hour old. Directories have mode 0700, files 0600.
//
// Windows cannot sync a directory. A new name is durable there when the file system says so. Tables can neither be split nor merged
// there. The tests run on Linux. For macOS and Windows the code is only vetted.
//
// The folder of a table must be on the same disk as .tmp. To keep tables on another disk, move or link all of them.
//
// Several engines and processes may use one folder of staging, tables or archives at the same time, however they spell its path. All must agree on
// [TablesOptions]. Locks belong to files and folders, so a symbolic link or a bind mount does not matter. On a file system that refuses to lock folders,
// such as NFS, only one process at a time may create a table, unless [TablesOptions.PartitionBy] or [TablesOptions.MergeTo] is set. The engines of such
// processes need Leases, as the nodes of a cluster have. See [TableDir.Alone]. Windows has no such lock either.
package dir
