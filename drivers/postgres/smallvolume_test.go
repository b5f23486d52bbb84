//go:build linux

package postgres

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/postgres/pgtest"
	"github.com/forebay/forebay/internal/fulldisktest"
)

// revived is a target whose server is started again after a failed import, as a supervisor does. A server that cannot write its log ends.
type revived struct {
	*Target
	mu    *sync.Mutex
	start func() error
}

// Import implements [driver.Target].
func (r revived) Import(ctx context.Context, f *driver.File) error {
	err := r.Target.Import(ctx, f)
	if err != nil && r.mu.TryLock() {
		_ = r.start() // it may run, or still have no room to recover
		r.mu.Unlock()
	}
	return err
}

// The volume with the log of the server becomes full, which ends the server.
func TestSmallVolumeIsFull(t *testing.T) {
	if testing.Short() {
		t.Skip("it mounts a volume and fills it")
	}
	own, options := new(pgtest.Server), Options{}
	url := own.URL(t)
	start := func() error { return nil }
	var once sync.Once
	fulldisktest.Play(t, fulldisktest.Harness{
		Open: func(t *testing.T, folder string) driver.Target {
			once.Do(func() {
				t.Cleanup(own.Close) // before the volume is unmounted
				start = moveLog(t, own, url, folder)
			})
			target, err := Open(url, options)
			if err != nil {
				t.Fatal(err)
			}
			return revived{target, new(sync.Mutex), start}
		},
		Rows: func(t *testing.T, _ driver.Target, _, table string) (all [][]string) {
			conn, err := pgx.Connect(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(context.WithoutCancel(t.Context()))
			rows, err := conn.Query(t.Context(), "SELECT id::text, text FROM "+pgx.Identifier{table}.Sanitize())
			if err != nil {
				t.Fatal(err)
			}
			all, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) ([]string, error) {
				row := make([]string, 2)
				return row, r.Scan(&row[0], &row[1])
			})
			if err != nil {
				t.Fatal(err)
			}
			return all
		},
	})
}

// moveLog moves the log of a server into a folder and returns what starts the server again.
func moveLog(t *testing.T, s *pgtest.Server, url, folder string) (start func() error) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	var data string
	for _, setting := range []string{"min_wal_size = '32MB'", "max_wal_size = '32MB'", "wal_recycle = off"} {
		pgtest.Exec(t, conn, "ALTER SYSTEM SET "+setting)
	}
	if err := errors.Join(conn.QueryRow(t.Context(), "SHOW data_directory").Scan(&data), conn.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	if start, err = s.Shutdown(); err != nil {
		t.Fatal(err)
	}
	for dir := filepath.Dir(filepath.Dir(folder)); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil { // the user of the server searches them
			t.Fatal(err)
		}
	}
	fulldisktest.Move(t, filepath.Join(data, "pg_wal"), folder)
	if err := start(); err != nil {
		t.Fatal(err)
	}
	return start
}
