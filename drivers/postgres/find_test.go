package postgres

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/drivertest"
)

// One attempt names all refused rows, for whatever reason, and stores nothing. Without them the file is imported.
func TestAllRefusedRowsAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		create   string
		keys     []string
		patience time.Duration
		unsure   bool
	}{
		"checks, ranges, duplicates": {create: `CREATE TABLE t (id bigint CHECK (id % 7 <> 3), n bigint CHECK (n < 30000), v text, UNIQUE (id, n))`},
		"in the text form":           {create: `CREATE TYPE mood AS ENUM ('glad'); CREATE TABLE t (id bigint CHECK (id % 7 <> 3), n bigint CHECK (n < 30000), v mood, UNIQUE (id, n))`},
		"a foreign key": {
			create: `CREATE TABLE parent (id bigint PRIMARY KEY); INSERT INTO parent SELECT i FROM generate_series(0, 10000) i WHERE i % 7 <> 3;
				CREATE TABLE t (id bigint REFERENCES parent, n bigint CHECK (n < 30000), v text, UNIQUE (id, n))`, patience: foreignKeyPatience,
		},
		"deferred constraints": {
			create: `CREATE TABLE parent (id bigint PRIMARY KEY); INSERT INTO parent SELECT i FROM generate_series(0, 10000) i WHERE i % 7 <> 3;
				CREATE TABLE t (id bigint REFERENCES parent DEFERRABLE INITIALLY DEFERRED, n bigint CHECK (n < 30000), v text, UNIQUE (id, n) DEFERRABLE INITIALLY DEFERRED)`,
			patience: foreignKeyPatience,
		},
		"a key": {create: `CREATE TABLE t (id bigint PRIMARY KEY CHECK (id % 7 <> 3), n bigint CHECK (n < 30000), v text)`, keys: []string{"id"}},
		"a trigger": {create: `CREATE FUNCTION judge() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$;
			CREATE TABLE t (id bigint, n bigint CHECK (n < 30000), v text, UNIQUE (id, n)); CREATE TRIGGER j AFTER INSERT ON t FOR EACH ROW WHEN (NEW.id % 7 = 3) EXECUTE FUNCTION judge()`, unsure: true},
	} {
		t.Run(name, func(t *testing.T) {
			options := Options{}
			if c.keys != nil {
				options.Keys = map[string][]string{"t": c.keys}
			}
			target := open(t, options)
			exec(t, target, c.create)
			tbl := table("t", col("id", datatype.Int64), col("n", datatype.Int64), col("v", datatype.String))
			var all, good [][]string
			var want []int64
			for i := range 6000 {
				row := []string{fmt.Sprint(i), "1", "glad"}
				bad := i%7 == 3 && i%9 == 0
				switch {
				case i%7 == 3 && !bad:
					row[0] = "0" // which is taken, unless it is the key
					row[1] = fmt.Sprint(i)
				case i%997 == 5:
					row[1], bad = "40000", true
				case i%499 == 7 && c.keys == nil:
					row[0], bad = "2", true // a duplicate
				}
				if all = append(all, row); bad {
					want = append(want, int64(i))
				} else {
					good = append(good, row)
				}
			}
			err := target.Import(t.Context(), newFile("file-1", tbl, all...))
			var refused *driver.RowsError
			if !errors.As(err, &refused) || !refused.Complete || refused.Patience != c.patience || refused.Unsure != c.unsure {
				t.Fatalf("Import = %v, %+v", err, refused)
			}
			var got []int64
			for _, r := range refused.Rows {
				got = append(got, r.Row)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%d rows are named, want %d: %v, want %v", len(got), len(want), got, want)
			}
			expectRows(t, target, "t")
			mustImport(t, target, newFile("file-2", tbl, good...))
		})
	}
}

// An error names no more rows than it may, and says that there can be others.
func TestTooManyRefusedRows(t *testing.T) {
	target := open(t, Options{})
	exec(t, target, `CREATE TABLE t (id bigint CHECK (id < 10))`)
	var rows [][]string
	for i := range 3000 {
		rows = append(rows, []string{fmt.Sprint(i)})
	}
	var refused *driver.RowsError
	if err := target.Import(t.Context(), newFile("file-1", table("t", col("id", datatype.Int64)), rows...)); !errors.As(err, &refused) ||
		len(refused.Rows) != driver.MaxRowErrors || refused.Complete || refused.Rows[999].Row != 1009 {
		t.Fatalf("Import = %v", err)
	}
}

// A parent that is inserted before the second look makes the row a good one. The file is tried again, and no row leaves it.
func TestParentComesMeanwhile(t *testing.T) {
	target := open(t, Options{})
	exec(t, target, `CREATE TABLE parent (id bigint PRIMARY KEY); CREATE TABLE child (id bigint REFERENCES parent)`)
	f := newFile("file-1", table("child", col("id", datatype.Int64)), []string{"1"}, []string{"2"})
	err := target.Import(t.Context(), f)
	var refused *driver.RowsError
	if !errors.As(err, &refused) || len(refused.Rows) != 2 || refused.Patience != foreignKeyPatience || refused.Rows[0].Reason != foreignKeyViolation {
		t.Fatalf("Import = %+v", err)
	}
	exec(t, target, `INSERT INTO parent VALUES (1), (2)`)
	drivertest.Retryable(t, "a probe that finds nothing", target.findRefused(t.Context(), f, &driver.RowsError{Rows: []driver.RowError{{Row: -1}}}))
	mustImport(t, target, f)
	expectRows(t, target, "child", []string{"1"}, []string{"2"})
}
