// Package dir keeps staging and tables in directories of the local disk. It is the default of both levels, and a
// reference for other drivers: nothing but files, and exactly once.
//
// # Staging
//
// [Staging] stores each object as one file, <id>.slice, byte by byte as it was put.
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
//	  .tmp/                           what is being written; safe to delete while nobody writes
//
// A part is named by the id of the imported file, which makes an import repeated after a crash a no-op: there is no
// second place where the id is remembered, and so none that can disagree with the rows. The no-op counts the rows of the
// part: one with another number is not the file, and an error.
//
// Parts are plain CSV by default, because that is what needs the least from whoever reads them: cat, grep, a
// spreadsheet or a query such as
//
//	SELECT * FROM read_csv('tables/in.c-web.events/*.csv', header = false)
//
// and it costs one pass of decompression, which is cheap beside the write. [TablesOptions.Gzip] keeps them
// compressed: gzip slices are then copied as they are, so that nothing is compressed twice, at the price of readers
// that must know gzip.
//
// # Durability
//
// Everything is written aside, synced, renamed into place, and the directory is synced, before a call returns nil. A
// crash or a full disk at any point leaves the old state or the new one, and perhaps a file in .tmp: it is removed when
// the call is repeated, or else when it is an hour old. Directories are made with mode 0700, files with 0600.
//
// The folder of a table must be on the same disk as .tmp. To keep tables on another disk, move or link all of them.
//
// Several processes may import into the same tables; the one that creates a table must be alone in doing so, and all
// must agree on [TablesOptions].
package dir
