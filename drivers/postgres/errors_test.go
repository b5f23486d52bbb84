package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/drivertest"
)

func expectRefused(tb testing.TB, err error, want driver.RowError) {
	tb.Helper()
	var refused *driver.RowsError
	if !errors.As(err, &refused) || len(refused.Rows) != 1 || refused.Rows[0] != want {
		tb.Errorf("got %+v, want a *driver.RowsError with %+v", err, want)
	}
}

// The row that the database refuses is named, without its values.
func TestRefusedRows(t *testing.T) {
	target := open(t, Options{})
	exec(t, target, userTypes)
	for i, c := range []struct {
		column datatype.Column
		sql    string // the column. Empty means the type of Ensure
		bad    string
		want   driver.RowError
	}{
		{col("x", datatype.Untyped), "", "a secret\x00", driver.RowError{Column: "x", Reason: "22021", Message: "invalid byte sequence for encoding"}},
		{col("x, line 7", datatype.String), "", "a secret\xff", driver.RowError{Column: "x, line 7", Reason: "22021", Message: "invalid byte sequence for encoding"}},
		{col("x", datatype.String), "x varchar(6)", "secret ", driver.RowError{Column: "x", Reason: "22001", Message: "the text is longer than the column allows"}},
		{col("x", datatype.String), "x mood", "secret", driver.RowError{Column: "x", Reason: "22P02", Message: "invalid input value for enum SCHEMA.mood"}},
		{col("x", datatype.String), "x inet", "secret", driver.RowError{Column: "x", Reason: "22P02", Message: "invalid input syntax for type inet"}},
		{col("x", datatype.String), "x short_text", "secret secret", driver.RowError{Column: "x", Reason: "23514", Message: `value for domain SCHEMA.short_text violates check constraint "short_text_check"`}},
		{col("x", datatype.String), "x text CHECK (x <> 'secret')", "secret", driver.RowError{Reason: "23514", Message: `new row for relation "%s" violates check constraint "%s_x_check"`}},
		{col("x", datatype.String), "x text UNIQUE", "20", driver.RowError{Reason: "23505", Message: `duplicate key value violates unique constraint "%s_x_key"`}},
		{required(col("x", datatype.Int64)), "", buffertest.Null, driver.RowError{Column: "x", Reason: "23502", Message: `null value in column "x" of relation "%s" violates not-null constraint`}},
		{col("x", datatype.Int64), "", "secret", driver.RowError{Column: "x", Reason: "malformed", Message: "the cell is not a canonical text of type int64"}},
		{col("x", datatype.Int64), "x numeric", "", driver.RowError{Column: "x", Reason: "malformed", Message: "the cell is not a canonical text of type int64"}},
		{col("x", datatype.Decimal(6, 2)), "", "5", driver.RowError{Column: "x", Reason: "malformed", Message: "the cell is not a canonical text of type decimal(6,2)"}},
		{col("x", datatype.Bytes), "x some_bytes", "secret", driver.RowError{Column: "x", Reason: "malformed", Message: "the cell is not a canonical text of type bytes"}},
	} {
		id := fmt.Sprintf("refused_%d", i)
		tbl := table(id, c.column)
		if c.sql != "" {
			exec(t, target, `CREATE TABLE `+id+` (`+c.sql+")")
		}
		var rows [][]string
		for n := range 50 {
			good := map[datatype.Type]string{datatype.Bytes: "AA==", datatype.Decimal(6, 2): "1.00", datatype.Untyped: "a\nb", datatype.Int64: "1"}[c.column.Type]
			switch {
			case strings.HasSuffix(c.sql, "mood"):
				good = "glad"
			case strings.HasSuffix(c.sql, "inet"):
				good = "192.0.2.1/32"
			case good == "":
				good = fmt.Sprint(n)
			}
			rows = append(rows, []string{good})
		}
		good := slices.Clone(rows)
		rows[43] = []string{c.bad}
		c.want.Row = 43
		c.want.Message = strings.NewReplacer("%s", id, "SCHEMA", target.options.Schema).Replace(c.want.Message)
		for range 2 {
			err := target.Import(t.Context(), newFile("file-"+id, tbl, rows...))
			expectRefused(t, err, c.want)
			for cause := err; cause != nil; cause = errors.Unwrap(cause) {
				if strings.Contains(fmt.Sprintf("%v %+v", cause, cause), "secret") {
					t.Errorf("%T has the value: %+v", cause, cause)
				}
			}
		}
		expectRows(t, target, id)
		mustImport(t, target, newFile("other-"+id, tbl, good...)) // an id stands for the same rows always
		expectRows(t, target, id, good...)
	}
}

// A document that a small stack cannot hold is a refused row, and not an error that passes.
func TestDeepDocument(t *testing.T) {
	target := open(t, Options{Configure: func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["max_stack_depth"] = "100kB" }})
	tbl := table("deep", col("x", datatype.JSON))
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	err := target.Import(t.Context(), newFile("file-1", tbl, []string{"1"}, []string{deep}))
	expectRefused(t, err, driver.RowError{Row: 1, Column: "x", Reason: tooDeep, Message: "stack depth limit exceeded"})
}

func expectUnsure(tb testing.TB, err error, want bool) {
	tb.Helper()
	if refused, ok := errors.AsType[*driver.RowsError](err); !ok || refused.Unsure != want {
		tb.Errorf("%v is unsure: %v, want %v", err, !want, want)
	}
}

// An error that is not the fault of a row waits for an operator.
func TestRefusedFiles(t *testing.T) {
	target := open(t, Options{})
	exec(t, target, `CREATE TABLE days (at timestamptz, v bigint) PARTITION BY RANGE (at);
		CREATE TABLE day22 PARTITION OF days FOR VALUES FROM ('2026-11-22 00:00Z') TO ('2026-11-23 00:00Z');
		CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not today: %', NEW.id; END $$;
		CREATE TABLE watched (id bigint);
		CREATE TRIGGER t BEFORE INSERT ON watched FOR EACH ROW EXECUTE FUNCTION refuse();
		CREATE FUNCTION leave() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
		CREATE TABLE thinned (id bigint);
		CREATE TRIGGER t BEFORE INSERT ON thinned FOR EACH ROW WHEN (NEW.id = 2) EXECUTE FUNCTION leave();
		CREATE FUNCTION judge() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE check_violation USING MESSAGE = 'bad id ' || NEW.id; END $$;
		CREATE TABLE judged (id bigint);
		CREATE TRIGGER t BEFORE INSERT ON judged FOR EACH ROW WHEN (NEW.id > 9) EXECUTE FUNCTION judge();
		CREATE VIEW view AS SELECT 1::bigint AS id`)
	ctx := t.Context()
	raised := target.Import(ctx, newFile("f2", table("watched", col("id", datatype.Int64)), []string{"4711"}))
	expectRefused(t, raised, driver.RowError{
		Reason: "P0001", Message: "raised by PL/pgSQL function " + target.options.Schema + ".refuse() line 1 at RAISE; the log of the server has the message",
	})
	expectUnsure(t, raised, true)
	if text := raised.Error(); strings.Contains(text, "4711") || strings.Contains(text, "today") {
		t.Errorf("the message of a trigger is shown, which may have values: %s", text)
	}
	judged := newFile("f7", table("judged", col("id", datatype.Int64)), []string{"1"}, []string{"4711"})
	for _, trust := range []bool{false, true} {
		target.options.TrustTriggers = trust
		err := target.Import(ctx, judged)
		expectRefused(t, err, driver.RowError{
			Row: 1, Reason: "23514", Message: "raised by PL/pgSQL function " + target.options.Schema + ".judge() line 1 at RAISE; the log of the server has the message",
		})
		expectUnsure(t, err, !trust)
	}
	drivertest.Permanent(t, "a trigger that leaves out a row",
		target.Import(ctx, newFile("f6", table("thinned", col("id", datatype.Int64)), []string{"1"}, []string{"2"})), "takes 1 of the 2 rows")
	expectRows(t, target, "thinned")
	drivertest.Permanent(t, "a view", target.Import(ctx, newFile("f3", table("view", col("id", datatype.Int64)), []string{"1"})), "is not a table")

	days := table("days", col("at", datatype.Timestamp), col("v", datatype.Int64))
	good := []string{"2026-11-22T10:00:00.000000Z", "1"}
	mustImport(t, target, newFile("f4", days, good))
	late := newFile("f5", days, good, []string{"2026-11-23T10:00:00.000000Z", "2"})
	drivertest.Permanent(t, "a day without a partition", target.Import(ctx, late), "no partition")
	expectRows(t, target, "days", good)
	exec(t, target, `CREATE TABLE others PARTITION OF days DEFAULT`)
	mustImport(t, target, late)
	expectRows(t, target, "days", good, good, []string{"2026-11-23T10:00:00.000000Z", "2"})
	expectRows(t, target, "day22", good, good)
}

// The server quotes values in the way of its language.
func TestValuesAreCutFromMessages(t *testing.T) {
	for message, want := range map[string]string{
		`invalid input syntax for type uuid: "secret"`:                   "invalid input syntax for type uuid",
		"ungültige Eingabesyntax für Typ uuid: »secret«":                 "ungültige Eingabesyntax für Typ uuid",
		"syntaxe en entrée invalide pour le type uuid : «\u00a0secret »": "syntaxe en entrée invalide pour le type uuid",
		"«secret» está fuera de rango para el tipo double precision":     "",
		"型double precisionでは\"secret\"は範囲外です":                            "型double precisionでは",
		`syntax error in hstore, near "secret" at position 3`:            "syntax error in hstore, near",
		`Syntax error near "secret" at position 3`:                       "Syntax error near",
	} {
		code := "22P02"
		if strings.Contains(message, "hstore") {
			code = "42601"
		} else if strings.HasPrefix(message, "Syntax") {
			code = "XX000"
		}
		err := rowError(&pgconn.PgError{Code: code, Message: message, Where: `COPY t, line 3, column x: "secret"`}, "t")
		if err == nil || err.Rows[0] != (driver.RowError{Row: 2, Column: "x", Reason: code, Message: want}) || strings.Contains(err.Err.Error(), "secret") {
			t.Errorf("%s: got %+v, %v, want %q", message, err, errors.Unwrap(err), want)
		}
	}
}

// The server names the place of a row in its language.
func TestPlacesOfRows(t *testing.T) {
	for _, where := range []string{
		"COPY t, line 12, column a, b", "COPY t, Zeile 12, Spalte a, b", "COPY t, línea 12, columna a, b", "COPY t, ligne 12, colonne a, b",
		"COPY t, riga 12, colonna a, b", "COPY t, ხაზი 12, სვეტი a, b", "COPY t, строка 12, столбец a, b", "COPY t, rad 12, kolumn a, b",
		"COPY t, рядок 12, стовпець a, b", "COPY t, 行 12, 列 a, b", "tのCOPY、行 12、列 a, b", "t 복사, 12번째 줄, a, b 열",
	} {
		for _, value := range []string{"", `: "secret, 3"`, ": »secret, 3«", ": «secret, 3»", " : « secret, 3 »"} {
			row, column, ok := copyPlace("SQL function \"f\"\n"+where+value+"\nx", "t")
			if !ok || row != 11 || column != "a, b" {
				t.Errorf("%s%s: got row %d, column %q, %v, want 11, \"a, b\", true", where, value, row, column, ok)
			}
		}
	}
	for _, where := range []string{`COPY t, line 12: "a, b"`, "COPY t, line 12", "tのCOPY、行 12", `t 복사, 12번째 줄: "a, b"`} {
		if row, column, ok := copyPlace(where, "t"); !ok || row != 11 || column != "" {
			t.Errorf("%s: got row %d, column %q, %v, want 11, \"\", true", where, row, column, ok)
		}
	}
	for _, where := range []string{"", "COPY s, line 12", "COPY t, line", "COPY t, line x, 12", "COPY t, line 0"} {
		if row, column, ok := copyPlace(where, "t"); ok {
			t.Errorf("%s: got row %d, column %q, want no place", where, row, column)
		}
	}
}

// A server that speaks another language names the same row and column, in both forms of COPY. The test needs its translations.
func TestServerInAnotherLanguage(t *testing.T) {
	options := open(t, Options{}).options
	target, err := Open(server.URL(t)+" options='-c lc_messages=C.UTF-8'", options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = target.Close() })
	exec(t, target, `CREATE TYPE mood AS ENUM ('ok'); CREATE TABLE binary_form (id bigint, v varchar CHECK (v = 'ok')); CREATE TABLE text_form (id bigint, v mood)`)
	for id, want := range map[string]driver.RowError{"binary_form": {Row: 1, Reason: "23514"}, "text_form": {Row: 1, Column: "v", Reason: "22P02"}} {
		tbl := table(id, idColumn, col("v", datatype.Untyped))
		err := target.Import(t.Context(), newFile("file-"+id, tbl, []string{"1", "ok"}, []string{"2", "secret"}))
		var refused *driver.RowsError
		if !errors.As(err, &refused) || len(refused.Rows) != 1 || strings.Contains(err.Error(), "secret") {
			t.Fatalf("%s: got %v, want one refused row", id, err)
		}
		got := refused.Rows[0]
		if want.Message = got.Message; got != want {
			t.Errorf("%s: got %v, want %v", id, got, want)
		}
		if !strings.ContainsFunc(got.Message, func(r rune) bool { return r > 0x3000 }) {
			t.Skipf("the server has no Japanese messages: %v", err)
		}
	}
}

func TestClasses(t *testing.T) {
	const retry, permanent = "retry", "permanent"
	for code, want := range map[string]string{
		"40001": retry, "40P01": retry, "53100": retry, "53300": retry, "55P03": retry, "57014": retry, "57P01": retry, "57P03": retry,
		"08006": retry, "58030": retry, "XX000": retry, "25006": retry, "26000": retry, "": retry,
		"42501": permanent, "42703": permanent, "42804": permanent, "28P01": permanent, "3D000": permanent, "3F000": permanent, "0A000": permanent,
		"P0001": permanent, "55000": permanent, "22003": permanent, "23505": permanent, "23514": permanent, "54000": permanent,
		"54001": permanent, "54011": permanent,
	} {
		got := retry
		if err := classify(fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: code, Message: "m"})); driver.IsPermanent(err) {
			got = permanent
		}
		if got != want {
			t.Errorf("SQLSTATE %s: %s, want %s", code, got, want)
		}
	}
	// Only a statement that stores rows, or the COMMIT after it, can refuse a row.
	for _, code := range []string{"22003", "22023", "23505", "23503"} {
		var refused *driver.RowsError
		pg := &pgconn.PgError{Code: code, Message: "m"}
		if err := classify(pg); errors.As(err, &refused) {
			t.Errorf("SQLSTATE %s of a statement without rows: %v", code, err)
		}
		if err := classify(ofRows(pg)); !errors.As(err, &refused) || refused.Rows[0].Row != -1 || (refused.Patience > 0) != (code == "23503") {
			t.Errorf("SQLSTATE %s of COMMIT: %v", code, err)
		}
	}
	// A time-out names a line, but no row is at fault.
	if err := rowError(&pgconn.PgError{Code: "57014", Where: "COPY t, line 980485"}, "t"); err != nil {
		t.Errorf("a time-out is %v", err)
	}
	if err := rowError(&pgconn.PgError{Code: "22003", Where: "PL/pgSQL function f() line 3 at RAISE\nCOPY a, line 5, line 3"}, "a, line 5"); err == nil || err.Rows[0].Row != 2 {
		t.Errorf("got %v, want the row 2", err)
	}
}

func TestSecrets(t *testing.T) {
	const password = "hunter2"
	for _, s := range []string{
		"postgres://user:" + password + "@localhost:1:2/db", "postgres://user:" + password + "/x@localhost/db", "postgres://us er:" + password + "@h/db",
		"host=h password=" + password + " port=x", "password='" + password, "host=h password = " + password + " sslmode=nonsense", "user=u " + password,
		"postgres://user:" + password + "@h/db?sslrootcert=/nowhere&sslmode=verify-full", "://" + password, "postgres://h/db?password=" + password + "&port=x",
	} {
		if target, err := Open(s, Options{}); err == nil {
			target.Close()
			t.Errorf("Open(%s) = nil", s)
		} else if strings.Contains(fmt.Sprintf("%v %+v", err, err), password) || errors.Unwrap(err) != nil {
			t.Errorf("the error has the password: %v", err)
		}
	}
	target, err := Open("host=/nowhere user=u password="+password+" dbname=db", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	err = target.Ensure(t.Context(), table("t", col("id", datatype.Int64)))
	drivertest.Retryable(t, "Ensure without a server", err)
	if strings.Contains(fmt.Sprintf("%+v", err), password) {
		t.Errorf("the error has the password: %v", err)
	}
}

// A part of a password after an unescaped / would become the host, and errors about the host would print it.
func TestPasswordIsNoHost(t *testing.T) {
	for _, url := range []string{"postgres://user:se@cret/x@db.example/forebay", "postgresql://user:se@cret?x@db.example/forebay", "postgres://user:se@cret#x@db.example/forebay"} {
		target, err := Open(url, Options{})
		if err == nil || strings.Contains(err.Error(), "cret") || !strings.Contains(err.Error(), "%40") {
			t.Errorf("Open(%q) = %v, %v, want an error with advice and without the password", url, target, err)
		}
	}
}
