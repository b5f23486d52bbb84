package clickhouse

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/proctest"
	"github.com/forebay/forebay/internal/seedtest"
)

// events is a table that has several partitions with PartitionBy day.
func events(id string) driver.Table {
	return table(id, required(col("id", datatype.Int64)), required(col("day", datatype.Date)), col("name", datatype.String))
}

// eventRows returns rows of events, in five partitions.
func eventRows(file, n int) (rows [][]string) {
	for i := range n {
		rows = append(rows, []string{fmt.Sprint(1000*file + i), fmt.Sprintf("2026-11-%02d", 1+i%5), fmt.Sprintf("name %d", i)})
	}
	return rows
}

// manyBlocks makes each slice a block.
func manyBlocks(t *Target) *Target {
	t.options.BlockBytes = 1
	return t
}

// The moments at which the server is killed.
const (
	unanswered = iota // it has stored a block, and has not responded
	storing           // it stores a block
	between           // between two blocks, or before the first
	answered          // after its last response, which the engine has not recorded

	midway = answered // the number of moments before the last response
)

// The server is killed at each moment. The table has one partition or several, or remembers a single block. In half of the cases the tokens are
// forgotten before the retry. The table contains each row once.
func TestKillsOfTheServerDuringImports(t *testing.T) {
	if testing.Short() {
		t.Skip("restarts the server")
	}
	for name, tt := range map[string]struct {
		options        Options
		first, moments int
	}{
		"one partition":      {Options{}, unanswered, midway},
		"several partitions": {Options{PartitionBy: "day"}, unanswered, midway},
		"window of 1":        {Options{Window: 1}, unanswered, midway},
		"answered":           {Options{}, answered, 1},
	} {
		t.Run(name, func(t *testing.T) {
			kills := proctest.Kills(t)
			t.Logf("%d kills", kills)
			rng := seedtest.Rand(t)
			target := manyBlocks(open(t, tt.options))
			tbl := events("events")
			mustEnsure(t, target, tbl)
			var want [][]string
			for i := range kills {
				rows := eventRows(i, 100) // five blocks
				killAndRetry(t, target, newFile(fmt.Sprintf("file-%04d", i), tbl, rows...), tt.first+i%tt.moments, i%5, i%2 == 1, rng)
				want = append(want, rows...)
				if expectRows(t, target, tbl.ID, want...); t.Failed() {
					t.Fatalf("after kill %d", i)
				}
			}
		})
	}
}

// The server is killed before its last response while a slow materialized view reads the blocks. The table and the view contain each row once, because
// the retry sends all blocks again and the server remembers their tokens.
func TestKillsOfTheServerWithAView(t *testing.T) {
	if testing.Short() {
		t.Skip("restarts the server")
	}
	kills := proctest.Kills(t)
	t.Logf("%d kills", kills)
	rng := seedtest.Rand(t)
	target := manyBlocks(open(t, Options{}))
	tbl := events("events")
	mustEnsure(t, target, tbl)
	copies := target.table("copies")
	server.Exec(t, "CREATE TABLE "+copies+" (n UInt64) ENGINE = MergeTree ORDER BY n SETTINGS non_replicated_deduplication_window = 10000")
	server.Exec(t, "CREATE MATERIALIZED VIEW "+target.table("view")+" TO "+copies+" AS SELECT id AS n FROM "+target.table(tbl.ID)+" WHERE sleepEachRow(0.001) = 0")
	var want [][]string
	for i := range kills {
		rows := eventRows(i, 100) // five blocks
		killAndRetry(t, target, newFile(fmt.Sprintf("file-%04d", i), tbl, rows...), i%midway, i%5, false, rng)
		want = append(want, rows...)
		expectRows(t, target, tbl.ID, want...)
		got := server.Rows(t, "SELECT toString(count()), toString(uniqExact(n)) FROM "+copies)[0]
		if n := fmt.Sprint(len(want)); *got[0] != n || *got[1] != n {
			t.Errorf("the view has %s rows, %s different ones, want %s", *got[0], *got[1], n)
		}
		if t.Failed() {
			t.Fatalf("after kill %d", i)
		}
	}
}

// Two engines import into one table while the server is killed. Both import the same file, and each imports a file of its own. They retry
// at the same time, and in half of the cases the server has forgotten all tokens before. One table has one partition, a second table has several.
// Each table contains each row once.
func TestKillsOfTheServerWithTwoEngines(t *testing.T) {
	if testing.Short() {
		t.Skip("restarts the server")
	}
	kills := proctest.Kills(t)
	t.Logf("%d kills", kills)
	rng := seedtest.Rand(t)
	tbl := events("events")
	var engines [2][2]*Target // by table
	var want [2][][]string
	for n, o := range []Options{{}, {PartitionBy: "day"}} {
		engines[n][0] = manyBlocks(open(t, o))
		engines[n][1] = manyBlocks(reopen(t, engines[n][0].client.database, o))
		mustEnsure(t, engines[n][0], tbl)
	}
	for i := range kills {
		table := rng.IntN(2)
		var imports []importOf
		for n, file := range []int{3 * i, 3 * i, 3*i + 1, 3*i + 2} {
			rows := eventRows(file, 100) // five blocks
			imports = append(imports, importOf{engines[table][n%2], newFile(fmt.Sprintf("file-%06d", file), tbl, rows...)})
			if n > 0 {
				want[table] = append(want[table], rows...)
			}
		}
		aim(t, i%midway, rng.IntN(15), rng) // of 20 blocks
		failed := false
		for _, err := range together(t, imports) {
			if failed = failed || err != nil; err != nil && driver.IsPermanent(err) {
				t.Fatalf("Import with a server that is killed = %v, want an error that is retried", err)
			}
		}
		if !failed && i%midway != storing {
			t.Fatal("no Import has failed although the server was killed before a response")
		}
		<-server.Ended()
		server.Restart(t)
		if i%2 == 1 {
			forget(t, engines[table][0], tbl)
		}
		for n, err := range together(t, imports) {
			if err != nil {
				t.Errorf("the next attempt of %s = %v", imports[n].file.ID, err)
			}
			expectCount(t, imports[n].engine, tbl, imports[n].file.ID, 100)
		}
		if t.Failed() {
			t.Fatalf("after kill %d of table %d", i, table)
		}
	}
	for n := range engines {
		expectRows(t, engines[n][0], tbl.ID, want[n]...)
	}
}

// importOf is an import by an engine.
type importOf struct {
	engine *Target
	file   *driver.File
}

// together makes the imports at the same time, and returns their errors.
func together(tb testing.TB, imports []importOf) []error {
	errs := make([]error, len(imports))
	var wg sync.WaitGroup
	for n, im := range imports {
		wg.Go(func() { errs[n] = im.engine.Import(tb.Context(), im.file) })
	}
	wg.Wait()
	return errs
}

// killAndRetry kills the server during the import of a file, and imports the file again, after the server has forgotten all tokens or before.
func killAndRetry(t *testing.T, target *Target, f *driver.File, moment, blocks int, forgotten bool, rng *rand.Rand) {
	t.Helper()
	aim(t, moment, blocks, rng)
	if err := target.Import(t.Context(), f); driver.IsPermanent(err) || moment != storing && (err == nil) != (moment == answered) {
		t.Fatalf("Import = %v at moment %d, want an error that is retried unless the server has responded to each block", err, moment)
	}
	if moment == answered {
		server.Kill(t)
	}
	<-server.Ended()
	server.Restart(t)
	if forgotten {
		forget(t, target, f.Table)
	}
	mustImport(t, target, f)
	if n, err := target.CountFile(t.Context(), f.Table, f.ID); err != nil || n != f.Rows {
		t.Errorf("CountFile = %d, %v, want %d", n, err, f.Rows)
	}
}

// aim plans a kill of the server before its last response, after it has acknowledged some blocks.
func aim(t *testing.T, moment, blocks int, rng *rand.Rand) {
	t.Helper()
	switch moment {
	case unanswered:
		server.CrashAt(t, blocks, -1)
	case storing:
		server.CrashAt(t, blocks, time.Duration(rng.Int64N(int64(30*time.Millisecond))))
	case between:
		server.CrashAt(t, blocks, 0)
	}
}

// forget makes the server forget all tokens of a table.
func forget(tb testing.TB, target *Target, tbl driver.Table) {
	tb.Helper()
	set := func(n int) {
		server.Exec(tb, fmt.Sprintf("ALTER TABLE %s MODIFY SETTING non_replicated_deduplication_window = %d", target.table(tbl.ID), n))
	}
	set(0)
	set(target.options.Window)
}

// A retry after the window stores nothing twice, even if the server remembers only the previous file. Without the marker it would store rows twice. The
// same INSERT with a forgotten token doubles the rows.
func TestRetryBeyondTheWindow(t *testing.T) {
	target := manyBlocks(open(t, Options{Window: 1}))
	tbl := events("events")
	first, second := newFile("file-1", tbl, eventRows(1, 60)...), newFile("file-2", tbl, eventRows(2, 60)...)
	mustImport(t, target, first)
	mustImport(t, target, second)
	for range 3 {
		mustImport(t, target, first)
		mustImport(t, target, second)
	}
	expectRows(t, target, tbl.ID, append(eventRows(1, 60), eventRows(2, 60)...)...)

	first.Progress, first.Copied = nil, true // as in an engine that was restored from a checkpoint
	mustImport(t, target, first)
	if n, err := target.CountFile(t.Context(), tbl, first.ID); err != nil || n != 60 {
		t.Errorf("the copy of an engine imports the file again: it counts %d rows, %v, want 60", n, err)
	}
	target.options.BlockBytes = 1 << 20
	first.Progress = nil
	for range 2 { // even with its own note
		if err := target.Import(t.Context(), first); !driver.IsPermanent(err) || !strings.Contains(err.Error(), "BlockBytes") {
			t.Errorf("the copy divides the file in another way: %v", err)
		}
	}
	manyBlocks(target)

	first.Progress, first.Copied = nil, false // as in a first attempt. Only the token protects the file, and the server has forgotten it
	mustImport(t, target, first)
	if n, err := target.CountFile(t.Context(), tbl, first.ID); err != nil || n != 120 {
		t.Errorf("without the note and the token the file counts %d rows, %v, want 120: else this test proves nothing", n, err)
	}
}

// Within the window the token alone is enough. A repeated attempt without a note stores nothing. With a window of 0 it would store the rows.
func TestTokenRefusesASecondFirstAttempt(t *testing.T) {
	target := manyBlocks(open(t, Options{}))
	tbl := events("events")
	f := newFile("file-1", tbl, eventRows(1, 60)...)
	for range 3 {
		f.Progress = nil
		mustImport(t, target, f)
	}
	expectRows(t, target, tbl.ID, eventRows(1, 60)...)
}

// A partition that an earlier attempt did not store is added after the window, and the other partitions stay.
func TestMissingPartitions(t *testing.T) {
	target := open(t, Options{PartitionBy: "day"})
	tbl := events("events")
	f := newFile("file-1", tbl, eventRows(1, 100)...)
	mustImport(t, target, f)
	server.Exec(t, "ALTER TABLE "+target.table(tbl.ID)+" DROP PARTITION '2026-11-03'")
	forget(t, target, tbl)
	for range 2 {
		mustImport(t, target, f)
		expectRows(t, target, tbl.ID, eventRows(1, 100)...)
	}
}

// A server that is killed after it has noted a token, and before it has stored the part, ignores the block of the next attempt. The next attempt stores
// the rows of this part under a second token. It does so even if this token is lost too. A driver that always sends the first token does not.
func TestTokenWithoutItsPart(t *testing.T) {
	if testing.Short() {
		t.Skip("restarts the server")
	}
	for _, o := range []Options{{}, {PartitionBy: "day"}} {
		target := open(t, o)
		o.Transport = brokenSettings{"insert_deduplication_token": markerOf("file-1", 100, 1, 1)}
		broken := reopen(t, target.client.database, o)
		tbl := events("events")
		f := newFile("file-1", tbl, eventRows(1, 100)...)
		mustImport(t, target, f)
		for range 2 {
			parts := server.Rows(t, "SELECT path FROM system.parts WHERE database = "+literal(target.client.database)+" AND table = "+literal(tbl.ID)+" AND active ORDER BY name")
			server.Kill(t)
			if err := os.RemoveAll(*parts[0][0]); err != nil {
				t.Fatal(err)
			}
			server.Restart(t)
			err := broken.Import(t.Context(), f)
			if n := len(readTable(t, target.client.database, tbl.ID)); n == 100 {
				t.Errorf("%d rows and %v with the first token alone: else this test proves nothing", n, err)
			}
			mustImport(t, target, f)
			if expectRows(t, target, tbl.ID, eventRows(1, 100)...); t.Failed() {
				t.Fatalf("after the loss of %s", *parts[0][0])
			}
		}
	}
}

// Two drivers import the same files at once, first attempts and retries.
func TestTwoDrivers(t *testing.T) {
	target := manyBlocks(open(t, Options{PartitionBy: "day"}))
	other := manyBlocks(reopen(t, target.client.database, Options{PartitionBy: "day"}))
	tbl := events("events")
	var want [][]string
	for i := range 5 {
		rows := eventRows(i, 60)
		want = append(want, rows...)
		var wg sync.WaitGroup
		for n, target := range []*Target{target, other, target, other} {
			f := newFile(fmt.Sprintf("file-%d", i), tbl, rows...)
			if n > 1 {
				f.Progress = []byte(`{"blockBytes":1}`)
			}
			wg.Go(func() { mustImport(t, target, f) })
		}
		wg.Wait()
	}
	expectRows(t, target, tbl.ID, want...)
}

// A materialized view gets each block once, even if it fails after the table has stored the rows. Then the retry feeds it.
func TestMaterializedView(t *testing.T) {
	target := manyBlocks(open(t, Options{}))
	tbl := events("events")
	mustEnsure(t, target, tbl)
	sums := target.table("sums")
	server.Exec(t, "CREATE TABLE "+sums+" (n UInt64) ENGINE = MergeTree ORDER BY n SETTINGS non_replicated_deduplication_window = 10000")
	server.Exec(t, "CREATE TABLE "+target.table("stop")+" (id Int64) ENGINE = MergeTree ORDER BY id")
	server.Exec(t, "CREATE MATERIALIZED VIEW "+target.table("view")+" TO "+sums+" AS SELECT id AS n FROM "+target.table(tbl.ID)+
		" WHERE throwIf(id IN (SELECT id FROM "+target.table("stop")+")) = 0")
	expect := func(rows int) {
		t.Helper()
		if got := server.Rows(t, "SELECT toString(count()), toString(uniqExact(n)) FROM "+sums)[0]; *got[0] != fmt.Sprint(rows) || *got[1] != fmt.Sprint(rows) {
			t.Errorf("the view has %s rows, %s different ones, want %d", *got[0], *got[1], rows)
		}
	}
	server.Exec(t, "INSERT INTO "+target.table("stop")+" VALUES (1045)")
	f := newFile("file-1", tbl, eventRows(1, 60)...) // 1045 is in the third block
	if err := target.Import(t.Context(), f); err == nil || driver.IsPermanent(err) {
		t.Fatalf("Import with a view that fails = %v, want an error that is retried", err)
	}
	server.Exec(t, "TRUNCATE TABLE "+target.table("stop"))
	for range 3 {
		mustImport(t, target, f)
		expectRows(t, target, tbl.ID, eventRows(1, 60)...)
		expect(60)
	}
	// After the window neither the table nor the view gets a row.
	f.Progress = []byte(`{"blockBytes":1,"at":"2026-01-01T00:00:00Z"}`)
	forget(t, target, tbl)
	server.Exec(t, "ALTER TABLE "+sums+" MODIFY SETTING non_replicated_deduplication_window = 0")
	mustImport(t, target, f)
	expectRows(t, target, tbl.ID, eventRows(1, 60)...)
	expect(60)
}

// brokenSettings removes or changes settings of each INSERT before it reaches the server.
type brokenSettings map[string]string

func (b brokenSettings) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	query := r.URL.Query()
	for name, value := range b {
		if query.Has(name) {
			query.Set(name, value)
		}
	}
	r.URL.RawQuery = query.Encode()
	return http.DefaultTransport.RoundTrip(r)
}

// Each protection of a file is needed. Without it the tests above would find doubled or divided files.
func TestBrokenDrivers(t *testing.T) {
	for name, broken := range map[string]struct {
		settings brokenSettings
		err      string
		rows     int64 // after two first attempts
	}{
		"without a token":       {brokenSettings{"insert_deduplication_token": ""}, "DEDUPLICATION_IS_NOT_POSSIBLE", 0},
		"without deduplication": {brokenSettings{"insert_deduplicate": "0", "deduplicate_insert": "disable", "deduplicate_insert_select": "disable"}, "", 120},
		"with divided blocks":   {brokenSettings{"max_block_size": "7", "max_insert_block_size": "7"}, saysRows, 0},
	} {
		t.Run(name, func(t *testing.T) {
			target := open(t, Options{Transport: broken.settings})
			f := newFile("file-1", events("events"), eventRows(1, 60)...)
			for range 2 {
				f.Progress = nil
				if err := target.Import(t.Context(), f); broken.err == "" && err != nil || broken.err != "" && (err == nil || !strings.Contains(err.Error(), broken.err)) {
					t.Errorf("Import = %v, want %q", err, broken.err)
				}
			}
			if n, err := target.CountFile(t.Context(), f.Table, f.ID); err != nil || n != broken.rows {
				t.Errorf("the file counts %d rows, %v, want %d", n, err, broken.rows)
			}
		})
	}
}

// A server whose profile makes all inserts asynchronous stores a file before it responds.
func TestAsyncInsertByDefault(t *testing.T) {
	target := open(t, Options{})
	if got := *server.Rows(t, "SELECT value FROM system.settings WHERE name = 'async_insert'")[0][0]; got != "1" {
		t.Fatalf("async_insert of the server is %s, want 1 by default", got)
	}
	tbl := events("events")
	mustImport(t, target, newFile("file-1", tbl, eventRows(1, 60)...))
	expectRows(t, target, tbl.ID, eventRows(1, 60)...)
}
