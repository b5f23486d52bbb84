// Package clickhouse stores tables in ClickHouse, over its HTTP interface. It stores each row exactly once. A token makes the server ignore a block
// that it already has, and each row contains the id of its file, which a retry looks for.
//
//	target, err := clickhouse.Open("clickhouse://forebay:password@db.example:8123/analytics", clickhouse.Options{})
//	if err != nil {
//		return err
//	}
//	defer target.Close() // after the engine
//	engine, err := forebay.Open(dir, forebay.Options{Target: target})
//
// Slices of staging that are compressed alike are sent as they are. The driver does not decode them. The server parses the rows, and the driver
// reads only the response.
//
// # Exactly once
//
// Import sends a file as one INSERT, or several if it is larger than Options.BlockBytes. Each INSERT is one block, and the server stores a block as one
// part for each partition. The INSERT fails if the block does not have the expected number of rows. Its token contains the id of the file, so
// the server ignores a repeated block within its deduplication window. Each row has the id in the column _forebay_file. A repeated attempt looks
// for the id and sends only the missing rows, and so does an engine that was restored from a checkpoint. So a retry after the end of the window stores
// nothing twice.
//
// Readers see the blocks of a large file, and the partitions of a block, one after the other.
//
// # Tables
//
// Table.ID is the name of the table in the database, with its case. Ensure creates missing tables:
//
//	data type       column                     accepted in an existing table too
//	untyped         String                     LowCardinality(String)
//	string          String                     LowCardinality(String)
//	bool            Bool
//	int64           Int64                      Decimal(p, 0) with at least 19 digits
//	float64         Float64
//	decimal(p,s)    Decimal(p, s)              Decimal of more digits with the same scale
//	timestamp       DateTime64(6, 'UTC')       DateTime64(6) of other time zones
//	date            Date32
//	uuid            UUID
//	json            String                     JSON
//	bytes           String, with the bytes themselves
//
// A column that may be NULL is Nullable. Comments of columns tell the types that are stored as String apart. A String without such a comment can hold each
// of these types.
//
// Records with a timestamp or a date before 1900 or after 2299 are rejected when they arrive.
//
// # Errors
//
// A [driver.RowsError] names rows that violate a constraint. The buffer then imports the file without them, see [driver.Voider]. Messages
// contain no values of cells and no password.
package clickhouse
