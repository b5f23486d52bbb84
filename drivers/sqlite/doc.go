// Package sqlite imports rows into the tables of a SQLite database, exactly once. It is pure Go (modernc.org/sqlite).
//
//	target, err := sqlite.Open("events.db", sqlite.Options{})
//	if err != nil {
//		return err
//	}
//	defer target.Close() // after the engine
//	engine, err := forebay.Open(dir, forebay.Options{Target: target})
//
// # Exactly once
//
// The rows of a file and its id are one transaction (BEGIN IMMEDIATE, write-ahead log, synchronous = FULL), which begins with the id.
// A second import of the id, by whatever process, waits for the first one and then finds it. When Import returns nil the rows are on
// disk and visible. Rows can be doubled if a user deletes ids from _forebay_imports, or restores the tables of a database without it.
// A backup of the whole file is consistent.
//
// # Types
//
// Tables are STRICT, and a column that never has NULL is NOT NULL.
//
//	type                           in SQLite
//	untyped, string, json, uuid    TEXT as it is, any bytes
//	bool                           INTEGER 0 or 1
//	int64                          INTEGER
//	float64                        REAL; a record with NaN is rejected, because SQLite stores it as NULL; -0 becomes 0
//	decimal(p,s)                   TEXT, exact; cast it to compare numbers
//	timestamp                      TEXT 2026-11-22T07:47:19.000001Z: sorts by time, and date functions read it
//	date                           TEXT 2026-11-22
//	bytes                          BLOB
//
// # Refused rows
//
// All rows that a constraint, a trigger or a function in an index refuses are named in one [driver.RowsError], with the result code of SQLite. A
// sink with a quarantine gets the file without them, see [driver.Voider].
//
// # Limits
//
// SQLite has one writer at a time. Imports into one file take turns, even from several engines. Names are compared without case, so
// a table cannot differ from another table in case only. Network file systems break the write-ahead log.
package sqlite
