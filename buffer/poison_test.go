package buffer_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/casetest"
	"github.com/forebay/forebay/internal/synctest"
)

const tableA = "in.c-test.a"

// bad marks the rows that the target of these tests refuses.
const bad = "bad"

func refuseBad(_ string, row []string) driver.RowError {
	if row[1] != bad {
		return driver.RowError{}
	}
	return driver.RowError{Column: "value", Reason: "23514", Message: "violates the check"}
}

// withRefusing runs a test on a fake clock with a target that refuses bad rows.
func withRefusing(t *testing.T, names int, check func(t *testing.T, mem *buffertest.Memory, opts buffer.Options)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		mem.Refuse, mem.Names = refuseBad, names
		check(t, mem, memoryOptions(t, mem))
	})
}

// putRows appends a row for each place, bad where refused says so, in several slices.
func putRows(t *testing.T, b *buffer.Buffer, s *buffer.DefinedSink, rows int, refused func(i int) bool) {
	t.Helper()
	for i := range rows {
		value := "v"
		if refused(i) {
			value = bad
		}
		put1(t, b, s, i, value)
	}
}

// putAtOnce is putRows with one call for all rows.
func putAtOnce(t *testing.T, b *buffer.Buffer, s *buffer.DefinedSink, rows int, refused func(i int) bool) {
	t.Helper()
	var data []byte
	for i := range rows {
		value := "v"
		if refused(i) {
			value = bad
		}
		data = append(data, row(i, value)...)
	}
	mustStore(t, b, buffer.Rows{Sink: s, Data: data, Count: rows})
}

func smallSlices(c *buffer.SinkConfig) { c.Upload.Count = 2 }

// wantSplit checks that each good row is in the table once, and each refused one in the quarantine once.
func wantSplit(t *testing.T, b *buffer.Buffer, mem *buffertest.Memory, rows int, refused func(i int) bool) {
	t.Helper()
	var good, kept []string
	for i := range rows {
		if refused(i) {
			kept = append(kept, string(row(i, bad)))
		} else {
			good = append(good, fmt.Sprint(i))
		}
	}
	got := ids(mem, tableA)
	slices.SortFunc(got, func(a, b string) int { return strings.Compare(fmt.Sprintf("%9s", a), fmt.Sprintf("%9s", b)) })
	if !slices.Equal(got, good) {
		t.Errorf("the table has %v, want %v", got, good)
	}
	wantRecords(t, b, "a", strings.Join(kept, ", "))
	for _, r := range list(t, b, "a") {
		p := r.Poison
		if p == nil || p.Reason != "23514" || p.Column != "value" || p.Message != "violates the check" || p.FileID == "" || len(p.Columns) != 2 || r.Info != nil {
			t.Errorf("the quarantine has %+v, %+v", r, p)
		}
	}
	st, _ := b.Sink("a").Stats()
	if st.Accepted != int64(rows) || st.Target.Rows != int64(len(good)) || st.Poison.Rows != int64(len(kept)) || st.Quarantine.Added != int64(len(kept)) {
		t.Errorf("accepted %d, in the table %d, refused %d, in the quarantine %d; want %d, %d, %d", st.Accepted, st.Target.Rows, st.Poison.Rows,
			st.Quarantine.Added, rows, len(good), len(kept))
	}
	verify(t, b)
}

// Every world of up to six rows, with every choice of refused ones, for a target that names all of them, one, or none.
func TestFileIsImportedWithoutRefusedRows(t *testing.T) {
	var all []world
	for _, names := range []int{0, 1, -1} {
		for rows := 1; rows <= 6; rows++ {
			for mask := range 1 << rows {
				all = append(all, world{names, rows, mask, false})
			}
		}
	}
	for _, w := range casetest.Sample(t, all, len(all), 40) {
		withRefusing(t, w.names, func(t *testing.T, mem *buffertest.Memory, opts buffer.Options) {
			b := openAt(t, "data", opts)
			putRows(t, b, define(t, b, "a", quarantined(), smallSlices), w.rows, w.refused)
			flush(t, b, "a")
			wantSplit(t, b, mem, w.rows, w.refused)
			closeBuffer(t, b)
			if t.Failed() {
				t.Fatalf("%d rows, refused %b, names %d", w.rows, w.mask, w.names)
			}
		})
	}
}

// A sink without a quarantine keeps rejected records out. Rows that the target refuses still leave their file. They are in the sink's
// quarantine, within its default bounds, before the file ends, and can be replayed. The data directory is upgraded when the first row needs it.
func TestRefusedRowsLeaveTheFileOfASinkWithoutAQuarantine(t *testing.T) {
	before := func(c *buffer.SinkConfig) { // the bounds of an earlier definition, which held its files
		c.Quarantine = &buffer.QuarantineBounds{MaxRecords: 7, HoldFiles: true}
	}
	refused := func(i int) bool { return i%3 == 1 }
	for name, earlier := range map[string]func(*buffer.SinkConfig){"never had one": nil, "had one": before} {
		t.Run(name, func(t *testing.T) {
			withRefusing(t, 1, func(t *testing.T, mem *buffertest.Memory, opts buffer.Options) {
				b := openAt(t, "data", opts)
				records := 100_000
				if earlier != nil {
					define(t, b, "a", earlier)
					records = 7
				}
				s := define(t, b, "a", smallSlices)
				putRows(t, b, s, 10, refused)
				flush(t, b, "a")
				wantSplit(t, b, mem, 10, refused)
				st, _ := b.Sink("a").Stats()
				if q := st.Quarantine; q.On || q.Bounds.MaxRecords != records || q.Bounds.MaxAge != 30*24*time.Hour || q.Bounds.HoldFiles != (earlier != nil) {
					t.Errorf("the quarantine of the sink is %+v, want one that takes no records, with bounds of %d records and 30 days", q, records)
				}
				closeBuffer(t, b)
				b = openAt(t, "data", opts)
				wantSplit(t, b, mem, 10, refused)
				mem.Refuse = nil
				for _, r := range list(t, b, "a") {
					_, row, _, err := b.Sink("a").RejectedRecord(t.Context(), r.ID)
					must(t, err)
					if out, err := define(t, b, "a", smallSlices).ReplayRejected(t.Context(), time.Now(), buffer.ReplayRow{ID: r.ID, Row: row}); err != nil || out[0] != nil {
						t.Fatalf("replay of %s: %v, %v", r.ID, out, err)
					}
				}
				flush(t, b, "a")
				if got := len(mem.Rows(tableA)); got != 10 {
					t.Errorf("the table has %d rows after the replay, want 10", got)
				}
				wantRecords(t, b, "a", "")
				verify(t, b)
				closeBuffer(t, b)
			})
		})
	}
}

// The response to the attempt that stored the rows is lost, and a later one is refused. The rows are there once, and nothing is in
// the quarantine.
func TestLostAnswerBeforeARefusal(t *testing.T) {
	drv := &twist{}
	var stored atomic.Bool
	drv.importer = func(ctx context.Context, f *driver.File) error {
		if stored.Swap(true) {
			return nil
		}
		e := &driver.RowsError{}
		e.Add(driver.RowError{Row: 0, Reason: "unique"})
		return errors.Join(e, drv.Memory.Import(ctx, f)) // an attempt that was left alone commits now
	}
	withTwist(t, drv, func(t *testing.T, b *buffer.Buffer) {
		s := define(t, b, "a", quarantined())
		put(t, b, s, 1, 3)
		flush(t, b, "a")
		wantAll(t, drv.Memory, tableA, 0, 3)
		wantRecords(t, b, "a", "")
		verify(t, b)
	})
}

// A file is held, and not split, when the cause is not in the rows, or when the options say so.
func TestRefusedFilesThatAreHeld(t *testing.T) {
	all := func(int) bool { return true }
	for name, c := range map[string]struct {
		names, rows int
		refused     func(int) bool
		sink        func(*buffer.SinkConfig)
		want        string
	}{
		"HoldFiles":            {0, 3, func(i int) bool { return i == 1 }, quarantined(func(q *buffer.QuarantineBounds) { q.HoldFiles = true }), "row 1"},
		"all rows, named":      {0, 16, all, quarantined(), "probably not in the rows"},
		"all rows, one named":  {1, 60, all, quarantined(), "probably not in the rows"},
		"all rows, none named": {-1, 60, all, quarantined(), "probably not in the rows"},
		"a full quarantine":    {0, 10, func(i int) bool { return i%3 == 1 }, quarantined(func(q *buffer.QuarantineBounds) { q.MaxRecords = 2 }), "no room"},
	} {
		t.Run(name, func(t *testing.T) {
			withRefusing(t, c.names, func(t *testing.T, mem *buffertest.Memory, opts buffer.Options) {
				b := open(t, opts)
				putRows(t, b, define(t, b, "a", c.sink), c.rows, c.refused)
				var held *buffer.HeldError
				if err := b.Sink("a").Flush(t.Context()); !errors.As(err, &held) || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("Flush = %v, want %q", err, c.want)
				}
				if n := len(list(t, b, "a")); n != 0 {
					t.Errorf("%d rows are in the quarantine of a file that is held, want 0", n)
				}
				verify(t, b)
				imports := 0
				for _, call := range mem.Calls() {
					if call.Op == buffertest.OpImport {
						imports++
					}
				}
				if imports > 260 {
					t.Errorf("got %d imports, want at most 260", imports)
				}
				if c.want == "no room" {
					define(t, b, "a", quarantined())
					flush(t, b, "a")
					wantSplit(t, b, mem, c.rows, c.refused)
					return
				}
				// The constraint is changed. The remaining rows arrive in the table.
				mem.Refuse = nil
				flush(t, b, "a")
				st, _ := b.Sink("a").Stats()
				if st.Target.Rows+st.Poison.Rows != int64(c.rows) || st.Poison.Rows != int64(len(list(t, b, "a"))) || len(ids(mem, tableA)) != int(st.Target.Rows) {
					t.Errorf("after the repair: %+v", st)
				}
				verify(t, b)
			})
		})
	}
}

// Good rows arrive, whatever the number and the places of the refused rows.
func TestGoodRowsDoNotWaitForRefusedOnes(t *testing.T) {
	for name, c := range map[string]struct {
		names, rows int
		refused     func(int) bool
	}{
		"more rows than may be named":           {0, 1300, func(i int) bool { return i%13 > 0 }},
		"thousands before the last rows, named": {0, 12_600, func(i int) bool { return i > 20 && i < 12_590 }},
		"the first 40 rows, one named":          {1, 60, func(i int) bool { return i < 40 }},
		"all but one in the middle, one named":  {1, 90, func(i int) bool { return i != 50 }},
		"first and last, none is named":         {-1, 20, func(i int) bool { return i == 0 || i == 19 }},
		"all but one in the middle, none named": {-1, 40, func(i int) bool { return i != 20 }},
	} {
		t.Run(name, func(t *testing.T) {
			if c.rows > 10_000 {
				skipManyRows(t)
			}
			withRefusing(t, c.names, func(t *testing.T, mem *buffertest.Memory, opts buffer.Options) {
				b := open(t, opts)
				putRows(t, b, define(t, b, "a", quarantined(), smallSlicesOf(c.rows)), c.rows, c.refused)
				flush(t, b, "a")
				wantSplit(t, b, mem, c.rows, c.refused)
			})
		})
	}
}

// If a target names one row in each error, the good rows before that row are imported soon. They do not wait until all refused rows are found.
func TestGoodRowsArriveBeforeAllRefusedOnesAreFound(t *testing.T) {
	refused := func(i int) bool { return i%2 == 1 }
	withRefusing(t, 1, func(t *testing.T, mem *buffertest.Memory, opts buffer.Options) {
		b := open(t, opts)
		putRows(t, b, define(t, b, "a", quarantined()), 400, refused)
		var mu sync.Mutex
		imports, most := 0, 0 // since the number of rows in the table has grown
		stored := 0
		mem.Before = func(_ context.Context, c buffertest.Call) error {
			if c.Op == buffertest.OpImport {
				mu.Lock()
				defer mu.Unlock()
				if n := len(mem.Rows(tableA)); n > stored {
					stored, imports = n, 0
				}
				imports++
				most = max(most, imports)
			}
			return nil
		}
		flush(t, b, "a")
		wantSplit(t, b, mem, 400, refused)
		mu.Lock()
		defer mu.Unlock()
		if most > 40 {
			t.Errorf("%d imports in a row have brought no row into the table, want at most 40", most)
		}
	})
}

// Many imports of parts of one file have a pause now and then, and continue by themselves.
func TestManyImportsOfOneFile(t *testing.T) {
	refused := func(i int) bool { return i%2 == 1 && i < 399 }
	withRefusing(t, -1, func(t *testing.T, mem *buffertest.Memory, opts buffer.Options) {
		b := open(t, opts)
		putRows(t, b, define(t, b, "a", quarantined()), 400, refused)
		var waits atomic.Int64
		mem.Before = func(_ context.Context, c buffertest.Call) error {
			if st, _ := b.Sink("a").Stats(); c.Op == buffertest.OpVoid && strings.Contains(st.Files[0].RetryReason, "continues by itself") {
				waits.Add(1)
			}
			return nil
		}
		begin := time.Now()
		flush(t, b, "a")
		imports := int64(0)
		for _, call := range mem.Calls() {
			if call.Op == buffertest.OpImport {
				imports++
			}
		}
		if waits := waits.Load(); waits != imports/256 || waits == 0 || time.Since(begin) > time.Hour {
			t.Errorf("got %d pauses in %d imports, which took %s, want a pause after each 256 imports, and at most an hour", waits, imports, time.Since(begin))
		}
		wantSplit(t, b, mem, 400, refused)
	})
}

// A file whose imports keep the target busy for an hour waits like after a failure, and continues by itself. It is never held.
func TestLongImportsOfOneFile(t *testing.T) {
	refused := func(i int) bool { return i%4 == 1 }
	withRefusing(t, 1, func(t *testing.T, mem *buffertest.Memory, opts buffer.Options) {
		opts.AttemptTimeout = time.Hour
		b := open(t, opts)
		putRows(t, b, define(t, b, "a", quarantined()), 40, refused)
		var mu sync.Mutex
		pauses := map[int64]bool{} // by the rows found before
		mem.Before = func(_ context.Context, c buffertest.Call) error {
			st, _ := b.Sink("a").Stats()
			switch f := st.Files[0]; {
			case f.Permanent:
				t.Errorf("the file is held: %s", f.RetryReason)
			case c.Op == buffertest.OpVoid && strings.Contains(f.RetryReason, "5 imports of parts of the file, in 1h5m0s,"):
				mu.Lock()
				pauses[f.Poison] = true
				mu.Unlock()
			case c.Op == buffertest.OpImport:
				time.Sleep(13 * time.Minute)
			}
			return nil
		}
		flush(t, b, "a")
		mu.Lock()
		defer mu.Unlock()
		if want := map[int64]bool{4: true, 9: true}; !maps.Equal(pauses, want) { // the fifth result of 13 minutes each is past the hour
			t.Errorf("got pauses after %v refused rows, want %v", pauses, want)
		}
		wantSplit(t, b, mem, 40, refused)
	})
}

// An outage in the middle sends no row to the quarantine.
func TestOutageWhileAFileIsSplit(t *testing.T) {
	refused := func(i int) bool { return i == 3 }
	withRefusing(t, -1, func(t *testing.T, mem *buffertest.Memory, opts buffer.Options) {
		rng := rand.New(rand.NewPCG(7, 7))
		var mu sync.Mutex
		failed := map[buffertest.Op]int{}
		share := map[buffertest.Op]int{buffertest.OpImport: 2, buffertest.OpVoid: 2, buffertest.OpOpen: 5}
		mem.Before = func(_ context.Context, c buffertest.Call) error {
			mu.Lock()
			defer mu.Unlock()
			if n := share[c.Op]; n > 0 && rng.IntN(n) == 0 {
				failed[c.Op]++
				return errors.New("away")
			}
			return nil
		}
		b := open(t, opts)
		putRows(t, b, define(t, b, "a", quarantined(), smallSlices), 7, refused)
		_ = b.Sink("a").CloseFile(t.Context(), 0)
		for begin := time.Now(); len(list(t, b, "a")) == 0 && time.Since(begin) < 24*time.Hour; {
			time.Sleep(time.Second)
		}
		wantSplit(t, b, mem, 7, refused)
		mu.Lock()
		defer mu.Unlock()
		if len(failed) != 3 {
			t.Errorf("calls that failed: %v, want some of each", failed)
		}
	})
}

// What is imported of a file that is given up counts as imported.
func TestSplitFileIsDiscarded(t *testing.T) {
	withRefusing(t, -1, func(t *testing.T, mem *buffertest.Memory, opts buffer.Options) {
		b := open(t, opts)
		putRows(t, b, define(t, b, "a", quarantined()), 8, func(i int) bool { return i == 6 })
		mem.Before = func(_ context.Context, c buffertest.Call) error {
			if len(mem.Rows(tableA)) > 0 && c.Op == buffertest.OpImport {
				return driver.Permanent(errors.New("away"))
			}
			return nil
		}
		if err := b.Sink("a").Flush(t.Context()); err == nil {
			t.Fatal("imported")
		}
		st, _ := b.Sink("a").Stats()
		must(t, b.Sink("a").Discard(t.Context(), st.Files[0].ID))
		st, _ = b.Sink("a").Stats()
		if st.Target.Rows != 4 || st.Discarded.Rows != 4 || len(mem.Rows(tableA)) != 4 || st.Target.RawBytes+st.Discarded.RawBytes != int64(8*len(row(0, "v"))+len("bad")-1) {
			t.Errorf("in the table %d, counted %d + %d discarded: %+v", len(mem.Rows(tableA)), st.Target.Rows, st.Discarded.Rows, st)
		}
		verify(t, b)
	})
}

// When the retention of a file with refused rows has passed, the good rows are imported, and the refused rows go to the quarantine. A sink that
// holds its files loses the whole file.
func TestRetentionEndsWithoutTheRefusedRows(t *testing.T) {
	unsure := func(e *driver.RowsError) { e.Unsure = true }
	for name, c := range map[string]struct {
		names, rows int
		refused     func(int) bool
		sink        func(*buffer.SinkConfig)
		alters      func(*driver.RowsError)
		whole       bool // the file expires whole
	}{
		"the target is unsure":        {0, 6, func(i int) bool { return i == 2 }, quarantined(), unsure, false},
		"the target is unsure, plain": {-1, 6, func(i int) bool { return i == 2 }, func(*buffer.SinkConfig) {}, unsure, false},
		"all rows":                    {0, 20, everyRow, quarantined(), nil, false},
		"HoldFiles":                   {0, 6, func(i int) bool { return i == 2 }, quarantined(func(q *buffer.QuarantineBounds) { q.HoldFiles = true }), nil, true},
	} {
		for _, outage := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", outage at the end ", outage), func(t *testing.T) {
				withRefusing(t, c.names, func(t *testing.T, mem *buffertest.Memory, opts buffer.Options) {
					opts.Retention = time.Hour
					mem.Alters = c.alters
					begin := time.Now()
					mem.Before = func(_ context.Context, call buffertest.Call) error {
						if since := time.Since(begin); outage && call.Op == buffertest.OpImport && since > 50*time.Minute && since < 70*time.Minute {
							return errors.New("away")
						}
						return nil
					}
					b := openAt(t, "data", opts)
					putRows(t, b, define(t, b, "a", c.sink, smallSlicesOf(c.rows)), c.rows, c.refused)
					var held *buffer.HeldError
					if err := b.Sink("a").Flush(t.Context()); !errors.As(err, &held) {
						t.Fatalf("Flush = %v, want a file that is held", err)
					}
					time.Sleep(90 * time.Minute)
					st, _ := b.Sink("a").Stats()
					if c.whole {
						if st.Expired.Rows != int64(c.rows) || st.Target.Rows != 0 || st.Poison.Rows != 0 {
							t.Errorf("%d rows expired, %d are in the table, %d were refused; want all %d to expire", st.Expired.Rows, st.Target.Rows, st.Poison.Rows, c.rows)
						}
						verify(t, b)
					} else {
						if st.Expired.Rows != 0 {
							t.Errorf("got %d rows expired, want none", st.Expired.Rows)
						}
						wantSplit(t, b, mem, c.rows, c.refused)
					}
					closeBuffer(t, b)
				})
			})
		}
	}
}

// When the retention of a file has passed and its refused rows find no room in the quarantine, only the refused rows expire.
func TestRetentionEndsWithoutRoomForRefusedRows(t *testing.T) {
	for name, c := range map[string]struct {
		refused func(int) bool
		alters  func(*driver.RowsError)
		want    time.Duration // until the rows expire
	}{
		"at the end":            {func(i int) bool { return i >= 100 }, nil, time.Hour},
		"every second row":      {func(i int) bool { return i < 100 && i%2 == 0 || i >= 150 }, nil, time.Hour},
		"the target was unsure": {func(i int) bool { return i < 300 }, func(e *driver.RowsError) { e.Unsure = true }, 2 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			withRefusing(t, 0, func(t *testing.T, mem *buffertest.Memory, opts buffer.Options) {
				const rows, good = 400, 100
				opts.Retention = time.Hour
				mem.Alters = c.alters
				b := openAt(t, "data", opts)
				full := quarantined(func(q *buffer.QuarantineBounds) { q.MaxRecords = 50 })
				putAtOnce(t, b, define(t, b, "a", full, smallSlicesOf(rows)), rows, c.refused)
				time.Sleep(c.want - time.Minute)
				if st, _ := b.Sink("a").Stats(); st.Expired.Rows != 0 {
					t.Errorf("%d rows expired before the retention of the file passed, want none", st.Expired.Rows)
				}
				time.Sleep(10 * time.Minute)
				st, _ := b.Sink("a").Stats()
				if got := len(mem.Rows(tableA)); st.Expired.Rows != rows-good || st.Target.Rows != good || got != good || st.Poison.Rows != 0 {
					t.Errorf("%d of %d rows expired, %d are in the table, %d in the quarantine, want %d, %d and 0: %+v", st.Expired.Rows, rows, got,
						st.Poison.Rows, rows-good, good, st.Files)
				}
				verify(t, b)
				closeBuffer(t, b)
			})
		})
	}
}

// Many large rows go to the quarantine in several commits, and in the compressed form of their slices nothing is lost.
func TestLargeRefusedRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		mem.Refuse = func(_ string, row []string) driver.RowError {
			if strings.HasPrefix(row[1], bad) {
				return driver.RowError{Reason: "large"}
			}
			return driver.RowError{}
		}
		b := open(t, memoryOptions(t, mem))
		s := define(t, b, "a", quarantined(), func(c *buffer.SinkConfig) { c.Encoding = driver.Zstd; c.Upload.Count = 7 })
		large := bad + strings.Repeat("\"\n\x00,é", 60_000)
		for i := range 12 {
			value := "v"
			if i%2 == 0 {
				value = large
			}
			mustStore(t, b, buffer.Rows{Sink: s, Data: []byte(fmt.Sprintf("\"%d\",\"%s\"\n", i, strings.ReplaceAll(value, `"`, `""`))), Count: 1})
		}
		flush(t, b, "a")
		all := list(t, b, "a")
		if len(all) != 6 || len(mem.Rows(tableA)) != 6 {
			t.Fatalf("got %d records and %d rows, want 6 and 6", len(all), len(mem.Rows(tableA)))
		}
		for i, r := range all {
			_, record, _, err := b.Sink("a").RejectedRecord(t.Context(), r.ID)
			if want := fmt.Sprintf("\"%d\",\"%s\"\n", 2*i, strings.ReplaceAll(large, `"`, `""`)); err != nil || string(record) != want || r.Poison.Row != int64(2*i) {
				t.Errorf("record %d: %d bytes, row %d, %v", i, len(record), r.Poison.Row, err)
			}
		}
		verify(t, b)
	})
}

// A target that refuses a row of each file causes few lines in the log, at a falling pace. Each line counts the files since the last line.
func TestRefusedRowsHaveFewLogLines(t *testing.T) {
	withRefusing(t, 0, func(t *testing.T, mem *buffertest.Memory, opts buffer.Options) {
		log := &lines{}
		opts.Logger = slog.New(slog.NewTextHandler(log, nil))
		b := open(t, opts)
		s := define(t, b, "a", quarantined())
		const files = 180 // in half an hour
		for range files {
			putRows(t, b, s, 20, func(i int) bool { return i == 3 })
			for range 100 { // the first attempt of each file fails
				if b.Sink("a").Flush(t.Context()) == nil {
					break
				}
				time.Sleep(time.Second)
			}
			time.Sleep(9 * time.Second)
		}
		if st, _ := b.Sink("a").Stats(); st.Poison.Rows != files {
			t.Fatalf("%d refused rows went to the quarantine, want %d", st.Poison.Rows, files)
		}
		if n := log.count("file imported without refused rows"); n < 2 || n > 10 {
			t.Errorf("got %d lines for %d files in half an hour, want 2 to 10", n, files)
		}
		if text := log.text.String(); !strings.Contains(text, " files=1 ") || !strings.Contains(text, " files=2 ") {
			t.Errorf("the lines do not count files:\n%.2000s", text)
		}
		if n := log.count("works again"); n != 0 {
			t.Errorf("got %d lines say that the import works again, want none: it never failed", n)
		}
	})
}

// skipManyRows leaves a test with more than 10,000 refused rows out of the run with the race detector, which needs a minute of processor time for it
// and sees the same accesses in tests with few rows.
func skipManyRows(t *testing.T) {
	if testing.Short() {
		t.Skip("more than 10,000 rows")
	}
}
