// Package parquet keeps tables in folders of Parquet files, each row exactly once. The files are typed, compressed, split by day,
// and merged in the background.
//
//	target, err := parquet.Tables("lake", parquet.Options{PartitionBy: "at"})
//	if err != nil {
//		return err
//	}
//	engine, err := forebay.Open(dir, forebay.Options{Target: target})
//
// A table is a folder:
//
//	lake/
//	  in.c-web.events                 a link to the newest version
//	    dt=2026-11-22/
//	      0197c5a1-….1000.parquet     a part: the rows of one imported file and one day
//	    imports/0197c5a2-…/           a file with rows of several days, in folders dt=DAY
//	  .versions/                      versions of the table, which share parts by hard links
//	  .tmp/                           files in progress, without the name of a part
//
// DuckDB reads a table with one glob, a day without the others:
//
//	SELECT * FROM read_parquet('lake/in.c-web.events/**/*.parquet', union_by_name = true, hive_partitioning = true) WHERE dt = '2026-11-22'
//
// Each part has the columns that its table had at its import. Without union_by_name DuckDB takes the columns of the first part and hides
// newer ones.
//
// Folders, names, versions, durability and the limits of reading during merges are as in package buffer/dir. docs/drivers/parquet.md has
// types, tuning and failures.
package parquet
