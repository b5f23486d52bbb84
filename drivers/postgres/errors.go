package postgres

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/forebay/forebay/driver"
)

// SQLSTATE codes that need more than their class.
const (
	foreignKeyViolation   = "23503"
	checkViolation        = "23514"
	insufficientPrivilege = "42501"
	undefinedTable        = "42P01"
	lockNotAvailable      = "55P03"
	tooDeep               = "54001" // a document with too many levels for max_stack_depth
	syntaxError           = "42601" // in a value of ltree or of newer versions of hstore, because the driver's own statements have none
	internalError         = "XX000" // in a value, if COPY names its column, as for hstore up to PostgreSQL 15
)

// foreignKeyPatience is how long a file with a row that breaks a foreign key is tried again, before the row leaves it.
const foreignKeyPatience = 10 * time.Minute

// aboutRows marks the error of a statement that stores rows, or of COMMIT, which checks deferred constraints. Only such an error may refuse a row,
// because class 22 of another statement is about its arguments.
type aboutRows struct{ error }

func (e *aboutRows) Unwrap() error { return e.error }

// ofRows marks an error.
func ofRows(err error) error {
	if err == nil {
		return nil
	}
	return &aboutRows{err}
}

// classify says what becomes of an error of the server. Only SQLSTATE decides, because texts are translated, and a time-out names a line too.
func classify(err error) error {
	var pg *pgconn.PgError
	if err == nil || !errors.As(err, &pg) || driver.IsPermanent(err) {
		return wrap(err)
	}
	_, rows := errors.AsType[*aboutRows](err)
	switch {
	case missingPartition(pg):
		return driver.Permanent(fmt.Errorf("postgres: no partition takes a row: create it, or a default partition: %w", withoutValues(pg)))
	case rows && refusesRow(pg):
		return refusedRow(pg, -1, pg.ColumnName)
	case refusesRow(pg):
		return driver.Permanent(fmt.Errorf("postgres: %w", withoutValues(pg)))
	case pg.Code == lockNotAvailable:
		return wrap(err)
	case raised(pg):
		err = withoutValues(pg)
	}
	switch pg.Code[:min(2, len(pg.Code))] {
	case "0A", "21", "28", "3D", "3F", "42", "44", "54", "55", "P0": // the schema, a right, a trigger. An operator must change it
		return driver.Permanent(wrap(err))
	}
	return wrap(err)
}

func wrap(err error) error {
	var rows *driver.RowsError
	if err == nil || errors.As(err, &rows) {
		return err
	}
	return fmt.Errorf("postgres: %w", err)
}

// refusesRow reports whether the error is about the values of a row.
func refusesRow(e *pgconn.PgError) bool {
	return strings.HasPrefix(e.Code, "P0") && raised(e) || strings.HasPrefix(e.Code, "22") || strings.HasPrefix(e.Code, "23") && !missingPartition(e) || e.Code == "54000" || e.Code == tooDeep || e.Code == syntaxError
}

// missingPartition reports whether no partition takes the row. A check refuses rows with the same code, but its error names the constraint, and
// the error of a domain also the type.
func missingPartition(e *pgconn.PgError) bool {
	return e.Code == checkViolation && e.ConstraintName == "" && e.DataTypeName == "" && e.TableName != ""
}

// raised reports whether the message comes from a function in a procedural language. Its author may have put values of a row into it.
func raised(e *pgconn.PgError) bool {
	for _, language := range []string{"pl_exec.", "plpy_", "plperl.", "pltcl.", "plv8"} { // files of the server's source
		if strings.HasPrefix(e.File, language) {
			return true
		}
	}
	return false
}

// withoutValues returns the error without the parts that may repeat values of a row.
func withoutValues(e *pgconn.PgError) *pgconn.PgError {
	return &pgconn.PgError{
		Severity: e.Severity, SeverityUnlocalized: e.SeverityUnlocalized, Code: e.Code, Message: message(e),
		SchemaName: e.SchemaName, TableName: e.TableName, ColumnName: e.ColumnName, DataTypeName: e.DataTypeName, ConstraintName: e.ConstraintName,
	}
}

// message returns the message of an error about a row, without values. Messages of class 23 name constraints. Others quote the value, with the
// quotes of the server's language, and are cut before it. The message of a function is replaced by the name of the function.
func message(e *pgconn.PgError) string {
	if raised(e) {
		where := "a function"
		if strings.HasPrefix(e.File, "pl_exec.") { // PL/pgSQL function check_total() line 3 at RAISE
			where, _, _ = strings.Cut(e.Where, "\n")
		}
		return "raised by " + where + "; the log of the server has the message"
	}
	if strings.HasPrefix(e.Code, "23") || e.Code == "54000" {
		return e.Message
	}
	before := e.Message
	if i := strings.IndexAny(before, `"«»„“”‘’「『`); i >= 0 {
		before = before[:i]
	}
	return strings.TrimRight(before, ":\u00a0 ")
}

// rowError says which row of a COPY the server refuses. It returns nil if err is not about a row, or the row is unknown.
func rowError(err error, relation string) *driver.RowsError {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return nil
	}
	row, column, ok := copyPlace(pg.Where, relation)
	if !ok || !refusesRow(pg) && !(pg.Code == internalError && column != "") {
		return nil
	}
	return refusedRow(pg, row, cmp.Or(pg.ColumnName, column))
}

// refusedRow returns the error about a row. A trigger can say anything, and the parent of a foreign key may arrive later.
func refusedRow(pg *pgconn.PgError, row int64, column string) *driver.RowsError {
	refused := &driver.RowsError{Err: withoutValues(pg), Unsure: raised(pg)}
	if pg.Code == foreignKeyViolation {
		refused.Patience = foreignKeyPatience
	}
	refused.Add(driver.RowError{Row: row, Column: column, Reason: pg.Code, Message: message(pg)})
	return refused
}

// copyPlace reads the place that the context of an error names, the row, from 0, and the column, if there is one. Lines before it may name
// functions of triggers. The form and the words depend on the language of the server:
//
//	COPY events, line 3, column total: "…"
//	eventsのCOPY、行 3、列 total: "…"
//	events 복사, 3번째 줄, total 열: "…"
func copyPlace(where, relation string) (row int64, column string, ok bool) {
	for _, begin := range []string{"COPY " + relation + ", ", relation + "のCOPY、", relation + " 복사, "} {
		_, place, found := strings.Cut(where, begin)
		if !found {
			continue
		}
		place, _, _ = strings.Cut(place, "\n")
		digit := strings.IndexAny(place, "0123456789")
		if digit < 0 || strings.ContainsAny(place[:digit], ",:、") {
			return 0, "", false
		}
		place = place[digit:]
		number := place[:len(place)-len(strings.TrimLeft(place, "0123456789"))]
		row, err := strconv.ParseInt(number, 10, 64) // counts from 1
		if err != nil || row < 1 {
			return 0, "", false
		}
		place = place[len(number):]
		if end := strings.IndexAny(place, ",:、"); end >= 0 && place[end] != ':' {
			column = columnIn(strings.TrimLeft(place[end:], ",、 "))
		}
		return row - 1, column, true
	}
	return 0, "", false
}

// columnIn returns the name after the word for a column, or before the Korean word. It cuts off the value, which the text form of COPY adds.
func columnIn(place string) string {
	for _, quote := range []string{`: "`, ": »", " : «", "\u00a0: «", ": «"} {
		place, _, _ = strings.Cut(place, quote)
	}
	if name, korean := strings.CutSuffix(place, " 열"); korean {
		return name
	}
	_, name, _ := strings.Cut(place, " ")
	return name
}
