package clickhouse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"testing"
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driverkit/sqltail"
	"github.com/forebay/forebay/internal/drivertest"
)

var idColumn = col("id", datatype.Int64)

// manyRows fills a table of an id, three texts and a time, by several files.
func manyRows(tb testing.TB, target *Target, id string, n int) {
	tb.Helper()
	mustEnsure(tb, target, table(id, idColumn, col("a", datatype.String), col("b", datatype.String), col("c", datatype.String), required(col("at", datatype.Timestamp))))
	server.Exec(tb, fmt.Sprintf("INSERT INTO %s SELECT number, concat('some text ', toString(number)), 'another text', toString(number %% 7), toDateTime64('2026-11-29 12:00:00', 6, 'UTC') - number, "+
		"concat('engine-f', leftPad(toString(intDiv(number, 10000)), 12, '0'), ' 10000') FROM numbers(%d)", target.table(id), n))
}

// hanging is a proxy that does not forward read-only requests.
type hanging struct{ requests chan struct{} }

func (h hanging) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Query().Get("readonly") == "" {
		return http.DefaultTransport.RoundTrip(req)
	}
	h.requests <- struct{}{}
	<-req.Context().Done()
	return nil, req.Context().Err()
}

// A tail ends with its context even if the server hangs, and an import does not wait for it.
func TestTailEndsWithItsContext(t *testing.T) {
	proxy := hanging{make(chan struct{})}
	target := open(t, Options{Transport: proxy})
	tbl := table("events", idColumn)
	mustImport(t, target, newFile("file-1", tbl, []string{"1"}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := target.Tail(ctx, "events", 5)
		ended <- err
	}()
	<-proxy.requests
	mustImport(t, target, newFile("file-2", tbl, []string{"2"}))
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
	expectRows(t, target, "events", []string{"1"}, []string{"2"})
}

// The server itself ends a query that takes too long, and refuses to change a table.
func TestTailSettings(t *testing.T) {
	target := open(t, Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 900*time.Millisecond)
	defer cancel()
	settings, err := target.tailSettings(ctx)
	if err != nil {
		t.Fatal(err)
	}
	const timeout = 159
	if _, err := target.client.cells(t.Context(), "SELECT toString(sum(sipHash64(number))) FROM numbers(1000000000000)", settings); code(err) != timeout {
		t.Errorf("a query of a minute: %v, want code %d", err, timeout)
	}
	mustImport(t, target, newFile("file-1", table("events", idColumn), []string{"1"}))
	if err := target.client.exec(t.Context(), "INSERT INTO "+target.table("events")+" (id) SELECT 2", settings); code(err) != readOnly {
		t.Errorf("a statement that writes: %v, want code %d", err, readOnly)
	}
}

// The rows of the newest file are last, in parts of several files and in a merged part.
func TestTailOrder(t *testing.T) {
	target := open(t, Options{PartitionBy: "toYYYYMM(at)"})
	tbl := table("events", idColumn, required(col("at", datatype.Timestamp)))
	begin := time.Now().Add(-time.Minute)
	for i := range 4 {
		mustImport(t, target, newFile(fmt.Sprintf("engine-f%012d", i), tbl, []string{fmt.Sprint(i), fmt.Sprintf("2026-%02d-01T00:00:00.000000Z", 11-i%2)}))
	}
	if got := drivertest.TailIDs(t, target, "events", 9); got != "0 1 2 3" {
		t.Errorf("of parts: %q", got)
	}
	if tail, err := target.Tail(t.Context(), "events", 9); err != nil || tail.Imported.Before(begin) {
		t.Errorf("imported at %v, %v", tail.Imported, err)
	}
	server.Exec(t, "OPTIMIZE TABLE "+target.table("events")+" FINAL")
	if got := drivertest.TailIDs(t, target, "events", 1); got != "3" {
		t.Errorf("of merged partitions: %q", got)
	}
	manyRows(t, target, "many", 100_000)
	server.Exec(t, "OPTIMIZE TABLE "+target.table("many")+" FINAL")
	tail, err := target.Tail(t.Context(), "many", 30)
	if err != nil || len(tail.Rows) != 30 || !tail.Imported.IsZero() {
		t.Fatalf("got %d rows, imported at %v, %v, want 30, no time, no error", len(tail.Rows), tail.Imported, err)
	}
	for _, row := range tail.Rows { // the sorting key is the time, and the last file has the last 10,000 ids
		if len(row[0]) != 5 || row[0][0] != '9' {
			t.Errorf("a row of an earlier file: %q", row)
		}
	}
}

// withoutParts is a proxy to a server whose account may not read the list of the parts.
type withoutParts struct{}

func (withoutParts) RoundTrip(req *http.Request) (*http.Response, error) {
	sql, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	if bytes.Contains(sql, []byte("system.parts")) {
		return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{"X-Clickhouse-Exception-Code": {fmt.Sprint(accessDenied)}}, Body: http.NoBody}, nil
	}
	forward := req.Clone(req.Context())
	forward.Body = io.NopCloser(bytes.NewReader(sql))
	return http.DefaultTransport.RoundTrip(forward)
}

// Without the list of the parts, the ids of the files alone tell the order.
func TestTailWithoutParts(t *testing.T) {
	target := open(t, Options{Transport: withoutParts{}})
	for i := range 3 {
		mustImport(t, target, newFile(fmt.Sprintf("engine-f%012d", i), table("events", idColumn), []string{fmt.Sprint(i)}))
	}
	if got := drivertest.TailIDs(t, target, "events", 2); got != "1 2" {
		t.Errorf("got %q, want \"1 2\"", got)
	}
}

// Large cells are not returned. Fewer rows are returned, or none.
func TestTailIsBounded(t *testing.T) {
	drivertest.TailIsBounded(t, open(t, Options{}), table("it's `odd`", idColumn, col("text", datatype.String)), sqltail.MaxBytes)
}

// Foreign tables show their rows, and missing tables are distinguished from unreadable tables.
func TestTailOfOtherTables(t *testing.T) {
	target := open(t, Options{})
	server.Exec(t, "CREATE TABLE "+target.table("plain")+" (id Int32, tags Array(String), size Float64, raw String, twice Int32 ALIAS id * 2, note LowCardinality(Nullable(String)), m Map(String, UInt8)) ENGINE = MergeTree ORDER BY id")
	server.Exec(t, "INSERT INTO "+target.table("plain")+" SELECT 1, ['a'], 1e100, unhex('ff00'), NULL, map('k', 1)")
	tail, err := target.Tail(t.Context(), "plain", 5)
	if err != nil || fmt.Sprintf("%q", tail.Rows) != `[["1" "['a']" "1e+100" "\xff\x00" "" "{'k':1}"]]` || tail.Rows[0][4] != nil {
		t.Errorf("got %q, %v, want no error and fmt.Sprintf(\"%%q\", tail.Rows) == `[[\"1\" \"['a']\" \"1e+100\" \"\\xff\\x00\" \"\" \"{'k':1}\"]]` and tail.Rows[0][4] == nil", tail.Rows, err)
	}
	server.Exec(t, "CREATE TABLE "+target.table("log")+" (id Int32) ENGINE = Log")
	drivertest.Permanent(t, "an engine without parts", func() error { _, err := target.Tail(t.Context(), "log", 5); return err }(), "has the engine Log")
	drivertest.Permanent(t, "our own table", func() error { _, err := target.Tail(t.Context(), voids, 5); return err }(), "reserved")
	if _, err := target.Tail(t.Context(), "absent", 5); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
}

// The query that people copy runs, and gives the newest rows first.
func TestQueryHasAnOrder(t *testing.T) {
	for _, at := range []bool{false, true} {
		target := open(t, Options{})
		tbl := table("it's `odd`", idColumn)
		first, second := []string{"1"}, []string{"2"}
		if at {
			tbl.Columns = append(tbl.Columns, col("at", datatype.Timestamp))
			first, second = append(first, "2026-11-29T12:00:00.000000Z"), append(second, "2026-11-29T13:00:00.000000Z")
		}
		mustImport(t, target, newFile("file-1", tbl, first))
		mustImport(t, target, newFile("file-2", tbl, second))
		language, query := target.Query(tbl)
		rows := server.Rows(t, query)
		if language != "ClickHouse" || len(rows) != 2 || *rows[0][0] != "2" || len(rows[0]) != len(tbl.Columns) {
			t.Errorf("got a query in %s, want ClickHouse, with two rows, the last first: %s", language, query)
		}
	}
}

// BenchmarkTail reads 20 rows of 5 million, of one part that was merged of many files.
func BenchmarkTail(b *testing.B) {
	target := open(b, Options{})
	manyRows(b, target, "many", 5_000_000)
	server.Exec(b, "OPTIMIZE TABLE "+target.table("many")+" FINAL")
	drivertest.BenchmarkTail(b, target)
}
