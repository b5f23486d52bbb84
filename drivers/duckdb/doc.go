// Package duckdb stores tables in a DuckDB database, exactly once. It needs cgo and a C compiler.
//
//	target, err := duckdb.Open("events.duckdb", duckdb.Options{})
//	if err != nil {
//		return err
//	}
//	defer target.Close() // after the engine
//	engine, err := forebay.Open(dir, forebay.Options{Target: target})
//
// # Exactly once
//
// The rows of a file and its id are one transaction, and the primary key of the ids refuses a second one. Of two imports of an id that
// run concurrently only one commits. DuckDB syncs its log before a commit returns. When Import returns nil the rows are on disk and
// visible. Rows can be doubled if a user deletes ids from _forebay_imports, or restores tables without it. A copy of the whole database is
// consistent.
//
// # One process
//
// DuckDB lets one process open a database file. Other processes cannot even read it, and its [Open] fails with [ErrLocked]. Queries run in
// the process of the engine, through [Target.DB]. Several engines of one process may share a Target.
//
// With Options.Shared the file is open during calls only, and several processes of one machine import in turn if their engines have Leases, as the
// nodes of a cluster do. Queries then go through [Target.Use].
//
// # Types
//
//	type                 in DuckDB
//	untyped, string      VARCHAR; a record with bytes that are not UTF-8 is rejected
//	bool                 BOOLEAN
//	int64                BIGINT
//	float64              DOUBLE
//	decimal(p,s)         DECIMAL(p,s)
//	timestamp            TIMESTAMP WITH TIME ZONE
//	date                 DATE
//	uuid                 UUID
//	json                 JSON, as it came
//	bytes                BLOB
//
// A column that never has NULL is NOT NULL. Names are compared without case, so a table cannot differ from another table in case only.
//
// # Cost
//
// Rows are written into DuckDB's own vectors, without SQL and without a C call for each cell. Few large imports cost less than many small
// ones, because each import is a commit with a sync, and DuckDB compresses 122,880 rows at once.
//
// # Failures
//
//	a conflict with another transaction       tried again at once, then by the engine
//	the commit fails                          unknown: the database is opened again, then the next attempt finds the id, or imports
//	the disk is full, or memory runs out      the database is closed without a checkpoint and opened again; concurrent imports
//	                                          end with an error, and the engine repeats them
//	a row breaks a constraint                 driver.RowsError with the first such row; nothing is stored. A sink with
//	                                          a quarantine gets the file without it, see driver.Voider
//	columns differ                            driver.SchemaError
//	the file is deleted, moved or replaced    nothing is written until the file is back or the program starts again
package duckdb
