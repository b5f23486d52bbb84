package dir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

var rawTable = driver.Table{ID: "web", Columns: []datatype.Column{{Name: "received", Type: datatype.Timestamp}, {Name: "body"}}}

// rawRows has a row for each time.
func rawRows(times ...time.Time) (rows [][]string) {
	for i, at := range times {
		rows = append(rows, []string{at.UTC().Format("2006-01-02T15:04:05.000000Z"), fmt.Sprintf("%d\r\n\"é\"", i)})
	}
	return rows
}

var someHour = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

func archiveText(t *testing.T, a *ArchiveDir, object string) string {
	t.Helper()
	rc, err := a.Open(t.Context(), "web", object)
	must(t, err)
	defer rc.Close()
	text, err := io.ReadAll(rc)
	must(t, err)
	return string(text)
}

func objectsOf(t *testing.T, a *ArchiveDir, from, to time.Time) string {
	t.Helper()
	list, err := a.Objects(t.Context(), "web", from, to)
	must(t, err)
	return strings.Join(list, " ")
}

var always = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// Rows are in the object of their hour, byte for byte and in order. A repeated import changes nothing.
func TestArchiveByHour(t *testing.T) {
	a := Archive(filepath.Join(t.TempDir(), "archive"), ArchiveOptions{})
	f := func() *driver.File {
		return newFile("f-2", rawTable, rawRows(someHour.Add(59*time.Minute), someHour.Add(time.Hour), someHour))
	}
	for range 2 {
		must(t, a.Import(t.Context(), f()))
	}
	must(t, a.Import(t.Context(), newFile("f-1", rawTable, rawRows(someHour.Add(time.Hour)))))
	const first, second, third = "2026-01-02T03/f-2.csv.gz", "2026-01-02T04/f-1.csv.gz", "2026-01-02T04/f-2.csv.gz"
	if got := objectsOf(t, a, time.Time{}, always); got != first+" "+second+" "+third {
		t.Errorf("objects %q", got)
	}
	want := "\"received\",\"body\"\n\"2026-01-02T03:59:00.000000Z\",\"0\r\n\"\"é\"\"\"\n\"2026-01-02T03:00:00.000000Z\",\"2\r\n\"\"é\"\"\"\n"
	if got := archiveText(t, a, first); got != want {
		t.Errorf("object %q, want %q", got, want)
	}
	for _, c := range []struct {
		from, to time.Time
		want     string
	}{
		{someHour, someHour.Add(time.Hour), first},
		{someHour.Add(time.Hour), someHour.Add(time.Hour + 1), second + " " + third},
		{someHour.Add(time.Hour - 1), someHour.Add(time.Hour + 1), first + " " + second + " " + third},
		{someHour.Add(2 * time.Hour), always, ""},
		{time.Time{}, someHour, ""},
	} {
		if got := objectsOf(t, a, c.from, c.to); got != c.want {
			t.Errorf("from %v to %v: %q, want %q", c.from, c.to, got, c.want)
		}
	}
	if _, err := a.Open(t.Context(), "web", "2026-01-02T05/f-1.csv.gz"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an absent object: %v", err)
	}
	if _, err := a.Open(t.Context(), "web", "../../x"); err == nil {
		t.Error("an object outside of the folder")
	}
}

// A file of more hours than are written at once is imported.
func TestArchiveOfManyHours(t *testing.T) {
	const hours = openHours + 3
	var times []time.Time
	for i := range 2 * hours {
		times = append(times, someHour.Add(time.Duration(i*8%hours)*time.Hour))
	}
	a := Archive(t.TempDir(), ArchiveOptions{})
	must(t, a.Import(t.Context(), newFile("f-1", rawTable, rawRows(times...))))
	objects := strings.Fields(objectsOf(t, a, time.Time{}, always))
	for _, object := range objects {
		if n := strings.Count(archiveText(t, a, object), "\n\"2026"); n != 2 {
			t.Errorf("object %s has %d rows", object, n)
		}
	}
	if len(objects) != hours {
		t.Errorf("got %d objects, want %d", len(objects), hours)
	}
}

// A file is imported once, even after an attempt that was interrupted at any operation of the disk.
func TestArchiveSurvivesEveryFault(t *testing.T) {
	times := []time.Time{someHour, someHour.Add(time.Hour), someHour, someHour.Add(2 * time.Hour), someHour.Add(time.Hour)}
	root := t.TempDir()
	for _, crash := range []bool{false, true} {
		for n := 0; ; n++ {
			path := filepath.Join(root, fmt.Sprint(crash, n))
			a := Archive(path, ArchiveOptions{})
			disk := &faultyDisk{root: path, fail: n, crash: crash}
			a.files.FS = disk
			_ = a.Import(t.Context(), newFile("f-1", rawTable, rawRows(times...))) // a fault of tidying up is no error
			a = Archive(path, ArchiveOptions{})
			if err := a.Import(t.Context(), newFile("f-1", rawTable, rawRows(times...))); err != nil {
				t.Fatalf("after a fault at operation %d: %v", n, err)
			}
			rows := 0
			for object := range strings.FieldsSeq(objectsOf(t, a, time.Time{}, always)) {
				rows += strings.Count(archiveText(t, a, object), "\n\"2026")
			}
			if rows != len(times) {
				t.Fatalf("after a fault at operation %d there are %d rows, want %d", n, rows, len(times))
			}
			if len(disk.trace) <= n {
				if n < 15 {
					t.Errorf("only %d operations", n)
				}
				break
			}
		}
	}
}

// Objects are removed when their time has passed, and nothing else is.
func TestArchiveRetention(t *testing.T) {
	a := Archive(t.TempDir(), ArchiveOptions{KeepFor: 24 * time.Hour})
	now := someHour.Add(25*time.Hour - 1)
	a.files.Now = func() time.Time { return now }
	must(t, a.Import(t.Context(), newFile("f-1", rawTable, rawRows(someHour, someHour.Add(time.Hour)))))
	other := filepath.Join(a.files.Root, "web", "notes")
	must(t, os.Mkdir(other, 0o700))
	const first, second = "2026-01-02T03/f-1.csv.gz", "2026-01-02T04/f-1.csv.gz"
	for _, want := range []string{first + " " + second, second, second, ""} {
		must(t, a.Compact(t.Context(), rawTable))
		if got := objectsOf(t, a, time.Time{}, always); got != want {
			t.Errorf("at %v there are %q, want %q", now, got, want)
		}
		switch want {
		case first + " " + second:
			now = now.Add(1)
		case second:
			now = now.Add(30 * time.Minute)
		}
	}
	if entries, err := os.ReadDir(filepath.Join(a.files.Root, "web")); err != nil || len(entries) != 1 {
		t.Errorf("the folder has %v, %v", entries, err)
	}
	if err := a.Import(t.Context(), newFile("f-2", rawTable, rawRows(someHour))); err != nil {
		t.Errorf("an import into an hour that was removed: %v", err)
	}
}

func TestArchiveRefuses(t *testing.T) {
	a := Archive(t.TempDir(), ArchiveOptions{})
	for name, f := range map[string]*driver.File{
		"no time":      newFile("f-1", rawTable, [][]string{{"yesterday", "x"}}),
		"another time": newFile("f-1", rawTable, [][]string{{"2026-13-02T03:04:05.000000Z", "x"}}),
		"a path":       newFile("f-1", driver.Table{ID: "../x", Columns: rawTable.Columns}, rawRows(someHour)),
		"a table":      newFile("f-1", driver.Table{ID: "x", Columns: datatype.UntypedColumns("a", "b")}, rawRows(someHour)),
		"an id":        newFile("../f", rawTable, rawRows(someHour)),
	} {
		if err := a.Import(t.Context(), f); !driver.IsPermanent(err) {
			t.Errorf("%s: got %v, want a permanent error", name, err)
		}
	}
	if list, err := a.Objects(t.Context(), "none", time.Time{}, always); err != nil || list != nil {
		t.Errorf("an unknown archive has %v, %v", list, err)
	}
	if entries, err := os.ReadDir(a.files.Root); err != nil || len(entries) != 0 {
		t.Errorf("refused files left %v, %v", entries, err)
	}
}
