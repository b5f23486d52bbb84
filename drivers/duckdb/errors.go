package duckdb

import (
	"errors"
	"fmt"
	"strings"

	"github.com/duckdb/duckdb-go/v2/mapping"

	"github.com/forebay/forebay/driver"
)

// ErrLocked is returned by [Open] while another process has the database open. Wait for its end and open again.
var ErrLocked = errors.New("another process has the database open, and DuckDB lets only one open a file: end that one, or choose another file")

// openError returns the error for a message of a failed opening, which has no code.
func openError(message string) error {
	if strings.Contains(message, "Could not set lock on file") {
		return fmt.Errorf("%w: %s", ErrLocked, message)
	}
	return errors.New(message)
}

// sqlError is an error of DuckDB.
type sqlError struct {
	kind mapping.ErrorType
	text string
}

func (e *sqlError) Error() string { return e.text }

// kindOf returns the kind of an error of DuckDB, ErrorTypeInvalid for others.
func kindOf(err error) mapping.ErrorType {
	var e *sqlError
	if errors.As(err, &e) {
		return e.kind
	}
	return mapping.ErrorTypeInvalid
}

// lateError is an error of COMMIT, or of the insertion of an id that another transaction has recorded since this one began.
type lateError struct{ error }

func (e *lateError) Unwrap() error { return e.error }

// conflicts reports whether another transaction was faster, so that a new attempt sees its changes.
func conflicts(err error) bool {
	switch kindOf(err) {
	case mapping.ErrorTypeTransaction:
		return true
	case mapping.ErrorTypeConstraint:
		return errors.As(err, new(*lateError))
	}
	return false
}

// classify marks an error as permanent if the same call fails until an operator changes the database or its file.
func classify(err error) error {
	if conflicts(err) {
		return err
	}
	switch kindOf(err) {
	case mapping.ErrorTypeCatalog, mapping.ErrorTypeBinder, mapping.ErrorTypeParser, mapping.ErrorTypeSyntax, mapping.ErrorTypePermission,
		mapping.ErrorTypeDependency, mapping.ErrorTypeNotImplemented, mapping.ErrorTypeConstraint, mapping.ErrorTypeInvalidInput,
		mapping.ErrorTypeConversion, mapping.ErrorTypeMismatchType, mapping.ErrorTypeMissingExtension:
		return driver.Permanent(err)
	}
	return err
}

// refusesRow reports whether an error of an append is about the values of a row.
func refusesRow(err error) bool {
	switch kindOf(err) {
	case mapping.ErrorTypeConstraint, mapping.ErrorTypeConversion, mapping.ErrorTypeOutOfRange:
		return true
	}
	return false
}

// withoutValues cuts a message before the key that it quotes.
func withoutValues(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	text, _, _ = strings.Cut(text, `"`)
	return strings.TrimSpace(text)
}

// wrap adds the subject of a call to its error.
func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("duckdb: %s: %w", fmt.Sprintf(format, args...), err)
}
