package mysql

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/drivertest"
)

// Rows that the server refuses are all named, without their values, and nothing is stored. LOAD DATA LOCAL would store or skip each of them with
// a warning.
func TestRefusedRows(t *testing.T) {
	const secret = "4711secret"
	const null = buffertest.Null
	for _, c := range []struct {
		create    string
		column    datatype.Column
		good, bad string
		want      driver.RowError
	}{
		{"v varchar(5)", col("v", datatype.String), "ok", secret, driver.RowError{Column: "v", Reason: "1406", Message: "the value is longer than the column allows"}},
		{"v varchar(5)", col("v", datatype.String), "ok", "ok    ", driver.RowError{Column: "v", Reason: "1406", Message: "the value is longer than the column allows"}},
		{"v tinyblob", col("v", datatype.Bytes), "AA==", strings.Repeat("AAAA", 100), driver.RowError{Column: "v", Reason: "1406", Message: "the value is longer than the column allows"}},
		{"v text CHARACTER SET latin1", col("v", datatype.String), "é", secret + "日", driver.RowError{Column: "v", Reason: "1366", Message: "incorrect value for the column"}},
		{"v bigint, CHECK (v < 100)", col("v", datatype.Int64), "1", "4711", driver.RowError{Reason: "4025", Message: "CONSTRAINT `CONSTRAINT_1` failed for `%s`.`events`"}},
		{"v bigint CHECK (v < 100)", col("v", datatype.Int64), "1", "4711", driver.RowError{Reason: "4025", Message: "CONSTRAINT `events.v` failed for `%s`.`events`"}},
		{"v varchar(20) NOT NULL DEFAULT 'x'", col("v", datatype.String), "ok", null, driver.RowError{Column: "v", Reason: "1048", Message: "Column 'v' cannot be null"}},
		{"v bigint, w smallint AS (v * 10) STORED", col("v", datatype.Int64), "1", "4711", driver.RowError{Column: "w", Reason: "1264", Message: "Out of range value for column 'w' in a row"}},
		{"v varchar(20), UNIQUE KEY once (v)", col("v", datatype.String), "", "twice " + secret, driver.RowError{Reason: "1062", Message: "duplicate entry for key 'once'"}},
		{"v double", col("v", datatype.Float64), "1", "NaN", driver.RowError{Column: "v", Reason: "nan", Message: "MySQL has neither NaN nor infinities"}},
		{"v longtext CHARACTER SET utf8mb4", col("v", datatype.String), "ok", "\xff", driver.RowError{Column: "v", Reason: "1366", Message: "the text is not UTF-8"}},
		{"v bigint", col("v", datatype.Int64), "1", "1x", driver.RowError{Column: "v", Reason: malformed, Message: "the cell is not a canonical text of type int64"}},
	} {
		for _, insert := range []bool{false, true} {
			target := open(t, Options{InsertOnly: insert})
			exec(t, target, "CREATE TABLE events (id bigint, "+c.create+")")
			tbl := table("events", idColumn, c.column)
			var rows [][]string
			var want []driver.RowError
			for i := range 100 {
				cell := c.good
				if cell == "" {
					cell = fmt.Sprint("unique ", i)
				}
				if i == 0 && c.want.Reason == "1062" {
					cell = c.bad
				} else if i == 13 || i == 14 || i == 77 {
					cell = c.bad
					row := c.want
					row.Row = int64(i)
					if strings.Contains(row.Message, "%s") {
						row.Message = fmt.Sprintf(row.Message, target.database)
					}
					want = append(want, row)
				}
				rows = append(rows, []string{fmt.Sprint(i), cell})
			}
			err := target.Import(t.Context(), newFile("file-1", tbl, rows...))
			expectRefused(t, err, want...)
			if strings.Contains(fmt.Sprintf("%v %+v", err, errors.Unwrap(err)), "4711") {
				t.Errorf("%v has a value", err)
			}
			expectRows(t, target, "events")
			if n, err := target.CountFile(t.Context(), tbl, "file-1"); n != 0 || err != nil {
				t.Errorf("CountFile = %d, %v", n, err)
			}
		}
	}
}

// The settings of the server, or of its other users, do not change the stored values.
func TestLaxServer(t *testing.T) {
	defer server.Exec(t, "", "SET GLOBAL sql_mode = DEFAULT, time_zone = DEFAULT, autocommit = DEFAULT, local_infile = DEFAULT, lc_messages = DEFAULT, innodb_flush_log_at_trx_commit = DEFAULT")
	for _, infile := range []int{0, 1} {
		server.Exec(t, "", fmt.Sprintf("SET GLOBAL sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI_QUOTES', time_zone = '+05:00', autocommit = 0, lc_messages = 'de_DE', local_infile = %d", infile))
		target := open(t, Options{})
		exec(t, target, "CREATE TABLE events (id bigint, s varchar(5) CHECK (s <> 'no'), at datetime(6)); COMMIT")
		tbl := table("events", idColumn, col("s", datatype.String), col("at", datatype.Timestamp))
		good := []string{"1", `\'"`, "2026-03-29T02:30:00.000000Z"}
		err := target.Import(t.Context(), newFile("file-1", tbl, good, []string{"2", "longer", good[2]}))
		expectRefused(t, err, driver.RowError{Row: 1, Column: "s", Reason: "1406", Message: "the value is longer than the column allows"})
		mustImport(t, target, newFile("file-2", tbl, good))
		expectRows(t, target, "events", good)
	}
	target := open(t, Options{})
	f := newFile("file-1", table("events", idColumn), []string{"1"})
	server.Exec(t, "", "SET GLOBAL innodb_flush_log_at_trx_commit = 2")
	drivertest.Permanent(t, "a server that loses commits", target.Import(t.Context(), f), "innodb_flush_log_at_trx_commit=2")
	lazy := reopen(t, target.database, Options{LazyLog: true})
	mustImport(t, lazy, f)
}

// A foreign key is waited for, and a trigger may mean something else than the row.
func TestUnsureRows(t *testing.T) {
	for _, insert := range []bool{false, true} {
		o := Options{InsertOnly: insert}
		target := open(t, o)
		exec(t, target, "CREATE TABLE parents (id bigint PRIMARY KEY); CREATE TABLE events (id bigint, FOREIGN KEY (id) REFERENCES parents (id)); INSERT INTO parents VALUES (1)")
		tbl := table("events", idColumn)
		f := newFile("file-1", tbl, []string{"1"}, []string{"2"}, []string{"1"})
		refused, ok := errors.AsType[*driver.RowsError](target.Import(t.Context(), f))
		if !ok || len(refused.Rows) != 1 || refused.Rows[0].Row != 1 || refused.Patience != foreignKeyPatience || refused.Unsure {
			t.Errorf("a foreign key: %+v", refused)
		}
		exec(t, target, "INSERT INTO parents VALUES (2)")
		mustImport(t, target, f)

		exec(t, target, "CREATE TABLE checked (id bigint); CREATE TRIGGER no BEFORE INSERT ON checked FOR EACH ROW IF NEW.id = 2 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'secret at row 1'; END IF")
		f = newFile("file-2", table("checked", idColumn), []string{"1"}, []string{"2"}, []string{"3"})
		refused, ok = errors.AsType[*driver.RowsError](target.Import(t.Context(), f))
		if !ok || len(refused.Rows) != 1 || refused.Rows[0].Row != 1 || !refused.Unsure || strings.Contains(fmt.Sprintf("%+v %v", refused, refused.Err), "secret") {
			t.Errorf("a trigger: %+v", refused)
		}
		o.TrustTriggers = true
		refused, ok = errors.AsType[*driver.RowsError](reopen(t, target.database, o).Import(t.Context(), f))
		if !ok || refused.Unsure {
			t.Errorf("a trusted trigger: %+v", refused)
		}
		expectRows(t, target, "checked")
	}
}

// What the operator must change is no error about rows, and is not retried soon.
func TestPermanentErrors(t *testing.T) {
	target := open(t, Options{})
	try := func(id string) error {
		return target.Import(t.Context(), newFile("file "+id, table(id, idColumn), []string{"4711"}))
	}
	exec(t, target, `CREATE TABLE lists (id bigint) ENGINE=MyISAM; CREATE TABLE parts (id bigint) PARTITION BY LIST (id) (PARTITION p VALUES IN (1));
		CREATE VIEW seen AS SELECT 1 AS id; CREATE TABLE broken (id bigint); CREATE TRIGGER b BEFORE INSERT ON broken FOR EACH ROW INSERT INTO absent VALUES (1)`)
	drivertest.Permanent(t, "a table without transactions", try("lists"), "InnoDB")
	drivertest.Permanent(t, "no partition", try("parts"), "partition")
	drivertest.Permanent(t, "a view", try("seen"), "not a table")
	drivertest.Permanent(t, "a name that is too long", try(strings.Repeat("ž", 65)), "64")
	drivertest.Permanent(t, "a name with four bytes", try("🙂"), "four bytes")
	drivertest.Permanent(t, "our own table", try("_forebay_x"), "_forebay_")
	if err := target.Import(t.Context(), newFile("f", table(strings.Repeat("ž", 64), idColumn), []string{"1"})); err != nil {
		t.Error(err)
	}
	drivertest.Permanent(t, "a trigger that lacks its table", try("broken"), "absent")

	// An account that may not create tables.
	exec(t, target, "CREATE USER poor@'%' IDENTIFIED BY 'hunter2'; GRANT SELECT, INSERT ON "+target.database+".* TO poor@'%'; CREATE TABLE granted (id bigint)")
	defer exec(t, target, "DROP USER poor@'%'")
	account := func(user string) error {
		poor, err := Open(strings.Replace(server.URL(target.database), "forebay:s3cret%2F%40%3F", user, 1), Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer poor.Close()
		return poor.Import(t.Context(), newFile("file-poor", table("new", idColumn), []string{"1"}))
	}
	drivertest.Permanent(t, "a right that is missing", account("poor:hunter2"), "CREATE TABLE")
	err := account("poor:hunter3")
	drivertest.Permanent(t, "a wrong password", err, "Access denied")
	if strings.Contains(err.Error(), "hunter") {
		t.Errorf("%v has the password", err)
	}
}

func TestClassify(t *testing.T) {
	for number, c := range map[uint16]struct {
		state     string
		permanent bool
	}{
		1040: {"08004", false}, 1045: {"28000", true}, 1049: {"42000", true}, 1142: {"42000", true}, 1203: {"42000", false}, 1205: {"HY000", false}, 1213: {"40001", false},
		1290: {"HY000", false}, 1114: {"HY000", false}, 1021: {"HY000", false}, 1364: {"HY000", true}, 1526: {"HY000", true}, 1665: {"HY000", true}, 3750: {"HY000", true}, 1054: {"42S22", true},
		1153: {"08S01", false}, 1317: {"70100", false},
	} {
		e := &mysql.MySQLError{Number: number, Message: "x"}
		copy(e.SQLState[:], c.state)
		err := classify(fmt.Errorf("statement: %w", e))
		var refused *driver.RowsError
		if driver.IsPermanent(err) != c.permanent || errors.As(err, &refused) {
			t.Errorf("%d: got %v, permanent %v, want permanent %v, and no refused row", number, err, driver.IsPermanent(err), c.permanent)
		}
	}
	if err := classify(mysql.ErrInvalidConn); driver.IsPermanent(err) {
		t.Error(err)
	}
}

// Texts of the server that quote a value are cut, and a column is the name after the value.
func TestMessages(t *testing.T) {
	for text, want := range map[*mysql.MySQLError][2]string{
		{Number: dupEntry, Message: "Duplicate entry 'a' for key 'b' for key 'events.once'"}:                                          {"duplicate entry for key 'events.once'", ""},
		{Number: incorrectStringValue, Message: "Incorrect string value: '\\xE6 for column `x`' for column `d`.`t`.`na me` at row 3"}: {"incorrect value for the column", "na me"},
		{Number: incorrectValue, Message: "Incorrect datetime value: 'secret' for column 'at' at row 1"}:                              {"incorrect value", "at"},
		{Number: 1264, Message: "Out of range value for column 'w' at row 12"}:                                                        {"Out of range value for column 'w' in a row", "w"},
		{Number: dataTruncated, Message: "Data truncated for column 'v' at row 2"}:                                                    {"the value does not fit the column", "v"},
	} {
		if got := [2]string{message(text), columnOf(text)}; got != want {
			t.Errorf("%s: got %q, want %q", text.Message, got, want)
		}
	}
}

// A row that does not fit a message of the server is refused alone.
func TestMaxAllowedPacket(t *testing.T) {
	server.Exec(t, "", "SET GLOBAL max_allowed_packet = 1048576")
	defer server.Exec(t, "", "SET GLOBAL max_allowed_packet = DEFAULT")
	tbl := table("events", idColumn, col("s", datatype.String))
	var rows [][]string
	for i := range 30 { // more than one statement
		rows = append(rows, []string{fmt.Sprint(i), strings.Repeat("x", 100_000)})
	}
	large := append(rows[:30:30], []string{"30", strings.Repeat("x", 1<<20)}, []string{"31", "y"})
	target := open(t, Options{InsertOnly: true})
	mustImport(t, target, newFile("file-1", tbl, rows...))
	expectRows(t, target, "events", rows...)
	expectRefused(t, target.Import(t.Context(), newFile("file-2", tbl, large...)), driver.RowError{
		Row: 30, Reason: "1153", Message: "the row is larger than max_allowed_packet of the server",
	})
	expectRows(t, target, "events", rows...)

	loading := open(t, Options{})
	err := loading.Import(t.Context(), newFile("file-1", tbl, large...))
	t.Logf("LOAD DATA: %v", err)
	if err == nil {
		expectRows(t, loading, "events", large...)
	} else {
		expectRefused(t, err, driver.RowError{Row: 30, Reason: "1153", Message: "the row is larger than max_allowed_packet of the server"})
	}
}
