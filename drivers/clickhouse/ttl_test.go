package clickhouse

import (
	"fmt"
	"testing"
	"time"

	"github.com/forebay/forebay/datatype"
)

// The server removes rows that have expired, with the documented options. A retry stores no other row again, and succeeds even if no row of its file is
// left. It may store rows again that have expired, because it cannot tell them from rows that a killed server has lost. The server removes them again.
func TestRetryAfterRowsHaveExpired(t *testing.T) {
	for _, o := range []Options{
		{OrderBy: []string{"tenant", "at"}, PartitionBy: "toYYYYMM(at)", TTL: "at + INTERVAL 90 DAY"},
		{OrderBy: []string{"tenant", "at"}, TTL: "toDateTime(assumeNotNull(at)) + INTERVAL 30 DAY"}, // of telemetry
	} {
		target := manyBlocks(open(t, o))
		at := col("at", datatype.Timestamp)
		at.Required = o.PartitionBy != ""
		tbl := table("events", required(col("tenant", datatype.String)), at, col("n", datatype.Int64))
		now := time.Now().UTC()
		var mixed, old, fresh [][]string
		for i := range 60 { // three blocks
			row := func(days int) []string {
				return []string{"a", now.AddDate(0, 0, -days).Format("2006-01-02T15:04:05.000000Z"), fmt.Sprint(i)}
			}
			old = append(old, row(200))
			if i%3 == 0 {
				mixed = append(mixed, row(200))
				continue
			}
			mixed, fresh = append(mixed, row(1)), append(fresh, row(1))
		}
		first, second := newFile("file-1", tbl, mixed...), newFile("file-2", tbl, old...)
		importBoth := func() {
			t.Helper()
			mustImport(t, target, first)
			mustImport(t, target, second)
		}
		expire := func() {
			t.Helper()
			server.Exec(t, "ALTER TABLE "+target.table(tbl.ID)+" MATERIALIZE TTL SETTINGS mutations_sync = 2")
			server.Exec(t, "OPTIMIZE TABLE "+target.table(tbl.ID)+" FINAL")
			expectRows(t, target, tbl.ID, fresh...)
		}
		importBoth()
		expire()
		importBoth()
		expire()
		forget(t, target, tbl)
		importBoth()
		expire()
	}
}
