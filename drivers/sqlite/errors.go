package sqlite

import (
	"errors"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/forebay/forebay/driver"
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

// refusesRow reports whether an error of an insert is about the values of a row. SQLITE_ERROR comes from a function in an index, a generated
// column or a trigger, for example for malformed JSON.
func refusesRow(err error) bool {
	switch codeOf(err) & 0xff {
	case sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH:
		return true
	}
	return false
}

// refusal returns why a row is refused, without a value, because a column may be secret. The author of a trigger chooses the message of
// RAISE, and a function may quote its arguments. All other texts are SQLite's and contain only names.
func refusal(err error) (code int, message string) {
	code, message = codeOf(err), err.Error()
	switch {
	case code == sqlite3.SQLITE_CONSTRAINT_TRIGGER:
		message = "a trigger refuses the row (its message may have values and is not shown)"
	case code&0xff == sqlite3.SQLITE_ERROR:
		if quote := strings.IndexAny(message, `'"`); quote >= 0 {
			message = message[:quote]
		}
	}
	return code, strings.TrimRight(message, ": ")
}

// noTransaction reports whether COMMIT or ROLLBACK failed because there is no transaction, or BEGIN because there is one. SQLite has no
// separate code for that.
func noTransaction(err error) bool { return codeOf(err)&0xff == sqlite3.SQLITE_ERROR }

// classify marks an error as permanent if the same call fails until an operator changes the database or its file.
func classify(err error) error {
	switch codeOf(err) & 0xff {
	case sqlite3.SQLITE_ERROR, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_CANTOPEN,
		sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_AUTH, sqlite3.SQLITE_NOTADB:
		return driver.Permanent(err)
	}
	return err
}
