package mysql

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/drivertest"
)

// A wrong address or option is refused by Open and by Validate, without the password.
func TestValidate(t *testing.T) {
	const ok = "mysql://u:hunter2@host/db"
	for _, c := range []struct {
		address string
		o       Options
		want    string
	}{
		{ok, Options{}, ""},
		{"mysql://u:hunter2%40%2F@host:3307/db?tls=true", Options{}, ""},
		{"mysql://u@/db?socket=/run/mysqld/mysqld.sock", Options{}, ""},
		{"postgres://u:hunter2@host/db", Options{}, "cannot be read"},
		{"mysql://u:hun@ter2/x@host/db", Options{}, "%2F"},
		{"mysql://u:hunter2%zz@host/db", Options{}, "cannot be read"},
		{"mysql://u:hunter2@host", Options{}, "the name of the database is empty"},
		{"mysql://u:hunter2@/db", Options{}, "no host"},
		{ok + "?tls=maybe", Options{}, "tls in the address"},
		{ok + "?ca=/absent", Options{}, "/absent"},
		{ok + "?charset=latin1", Options{}, `"charset"`},
		{ok, Options{MaxConns: 1001}, "MaxConns is 1001"},
		{ok, Options{LockTimeout: time.Microsecond}, "LockTimeout"},
		{ok, Options{KeepIDs: time.Hour}, "30 days"},
		{ok, Options{KeepFor: time.Hour}, "KeepBy"},
		{ok, Options{Keys: map[string][]string{"t": nil}}, `"t"`},
		{ok, Options{Indexes: [][]string{{}}}, "Indexes"},
	} {
		err := Validate(c.address, c.o)
		target, openErr := Open(c.address, c.o)
		if openErr == nil {
			target.Close()
		}
		if fmt.Sprint(err) != fmt.Sprint(openErr) || (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter")) {
			t.Errorf("got %s %+v: %v, Open: %v, want %q", c.address, c.o, err, openErr, c.want)
		}
	}
}

// The query names database and table, quoted, and nothing of the connection.
func TestQueryHasNoPassword(t *testing.T) {
	target, err := Open("mysql://u:hunter2@host/d%60b", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	language, query := target.Query(driver.Table{ID: "in.c-web.events"})
	if language != "MySQL" || query != "SELECT * FROM `d``b`.`in.c-web.events` LIMIT 20" || strings.Contains(query, "hunter2") {
		t.Errorf("%s: got %s, want language == \"MySQL\" and query == \"SELECT * FROM `d``b`.`in.c-web.events` LIMIT 20\" and !strings.Contains(query, \"hunter2\")", language, query)
	}
	at := driver.Table{ID: "t", Columns: []datatype.Column{{Name: "n", Type: datatype.Int64}, {Name: "received`at", Type: datatype.Timestamp}}}
	if _, query := target.Query(at); query != "SELECT * FROM `d``b`.`t` ORDER BY `received``at` DESC LIMIT 20" {
		t.Errorf("of a table with a time: %s", query)
	}
	at.Columns = at.Columns[:1]
	if _, query := target.Query(at); query != "SELECT * FROM `d``b`.`t` ORDER BY `n` DESC LIMIT 20" {
		t.Errorf("of a table without a time: %s", query)
	}
	target.options.Keys = map[string][]string{"t": {"id", "n"}}
	if _, query := target.Query(at); query != "SELECT * FROM `d``b`.`t` ORDER BY `id` DESC LIMIT 20" {
		t.Errorf("of a table with a key: %s", query)
	}
}

// Configure gets what connections are made of.
func TestConfigure(t *testing.T) {
	database := server.Database(t)
	target, err := Open(strings.Replace(server.URL(database), "s3cret", "wrong", 1), Options{Configure: func(c *mysql.Config) { c.Passwd = "s3cret/@?" }})
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	mustImport(t, target, newFile("file-1", table("events", idColumn), []string{"1"}))
}

// An import over the Unix socket of the address. The server closes a session that is silent for two minutes, so that it holds no lock.
func TestSocket(t *testing.T) {
	database := server.Database(t)
	user, _, _ := strings.Cut(server.URL(database), "@")
	target, err := Open(user+"@/"+database+"?socket="+server.Path("socket"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	mustImport(t, target, newFile("file-1", table("events", idColumn), []string{"1"}))
	var host string
	var silence int
	err = target.db.QueryRow("SELECT USER(), @@wait_timeout").Scan(&host, &silence)
	if err != nil || !strings.HasSuffix(host, "@localhost") || silence != 120 {
		t.Errorf("got %s, %d, %v, want a session of localhost that ends after 120 s", host, silence, err)
	}
}

// Indexes of new tables are made of the columns that a table has.
func TestIndexes(t *testing.T) {
	target := open(t, Options{Indexes: [][]string{{"s", "id"}, {"id"}, {"absent"}}, Keys: map[string][]string{"keyed": {"s"}}})
	for _, id := range []string{"events", "keyed"} {
		mustImport(t, target, newFile("file-"+id, table(id, idColumn, col("s", "string"), col("raw", "")), []string{"1", strings.Repeat("x", 200), "y"}))
		var n int
		if err := target.db.QueryRow("SELECT COUNT(DISTINCT INDEX_NAME) FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? AND NON_UNIQUE = 1", id).Scan(&n); err != nil || n != 2 {
			t.Errorf("got %d indexes, %v, want 2, no error", n, err)
		}
	}
	drivertest.Permanent(t, "an index of json", target.Ensure(t.Context(), table("bodies", col("id", "json"))), `"id"`)
}
