package dir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/parts"
	"github.com/forebay/forebay/internal/casetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errCrash = errors.New("crashed")

var (
	faultTable = driver.Table{ID: "in.c-test.events", Columns: datatype.UntypedColumns("id", "body")}
	faultRows  = [][]string{{"1", "a\r\n\"b\""}, {"2", ""}, {"3", "c"}}
)

// newFile returns a file of one plain slice per row.
func newFile(id string, table driver.Table, rows [][]string) *driver.File {
	f := &driver.File{ID: id, SinkID: "source/sink", Table: table}
	data := map[string][]byte{}
	for i, row := range rows {
		obj := driver.Object{ID: fmt.Sprintf("%s-%d", id, i), FileID: id, Rows: 1}
		f.Slices = append(f.Slices, obj)
		f.Rows++
		data[obj.ID] = csvRow(row...)
	}
	f.OpenSlice = func(_ context.Context, obj driver.Object) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(data[obj.ID])), nil
	}
	f.SaveProgress = func(context.Context, []byte) error { return nil }
	return f
}

// null is a cell that is NULL. It contains what no file of a test does.
const null = "\xff\x00NULL"

func csvRow(cells ...string) []byte {
	var quoted []string
	for _, c := range cells {
		if c == null {
			quoted = append(quoted, "")
			continue
		}
		quoted = append(quoted, `"`+strings.ReplaceAll(c, `"`, `""`)+`"`)
	}
	return []byte(strings.Join(quoted, ",") + "\n")
}

func readTable(t *testing.T, tables *TableDir, table string) (rows [][]string) {
	t.Helper()
	for row, err := range tables.Rows(table) {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			t.Fatalf("reading %s: %v", table, err)
		}
		rows = append(rows, row)
	}
	return rows
}

func equalRows(a, b [][]string) bool { return slices.EqualFunc(a, b, slices.Equal[[]string]) }

// expectNoTemp checks that no temporary file is left.
func expectNoTemp(t *testing.T, root string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(root, parts.TempDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	for _, e := range entries {
		t.Errorf("%s is left over", e.Name())
	}
}

// everyFault runs a story with a fault at operation 0, step, 2*step and so on, until a run meets no fault.
func everyFault(t *testing.T, step int, story func(t *testing.T, d *faultyDisk)) {
	for _, crash := range []bool{false, true} {
		for n := 0; ; n += step {
			d := &faultyDisk{root: t.TempDir(), fail: n, crash: crash}
			name := fmt.Sprintf("crash=%t/op=%d", crash, n)
			t.Run(name, func(t *testing.T) {
				story(t, d)
				if t.Failed() {
					t.Logf("operations:\n%s", strings.Join(d.trace, "\n"))
				}
			})
			if len(d.trace) <= n {
				if n < 10 {
					t.Errorf("the story has only %d operations", n)
				}
				break
			}
		}
	}
}

// Whatever fails, the table has all rows of the file or none, a call that returned nil has stored them, and the repeated
// call stores them once and cleans up.
func TestImportSurvivesEveryFault(t *testing.T) {
	for name, options := range map[string]TablesOptions{"plain": {}, "gzip": {Gzip: true}} {
		t.Run(name, func(t *testing.T) {
			everyFault(t, casetest.Step(), func(t *testing.T, d *faultyDisk) {
				root := filepath.Join(d.root, "data", "tables")
				tables := TablesWith(root, options)
				tables.folder.FS = d
				err := tables.Import(t.Context(), newFile("file-1", faultTable, faultRows))
				if err != nil && !d.crash {
					expectNoTemp(t, root)
				}

				tables = TablesWith(root, options) // as after a restart
				got := readTable(t, tables, faultTable.ID)
				switch {
				case err == nil && !equalRows(got, faultRows):
					t.Errorf("Import = nil, but the table has %q", got)
				case len(got) != 0 && !equalRows(got, faultRows):
					t.Errorf("Import = %v, and the table has a part of the rows: %q", err, got)
				case err != nil && driver.IsPermanent(err):
					t.Errorf("Import = %v is permanent", err)
				case err != nil && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, errCrash):
					t.Errorf("Import = %v does not wrap the fault", err)
				}
				if err := tables.Import(t.Context(), newFile("file-1", faultTable, faultRows)); err != nil {
					t.Fatalf("repeated Import = %v", err)
				}
				if got := readTable(t, tables, faultTable.ID); !equalRows(got, faultRows) {
					t.Errorf("the repeated import leaves %q", got)
				}
				expectNoTemp(t, root)
			})
		})
	}
}

func TestPutSurvivesEveryFault(t *testing.T) {
	obj := driver.Object{ID: "slice-1", Rows: 1}
	data := bytes.Repeat(csvRow("a", "b"), 1000)
	everyFault(t, casetest.Step(), func(t *testing.T, d *faultyDisk) {
		root := filepath.Join(d.root, "staging")
		staging := Staging(root)
		staging.files.FS = d
		err := staging.Put(t.Context(), obj, bytesSource(data))

		staging = Staging(root)
		got, rerr := readObject(t, staging, obj)
		switch {
		case err == nil && !bytes.Equal(got, data):
			t.Errorf("Put = nil, but Open gives %d bytes and %v", len(got), rerr)
		case rerr == nil && !bytes.Equal(got, data):
			t.Errorf("Put = %v, and %d bytes of %d are visible", err, len(got), len(data))
		case rerr != nil && !errors.Is(rerr, fs.ErrNotExist):
			t.Errorf("Open = %v", rerr)
		}
		if err := staging.Put(t.Context(), obj, bytesSource(data)); err != nil {
			t.Fatalf("repeated Put = %v", err)
		}
		if got, err := readObject(t, staging, obj); err != nil || !bytes.Equal(got, data) {
			t.Errorf("the repeated Put leaves %d bytes and %v", len(got), err)
		}
		expectNoTemp(t, root)
	})
}

// A Put lists the temporary files only if a call of this or of an earlier process may have left some of the object, because thousands of
// small objects are put each minute.
func TestPutListsTemporaryFilesRarely(t *testing.T) {
	root := filepath.Join(t.TempDir(), "staging")
	put := func(staging *StagingDir, id string) (lists int) {
		t.Helper()
		d := &faultyDisk{root: filepath.Dir(root), fail: -1}
		staging.files.FS = d
		must(t, staging.Put(t.Context(), driver.Object{ID: id, Rows: 1}, bytesSource([]byte("x"))))
		for _, operation := range d.trace {
			if strings.HasPrefix(operation, "readdir ") {
				lists++
			}
		}
		return lists
	}
	staging := Staging(root)
	put(staging, "slice-1") // looks for files of earlier processes
	if n := put(staging, "slice-2"); n > 0 {
		t.Errorf("got %d lists of the temporary files, want none", n)
	}
	left := filepath.Join(root, parts.TempDir, "slice-3.0000000000000000")
	must(t, os.WriteFile(left, nil, 0o600))
	staging = Staging(root) // as after a restart
	put(staging, "slice-4")
	put(staging, "slice-3")
	expectNoTemp(t, root)
}

func TestDeleteReportsEveryFault(t *testing.T) {
	objs := []driver.Object{{ID: "slice-1"}, {ID: "slice-2"}}
	for n := range 3 {
		root := t.TempDir()
		staging := Staging(root)
		for _, obj := range objs {
			must(t, staging.Put(t.Context(), obj, bytesSource([]byte("x"))))
		}
		staging.files.FS = &faultyDisk{root: root, fail: n}
		if err := staging.Delete(t.Context(), objs...); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("op %d: Delete = %v, want the fault", n, err)
		}
		if err := staging.Delete(t.Context(), objs...); err != nil {
			t.Errorf("op %d: repeated Delete = %v", n, err)
		}
		for _, obj := range objs {
			if _, err := readObject(t, staging, obj); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("op %d: %s is still there", n, obj.ID)
			}
		}
	}
}

// A power cut loses unsynced changes in any combination. The order of the operations is therefore the proof of durability, with
// the bytes before the name, the name before the return, and a directory before its content.
func TestOrderOfOperations(t *testing.T) {
	d := &faultyDisk{root: t.TempDir(), fail: -1}
	tables := Tables(filepath.Join(d.root, "tables"))
	tables.folder.FS = d
	step := func(name, want string, call func() error) {
		t.Helper()
		d.trace = nil
		if err := call(); err != nil {
			t.Fatalf("%s: got %v, want no error", name, err)
		}
		if got := strings.Join(d.trace, "\n"); got != strings.TrimSpace(want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
	step("the first ensure", `
stat tables
stat .
mkdir tables
syncdir .
open tables/in.c-test.events/table.json
readdir tables/.tmp
stat tables/.tmp
stat tables
mkdir tables/.tmp
syncdir tables
lock tables/.tmp
open tables/in.c-test.events/table.json
stat tables/in.c-test.events
stat tables
mkdir tables/in.c-test.events
syncdir tables
stat tables/.tmp
create tables/.tmp/table_4f00151e17362528.*
write tables/.tmp/table_4f00151e17362528.*
sync tables/.tmp/table_4f00151e17362528.*
close tables/.tmp/table_4f00151e17362528.*
rename tables/.tmp/table_4f00151e17362528.* tables/in.c-test.events/table.json
syncdir tables/in.c-test.events`, func() error { return tables.Ensure(t.Context(), faultTable) })
	step("an import", `
stat tables
open tables/in.c-test.events/table.json
stat tables/in.c-test.events
stat tables/in.c-test.events/file-1.csv
stat tables/in.c-test.events/file-1.csv.gz
readlink tables/in.c-test.events
stat tables/.tmp
create tables/.tmp/file-1.*
write tables/.tmp/file-1.*
write tables/.tmp/file-1.*
write tables/.tmp/file-1.*
write tables/.tmp/file-1.*
sync tables/.tmp/file-1.*
close tables/.tmp/file-1.*
readlink tables/in.c-test.events
rename tables/.tmp/file-1.* tables/in.c-test.events/file-1.csv
syncdir tables/in.c-test.events
readdir tables/.tmp`, func() error { return tables.Import(t.Context(), newFile("file-1", faultTable, faultRows)) })
	step("a repeated import", `
stat tables
open tables/in.c-test.events/table.json
stat tables/in.c-test.events
stat tables/in.c-test.events/file-1.csv
syncdir tables/in.c-test.events
open tables/in.c-test.events/file-1.csv
readlink tables/in.c-test.events`, func() error { return tables.Import(t.Context(), newFile("file-1", faultTable, faultRows)) })

	// The process that made the directories may have crashed before it synced them.
	tables = Tables(filepath.Join(d.root, "tables"))
	tables.folder.FS = d
	step("a repeated import after a restart", `
stat tables
syncdir .
open tables/in.c-test.events/table.json
stat tables/in.c-test.events
syncdir tables
readdir tables/.tmp
stat tables/in.c-test.events/file-1.csv
syncdir tables/in.c-test.events
open tables/in.c-test.events/file-1.csv
readlink tables/in.c-test.events`, func() error { return tables.Import(t.Context(), newFile("file-1", faultTable, faultRows)) })

	byDay := TablesWith(filepath.Join(d.root, "days"), TablesOptions{PartitionBy: "at"})
	byDay.folder.FS, byDay.folder.Now = d, func() time.Time { return time.UnixMicro(1) }
	table := driver.Table{ID: "t", Columns: []datatype.Column{{Name: "at", Type: datatype.Date}}}
	must(t, byDay.Ensure(t.Context(), table))
	step("an import of two days", `
stat days
open days/t/table.json
stat days/t
syncdir days
stat days/t/file-1.csv
stat days/t/file-1.csv.gz
readlink days/t
readdir days/.versions/t/0000000000000001
readdir days/.versions/t/0000000000000001/imports/file-1
stat days/.tmp
create days/.tmp/file-1.*
write days/.tmp/file-1.*
write days/.tmp/file-1.*
sync days/.tmp/file-1.*
close days/.tmp/file-1.*
stat days/.tmp
create days/.tmp/file-1.*
write days/.tmp/file-1.*
write days/.tmp/file-1.*
sync days/.tmp/file-1.*
close days/.tmp/file-1.*
readlink days/t
stat days/.versions
lock days/.versions/.t.lock
stat days/t/file-1.csv
stat days/t/file-1.csv.gz
readlink days/t
readdir days/.versions/t/0000000000000001/imports/file-1
stat days/.versions/t/0000000000000001/dt=2026-11-22/file-1.1.csv
stat days/.versions/t/0000000000000001/dt=2026-11-23/file-1.1.csv
mkdir days/.tmp/file-1.*/dt=2026-11-22
rename days/.tmp/file-1.* days/.tmp/file-1.*/dt=2026-11-22/file-1.1.csv
syncdir days/.tmp/file-1.*/dt=2026-11-22
mkdir days/.tmp/file-1.*/dt=2026-11-23
rename days/.tmp/file-1.* days/.tmp/file-1.*/dt=2026-11-23/file-1.1.csv
syncdir days/.tmp/file-1.*/dt=2026-11-23
syncdir days/.tmp/file-1.*
stat days/t/imports
mkdir days/t/imports
syncdir days/t
readdir days/t/imports/file-1
rename days/.tmp/file-1.* days/t/imports/file-1
syncdir days/t/imports
syncdir days
readdir days/.tmp`, func() error {
		return byDay.Import(t.Context(), newFile("file-1", table, [][]string{{"2026-11-22"}, {"2026-11-23"}}))
	})
}

type bytesSource []byte

func (s bytesSource) Open() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(s)), nil }

func (s bytesSource) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(s)
	return int64(n), err
}

func readObject(t *testing.T, s *StagingDir, obj driver.Object) ([]byte, error) {
	t.Helper()
	rc, err := s.Open(t.Context(), obj)
	if err != nil {
		return nil, err
	}
	defer rc.Close()
	return io.ReadAll(rc)
}
