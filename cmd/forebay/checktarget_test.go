package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tableOf is a source with one sink. options are further keys of the sink.
func tableOf(source, table, columns, options string) string {
	return fmt.Sprintf("\n  - {id: %s, secret: 0123456789abcdef0123456789abcdef0123456789abcdef, sinks: [{id: s, table: %s, columns: [%s]%s}]}", source, table, columns, options)
}

func column(name, dataType string) string {
	return fmt.Sprintf("{name: %s, type: path, path: %[1]s, dataType: %s, required: true}", name, dataType)
}

// asking calls check on a file, and lets it ask the target.
func asking(t *testing.T, text string, more ...string) (status int, stdout, stderr string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "forebay.yaml")
	write(t, file, text)
	return call(t, "", nil, append([]string{"check", "-config", file}, more...)...)
}

// Options that name columns, and sinks that share a table, are compared with the tables of the file.
func TestCheckComparesOptionsWithTables(t *testing.T) {
	folder := t.TempDir()
	one := tableOf("a", "t", column("n", "int64")+", "+column("at", "timestamp"), "")
	lake := "\ntargets: {lake: \"dir:" + folder + "/lake\"}"
	for _, tt := range []struct{ head, sources, want string }{
		{"target: dir:" + folder + "\npartition-by: at", one, ""},
		{"target: dir:" + folder + "\npartition-by: n", one, `partition-by: the column "n" of table "t" (sink a/s) is no date and no timestamp`},
		{"target: dir:" + folder + "\npartition-by: day", one, `partition-by: no table has the column "day"`},
		{"target: sqlite:" + folder + "/x.db\nkeep-for: 30d\ntarget-options: {keepBy: [at]}", one, ""},
		{"target: sqlite:" + folder + "/x.db\nkeep-for: 30d\ntarget-options: {keepBy: [when, n]}", one, `keepBy: table "t" (sink a/s) has none of the columns when, n with the type date or timestamp`},
		{"target: postgres://host/x\ntarget-options: {keys: {t: [n]}}", one, ""},
		{"target: postgres://host/x\ntarget-options: {keys: {t: [id], u: [n]}}", one, `keys: no sink has the table "u"`},
		{"target: postgres://host/x\ntarget-options: {keys: {t: [id]}}", one, `keys: table "t" (sink a/s) has no column "id"`},
		{"target: dir:" + folder, tableOf("a", "t", column("n", "int64"), "") + tableOf("b", "t", column("n", "string"), ""), `the sinks a/s and b/s do not fit into one table`},
		{"target: dir:" + folder, tableOf("a", "t", column("n", "int64"), "") + tableOf("b", "t", column("m", "int64"), ", extend: true"), `the sinks a/s and b/s do not fit into one table`},
		{"target: dir:" + folder, tableOf("a", "t", column("n", "int64"), ", extend: true") + tableOf("b", "t", column("m", "int64"), ", extend: true"), ""},
		{"target: dir:" + folder, tableOf("a", "t", column("n", "int64"), "") + tableOf("b", "t", column("n", "int64"), ""), ""},
		// Options of the target apply to its own tables, and not to the tables of named targets.
		{"target: sqlite:" + folder + "/x.db\nkeep-for: 30d\ntarget-options: {keepBy: [at]}" + lake, one + tableOf("b", "t", column("m", "string"), ", target: lake"), ""},
		{"target: postgres://host/x\ntarget-options: {keys: {t: [n]}}" + lake, one + tableOf("b", "t", column("m", "string"), ", target: lake"), ""},
		{"target: postgres://host/x\ntarget-options: {keys: {u: [m]}}" + lake, one + tableOf("b", "u", column("m", "string"), ", target: lake"), `keys: no sink has the table "u"`},
		{"target: dir:" + folder + "\npartition-by: day" + lake, one + tableOf("b", "u", column("day", "date"), ", target: lake"), `partition-by: no table has the column "day"`},
	} {
		text := tt.head + "\nsources:" + tt.sources
		status, out, errs := asking(t, text, "-offline")
		if want := map[bool]int{true: 0, false: failed}[tt.want == ""]; status != want || !strings.Contains(errs, tt.want) {
			t.Errorf("%s\ngot status %d and %s%s, want %d and %q", text, status, out, errs, want, tt.want)
		}
	}
}

// The target is asked for the names that it takes and the tables that it has. Nothing is made.
func TestCheckAsksTheTarget(t *testing.T) {
	folder := t.TempDir()
	db, text := filepath.Join(folder, "events.db"), filepath.Join(folder, "notes.txt")
	write(t, text, "no database\nat all\n")
	config := func(target, table, columns, options string) string {
		return "target: " + target + "\nsources:" + tableOf("a", table, columns, options)
	}
	n := column("n", "int64")
	s := serve(t, nil, "-config", func() string {
		file := filepath.Join(folder, "serve.yaml")
		write(t, file, "dir: "+filepath.Join(folder, "data")+"\n"+config("sqlite:"+db, "there", n, ""))
		return file
	}())
	s.stop()
	for _, tt := range []struct {
		text   string
		status int
		want   string
	}{
		{config("sqlite:"+db, "there", n, ""), 0, "the target has 1 table: there"},
		{config("sqlite:"+db, "there", column("n", "string"), ""), failed, `the column "n" is required string in the mapping and required int64 in the table`},
		{config("sqlite:"+db, "there", n+", "+column("m", "int64"), ""), failed, `or set extend so that the table accepts them`},
		{config("sqlite:"+db, "there", n+", "+column("m", "int64"), ", extend: true"), 0, "the target has 1 table: there"},
		{config("sqlite:"+db, "absent", n, ""), 0, "is valid"},
		{config("sqlite:"+db, "sqlite_x", n, ""), failed, `the table "sqlite_x" has a name that SQLite or this driver keeps for itself`},
		{config("sqlite:"+filepath.Join(folder, "new.db"), "sqlite_x", n, ""), failed, `the table "sqlite_x" has a name that SQLite or this driver keeps for itself`},
		{config("sqlite:"+filepath.Join(folder, "new.db"), "t", n, ""), 0, "is valid"},
		{config("sqlite:"+filepath.Join(folder, "none", "new.db"), "t", n, ""), failed, "none does not exist"},
		{config("sqlite:"+text, "t", n, ""), failed, "the file exists and is no SQLite database"},
		{config("dir:"+filepath.Join(folder, "tables"), "t", n, ""), 0, "is valid"},
	} {
		status, out, errs := asking(t, tt.text)
		if status != tt.status || !strings.Contains(out+errs, tt.want) {
			t.Errorf("%s\ngot status %d and %s%s, want %d and %q", tt.text, status, out, errs, tt.status, tt.want)
		}
	}
	for _, made := range []string{"new.db", "tables"} {
		if _, err := os.Stat(filepath.Join(folder, made)); err == nil {
			t.Errorf("check has made %s", made)
		}
	}
}

// A server that refuses the login is one clear line, without the password.
func TestCheckAsksPostgres(t *testing.T) {
	folder, _, _ := strings.Cut(strings.TrimPrefix(postgresServer.URL(t), "host="), " ")
	text := func(user, table string) string {
		return "target: postgres://" + user + ":hunter2@/postgres?host=" + folder + "\nsources:" + tableOf("a", table, column("n", "int64"), "")
	}
	role := stranger(t)
	for _, tt := range []struct {
		user, table string
		status      int
		want        string
	}{
		{role, "check_absent", failed, `the target cannot be asked: the server refuses the login: password authentication failed for user "` + role + `"; -offline`},
		{"postgres", "check_absent", 0, "is valid"},
		{"postgres", strings.Repeat("x", 64), failed, "has 64 bytes, PostgreSQL takes 63"},
		{"nobody_there", "check_absent", failed, `the target cannot be asked: the server refuses the login: role "nobody_there" does not exist; -offline`},
	} {
		status, out, errs := asking(t, text(tt.user, tt.table))
		if status != tt.status || !strings.Contains(out+errs, tt.want) || strings.Count(errs, "\n") > 1 || strings.Contains(out+errs, "hunter2") {
			t.Errorf("user %s, table %s: got status %d and %s%s, want %d and one line with %q", tt.user, tt.table, status, out, errs, tt.status, tt.want)
		}
	}
}

// check compares a table that the driver did not create. It changes neither the table nor the database.
func TestCheckChangesNoTableOfClickHouse(t *testing.T) {
	database := clickhouseServer.Database(t)
	clickhouseServer.Exec(t, "CREATE TABLE "+database+".events (n Int64) ENGINE = MergeTree ORDER BY n")
	describe := func() (text string) {
		for _, row := range clickhouseServer.Rows(t, "SELECT create_table_query FROM system.tables WHERE database = '"+database+"' ORDER BY name") {
			text += *row[0] + "\n"
		}
		return text
	}
	before := describe()
	for _, tt := range []struct {
		columns, options string
		status           int
		want             string
	}{
		{column("n", "int64"), "", 0, "the target has 1 table: events"},
		{column("n", "int64") + ", " + column("m", "int64"), ", extend: true", 0, "the target has 1 table: events"},
		{column("n", "int64") + ", " + column("m", "int64"), "", failed, `the table has no "m"`},
		{column("n", "string"), ", extend: true", failed, `the column "n" is required string in the mapping and required int64 in the table`},
	} {
		status, out, errs := asking(t, "target: "+clickhouseServer.URL(database)+"\nsources:"+tableOf("a", "events", tt.columns, tt.options))
		if status != tt.status || !strings.Contains(out+errs, tt.want) {
			t.Errorf("%s%s: got status %d and %s%s, want %d and %q", tt.columns, tt.options, status, out, errs, tt.status, tt.want)
		}
		if after := describe(); after != before {
			t.Errorf("%s%s: check has changed the tables from\n%sto\n%s", tt.columns, tt.options, before, after)
		}
	}
}

// serve warns of the problems that check reports.
func TestServeWarnsOfMisfits(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "forebay.yaml")
	write(t, file, "dir: "+filepath.Join(folder, "data")+"\npartition-by: day\nsources:"+tableOf("a", "t", column("n", "int64"), ""))
	s := serve(t, nil, "-config", file)
	s.stop()
	if logs := s.Logs(); !strings.Contains(logs, `partition-by: no table has the column \"day\"`) {
		t.Errorf("the log has no warning of partition-by:\n%s", logs)
	}
}

// Each target that has its own driver is asked for the table that a server made there. A folder or bucket without tables is as it was
// before.
func TestCheckAsksDrivers(t *testing.T) {
	for name, target := range map[string]func(t *testing.T, folder string) (address, absent string){
		"duckdb:": func(_ *testing.T, folder string) (string, string) {
			return "duckdb:" + folder + "/t.duckdb", folder + "/new.duckdb"
		},
		"iceberg:": func(_ *testing.T, folder string) (string, string) {
			return "iceberg:" + folder + "/lake", folder + "/new"
		},
		"parquet:": func(t *testing.T, _ string) (string, string) { return "parquet:" + bucketURL(t, "check"), "" },
		"mysql:":   func(t *testing.T, _ string) (string, string) { return mysqlServer.URL(mysqlServer.Database(t)), "" },
	} {
		t.Run(name, func(t *testing.T) {
			needs(t, name)
			folder := t.TempDir()
			address, absent := target(t, folder)
			config := func(target, columns, options string) string {
				return "target: " + target + "\nsources:" + tableOf("a", "there", columns, options)
			}
			n := column("n", "int64")
			file := filepath.Join(folder, "serve.yaml")
			write(t, file, "dir: "+filepath.Join(folder, "data")+"\n"+config(address, n, ""))
			s := serve(t, nil, "-config", file)
			if name == "duckdb:" {
				status, out, errs := asking(t, config(address, n, ""))
				if status != failed || !strings.Contains(errs, "the target cannot be asked: ") || !strings.Contains(errs, "another process has the database open") || strings.Count(errs, "\n") != 1 {
					t.Errorf("while the server has the file open: got status %d and %s%s, want %d and one line that says so", status, out, errs, failed)
				}
			}
			s.stop()
			for _, tt := range []struct {
				text   string
				status int
				want   string
			}{
				{config(address, n, ""), 0, "the target has 1 table: there"},
				{config(address, column("n", "string"), ""), failed, `the column "n" is required string in the mapping and required int64 in the table`},
				{config(address, n+", "+column("m", "int64"), ", extend: true"), 0, "the target has 1 table: there"},
			} {
				status, out, errs := asking(t, tt.text)
				if status != tt.status || !strings.Contains(out+errs, tt.want) {
					t.Errorf("%s\ngot status %d and %s%s, want %d and %q", tt.text, status, out, errs, tt.status, tt.want)
				}
			}
			if absent == "" {
				return
			}
			if status, out, errs := asking(t, config(name+absent, n, "")); status != 0 || !strings.Contains(out, "is valid") {
				t.Errorf("%s: got status %d and %s%s, want 0", absent, status, out, errs)
			}
			if _, err := os.Stat(absent); err == nil {
				t.Errorf("check has made %s", absent)
			}
		})
	}
}

// A target that refuses the login ends serve with one line, without the password.
func TestServeWithAWrongPassword(t *testing.T) {
	folder, _, _ := strings.Cut(strings.TrimPrefix(postgresServer.URL(t), "host="), " ")
	file := filepath.Join(t.TempDir(), "forebay.yaml")
	write(t, file, "dir: "+filepath.Join(t.TempDir(), "data")+"\ntarget: postgres://nobody_there:hunter2@/postgres?host="+folder+"\nsources:"+
		tableOf("a", "t", column("n", "int64"), "")+tableOf("b", "u", column("n", "int64"), ""))
	role := stranger(t)
	ports := []string{"-addr", "127.0.0.1:0", "-api-addr", "127.0.0.1:0", "-otlp-grpc", "127.0.0.1:0", "-otlp-http", "127.0.0.1:0"}
	for _, tt := range []struct {
		why  string
		args []string
	}{
		{`role "nobody_there" does not exist`, []string{"serve", "-config", file}},
		{`role "nobody_there" does not exist`, []string{"otlp", "-dir", filepath.Join(t.TempDir(), "data"), "-target", "postgres://nobody_there:hunter2@/postgres?host=" + folder}},
		{`password authentication failed for user "` + role + `"`, []string{"otlp", "-dir", filepath.Join(t.TempDir(), "data"), "-target", "postgres://" + role + ":hunter2@/postgres?host=" + folder}},
	} {
		status, out, errs := call(t, "", nil, append(tt.args, ports...)...)
		lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(errs), "\n"), func(line string) bool { return strings.Contains(line, "level=INFO") })
		want := "forebay " + tt.args[0] + ": -target: the server refuses the login: " + tt.why
		if status != failed || len(lines) != 1 || lines[0] != want || strings.Contains(out+errs, "hunter2") {
			t.Errorf("got status %d and %s%s, want %d and %s", status, out, errs, failed, want)
		}
	}
}
