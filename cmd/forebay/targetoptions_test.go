package main

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	pq "github.com/parquet-go/parquet-go"

	"github.com/forebay/forebay/drivers/clickhouse/clickhousetest"
	"github.com/forebay/forebay/drivers/postgres/pgtest"
)

// Mistakes in the options of a target have their place in the file. No message shows the value of a variable.
func TestMistakesOfTargetOptions(t *testing.T) {
	env := map[string]string{"SCHEMA": "hunter2" + strings.Repeat("x", 80), "TIME": "1h", "WORD": "hunter2"}
	pg := "target: postgres://host/x\ntarget-options: "
	for _, tt := range []struct{ text, want string }{
		{pg + "{schma: x}", `2:18: unknown key "schma"; do you mean "schema"?`},
		{pg + "{memoryLimit: 1GB}", `2:18: unknown key "memoryLimit"; there are indexes, jsonb, keepBy, keepIds, keys, lockTimeout, maxConns, schema`},
		{pg + "{jsonb: maybe}", `2:25: jsonb must be true or false, it is "maybe"`},
		{pg + "\n  maxConns: 5\n  lockTimeout: 10", `4:16: lockTimeout must be a duration`},
		{pg + "{maxConns: -1}", "2:28: maxConns is -1, must be 1 to 1000"},
		{pg + "{lockTimeout: 1us}", "2:31: lockTimeout is 1µs, must be at least 1ms"},
		{pg + "{keepIds: 1h}", "2:27: keepIds is 1h0m0s, must be at least 30 days"},
		{pg + "{keys: {orders: id}}", "2:33: orders must be a list, it is a single value"},
		{pg + "{keys: {orders: []}}", `2:24: keys of table "orders" has no column`},
		{pg + "{keys: [id]}", "2:24: keys must have keys with values"},
		{pg + "{schema: " + strings.Repeat("x", 64) + "}", "2:26: schema the name of the schema"},
		{pg + "{schema: \"${SCHEMA}\"}", `2:26: schema is "${SCHEMA}": the value of the variable cannot be used`},
		{pg + "{keepIds: \"${TIME}\"}", `2:27: keepIds is "${TIME}": the value of the variable cannot be used`},
		{pg + "{jsonb: \"${WORD}\"}", `2:25: jsonb must be true or false, it is "${WORD}"`},
		{pg + "{keepBy: [at]}", "2:26: keepBy has no effect without keep-for"},
		{"keep-for: 1h\ntarget: postgres://host/x", "1:11: keep-for needs the option keepBy of this target"},
		{pg + "x", "2:17: target-options must have keys with values, it is a single value"},
		{pg + "{schema: a, schema: b}", `"schema" comes twice`},
		{"target-options: {schema: x}", "1:17: target-options has keys, but this target has no options"},
		{"target: dir:x\ntarget-options: {schema: x}", "2:17: target-options has keys, but this target has no options"},
		{"target: mysql://host/x\ntarget-options: {lazyLog: maybe}", "2:27: lazyLog must be true or false"},
		{"target: mysql://host/x\ntarget-options: {maxConns: -1}", "2:28: maxConns is -1, must be 1 to 1000"},
		{"target: clickhouse://host/x\ntarget-options: {window: -1}", "2:26: window is -1, must be at least 1"},
		{"target: clickhouse://host/x\ntarget-options: {blockBytes: 1KB, window: -1}", "2:43: window is -1, must be at least 1"},
		{"target: clickhouse://host/x?charset=hunter2", "1:9: target cannot be used: clickhouse: the address has the parameter"},
		{"target: mysql://host/x?charset=hunter2", "1:9: target cannot be used: mysql: the address has the parameter"},
		{"target: duckdb:x\ntarget-options: {memoryLimit: 5, threads: -1}", "2:31: memoryLimit must be a size"},
		{"target: duckdb:x\ntarget-options: {threads: -1}", "2:27: threads is -1, must not be negative"},
		{"target: sqlite:x\ntarget-options: {stallTimeout: -1s}", "2:32: stallTimeout is -1s, must not be negative"},
		{"target: parquet:x\ntarget-options: {compression: lzma}", `2:31: compression "lzma": use zstd, snappy or none`},
		{"target: parquet:x\ntarget-options: {rowGroup: -1}", "2:28: rowGroup is -1"},
		{"target: parquet:x\ntarget-options: {partSize: 8MB}", "2:28: partSize is for tables in a bucket"},
		{"target: parquet:x\ntarget-options: {scratch: /tmp}", "2:27: scratch is for tables in a bucket"},
		{"target: parquet:s3://bucket\ntarget-options: {partSize: 1MB}", "2:28: partSize is 1048576, must be at least 5242880"},
		{"target: iceberg:https://host?namespace=a\ntarget-options: {namespace: b}", "2:29: namespace is in the address of the catalog too"},
	} {
		if leftOut(tt.text) {
			continue
		}
		status, out, errs := checkFile(t, tt.text, env)
		if status != wrongUsage || !strings.Contains(errs, "FILE has ") || !strings.Contains(errs, tt.want) || strings.Contains(out+errs, "hunter2") {
			t.Errorf("got %s\nstatus %d, want %q\n%s%s", tt.text, status, tt.want, out, errs)
		}
	}
	for _, text := range []string{
		pg + "{schema: a, jsonb: true, keys: {orders: [id], in.c-web.events: [id, day]}, maxConns: 2, lockTimeout: 1s, keepIds: 9000h}",
		pg + "{keepBy: [at]}\nkeep-for: 24h", "target: duckdb:x\ntarget-options: {memoryLimit: 512MB, threads: 2, keepIds: -1s}",
		"target: sqlite:x\ntarget-options: {lockTimeout: 1s, stallTimeout: 1s, maxWal: 1MB, keepIds: 1h}", "target: parquet:x\ntarget-options: {compression: snappy, rowGroup: 1000}",
		"target: parquet:s3://bucket\ntarget-options: {partSize: 16MB, scratch: /var/tmp}", "target: iceberg:https://host\ntarget-options: {namespace: b, keepSnapshots: 1h}", "target: dir:x\ntarget-options: {}",
	} {
		if leftOut(text) {
			continue
		}
		if status, out, errs := checkFile(t, text, nil); status != 0 {
			t.Errorf("%s\ngot status %d\n%s%s\nwant 0", text, status, out, errs)
		}
	}
}

// The flag has the same form, and wins over the file.
func TestTargetOptionsOfTheFlag(t *testing.T) {
	for text, want := range map[string]string{
		"{schma: x}": `-target-options has a mistake: unknown key "schma"`, "{maxConns: -1}": "-target-options has a mistake: maxConns is -1", "schema: x, jsonb: y": "cannot be read",
		"{": "cannot be read", "x": "must have keys with values", "{jsonb: maybe}": `-target-options has a mistake: jsonb must be true or false`,
	} {
		if status, _, errs := call(t, "", nil, "serve", "-target", "postgres://host/x", "-target-options", text); status != wrongUsage || !strings.Contains(errs, want) {
			t.Errorf("got %s: status %d, want %q\n%s", text, status, want, errs)
		}
	}
	file := "target: postgres://host/x\ntarget-options: {schma: x}"
	if status, _, errs := checkFile(t, file, nil, "-target-options", "{schema: x}"); status != wrongUsage && errs != "" {
		t.Errorf("the options of the file count: status %d, %s", status, errs)
	}
	if status, _, errs := checkFile(t, "target: postgres://host/x", map[string]string{"FOREBAY_TARGET_OPTIONS": "{maxConns: 0.5}"}); status != wrongUsage || !strings.Contains(errs, "maxConns must be a whole number") {
		t.Errorf("the variable does not count: status %d, %s", status, errs)
	}
}

// A server with options for PostgreSQL keeps one row a key, in the schema, with documents as jsonb. Changed options need a restart.
func TestServeWithPostgresOptions(t *testing.T) {
	folder, _, _ := strings.Cut(strings.TrimPrefix(postgresServer.URL(t), "host="), " ")
	conn := postgresServer.Connect(t)
	pgtest.Exec(t, conn, `CREATE SCHEMA "the schema"`)
	t.Cleanup(func() { pgtest.Exec(t, conn, `DROP SCHEMA "the schema" CASCADE`) })
	file := filepath.Join(t.TempDir(), "forebay.yaml")
	config := `
target: postgres://postgres@/postgres?host=` + folder + `
target-options: {schema: the schema, jsonb: true, maxConns: 3, keys: {orders: [id]}} # comment
dir: ` + t.TempDir() + `
sources:
  - id: web
    secret: ${WEB_SECRET}
    sinks:
      - id: orders
        table: orders
        columns: [{name: id, type: path, path: id, dataType: int64, required: true}, {name: event, type: path, path: "", dataType: json}]
`
	write(t, file, config)
	s := serve(t, secrets(), "-config", file)
	for _, event := range []string{`{"id":1,"v":1}`, `{"id":2,"v":1}`, `{"id":1,"v":2}`} {
		if status, text := s.post("ingest", "/stream/1/web/"+webSecret, event); status != http.StatusOK {
			t.Fatalf("answered %d %s", status, text)
		}
	}
	write(t, file, strings.Replace(config, "# comment", "# other", 1))
	s.hangUp()
	s.waitLog("configuration reloaded", 1)
	write(t, file, strings.Replace(config, "maxConns: 3", "maxConns: 4", 1))
	s.hangUp()
	s.waitLog("cannot change while the server runs: target-options", 1)
	s.stop()
	rows, err := conn.Query(t.Context(), `SELECT id || ':' || (event->>'v') || ':' || pg_typeof(event) FROM "the schema".orders ORDER BY id`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || strings.Join(got, " ") != "1:2:jsonb 2:1:jsonb" {
		t.Errorf("rows %q, %v\n%s", got, err, s.Logs())
	}
}

// Options reach the target, and the program reads the tables where they are.
func TestTargetOptionsCount(t *testing.T) {
	demo := func(t *testing.T, target, options string) {
		t.Helper()
		status, out, errs := call(t, "", nil, "demo", "-n", "50", "-clients", "4", "-dir", t.TempDir(), "-target", target, "-target-options", options)
		if status != 0 || !strings.HasSuffix(out, "sent=50 rows=100 rejected=0 lost=0 duplicated=0\n") {
			t.Fatalf("status %d\n%s%s", status, out, errs)
		}
	}
	t.Run("postgres", func(t *testing.T) {
		folder, _, _ := strings.Cut(strings.TrimPrefix(postgresServer.URL(t), "host="), " ")
		conn := postgresServer.Connect(t)
		pgtest.Exec(t, conn, `CREATE SCHEMA shop`)
		t.Cleanup(func() { pgtest.Exec(t, conn, `DROP SCHEMA shop CASCADE`) })
		demo(t, "postgres://postgres@/postgres?host="+folder, "{schema: shop}")
	})
	t.Run("duckdb", func(t *testing.T) {
		needs(t, "duckdb:")
		pl := places{target: "duckdb:" + filepath.Join(t.TempDir(), "x.db"), options: targetOptions{text: "{memoryLimit: 100MB, threads: 3}"}}
		st, err := pl.open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		var threads, memory string
		err = st.Tables.(sqlReader).db.QueryRow("SELECT current_setting('threads'), current_setting('memory_limit')").Scan(&threads, &memory)
		if err != nil || threads != "3" || memory != "100.0 MiB" {
			t.Errorf("got %s threads, %s, %v, want 3, 100.0 MiB, no error", threads, memory, err)
		}
	})
	t.Run("parquet", func(t *testing.T) {
		lake := t.TempDir()
		demo(t, "parquet:"+lake, "{compression: snappy, rowGroup: 10}")
		parts, _ := filepath.Glob(lake + "/in.c-shop.audit/[^_]*.parquet") // except the part without rows
		if len(parts) == 0 {
			t.Fatal("no parts")
		}
		f, err := os.Open(parts[0])
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		info, _ := f.Stat()
		part, err := pq.OpenFile(f, info.Size())
		if err != nil {
			t.Fatal(err)
		}
		group := part.Metadata().RowGroups[0]
		if codec := group.Columns[0].MetaData.Codec.String(); codec != "SNAPPY" || group.NumRows > 10 {
			t.Errorf("codec %s, %d rows in a group", codec, group.NumRows)
		}
	})
	t.Run("iceberg", func(t *testing.T) {
		needs(t, "iceberg:")
		warehouse := t.TempDir()
		demo(t, "iceberg:"+warehouse, "{namespace: shop}")
		if found, _ := filepath.Glob(warehouse + "/shop*/*"); len(found) == 0 {
			t.Error("the namespace has no table")
		}
	})
}

// keep-for removes rows of a database by the columns of keepBy.
func TestDatabaseKeepsRowsFor(t *testing.T) {
	folder := t.TempDir()
	file, db := filepath.Join(folder, "forebay.yaml"), filepath.Join(folder, "events.db")
	write(t, file, `
target: sqlite:`+db+`
target-options: {keepBy: [at]}
keep-for: 24h
min-import-interval: 1s
dir: `+filepath.Join(folder, "data")+`
sources:
  - id: web
    secret: ${WEB_SECRET}
    settings: {upload: {interval: 1s}, import: {interval: 1s}}
    sinks:
      - {id: events, table: events, columns: [{name: at, type: path, path: at, dataType: timestamp}, {name: n, type: path, path: n, dataType: int64}]}
`)
	s := serve(t, secrets(), "-config", file)
	for _, event := range []string{`{"n":1,"at":"2020-01-02T03:04:05Z"}`, `{"n":2,"at":"2120-01-02T03:04:05Z"}`} {
		if status, text := s.post("ingest", "/stream/1/web/"+webSecret, event); status != http.StatusOK {
			t.Fatalf("answered %d %s", status, text)
		}
	}
	for deadline := time.Now().Add(30 * time.Second); rowsOf(t, db, "events WHERE n = 2") != 1 || rowsOf(t, db, "events WHERE n = 1") != 0; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("got %d rows, want one with n = 2 and none with n = 1\n%s", rowsOf(t, db, "events"), s.Logs())
		}
	}
	s.stop()
}

// The file with the token of ClickHouse is read again for each request, so a server follows a token that is replaced.
func TestClickHouseTokenIsReplaced(t *testing.T) {
	folder := t.TempDir()
	file, tokenFile := filepath.Join(folder, "forebay.yaml"), filepath.Join(folder, "token")
	database := clickhouseServer.Database(t)
	upstream := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: clickhouseServer.Address()})
	upstream.ErrorLog = log.New(io.Discard, "", 0)
	var accepted atomic.Value // the only token that the gateway accepts
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+accepted.Load().(string) {
			http.Error(w, "the token has expired", http.StatusForbidden)
			return
		}
		r.Header.Del("Authorization")
		r.SetBasicAuth(clickhousetest.User, clickhousetest.Password)
		upstream.ServeHTTP(w, r)
	}))
	defer gateway.Close()
	write(t, file, `
target: clickhouse://`+strings.TrimPrefix(gateway.URL, "http://")+`/`+database+`
target-options: {tokenFile: `+tokenFile+`}
min-import-interval: 1s
dir: `+filepath.Join(folder, "data")+`
sources:
  - id: web
    secret: ${WEB_SECRET}
    settings: {upload: {interval: 1s}, import: {interval: 1s}}
    sinks: [{id: events, table: events, columns: [`+column("n", "int64")+`]}]
`)
	replace := func(token string) {
		write(t, tokenFile, token+"\n")
		accepted.Store(token)
	}
	replace("hunter2-one")
	s := serve(t, secrets(), "-config", file)
	send := func(event string) {
		t.Helper()
		if status, text := s.post("ingest", "/stream/1/web/"+webSecret, event); status != http.StatusOK {
			t.Fatalf("answered %d %s", status, text)
		}
	}
	count := func() string {
		rows, err := clickhouseServer.Query("SELECT toString(count()) FROM " + database + ".events")
		if err != nil {
			return err.Error() // the table is not there yet
		}
		return *rows[0][0]
	}
	send(`{"n":1}`)
	for deadline := time.Now().Add(60 * time.Second); count() != "1"; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("got %s, want a row\n%s", count(), s.Logs())
		}
	}
	replace("hunter2-two")
	send(`{"n":2}`)
	s.stop()
	if n := count(); n != "2" || strings.Contains(s.Logs(), "hunter2") {
		t.Errorf("got %s, want 2 rows and no token in the log\n%s", n, s.Logs())
	}
}
