package forebay_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/mapping"
)

// An engine on a real file system starts with any file of its local level damaged or missing. It imports all rows that it can
// still read, and reports the other rows.
func TestDamagedFileOnRealDisk(t *testing.T) {
	for _, tc := range []struct {
		file   string // the start of its name
		how    string
		damage func(path string) error
		lossy  bool // the file has the only copy of rows
	}{
		{file: "forebay-closed", how: "emptied", damage: empty},
		{file: "forebay-format", how: "removed", damage: os.Remove},
		{file: "MANIFEST-", how: "emptied", damage: empty},
		{file: "MANIFEST-", how: "removed", damage: os.Remove},
		{file: "marker.manifest.", how: "removed", damage: os.Remove},
		{file: "marker.format-version.", how: "removed", damage: os.Remove},
		{file: "reach", how: "emptied", damage: empty},
		{file: "0", how: "flipped", damage: flipMiddle, lossy: true}, // tables and logs
		{file: "0", how: "removed", damage: os.Remove, lossy: true},
	} {
		t.Run(tc.file+tc.how, func(t *testing.T) {
			dir, mem := t.TempDir(), buffertest.NewMemory()
			opts := forebay.Options{Staging: mem, Target: mem, Buffer: buffer.Tuning{MemTableBytes: 1 << 20}}
			const rows = 50
			ingestClosed(t, dir, opts, rows)
			found := 0
			for _, path := range filesOf(t, filepath.Join(dir, "local")) {
				if strings.HasPrefix(filepath.Base(path), tc.file) {
					found++
					must(t, tc.damage(path))
				}
			}
			if found == 0 {
				t.Fatalf("the local level has no file %s…: %v", tc.file, filesOf(t, filepath.Join(dir, "local")))
			}
			e, err := forebay.Open(dir, opts)
			if err != nil {
				t.Fatalf("open: %v", err)
			}
			defer e.Close()
			mustDefine(t, e, events())
			must(t, e.FlushAll(t.Context()))
			got := len(mem.Rows("in.c-web.users"))
			list, err := e.Buffer().Damaged(t.Context())
			must(t, err)
			switch {
			case !tc.lossy && got != rows:
				t.Errorf("the table has %d rows, want %d; damage %+v", got, rows, list)
			case got > rows || got < rows && len(list) == 0:
				t.Errorf("the table has %d of %d rows, damage %+v", got, rows, list)
			}
		})
	}
}

// ingestClosed stores events in a new engine and closes it. The rows stay on the local level.
func ingestClosed(t *testing.T, dir string, opts forebay.Options, rows int) {
	t.Helper()
	e, err := forebay.Open(dir, opts)
	must(t, err)
	mustDefine(t, e, events())
	for i := range rows {
		mustIngest(t, e, "web", mapping.JSON(fmt.Appendf(nil, `{"id": %d, "user": {"name": "n"}}`, i)))
	}
	must(t, e.Close())
}

// filesOf returns the paths of the files in a folder.
func filesOf(t *testing.T, dir string) (paths []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range list {
		if e.Type().IsRegular() && e.Name() != "LOCK" {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	slices.Sort(paths)
	return paths
}

func empty(path string) error { return os.Truncate(path, 0) }

func flipMiddle(path string) error {
	data, err := os.ReadFile(path)
	if err != nil || len(data) == 0 {
		return err
	}
	data[len(bytes.TrimRight(data, "\x00"))/2] ^= 4 // a log may end with zeros that were written ahead
	return os.WriteFile(path, data, 0o600)
}
