// Package mysql stores tables in a database of MySQL or MariaDB. It promises exactly once. The rows of a file and its id are written in one
// transaction, and the primary key of the ids refuses a second import.
//
//	target, err := mysql.Open("mysql://forebay:password@db.example:3306/analytics", mysql.Options{})
//	if err != nil {
//		return err
//	}
//	defer target.Close() // after the engine
//	engine, err := forebay.Open(dir, forebay.Options{Target: target})
//
// Rows are sent by LOAD DATA LOCAL if the server allows it (local_infile), and by INSERT with many rows otherwise. An import takes one
// transaction, which stores the id, locks the columns, stores the rows and commits. When the connection breaks during the commit, the outcome is
// unknown. The next attempt waits for the transaction, and finds the id or imports. The server ends the connection of a client that hangs for two
// minutes.
//
// # Tables
//
// Table.ID is the name of the table in the database, with its case. Names have at most 64 characters. Ensure creates missing tables, of the
// engine InnoDB:
//
//	data type       column                            accepted in an existing table too
//	untyped         MEDIUMTEXT                        VARCHAR(n), TINYTEXT, TEXT, MEDIUMTEXT, LONGTEXT
//	string          LONGTEXT                          the same
//	bool            TINYINT(1)
//	int64           BIGINT                            DECIMAL(p,s) with at least 19 digits before the point
//	float64         DOUBLE
//	decimal(p,s)    DECIMAL(p,s)                      DECIMAL with more digits before the point
//	timestamp       DATETIME(6), in UTC
//	date            DATE
//	uuid            UUID; in MySQL CHAR(36) of ASCII  CHAR(36), BINARY(16)
//	json            JSON; in MySQL LONGTEXT with      JSON
//	                CHECK (json_valid(…))
//	bytes           LONGBLOB                          VARBINARY(n), TINYBLOB, BLOB, MEDIUMBLOB
//
// A text or bytes in Options.Keys is VARCHAR(255) or VARBINARY(255). Texts of new tables are UTF-8 and are compared byte by byte. An existing table
// may have more columns if the database fills them, by a default, AUTO_INCREMENT or a generated column. It must be of the engine InnoDB.
//
// Cells are stored without a change, with two exceptions: -0 becomes 0, and a column of the type JSON in MySQL changes documents. Records with
// text that is not UTF-8, with NaN or an infinity, with a JSON document of more than 31 levels or with a value above 16 MiB are rejected when
// they arrive. The type UUID of MariaDB refuses some values of the versions 8 to f. CHAR(36) accepts them.
//
// The table _forebay_imports in the same database contains the ids of the imported files. Restore it together with the tables, from one backup.
//
// # Errors
//
// Rows that the server refuses are named in a [driver.RowsError]. The buffer then imports the file without them, see [driver.Voider]. A foreign
// key without its parent, and a trigger that raises an error, hold the file. Messages contain no values of cells and no password.
package mysql
