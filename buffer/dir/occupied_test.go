package dir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/parts"
)

// What has the name of a part is the file only if it has the rows of the file. Anything else must not let the import count
// as done, and is not touched.
func TestImportOverSomethingElse(t *testing.T) {
	header := csvRow("id", "body")
	two := append(csvRow("1", "a"), csvRow("2", "b")...)
	for name, tc := range map[string]struct {
		file string
		data []byte // nil stands for a directory
		want []string
	}{
		"directory":      {"file-1.csv", nil, []string{"no regular file"}},
		"gzip directory": {"file-1.csv.gz", nil, []string{"no regular file"}},
		"empty":          {"file-1.csv", []byte{}, []string{"has 0 rows", "has 3"}},
		"half a header":  {"file-1.csv", header[:len(header)-1], []string{"is damaged", "is cut"}},
		"no rows":        {"file-1.csv", header, []string{"has 0 rows", "has 3"}},
		"no header":      {"file-1.csv", two, []string{"is damaged", `no such column`}},
		"fewer rows":     {"file-1.csv", slices.Concat(header, two), []string{"has 2 rows", "has 3"}},
		"more rows":      {"file-1.csv", slices.Concat(header, two, two), []string{"has 4 rows", "has 3"}},
		"fewer in gzip":  {"file-1.csv.gz", append(gzipped(t, header), gzipped(t, two)...), []string{"has 2 rows", "has 3"}},
		"cut":            {"file-1.csv", slices.Concat(header, two[:len(two)-1]), []string{"is damaged"}},
		"not rows":       {"file-1.csv", []byte("id,body\n"), []string{"is damaged"}},
		"header in rows": {"file-1.csv.gz", gzipped(t, slices.Concat(header, two)), []string{"is damaged", "no separate gzip member"}},
	} {
		t.Run(name, func(t *testing.T) {
			tables := Tables(t.TempDir())
			must(t, tables.Ensure(t.Context(), faultTable))
			path := filepath.Join(tables.Path(faultTable.ID), tc.file)
			place(t, path, tc.data)
			for range 2 {
				err := tables.Import(t.Context(), newFile("file-1", faultTable, faultRows))
				if !driver.IsPermanent(err) {
					t.Fatalf("Import = %v, want a permanent error", err)
				}
				for _, part := range append(tc.want, path) {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("Import = %v, want %q in it", err, part)
					}
				}
			}
			if got, _ := os.ReadFile(path); string(got) != string(tc.data) {
				t.Errorf("%s was changed to %q", tc.file, got)
			}

			if err := os.Remove(path); err != nil { // as the error says
				t.Fatal(err)
			}
			must(t, tables.Import(t.Context(), newFile("file-1", faultTable, faultRows)))
			if got := readTable(t, tables, faultTable.ID); !equalRows(got, faultRows) {
				t.Errorf("the table has %q", got)
			}
		})
	}
}

// A part that is a link is a part.
func TestRepeatedImportFollowsALink(t *testing.T) {
	root := t.TempDir()
	tables := Tables(root)
	f := newFile("file-1", faultTable, faultRows)
	must(t, tables.Import(t.Context(), f))
	path, elsewhere := filepath.Join(tables.Path(faultTable.ID), "file-1.csv"), filepath.Join(root, "elsewhere")
	must(t, errors.Join(os.Rename(path, elsewhere), os.Symlink(elsewhere, path)))
	if err := tables.Import(t.Context(), f); err != nil {
		t.Error(err)
	}
	if got := readTable(t, tables, faultTable.ID); !equalRows(got, faultRows) {
		t.Errorf("the table has %q", got)
	}
}

func TestPutOverSomethingElse(t *testing.T) {
	data := csvRow("a", "b")
	obj := driver.Object{ID: "slice-1", Rows: 1}
	t.Run("directory", func(t *testing.T) {
		staging := Staging(t.TempDir())
		place(t, staging.path(obj.ID), nil)
		err := staging.Put(t.Context(), obj, bytesSource(data))
		if !driver.IsPermanent(err) || !strings.Contains(err.Error(), staging.path(obj.ID)) {
			t.Errorf("Put = %v, want a permanent error with the path", err)
		}
	})
	t.Run("empty file", func(t *testing.T) {
		staging := Staging(t.TempDir())
		place(t, staging.path(obj.ID), []byte{})
		must(t, staging.Put(t.Context(), obj, bytesSource(data)))
		if got, err := readObject(t, staging, obj); err != nil || string(got) != string(data) {
			t.Errorf("Open gives %q, %v", got, err)
		}
	})
}

// place makes a file, or a directory if data is nil.
func place(t *testing.T, path string, data []byte) {
	t.Helper()
	var err error
	if data == nil {
		err = os.Mkdir(path, 0o700)
	} else {
		err = os.WriteFile(path, data, 0o600)
	}
	must(t, err)
}

// otherDisk has the folders of tables on another disk than the temporary files.
type otherDisk struct{ parts.Disk }

func (otherDisk) Rename(from, to string) error {
	return &os.LinkError{Op: "rename", Old: from, New: to, Err: syscall.EXDEV}
}

func TestTableOnAnotherDisk(t *testing.T) {
	root := t.TempDir()
	tables := Tables(root)
	must(t, tables.Ensure(t.Context(), faultTable))
	tables.folder.FS = otherDisk{}
	err := tables.Import(t.Context(), newFile("file-1", faultTable, faultRows))
	for _, part := range []string{tables.Path(faultTable.ID), "on another disk", fmt.Sprintf("link the whole of %s", root)} {
		if !driver.IsPermanent(err) || !errors.Is(err, syscall.EXDEV) || !strings.Contains(err.Error(), part) {
			t.Errorf("Import = %v, want a permanent error with %q", err, part)
		}
	}
	if _, err := os.Stat(filepath.Join(tables.Path(faultTable.ID), "file-1.csv")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the part: %v", err)
	}
	expectNoTemp(t, root)
}
