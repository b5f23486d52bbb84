package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/textcut"
)

// Codes of errors of ClickHouse.
const (
	noSuchColumn     = 16
	badArguments     = 36
	typeMismatch     = 53
	unknownTable     = 60
	unknownSetting   = 115
	replicaReadOnly  = 242
	incorrectData    = 117
	cannotInsertNull = 349
	readOnly         = 164
	throwIf          = 395
	violated         = 469
	accessDenied     = 497
	tableNotEmpty    = 705
)

// held are the codes of errors that an operator must fix, in the statement or the schema, the account and its rights, or the database.
var held = []int{
	noSuchColumn, badArguments, 42, 43, 44, 46, 47, 48, 50, unknownTable, 62, 80, 81, unknownSetting, 122, 131, readOnly, 192, 193, 194, 291, 344, 392, 450, accessDenied, 514, 516, 524,
	534,
}

// refusals are the codes of refused values, unless the parser of the rows has raised them.
var refusals = []int{6, 26, 27, 38, 41, typeMismatch, 69, 70, 72, incorrectData, 321, cannotInsertNull, 376, 407, 441, 467}

// quiet are the codes whose messages contain no values of cells.
var quiet = append(slices.Clone(held), 159, 202, 209, 210, 225, 241, replicaReadOnly, 243, 252, 254, 285, 286, 319, 354, 394, 425, 439, 999)

// serverError is an unsuccessful response.
type serverError struct {
	// Status is the status of HTTP. Code is the code of ClickHouse, or 0 if there is none.
	Status, Code int
	text         string // may contain values of cells
	rows         bool   // the statement had rows
}

var (
	nameOf  = regexp.MustCompile(`\(([A-Z][A-Z0-9_]{3,})\)`)
	anyCode = regexp.MustCompile(`^Code: (\d+)\.`)
	atRow   = regexp.MustCompile(`\(at row (\d+)\)`)
	broken  = regexp.MustCompile("^Code: 469\\. DB::Exception: Constraint `((?:[^`\\\\]|\\\\.)+)`.* is violated at row (\\d+)\\.")
	// exception matches an error message between the rows of a response.
	exception = regexp.MustCompile(`(?m)^Code: \d+\. DB::Exception: `)
	throwing  = regexp.MustCompile(`^Code: 395\. DB::Exception: (forebay: [a-z ]+)`)
)

func codeOf(text string) int {
	if m := anyCode.FindStringSubmatch(text); m != nil {
		n, _ := strconv.Atoi(m[1])
		return n
	}
	return 0
}

// Error returns a message without values of cells.
func (e *serverError) Error() string {
	if e.Code == 0 {
		return fmt.Sprintf("the server returns %d %s", e.Status, http.StatusText(e.Status))
	}
	s := fmt.Sprintf("code %d", e.Code)
	if names := nameOf.FindAllStringSubmatch(e.text, -1); names != nil {
		s += " " + names[len(names)-1][1]
	}
	if e.Code == throwIf {
		if m := throwing.FindStringSubmatch(e.text); m != nil {
			return m[1]
		}
	}
	if m := atRow.FindStringSubmatch(e.text); m != nil {
		return s + " at row " + m[1] + " of a block"
	}
	if slices.Contains(quiet, e.Code) && !(e.rows && e.Code == badArguments) { // an expression of the table or a view may have cells as arguments
		message := anyCode.ReplaceAllString(e.text, "")
		message, _, _ = strings.Cut(strings.TrimPrefix(message, " DB::Exception: "), "\n")
		s += ": " + strings.ToValidUTF8(textcut.Short(message, 400), "\ufffd")
	}
	return s
}

// code returns the code of an error of the server, or 0 for other errors.
func code(err error) int {
	if e, ok := errors.AsType[*serverError](err); ok {
		return e.Code
	}
	return 0
}

// Texts of errors that statements of the driver raise.
const (
	saysVoid = "forebay: the file is ruled out"
	saysRows = "forebay: a block has an unexpected number of rows"
)

// raised reports whether a statement of the driver has raised this error.
func raised(err error, says string) bool {
	e, ok := errors.AsType[*serverError](err)
	return ok && e.Code == throwIf && strings.Contains(e.text, says)
}

// classify decides whether an error is permanent, refuses rows or is retried.
func classify(err error) error {
	if err == nil || driver.IsPermanent(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	wrapped := fmt.Errorf("clickhouse: %w", err)
	e, ok := errors.AsType[*serverError](err)
	switch {
	case !ok:
		return wrapped
	case slices.Contains(held, e.Code):
		return driver.Permanent(wrapped)
	case e.Code == 0 && (e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden || e.Status == http.StatusNotFound):
		return driver.Permanent(wrapped)
	}
	return wrapped
}

// refusedRows returns the error about the rows of a block that begins with row first of a file. It returns nil if the error is not about rows.
func refusedRows(err error, first int64) error {
	e, ok := errors.AsType[*serverError](err)
	if !ok {
		return nil
	}
	row := driver.RowError{Row: -1, Reason: strconv.Itoa(e.Code), Message: e.Error()}
	switch {
	case e.Code == violated:
		if m := broken.FindStringSubmatch(e.text); m != nil {
			n, _ := strconv.ParseInt(m[2], 10, 64)
			row.Row, row.Message = first+n-1, "violates the constraint "+m[1]
		}
	case atRow.MatchString(e.text) || !slices.Contains(refusals, e.Code):
		return nil // the parser reads the types that the driver has declared, so staging is damaged
	}
	refused := &driver.RowsError{Err: err}
	refused.Add(row)
	return refused
}
