package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/internal/drivertest"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// roundTrip responds to requests without a server.
type roundTrip func(*http.Request, string) (status int, header, body string)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) {
	sql, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	status, header, body := f(r, string(sql))
	resp := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}
	if name, value, found := strings.Cut(header, ": "); found {
		resp.Header.Set(name, value)
	}
	return resp, nil
}

// A target that is printed shows neither a password nor a token.
func TestPrintedTargetHasNoSecret(t *testing.T) {
	token := func(context.Context) (string, error) { return "hunter2", nil }
	for address, o := range map[string]Options{"clickhouse://u:hunter2@host/db": {}, "clickhouse://host/db": {Token: token}} {
		target, err := Open(address, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := target.client.authorize(t.Context(), http.Header{}); err != nil {
			t.Fatal(err)
		}
		for _, form := range []string{"%v", "%+v", "%#v"} {
			if text := fmt.Sprintf(form, target); strings.Contains(text, "hunter2") {
				t.Errorf("%s of a target is %s", form, text)
			}
		}
	}
}

// A proxy may return 200 before the statement fails. Then the body contains the exception, and an INSERT has not stored its rows.
func TestExceptionInABodyWith200(t *testing.T) {
	for _, body := range []string{
		"Code: 241. DB::Exception: Memory limit exceeded: secret. (MEMORY_LIMIT_EXCEEDED)\n",
		"[\"1\"]\nCode: 241. DB::Exception: Memory limit exceeded: secret. (MEMORY_LIMIT_EXCEEDED)\n",
		"[\"1\"]\n\r\n__exception__\r\nabcd\r\nCode: 241. DB::Exception: Memory limit exceeded. (MEMORY_LIMIT_EXCEEDED)\n 42 abcd\r\n__exception__\r\n",
	} {
		answer := roundTrip(func(*http.Request, string) (int, string, string) {
			return 200, `X-ClickHouse-Summary: {"written_rows":"60"}`, body
		})
		target, err := Open("clickhouse://host/db", Options{Transport: answer})
		if err != nil {
			t.Fatal(err)
		}
		if err := target.client.exec(t.Context(), "SELECT 1"); code(err) != 241 {
			t.Errorf("200 with %q = %v, want code 241", body, err)
		}
	}
	text := roundTrip(func(*http.Request, string) (int, string, string) {
		return 200, "", `["a\nCode: 241. DB::Exception: "]` + "\n"
	})
	target, err := Open("clickhouse://host/db", Options{Transport: text})
	if err != nil {
		t.Fatal(err)
	}
	if rows, err := target.client.rows(t.Context(), "SELECT 1"); err != nil || len(rows) != 1 {
		t.Errorf("a cell that looks like an exception = %q, %v", rows, err)
	}
}

// The driver looks for the rows of a file on the replica that has caught up, even if other requests have moved to a different host meanwhile.
func TestReplicaThatCaughtUpIsAsked(t *testing.T) {
	for _, engine := range []string{"ReplicatedMergeTree", "SharedMergeTree"} {
		var target *Target
		var synced []string
		asked := map[string]bool{}
		answer := roundTrip(func(r *http.Request, sql string) (int, string, string) {
			switch {
			case strings.Contains(sql, "system.tables"):
				return 200, "", `["","` + engine + `","","","","0","0"]` + "\n"
			case strings.HasPrefix(sql, "SYSTEM SYNC REPLICA"):
				synced = append(synced, r.URL.Host)
				target.client.current.Store(1 - target.client.current.Load())
			case strings.HasPrefix(sql, "SELECT `_forebay_file`, count()") && len(synced) > 0:
				asked[r.URL.Host] = true
			}
			return 200, "", ""
		})
		var err error
		if target, err = Open("clickhouse://one,two/db", Options{Engine: engine, Transport: answer}); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			synced, asked = nil, map[string]bool{}
			if n, err := target.CountFile(t.Context(), events("events"), "file-1"); err != nil || n != 0 {
				t.Fatal(n, err)
			}
			if len(synced) != 1 || len(asked) != 1 || !asked[synced[0]] {
				t.Errorf("%s: %q have caught up, and %v were asked", engine, synced, asked)
			}
		}
	}
}

// profile has settings of the account, which hold where a request does not set them.
type profile map[string]string

func (p profile) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	query := r.URL.Query()
	for name, value := range p {
		if !query.Has(name) {
			query.Set(name, value)
		}
	}
	r.URL.RawQuery = query.Encode()
	return http.DefaultTransport.RoundTrip(r)
}

// Settings of a profile that shorten results lose no row, and hide no row from a repeated attempt.
func TestProfilesThatShortenResults(t *testing.T) {
	for _, p := range []profile{
		{"limit": "10"},
		{"offset": "1"},
		{"max_rows_to_group_by": "1", "group_by_overflow_mode": "any"},
		{"use_query_cache": "1", "query_cache_system_table_handling": "save", "query_cache_nondeterministic_function_handling": "save"},
	} {
		t.Run(fmt.Sprint(p), func(t *testing.T) {
			target := manyBlocks(open(t, Options{Transport: p}))
			f := newFile("file-1", events("events"), eventRows(1, 60)...)
			for range 2 {
				if err := target.Import(t.Context(), f); err != nil {
					t.Log(err) // it may be refused, and loses nothing
					continue
				}
				expectRows(t, target, "events", eventRows(1, 60)...)
				forget(t, target, f.Table)
			}
		})
	}
}

// Names of columns have no meaning in the statement for missing partitions.
func TestMissingPartitionsWithOddNames(t *testing.T) {
	target := open(t, Options{PartitionBy: "day"})
	tbl := events("a) SELECT b")
	tbl.Columns[2].Name = "c`) SELECT 'd\\"
	f := newFile("file-1", tbl, eventRows(1, 100)...)
	mustImport(t, target, f)
	server.Exec(t, "ALTER TABLE "+target.table(tbl.ID)+" DROP PARTITION '2026-11-03'")
	forget(t, target, tbl)
	mustImport(t, target, f)
	expectRows(t, target, tbl.ID, eventRows(1, 100)...)
}

// A repeated attempt succeeds when its rows were stored, and later rows have replaced all of them.
func TestRetryAfterRowsWereReplaced(t *testing.T) {
	target := open(t, Options{Engine: "ReplacingMergeTree", OrderBy: []string{"id"}})
	tbl := events("events")
	first, second := newFile("file-1", tbl, eventRows(1, 60)...), newFile("file-2", tbl, eventRows(1, 60)...)
	mustImport(t, target, first)
	mustImport(t, target, second)
	server.Exec(t, "OPTIMIZE TABLE "+target.table(tbl.ID)+" FINAL")
	mustImport(t, target, first)
	expectCount(t, target, tbl, second.ID, 60)
	expectRows(t, target, tbl.ID, eventRows(1, 60)...)
}

// The error of repeated failures names their cause, and not a dropped table.
func TestImportNamesWhatFails(t *testing.T) {
	target := open(t, Options{Settings: map[string]string{"no_such_setting": "1"}})
	err := target.Import(t.Context(), newFile("file-1", events("events"), eventRows(1, 20)...))
	drivertest.Permanent(t, "Import with an unknown setting", err, "no_such_setting")
}

// An error of an INSERT has no value, even if an expression of the table fails with a code that statements of the driver use.
func TestErrorOfAnExpressionHasNoValue(t *testing.T) {
	target := open(t, Options{})
	tbl := events("events")
	mustEnsure(t, target, tbl)
	server.Exec(t, "ALTER TABLE "+target.table(tbl.ID)+" ADD COLUMN seconds Float64 MATERIALIZED parseTimeDelta(name)")
	rows := eventRows(1, 1)
	rows[0][2] = "hunter2"
	err := target.Import(t.Context(), newFile("file-1", tbl, rows...))
	if code(err) != 36 || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("Import = %v, want code 36 without the value", err)
	}
}

// All faults of options are reported at once.
func TestOptionsAreCheckedTogether(t *testing.T) {
	err := Validate("clickhouse://u:p@one,two/", Options{BlockBytes: 7, Window: -1, Engine: "Log", OrderBy: []string{""}, Settings: map[string]string{"async_insert": "1", "max_threads": "4"}})
	for _, word := range []string{"BlockBytes", "Window", "Engine", "OrderBy", "async_insert", "max_threads", "database is empty"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("Validate = %v, want it to contain %s", err, word)
		}
	}
}

// A retry repeats blocks for the views of a replicated table only if its server still knows the tokens. Otherwise it would store the rows twice.
func TestRetryForViewsOfAReplicatedTable(t *testing.T) {
	for _, tt := range []struct {
		full, server string // settings of the table and of the server
		inserts      int
	}{
		{"", `["replicated_deduplication_window","10000"]` + "\n" + `["replicated_deduplication_window_seconds","3600"]`, 1},
		{"", `["replicated_deduplication_window","100"]` + "\n" + `["replicated_deduplication_window_seconds","604800"]`, 0},
		{"", `["replicated_deduplication_window","10000"]` + "\n" + `["replicated_deduplication_window_seconds","60"]`, 0},
		{" SETTINGS replicated_deduplication_window = 0", `["replicated_deduplication_window","10000"]` + "\n" + `["replicated_deduplication_window_seconds","3600"]`, 0},
		{"", "", 0},
	} {
		inserts := 0
		answer := roundTrip(func(_ *http.Request, sql string) (int, string, string) {
			switch {
			case strings.Contains(sql, "system.tables"):
				return 200, "", `["","ReplicatedMergeTree","ReplicatedMergeTree ORDER BY id` + tt.full + `","","","1","0"]["id","Int64","","","","","1"]["day","Date32","","","","","2"]` +
					`["name","Nullable(String)","","","","","3"]["_forebay_file","LowCardinality(String)","","","","","4"]`
			case strings.Contains(sql, "system.replicated_merge_tree_settings"):
				return 200, "", tt.server
			case strings.HasPrefix(sql, "SELECT `_forebay_file`, count()"):
				return 200, "", `["file-1 60","60"]`
			case strings.HasPrefix(sql, "INSERT"):
				inserts++
				return 200, `X-ClickHouse-Summary: {"written_rows":"60"}`, ""
			}
			return 200, "", ""
		})
		target, err := Open("clickhouse://host/db", Options{Engine: "ReplicatedMergeTree", Transport: answer})
		if err != nil {
			t.Fatal(err)
		}
		f := newFile("file-1", events("events"), eventRows(1, 60)...)
		f.Progress = fmt.Appendf(nil, `{"blockBytes":1000000,"at":%q}`, time.Now().Format(time.RFC3339))
		if mustImport(t, target, f); inserts != tt.inserts {
			t.Errorf("with%s and %s the retry has sent %d blocks, want %d", tt.full, tt.server, inserts, tt.inserts)
		}
	}
}

// The engine has the settings of the windows under these names.
func TestSettingsOfReplicatedWindows(t *testing.T) {
	target := open(t, Options{})
	if !target.remembers(t.Context(), &relation{}) || target.remembers(t.Context(), &relation{full: "ReplicatedMergeTree SETTINGS replicated_deduplication_window = 100"}) {
		t.Error("the windows of the server are not read")
	}
}

// After a host that does not respond in time, is read-only, or is a proxy without a server, the next request goes to the next host.
func TestHostsThatFailAreLeft(t *testing.T) {
	for name, answer := range map[string]func(*http.Request) (int, string){
		"no response": func(r *http.Request) (int, string) { <-r.Context().Done(); return 500, "" },
		"read-only": func(*http.Request) (int, string) {
			return 500, "Code: 242. DB::Exception: Table is in readonly mode. (TABLE_IS_READ_ONLY)"
		},
		"proxy": func(*http.Request) (int, string) { return 502, "" },
	} {
		hosts := ""
		target, err := Open("clickhouse://one,two/db", Options{Engine: "ReplicatedMergeTree", Transport: roundTrip(func(r *http.Request, _ string) (int, string, string) {
			hosts += r.URL.Hostname() + " "
			if r.URL.Hostname() == "two" {
				return 200, "", ""
			}
			status, body := answer(r)
			return status, "", body
		})})
		if err != nil {
			t.Fatal(err)
		}
		exec := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			return target.client.exec(ctx, "SELECT 1")
		}
		if err := exec(); err == nil {
			t.Errorf("%s: got no error of exec, want one", name)
		}
		if err := exec(); err != nil || hosts != "one two " {
			t.Errorf("%s: exec = %v after requests to %s, want one two", name, err, hosts)
		}
	}
}

// Each statement that changes a table runs on all servers of the cluster, and each table that the driver creates is replicated.
func TestStatementsOfACluster(t *testing.T) {
	const columns = `["id","Int64","","","","","1"]["day","Date32","","","","","2"]["name","Nullable(String)","","","","","3"]`
	for _, tt := range []struct {
		name, relation, markers string
		do                      func(ctx context.Context, t *Target) error
		want                    []string // the beginnings of the statements
	}{
		{
			"a new table", "", "",
			func(ctx context.Context, t *Target) error {
				return errors.Join(t.change(ctx, t.create(events("events"), events("events").Columns)), t.ensureVoids(ctx))
			},
			[]string{"CREATE TABLE IF NOT EXISTS `db`.`events` ON CLUSTER `all` (`id` Int64, `day` Date32, `name` Nullable(String), `_forebay_file` LowCardinality(String), INDEX `_forebay_file` `_forebay_file` TYPE minmax GRANULARITY 1) ENGINE = ReplicatedMergeTree ORDER BY `day` SETTINGS fsync", "CREATE TABLE IF NOT EXISTS `db`.`_forebay_void` ON CLUSTER `all` (file_id String, table_name String, at DateTime64(6, 'UTC') DEFAULT now64(6)) ENGINE = ReplicatedMergeTree ORDER BY file_id"},
		},
		{
			"a table of other programs", `["","ReplicatedMergeTree","ReplicatedMergeTree ORDER BY id SETTINGS fsync_after_insert = 1","","","0","0"]` + columns, "",
			func(ctx context.Context, t *Target) error {
				changes, err := t.plan(ctx, events("events"))
				for _, change := range changes {
					err = errors.Join(err, t.change(ctx, change))
				}
				return err
			},
			[]string{"ALTER TABLE `db`.`events` ON CLUSTER `all` ADD COLUMN IF NOT EXISTS `_forebay_file` LowCardinality(String), ADD INDEX"},
		},
		{
			"a file that is ruled out", `["","ReplicatedMergeTree","ReplicatedMergeTree ORDER BY id SETTINGS fsync_after_insert = 1","","","0","0"]` + columns + `["_forebay_file","LowCardinality(String)","","","","","4"]`,
			`["file-1 60","20"]`,
			func(ctx context.Context, t *Target) error {
				_, err := t.Void(ctx, events("events"), "file-1")
				return err
			},
			[]string{"CREATE TABLE IF NOT EXISTS `db`.`_forebay_void` ON CLUSTER `all`", "ALTER TABLE `db`.`events` ON CLUSTER `all` DELETE WHERE"},
		},
		{
			"a creation that is taken back", `["","ReplicatedMergeTree","ReplicatedMergeTree ORDER BY id","","` + creationComment("c1") + `","0","0"]` + columns, "",
			func(ctx context.Context, t *Target) error { return t.Uncreate(ctx, "events", "c1") },
			[]string{"DROP TABLE IF EMPTY `db`.`events` ON CLUSTER `all` SYNC"},
		},
	} {
		var got []string
		answer := roundTrip(func(_ *http.Request, sql string) (int, string, string) {
			switch {
			case strings.Contains(sql, "system.tables"):
				return 200, "", tt.relation
			case strings.HasPrefix(sql, "SELECT `_forebay_file`, count()"):
				return 200, "", tt.markers
			case strings.HasPrefix(sql, "CREATE"), strings.HasPrefix(sql, "ALTER"), strings.HasPrefix(sql, "DROP"):
				got = append(got, sql)
			}
			return 200, "", ""
		})
		target, err := Open("clickhouse://one,two/db", Options{Engine: "ReplicatedMergeTree", Cluster: "all", Transport: answer})
		if err != nil {
			t.Fatal(err)
		}
		if err := tt.do(t.Context(), target); err != nil {
			t.Errorf("%s: got the error %v, want none", tt.name, err)
		}
		if !slices.EqualFunc(got, tt.want, strings.HasPrefix) {
			t.Errorf("%s: got the statements %q, want beginnings %q", tt.name, got, tt.want)
		}
		for _, sql := range got { // The library has no cluster, but its parser knows the clause.
			if parsed := *server.Rows(t, "SELECT formatQueryOrNull("+literal(sql)+")")[0][0]; !strings.Contains(parsed, "ON CLUSTER `all`") {
				t.Errorf("%s: the engine reads %q as %q, want a statement for a cluster", tt.name, sql, parsed)
			}
		}
	}
}

// A real engine creates the driver's replicated tables. Its library cannot fill them, and an import that a read-only replica refuses is retried.
func TestReplicatedTable(t *testing.T) {
	tab := table("events", required(col("id", datatype.Int64)), required(col("day", datatype.Date)), col("name", datatype.String))
	const path = "('/clickhouse/tables/{shard}/{database}/{table}', '{replica}'"
	for engine, want := range map[string]string{
		"ReplicatedMergeTree" + path + ")": "ReplicatedMergeTree", "ReplicatedReplacingMergeTree" + path + ", id)": "ReplicatedReplacingMergeTree",
	} {
		target := open(t, Options{
			Engine: engine, PartitionBy: "toYYYYMM(day)", TTL: "day + INTERVAL 90 DAY", Settings: map[string]string{"insert_keeper_max_retries": "0"},
		})
		mustEnsure(t, target, tab)
		mustEnsure(t, target, tab) // which reads the table and changes nothing
		for name, want := range map[string]string{"events": want, voids: "ReplicatedMergeTree"} {
			rows := server.Rows(t, "SELECT engine FROM system.tables WHERE database = "+literal(target.client.database)+" AND name = "+literal(name))
			if len(rows) != 1 || *rows[0][0] != want {
				t.Errorf("%s: got %d tables %s, want one of the engine %s", engine, len(rows), name, want)
			}
		}
		err := target.Import(t.Context(), newFile("f", tab, []string{"1", "2026-11-30", "a"}))
		if code(err) != replicaReadOnly || driver.IsPermanent(err) {
			t.Errorf("%s: got %v, want code %d, which is retried", engine, err, replicaReadOnly)
		}
	}
	target := open(t, Options{Engine: "ReplicatedMergeTree"}) // without a path, a cluster, and a replicated database
	drivertest.Permanent(t, "without a path", target.Ensure(t.Context(), tab), "36", "Macro 'uuid'")
}
