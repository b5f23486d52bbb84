package mysql

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/forebay/forebay/driver"
)

// Error numbers of MySQL and MariaDB that need more than their SQLSTATE.
const (
	columnCannotBeNull    = 1048
	dupColumn             = 1060
	dupEntry              = 1062
	rowTooLarge           = 1118
	noSuchTable           = 1146
	commandNotAllowed     = 1148 // LOAD DATA LOCAL, in MariaDB and MySQL 5.7
	packetTooLarge        = 1153
	tooManyUserConns      = 1203
	lockWaitTimeout       = 1205
	deadlock              = 1213
	noReferencedRow       = 1216
	userLimitReached      = 1226
	outOfRange            = 1264
	dataTruncated         = 1265
	incorrectValue        = 1292
	noDefault             = 1364
	incorrectStringValue  = 1366
	dataTooLong           = 1406
	noReferencedRow2      = 1452
	noPartition           = 1526
	signal                = 1644
	statementBinlog       = 1665 // READ COMMITTED with binlog_format=STATEMENT
	generatedColumn       = 1906 // MariaDB
	generatedColumn2      = 3105 // MySQL
	invalidJSON           = 3140
	needsPrimaryKey       = 3750
	checkViolation        = 3819 // MySQL
	localInfileDisabled   = 3948 // MySQL 8
	checkViolationMariaDB = 4025
)

// foreignKeyPatience is how long a file with a row that breaks a foreign key is tried again before the row leaves it.
const foreignKeyPatience = 10 * time.Minute

// number returns the number of an error of the server, 0 if it is none.
func number(err error) uint16 {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return e.Number
	}
	return 0
}

func state(e *mysql.MySQLError) string { return string(e.SQLState[:]) }

// classify says what becomes of an error of a statement that stores no rows. Only the number and SQLSTATE decide.
func classify(err error) error {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	if err == nil || !ok || driver.IsPermanent(err) {
		return wrap(err)
	}
	if refusesRow(e) {
		return driver.Permanent(wrap(withoutValues(e)))
	}
	switch e.Number {
	case tooManyUserConns, userLimitReached: // they pass
		return wrap(err)
	case noDefault, noPartition, statementBinlog, generatedColumn, generatedColumn2, needsPrimaryKey:
		return driver.Permanent(wrap(err))
	}
	switch state(e)[:2] {
	case "28", "42", "0A": // the account, a right, the schema. The operator must change it
		return driver.Permanent(wrap(err))
	}
	return wrap(err)
}

func wrap(err error) error {
	var rows *driver.RowsError
	if err == nil || errors.As(err, &rows) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("mysql: %w", err)
}

// refusesRow reports whether an error of a statement that stores rows is about their values. Unknown numbers count by their SQLSTATE: 22 is a
// data exception, 23 a constraint.
func refusesRow(e *mysql.MySQLError) bool {
	switch e.Number {
	case dupEntry, columnCannotBeNull, outOfRange, dataTruncated, incorrectValue, incorrectStringValue, dataTooLong, noReferencedRow, noReferencedRow2, signal,
		rowTooLarge, invalidJSON, checkViolation, checkViolationMariaDB:
		return true
	case noDefault, noPartition:
		return false
	}
	class := state(e)[:2]
	return class == "22" || class == "23"
}

// raised reports whether a trigger or a function has raised the error. Its author may have put values of a row into the message.
func raised(e *mysql.MySQLError) bool { return e.Number == signal || state(e) == "45000" }

// withoutValues returns the error without what may repeat values of a row.
func withoutValues(e *mysql.MySQLError) *mysql.MySQLError {
	return &mysql.MySQLError{Number: e.Number, SQLState: e.SQLState, Message: message(e)}
}

var (
	atRow    = regexp.MustCompile(`at row (\d+)$`)
	inColumn = regexp.MustCompile("(?:[Cc]olumn|CONSTRAINT) ['`](?:[^'`]*['`]\\.['`])*([^'`]+)['`]")
)

// messages are the messages for errors whose text quotes a value.
var messages = map[uint16]string{
	dupEntry:             "duplicate entry for a key",
	dataTruncated:        "the value does not fit the column",
	incorrectValue:       "incorrect value",
	incorrectStringValue: "incorrect value for the column",
}

// message returns the message of an error about a row, without values. The texts of the numbers in messages quote the value. Of a violated key
// and of a text, the name after the value is kept.
func message(e *mysql.MySQLError) string {
	if raised(e) {
		return "raised by a trigger or a function; run the INSERT by hand to see its message"
	}
	text, quotes := messages[e.Number]
	if !quotes {
		if refusesRow(e) {
			return atRow.ReplaceAllString(e.Message, "in a row")
		}
		return e.Message
	}
	if i := strings.LastIndex(e.Message, " for key "); e.Number == dupEntry && i >= 0 {
		return "duplicate entry" + e.Message[i:]
	}
	return text
}

// refusedRow returns the error about a row. A trigger can say anything, and the parent of a foreign key may arrive later.
func refusedRow(e *mysql.MySQLError, row int64) *driver.RowsError {
	refused := &driver.RowsError{Err: withoutValues(e), Unsure: raised(e)}
	if e.Number == noReferencedRow || e.Number == noReferencedRow2 {
		refused.Patience = foreignKeyPatience
	}
	refused.Add(driver.RowError{Row: row, Column: columnOf(e), Reason: strconv.Itoa(int(e.Number)), Message: message(e)})
	return refused
}

// columnOf returns the column that an error names, "" if it names none. The name follows the value that some texts quote.
func columnOf(e *mysql.MySQLError) string {
	switch e.Number {
	case columnCannotBeNull, outOfRange, dataTruncated, incorrectValue, incorrectStringValue, dataTooLong:
		if all := inColumn.FindAllStringSubmatch(e.Message, -1); all != nil {
			return all[len(all)-1][1]
		}
	}
	return ""
}

// placeOf returns the row of a statement that an error names, from 0; -1 if it names none.
func placeOf(e *mysql.MySQLError) int {
	m := atRow.FindStringSubmatch(e.Message)
	if m == nil {
		return -1
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return -1
	}
	return n - 1
}
