package dir

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

func TestRowsAreSplitByDay(t *testing.T) {
	for _, compress := range []bool{false, true} {
		tables := TablesWith(t.TempDir(), TablesOptions{PartitionBy: "at", Gzip: compress})
		extension := tables.csv.extension()
		rows := dayRows(0, 12)
		f := newFile("file-1", dayTable, rows)
		for range 2 {
			must(t, tables.Import(t.Context(), f))
		}
		var want []string
		for _, part := range []string{
			"dt=2026-11-21/file-1.3", "dt=2026-11-22/file-1.2", "dt=2026-11-23/file-1.2", "dt=2026-11-24/file-1.2", "dt=__HIVE_DEFAULT_PARTITION__/file-1.3",
		} {
			want = append(want, "imports/file-1/"+part+extension)
		}
		if got := partNames(t, tables, dayTable.ID); !slices.Equal(got, want) {
			t.Errorf("parts %q, want %q", got, want)
		}
		if got := readIDs(t, tables, dayTable.ID); !slices.Equal(got, sortedIDs(rows...)) {
			t.Errorf("rows %q", got)
		}
		if n, err := tables.CountFile(t.Context(), dayTable, "file-1"); err != nil || n != 12 {
			t.Errorf("CountFile = %d, %v", n, err)
		}
		// A whole day that is gone was taken away, but a part that was cut was not.
		day := filepath.Join(tables.Path(dayTable.ID), "imports/file-1/dt=2026-11-22")
		must(t, os.RemoveAll(day))
		if taken, err := tables.TakenAway(t.Context(), dayTable, "file-1"); err != nil || !taken {
			t.Errorf("without a day: TakenAway = %t, %v", taken, err)
		}
		if err := tables.Import(t.Context(), f); err != nil {
			t.Errorf("repeated Import without a day: %v", err)
		}
		must(t, os.WriteFile(filepath.Join(tables.Path(dayTable.ID), want[0]), nil, 0o600))
		if taken, err := tables.TakenAway(t.Context(), dayTable, "file-1"); err != nil || taken {
			t.Errorf("with a part that was emptied: TakenAway = %t, %v", taken, err)
		}
		if err := tables.Import(t.Context(), f); !driver.IsPermanent(err) {
			t.Errorf("repeated Import with a part that was emptied: %v", err)
		}
		expectNoTemp(t, tables.folder.Root)
	}
}

func TestPartitionsThatAreRefused(t *testing.T) {
	tables := TablesWith(t.TempDir(), TablesOptions{PartitionBy: "at"})
	table := dayTable
	table.Columns = append(slices.Clone(table.Columns), datatype.Column{Name: "DT"})
	if err := tables.Ensure(t.Context(), table); !driver.IsPermanent(err) || !strings.Contains(err.Error(), `rename the column "DT"`) {
		t.Errorf("a column of the name of the folders: %v", err)
	}
	must(t, tables.Ensure(t.Context(), dayTable))
	if err := tables.Extend(t.Context(), table); !driver.IsPermanent(err) || !strings.Contains(err.Error(), `rename the column "DT"`) {
		t.Errorf("a table that gets a column of the name of the folders: %v", err)
	}
	for _, at := range []string{"", "2026-11-2", "2026-11-22 10:00:00", "22.11.2026", "../../etc/x"} {
		err := tables.Import(t.Context(), newFile("file-1", dayTable, append(dayRows(0, 10), []string{at, "1"}, []string{null, "2"}, []string{at, "3"})))
		if !driver.IsPermanent(err) || !strings.Contains(err.Error(), "neither a date nor a timestamp") {
			t.Errorf("%q: got %v, want driver.IsPermanent(err) and strings.Contains(err.Error(), \"neither a date nor a timestamp\")", at, err)
		}
		var refused *driver.RowsError
		if !errors.As(err, &refused) || !refused.Complete || len(refused.Rows) != 2 || refused.Rows[0].Row != 10 || refused.Rows[1].Row != 12 ||
			refused.Rows[0].Column != "at" || refused.Rows[0].Reason != "malformed" {
			t.Errorf("%q: got %+v, want the rows 10 and 12", at, refused)
		}
		if at != "" && strings.Contains(err.Error(), at) {
			t.Errorf("the error %q has the value", err)
		}
	}
	expectNoTemp(t, tables.folder.Root)
}

// The rows of a day are flushed in pieces when a file is larger than the memory for it.
func TestSplitOfALargeFile(t *testing.T) {
	for _, compress := range []bool{false, true} {
		tables := TablesWith(t.TempDir(), TablesOptions{PartitionBy: "at", Gzip: compress})
		body := strings.Repeat("x", splitBuffer/4)
		table := dayTable
		table.Columns = []datatype.Column{dayTable.Columns[0], {Name: "id"}}
		rows := dayRows(0, 10)
		for i := range rows {
			rows[i][1] += body
		}
		must(t, tables.Import(t.Context(), newFile("file-1", table, rows)))
		if got := readIDs(t, tables, table.ID); !slices.Equal(got, sortedIDs(rows...)) {
			t.Errorf("got %d rows, want the %d rows of the files", len(got), len(rows))
		}
	}
}
