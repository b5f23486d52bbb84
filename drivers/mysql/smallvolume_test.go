//go:build linux

package mysql

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/mysql/mysqltest"
	"github.com/forebay/forebay/internal/drivertest"
	"github.com/forebay/forebay/internal/fulldisktest"
)

// revived is a target whose server is started again when it has ended, as a supervisor does. A server that cannot write its data may end.
type revived struct {
	*Target
	mu *sync.Mutex
	s  *mysqltest.Server
}

// Import implements [driver.Target].
func (r revived) Import(ctx context.Context, f *driver.File) error {
	err := r.Target.Import(ctx, f)
	if err != nil && r.mu.TryLock() {
		defer r.mu.Unlock()
		select {
		case <-r.s.Ended():
			start, _ := r.s.Shutdown()
			_ = start() // it may still have no room to recover
		default:
		}
	}
	return err
}

// The volume with the data of the server becomes full. The server is killed at the end, so the rows must be on the volume.
func TestSmallVolumeIsFull(t *testing.T) {
	own := &mysqltest.Server{Arguments: []string{"--innodb-log-file-size=8M"}} // the volume has no room for the default
	database := ""
	fulldisktest.Play(t, fulldisktest.Harness{
		Open: func(t *testing.T, folder string) driver.Target {
			if database == "" {
				t.Cleanup(func() { // before the volume is unmounted
					if database != "" {
						_, _ = own.Shutdown() // which waits for the end of the process
					}
					own.Close()
				})
				database = own.Database(t)
				moveData(t, own, folder)
			} else {
				own.Kill(t)
				own.Restart(t)
			}
			target, err := Open(own.URL(database), Options{})
			if err != nil {
				t.Fatal(err)
			}
			return revived{target, new(sync.Mutex), own}
		},
		Rows: func(t *testing.T, _ driver.Target, _, table string) [][]string {
			db := own.Connect(t, database)
			defer db.Close()
			return drivertest.Texts(t, db, "SELECT id, text FROM "+quote(table))
		},
		MiB: 192, // the server takes 33, and extends a table by several
	})
}

// moveData moves the data of a server into a folder.
func moveData(t *testing.T, s *mysqltest.Server, folder string) {
	t.Helper()
	db := s.Connect(t, "")
	var from string
	if err := errors.Join(db.QueryRowContext(t.Context(), "SELECT @@datadir").Scan(&from), db.Close()); err != nil {
		t.Fatal(err)
	}
	s.Kill(t)
	fulldisktest.Move(t, strings.TrimSuffix(from, "/"), folder)
	s.Restart(t)
}
