// Package iceberg appends rows to Apache Iceberg tables, exactly once, through apache/iceberg-go.
//
//	target, err := iceberg.Open("lake", iceberg.Options{PartitionBy: "at"})
//	if err != nil {
//		return err
//	}
//	defer target.Close() // after the engine
//	engine, err := forebay.Open(dir, forebay.Options{Target: target})
//
// [Open] keeps catalog, metadata and Parquet files in one folder. A SQLite database is the catalog. [New] takes every other catalog of
// iceberg-go, such as REST.
//
// # Exactly once
//
// The id of a file is written in the commit that appends its rows, in a property of the table:
//
//	forebay.imported.<engine>    the last commit, how many ids were dropped, and the newest 500 ids with their rows
//
// Expiry of snapshots and compaction keep properties. A commit replaces one version of the table by the next one, so an attempt that
// read the version before another attempt's commit fails, reads again, and finds the id. After a lost response the driver looks for the id in
// the same way before it commits anything else. The retries of iceberg-go are turned off, because they commit the same data files again.
// The files of an attempt have unique names, which no other attempt overwrites. Files that may have been committed are never deleted.
//
// When Import returns nil the rows are visible. On a local disk they are durable, because every data file, manifest and metadata file is
// synced, with its folder, before the catalog refers to it.
//
// # Merging
//
// [Target.Compact] replaces small data files by one file with the same rows. A reader of an older snapshot reads the same rows until the
// snapshot expires. Old data files of killed processes are removed. The comments of merge.go and orphans.go have the contract.
//
// # Types
//
//	type                     in Iceberg
//	untyped, string, json    string, UTF-8 only; the column's comment tells them apart
//	bool                     boolean
//	int64                    long
//	float64                  double
//	decimal(p,s)             decimal(p,s)
//	timestamp                timestamptz, microseconds
//	date                     date
//	uuid                     uuid
//	bytes                    binary
//
// # Cost
//
// A commit writes four small files and syncs them, 10 to 60 ms on a local disk. Files that wait while another commit runs are committed
// together. docs/drivers/iceberg.md has tuning and failures.
package iceberg
