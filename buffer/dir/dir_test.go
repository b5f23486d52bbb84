package dir_test

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/buffer/dir"
)

func TestStagingConformance(t *testing.T) {
	buffertest.Staging(t, func(t *testing.T) buffer.Staging { return dir.Staging(t.TempDir()) })
}

func TestTablesConformance(t *testing.T) {
	for name, options := range map[string]dir.TablesOptions{"plain": {}, "gzip": {Gzip: true}} {
		t.Run(name, func(t *testing.T) {
			var path string
			buffertest.Target(t, buffertest.TargetHarness{
				Open: func(t *testing.T) buffer.Target {
					path = t.TempDir()
					return dir.TablesWith(path, options)
				},
				Rows:   func(t *testing.T, table string) [][]string { return rows(t, path, table) },
				Reopen: func(*testing.T) buffer.Target { return dir.TablesWith(path, options) },
			})
		})
	}
}

// rows reads a table; an absent one gives nil.
func rows(t *testing.T, path, table string) (all [][]string) {
	t.Helper()
	for row, err := range dir.Tables(path).Rows(table) {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			t.Fatalf("reading %s: %v", table, err)
		}
		all = append(all, row)
	}
	return all
}
