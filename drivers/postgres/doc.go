// Package postgres stores tables in a PostgreSQL database. It promises exactly once. The rows of a file and its id are written in one
// transaction, and the primary key of the ids refuses a second import.
//
//	target, err := postgres.Open("postgres://forebay@db.example/analytics", postgres.Options{})
//	if err != nil {
//		return err
//	}
//	defer target.Close() // after the engine
//	engine, err := forebay.Open(dir, forebay.Options{Target: target})
//
// Rows are sent by COPY in binary form. An import takes one transaction, which stores the id, locks the types of the columns, stores the rows
// and commits. When the connection breaks during the commit, the outcome is unknown. The next attempt waits for the transaction, and finds
// the id or imports. A client that hangs keeps its locks for two minutes and a second for each 256 KiB of its file. Then the next attempt
// that waits for them ends its connection, if both log in as the same user.
//
// # Tables
//
// Table.ID is the name of the table in Options.Schema, with its case: "web.events" is one name, quoted in SQL. Names have at most 63
// bytes. Ensure creates missing tables:
//
//	data type       column            accepted in an existing table too
//	untyped         varchar
//	string          text              varchar(n), enums, inet, types of extensions that read text
//	bool            bool
//	int64           bigint            numeric, numeric(p,s) with at least 19 digits before the point
//	float64         double precision
//	decimal(p,s)    numeric(p,s)      numeric, numeric with more digits before the point
//	timestamp       timestamptz
//	date            date
//	uuid            uuid
//	json            json              jsonb; new with Options.JSONB
//	bytes           bytea
//
// A domain is taken for the type that it is made of. An existing table may have more columns if the database fills them, by a default, an
// identity or a generated column. It may be partitioned if another program makes the partitions. Cells are stored unchanged, except
// in jsonb. PostgreSQL stores neither NUL nor text that is not UTF-8, and no json with more than 6,000 levels. Such records are rejected
// when they arrive. So are numbers beyond numeric with Options.JSONB. A database with an encoding other than UTF-8 also refuses rows with characters
// that its encoding lacks.
//
// The table _forebay_imports in the same schema has the ids of the imported files. Restore it together with the tables, from one backup.
//
// # Errors
//
// The first row that the database refuses is named in a [driver.RowsError], if the database names it. In a COPY it does. The buffer then
// imports the file without that row, see [driver.Voider]. A foreign key without its parent, and a trigger's error without a row, hold the
// file. Values of cells are left out of messages. A connection error names user, host and database, never the password.
package postgres
