package sqlite

import (
	"errors"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/forebay/forebay/buffer"
)

// codeOf returns the result code of SQLite, with its extension, or 0.
func codeOf(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code()
	}
	return 0
}

func isBusy(err error) bool {
	code := codeOf(err) & 0xff
	return code == sqlite3.SQLITE_BUSY || code == sqlite3.SQLITE_LOCKED
}

// refusesRow reports whether an error of an insert is about the values of a row. SQLITE_ERROR is one of a function in an index,
// a generated column or a trigger, for example malformed JSON.
func refusesRow(err error) bool {
	switch codeOf(err) & 0xff {
	case sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH:
		return true
	}
	return false
}

// noTransaction reports whether COMMIT, ROLLBACK or BEGIN failed because there is no transaction, or one already. SQLite has no code
// for it.
func noTransaction(err error) bool { return codeOf(err)&0xff == sqlite3.SQLITE_ERROR }

// classify marks an error as permanent if the same call fails until somebody changes the database or its file.
func classify(err error) error {
	switch codeOf(err) & 0xff {
	case sqlite3.SQLITE_ERROR, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_CANTOPEN,
		sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_AUTH, sqlite3.SQLITE_NOTADB:
		return buffer.Permanent(err)
	}
	return err
}
