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
//	    table.json                    the columns
//	    0197c5a1-….csv                one imported file: its rows, without a header
//	    0197c5a2-….csv
//	  .tmp/                           files in progress; safe to delete while nobody writes
//
// A part is named by the id of the imported file, so repeating an import after a crash is a no-op. No second place remembers
// the id, so none can disagree with the rows. The no-op counts the rows of the part: a part with another number of rows is
// an error.
//
// Parts are plain CSV by default, because everything reads it: cat, grep, a spreadsheet or a query such as
//
//	SELECT * FROM read_csv('tables/in.c-web.events/*.csv', header = false)
//
// This costs one pass of decompression, which is cheap beside the write. [TablesOptions.Gzip] keeps parts compressed: gzip
// slices are then copied, at the price of readers that must know gzip.
//
// # Durability
//
// Before a call returns nil, everything is written to a temporary file, synced, renamed into place, and the directory is
// synced. A crash or a full disk at any point leaves the old state or the new one, and perhaps a file in .tmp. The repeated
// call removes that file, or else a later write when the file is an hour old. Directories have mode 0700, files 0600.
//
// The folder of a table must be on the same disk as .tmp. To keep tables on another disk, move or link all of them.
//
// Several processes may import into the same tables. Only one of them may create a table, and all must agree on
// [TablesOptions].
package dir
