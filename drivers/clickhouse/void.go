package clickhouse

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/forebay/forebay/driver"
)

// stored reports whether all blocks of a file are in a table, and how many rows of the file are there.
func (t *Target) stored(ctx context.Context, table, engine, fileID string) (complete bool, rows int64, err error) {
	found, err := t.markers(ctx, table, engine, fileID)
	if c := code(err); c == unknownTable || c == 47 { // the table does not exist, or the driver has not seen it yet
		return false, 0, nil
	}
	if err != nil {
		return false, 0, err
	}
	blocks := 1
	whole := 0
	for _, row := range found {
		n, err := strconv.ParseInt(row[1], 10, 64)
		if err != nil {
			return false, 0, err
		}
		rows += n
		var want int64
		var i int
		if k, _ := fmt.Sscanf(strings.TrimPrefix(row[0], fileID+" "), "%d %d/%d", &want, &i, &blocks); k != 1 && k != 3 {
			return false, 0, driver.Permanent(fmt.Errorf("the column %s of %s contains %q, which the driver has not written", marker, t.table(table), row[0]))
		}
		if n >= want {
			whole++
		}
	}
	return whole == blocks, rows, nil
}

// CountFile implements [driver.Counter]. It counts the rows in the table.
func (t *Target) CountFile(ctx context.Context, table driver.Table, fileID string) (int64, error) {
	if err := t.check(table); err != nil {
		return 0, err
	}
	var engine string
	if replicated(t.options.Engine) {
		r, err := t.relation(ctx, table.ID)
		if err != nil || r == nil {
			return 0, classify(err)
		}
		engine = r.engine
	}
	_, rows, err := t.stored(ctx, table.ID, engine, fileID)
	return rows, classify(err)
}

// TakenAway implements [driver.Taker]. Rows of a table with a TTL expire one by one, and ReplacingMergeTree replaces them one by one.
func (t *Target) TakenAway(ctx context.Context, table driver.Table, _ string) (bool, error) {
	if err := t.check(table); err != nil {
		return false, err
	}
	r, err := t.relation(ctx, table.ID)
	if err != nil || r == nil {
		return false, classify(err)
	}
	return r.ttl || strings.Contains(r.engine, "Replacing"), nil
}

// Void implements [driver.Voider]. An INSERT that begins after the id was written to the table of ruled-out files finds the id. An earlier INSERT is
// ended on each server. Its stored rows decide the outcome.
func (t *Target) Void(ctx context.Context, table driver.Table, fileID string) (imported bool, err error) {
	if err := t.check(table); err != nil {
		return false, err
	}
	imported, err = t.void(ctx, table.ID, fileID)
	return imported, classify(err)
}

func (t *Target) void(ctx context.Context, table, fileID string) (imported bool, err error) {
	if complete, _, err := t.stored(ctx, table, "", fileID); err != nil || complete {
		return complete, err
	}
	if err := t.ensureVoids(ctx); err != nil {
		return false, err
	}
	insert := "INSERT INTO " + t.table(voids) + " (file_id, table_name) VALUES (" + literal(fileID) + ", " + literal(table) + ")"
	if err := t.client.exec(ctx, insert, map[string]string{"async_insert": "0"}); err != nil {
		return false, err
	}
	for _, host := range t.client.hosts {
		if replicated(t.options.Engine) {
			if _, err := t.client.rowsFrom(ctx, host, "SYSTEM SYNC REPLICA "+t.table(voids)+" LIGHTWEIGHT"); err != nil {
				return false, err
			}
		}
		kill := "KILL QUERY WHERE startsWith(" + tokenSetting + ", " + literal(fileID+" ") + ") SYNC"
		if _, err := t.client.rowsFrom(ctx, host, kill); err != nil {
			return false, err
		}
	}
	r, err := t.relation(ctx, table)
	if err != nil || r == nil {
		return false, err
	}
	complete, rows, err := t.stored(ctx, table, r.engine, fileID)
	if err != nil || complete || rows == 0 {
		return complete, err
	}
	// Other files will have these rows. No statement writes rows for the id from now on.
	return false, t.client.exec(ctx, "ALTER TABLE "+t.table(table)+t.onCluster()+" DELETE WHERE "+ofFile(fileID), map[string]string{"mutations_sync": "2"})
}
