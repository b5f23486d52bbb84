//go:build linux

package clickhouse

import (
	"strings"
	"testing"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/clickhouse/clickhousetest"
	"github.com/forebay/forebay/internal/fulldisktest"
)

// The volume with the data of the server has no room for more files, so the server fails in the middle of a block. The server is killed at the end,
// so the rows must be on the volume. The volume has enough bytes, because the engine in a library ignores errors of write, see package clickhousetest.
func TestSmallVolumeIsFull(t *testing.T) {
	if testing.Short() {
		t.Skip("it mounts a volume and fills it")
	}
	own, database := new(clickhousetest.Server), ""
	fulldisktest.Play(t, fulldisktest.Harness{
		Files: true,
		MiB:   256,
		Open: func(t *testing.T, folder string) driver.Target {
			if database == "" {
				t.Cleanup(func() { // before the volume is unmounted
					if database != "" {
						own.Kill(t) // which waits for the end of the process
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
			return target
		},
		Rows: func(t *testing.T, _ driver.Target, _, table string) (all [][]string) {
			for _, row := range own.Rows(t, "SELECT toString(id), text FROM "+quote(database)+"."+quote(table)) {
				all = append(all, []string{*row[0], *row[1]})
			}
			return all
		},
	})
}

// moveData moves the data of a server into a folder.
func moveData(t *testing.T, s *clickhousetest.Server, folder string) {
	t.Helper()
	from := strings.TrimSuffix(*s.Rows(t, "SELECT path FROM system.disks")[0][0], "/")
	s.Kill(t)
	fulldisktest.Move(t, from, folder)
	s.Restart(t)
}
