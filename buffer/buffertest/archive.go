package buffertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// ArchiveTarget is an archive of raw records, as an engine uses it (forebay.Archive).
type ArchiveTarget interface {
	driver.Target
	// Objects and Open are as in forebay.Archive.
	Objects(ctx context.Context, source string, from, to time.Time) ([]string, error)
	// Open opens an object.
	Open(ctx context.Context, source, object string) (io.ReadCloser, error)
}

// archiveEraser is an archive that can be erased, as an engine uses it (forebay.ArchiveEraser).
type archiveEraser interface {
	ArchiveTarget
	Erase(ctx context.Context, archive string) error
}

// archiveReplacer is an archive whose objects can be replaced, as an engine uses it (forebay.ArchiveReplacer).
type archiveReplacer interface {
	ArchiveTarget
	Archives(ctx context.Context) ([]string, error)
	Replace(ctx context.Context, archive, object string, rows io.Reader) error
}

// ArchiveHarness provides the parts that the suite of [Archive] needs.
type ArchiveHarness struct {
	// Open returns an archive without objects and registers cleanup with t.Cleanup. If keepFor is not 0, its Compact removes
	// the objects of an hour when that time has passed since its end.
	Open func(t *testing.T, keepFor time.Duration) ArchiveTarget
	// Reopen returns a new driver for the objects of the archive that was opened last, as after a restart of the process.
	Reopen func(t *testing.T) ArchiveTarget
}

// Archive checks an archive against the contract of forebay.Archive. Each check is a subtest with a fresh archive.
func Archive(t *testing.T, h ArchiveHarness) {
	t.Helper()
	for _, c := range archiveChecks {
		t.Run(c.name, func(t *testing.T) {
			c.run(t, &archiveBench{
				t: t, ArchiveTarget: h.Open(t, c.keepFor),
				reopen: func() ArchiveTarget { return h.Reopen(t) },
			})
		})
	}
}

type archiveCheck struct {
	name    string
	keepFor time.Duration
	run     func(t tb, b *archiveBench)
}

const archiveKeeps = 24 * time.Hour

var archiveChecks = []archiveCheck{
	{"Rows", 0, archiveRows},
	{"Ranges", 0, archiveRanges},
	{"ManyHours", 0, archiveManyHours},
	{"LargeObject", 0, archiveLargeObject},
	{"ImportAgain", 0, archiveImportAgain},
	{"ImportConcurrently", 0, archiveImportConcurrently},
	{"ImportInterrupted", 0, archiveImportInterrupted},
	{"ImportCancelled", 0, archiveImportCancelled},
	{"Absent", 0, archiveAbsent},
	{"Refuses", 0, archiveRefuses},
	{"Retention", archiveKeeps, archiveRetention},
	{"NoRetention", 0, archiveNoRetention},
	{"Erase", 0, archiveErase},
	{"Replace", 0, archiveReplace},
}

// archiveBench is one archive under test.
type archiveBench struct {
	ArchiveTarget
	t      tb
	reopen func() ArchiveTarget
}

const archivedSource = "buffertest"

func archiveTable() driver.Table {
	return driver.Table{ID: archivedSource, Columns: []datatype.Column{
		{Name: "received", Type: datatype.Timestamp, Required: true}, {Name: "head", Type: datatype.JSON, Required: true}, {Name: "body"},
	}}
}

// archiveHour is an hour whose next hour begins another day, and with it another month and year.
var archiveHour = time.Date(2025, 12, 31, 23, 0, 0, 0, time.UTC)

const archiveTime = "2006-01-02T15:04:05.000000Z"

// rawFile has a record for each arrival time.
func rawFile(id string, times ...time.Time) *testFile {
	rows := make([][]string, len(times))
	for i, at := range times {
		rows[i] = []string{at.UTC().Format(archiveTime), `{"v":1,"host":"é"}`, fmt.Sprintf("%s %d,\r\n\"\x00\xff\"", id, i)}
	}
	return newFile(id, archiveTable(), rows)
}

func (b *archiveBench) importFile(ctx context.Context, f *testFile) error {
	b.t.Helper()
	err := b.Import(ctx, f.attempt())
	if n := f.open.Load(); n != 0 {
		b.t.Errorf("Import returned with %d readers open: close the FileRows, or what OpenSlice gave", n)
	}
	return err
}

func (b *archiveBench) mustImport(files ...*testFile) {
	b.t.Helper()
	for _, f := range files {
		if err := b.importFile(b.t.Context(), f); err != nil {
			b.t.Fatalf("Import(%s) = %v, want nil", f.id, err)
		}
	}
}

func (b *archiveBench) mustObjects(from, to time.Time) []string {
	b.t.Helper()
	objects, err := b.Objects(b.t.Context(), archivedSource, from, to)
	if err != nil {
		b.t.Fatalf("Objects = %v, want nil", err)
	}
	if !slices.IsSorted(objects) || len(slices.Compact(slices.Clone(objects))) != len(objects) {
		b.t.Errorf("Objects = %q: want each once, in ascending order", objects)
	}
	return objects
}

// anyTime bounds all arrival times.
func anyTime() (from, to time.Time) {
	return time.Time{}, time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
}

// mustOpen returns the rows of an object.
func (b *archiveBench) mustOpen(object string) [][]string {
	b.t.Helper()
	rc, err := b.Open(b.t.Context(), archivedSource, object)
	if err != nil {
		b.t.Fatalf("Open(%s) = %v, want nil", object, err)
	}
	data, err := io.ReadAll(rc)
	if err := errors.Join(err, rc.Close()); err != nil {
		b.t.Fatalf("read object %s: %v", object, err)
	}
	rows, err := parseRows(data)
	if err != nil || len(rows) == 0 || !slices.Equal(rows[0], archiveTable().Names()) {
		b.t.Fatalf("object %s begins with %.100q, %v: want a row with the names of the columns", object, data, err)
	}
	return rows[1:]
}

// expectAll demands that the archive has the rows of the files, each once, and the rows of one object and one file in their
// order.
func (b *archiveBench) expectAll(files ...*testFile) {
	b.t.Helper()
	var got [][]string
	for _, object := range b.mustObjects(anyTime()) {
		rows := b.mustOpen(object)
		if len(rows) == 0 {
			b.t.Errorf("object %s has no record", object)
		}
		b.expectOrder(object, rows, files)
		got = append(got, rows...)
	}
	want := rowsOf(files)
	slices.SortFunc(got, slices.Compare[[]string])
	slices.SortFunc(want, slices.Compare[[]string])
	if len(got) != len(want) {
		b.t.Errorf("the archive has %d records, want %d", len(got), len(want))
		return
	}
	for i := range got {
		if !slices.Equal(got[i], want[i]) {
			b.t.Errorf("the archive has the record %.200q, want %.200q: store each byte as it is", got[i], want[i])
			return
		}
	}
}

func (b *archiveBench) expectOrder(object string, rows [][]string, files []*testFile) {
	b.t.Helper()
	for _, f := range files {
		at := 0
		all := f.rows()
		for _, row := range rows {
			if i := slices.IndexFunc(all[at:], func(r []string) bool { return slices.Equal(r, row) }); i >= 0 {
				at += i + 1
			} else if slices.ContainsFunc(all[:at], func(r []string) bool { return slices.Equal(r, row) }) {
				b.t.Errorf("object %s has the records of file %s in another order", object, f.id)
				return
			}
		}
	}
}

func archiveRows(_ tb, b *archiveBench) {
	f := rawFile("file-1", archiveHour, archiveHour.Add(time.Hour-time.Microsecond), archiveHour.Add(time.Second))
	b.mustImport(f)
	b.expectAll(f)
	second := rawFile("file-0", archiveHour.Add(time.Minute))
	b.mustImport(second)
	b.expectAll(f, second)
	b.ArchiveTarget = b.reopen()
	b.expectAll(f, second)
}

// archiveRanges lists the objects of time ranges. More objects than necessary are no fault, but missing ones are, and so are objects of far hours.
func archiveRanges(t tb, b *archiveBench) {
	at := func(hours int) time.Time { return archiveHour.Add(time.Duration(hours) * time.Hour) }
	var files []*testFile
	hours := []int{-8760, -24, -1, 0, 1, 24}
	for i, h := range hours {
		files = append(files, rawFile(fmt.Sprintf("file-%d", i), at(h).Add(30*time.Minute)))
	}
	b.mustImport(files...)
	zone := time.FixedZone("east", 5*3600+1800)
	for _, c := range []struct{ from, to time.Time }{
		{at(0), at(1)},
		{at(0).Add(30 * time.Minute), at(0).Add(30*time.Minute + 1)},
		{at(-1), at(2)},
		{at(-24), at(1).In(zone)},
		{at(1).In(zone), at(25)},
		{at(-9000), at(-8000)},
		{at(25), at(8000)},
		{at(0), at(0)},
		{time.Time{}, at(0)},
		{at(1), at(1 << 20)},
	} {
		var got [][]string
		for _, object := range b.mustObjects(c.from, c.to) {
			got = append(got, b.mustOpen(object)...)
		}
		for i, f := range files {
			middle := at(hours[i]).Add(30 * time.Minute)
			found := slices.ContainsFunc(got, func(row []string) bool { return slices.Equal(row, f.rows()[0]) })
			if in := !middle.Before(c.from) && middle.Before(c.to); in && !found {
				t.Errorf("Objects from %s to %s: the record of %s is in none of them", c.from, c.to, middle)
			}
			if far := middle.Before(c.from.Add(-time.Hour)) || middle.After(c.to.Add(time.Hour)); far && found {
				t.Errorf("Objects from %s to %s: they have the record of %s", c.from, c.to, middle)
			}
		}
	}
}

// archiveManyHours imports a file whose callers set the times of the records.
func archiveManyHours(_ tb, b *archiveBench) {
	const hours = 50
	var times []time.Time
	for i := range 3 * hours {
		times = append(times, archiveHour.Add(time.Duration(i*7%hours)*time.Hour))
	}
	f := rawFile("file-1", times...)
	b.mustImport(f)
	b.expectAll(f)
}

// archiveLargeObject reads an object that is larger than what drivers hold at once, and does not compress.
func archiveLargeObject(_ tb, b *archiveBench) {
	const rows, size = 12, 1 << 20
	f := rawFile("file-1", slices.Repeat([]time.Time{archiveHour}, rows)...)
	state := uint64(1)
	for _, p := range f.parts {
		for _, row := range p.rows {
			var body strings.Builder
			for body.Len() < size {
				state = state*6364136223846793005 + 1442695040888963407
				body.Write([]byte{byte(state >> 56), byte(state >> 48), byte(state >> 40)})
			}
			row[2] = body.String()
		}
	}
	b.mustImport(f)
	b.expectAll(f)
}

func archiveImportAgain(_ tb, b *archiveBench) {
	f := rawFile("file-1", archiveHour, archiveHour.Add(time.Hour))
	b.mustImport(f, f)
	b.expectAll(f)
	b.ArchiveTarget = b.reopen()
	b.mustImport(f)
	b.expectAll(f)
}

func archiveImportConcurrently(t tb, b *archiveBench) {
	var files []*testFile
	for i := range 4 {
		files = append(files, rawFile(fmt.Sprintf("file-%d", i), archiveHour, archiveHour.Add(time.Hour), archiveHour))
	}
	mustTogether(t, "Import", 3*len(files), func(i int) error { return b.Import(t.Context(), files[i%len(files)].attempt()) })
	b.expectAll(files...)
}

// archiveImportInterrupted breaks imports off in every slice, and repeats them.
func archiveImportInterrupted(t tb, b *archiveBench) {
	var times []time.Time
	for i := range 70 {
		times = append(times, archiveHour.Add(time.Duration(i)*time.Minute))
	}
	var files []*testFile
	for broke := range 4 { // newFile makes slices of 20 rows
		for _, open := range []bool{false, true} {
			f := rawFile(fmt.Sprintf("file-%d-%t", broke, open), times...)
			f.fault = func(i int, data []byte) (io.Reader, error) {
				switch {
				case i != broke:
					return nil, nil
				case open:
					return nil, errInjected
				}
				return broken(data, len(data)/2), nil
			}
			expectRetryable(t, "Import of a file with a slice that cannot be read", b.importFile(t.Context(), f), errInjected)
			f.fault = nil
			b.ArchiveTarget = b.reopen()
			b.mustImport(f)
			files = append(files, f)
		}
	}
	b.expectAll(files...)
}

func archiveImportCancelled(t tb, b *archiveBench) {
	f := rawFile("file-1", archiveHour, archiveHour.Add(time.Hour))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	expectRetryable(t, "Import with a cancelled context", b.importFile(ctx, f), nil)
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	stream := &endless{row: appendRow(nil, f.rows()[0]), cancel: cancel}
	f.fault = func(int, []byte) (io.Reader, error) { return stream, nil }
	stream.expectNoticed(t, "Import", b.importFile(ctx, f))
	f.fault = nil
	b.mustImport(f)
	b.expectAll(f)
}

func archiveAbsent(t tb, b *archiveBench) {
	if objects := b.mustObjects(anyTime()); len(objects) != 0 {
		t.Errorf("an unknown source has the objects %q", objects)
	}
	b.mustImport(rawFile("file-1", archiveHour))
	object := b.mustObjects(anyTime())[0]
	other := strings.Replace(object, "file-1", "file-2", 1)
	for source, object := range map[string]string{archivedSource: other, "other": object} {
		rc, err := b.Open(t.Context(), source, object)
		if err == nil {
			rc.Close()
		}
		if !errors.Is(err, fs.ErrNotExist) || driver.IsPermanent(err) {
			t.Errorf("Open of an absent object = %v, want an error that matches fs.ErrNotExist", err)
		}
	}
	for _, name := range []string{"", "..", "../x", "/etc/hosts", "../" + archivedSource + "/" + object, object + "/../x"} {
		rc, err := b.Open(t.Context(), archivedSource, name)
		if err == nil {
			rc.Close()
			t.Errorf("Open(%q) = nil, want an error", name)
		}
	}
}

func archiveRefuses(t tb, b *archiveBench) {
	good := rawFile("file-0", archiveHour)
	b.mustImport(good)
	for name, change := range map[string]func(f *testFile){
		"a time that is none":    func(f *testFile) { f.parts[0].rows[0][0] = "yesterday" },
		"a month that is none":   func(f *testFile) { f.parts[0].rows[0][0] = "2026-13-02T03:04:05.000000Z" },
		"a path as a source":     func(f *testFile) { f.table.ID = "../x" },
		"a table without a time": func(f *testFile) { f.table.Columns = datatype.UntypedColumns("a", "b", "c") },
		"a path as an id":        func(f *testFile) { f.id = "../f" },
	} {
		f := rawFile("file-1", archiveHour.Add(time.Hour), archiveHour)
		change(f)
		if err := b.importFile(t.Context(), f); !driver.IsPermanent(err) {
			t.Errorf("Import with %s = %v, want a permanent error", name, err)
		}
	}
	b.expectAll(good)
}

func archiveRetention(t tb, b *archiveBench) {
	compactor, ok := b.ArchiveTarget.(driver.Compactor)
	if !ok {
		t.Fatalf("an archive with a retention must implement driver.Compactor")
	}
	now := time.Now()
	old := rawFile("file-1", now.Add(-archiveKeeps-3*time.Hour), archiveHour)
	young := rawFile("file-2", now.Add(-archiveKeeps+time.Hour), now, now.Add(24*time.Hour))
	b.mustImport(old, young)
	var gone string
	for _, object := range b.mustObjects(anyTime()) {
		gone = object
		break
	}
	for range 2 {
		if err := compactor.Compact(t.Context(), archiveTable()); err != nil {
			t.Fatalf("Compact = %v, want nil", err)
		}
		b.expectAll(young)
	}
	if rc, err := b.Open(t.Context(), archivedSource, gone); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			rc.Close()
		}
		t.Errorf("Open of a removed object = %v, want an error that matches fs.ErrNotExist", err)
	}
	late := rawFile("file-3", now.Add(-archiveKeeps-3*time.Hour))
	b.mustImport(late)
	b.expectAll(young, late)
}

func archiveNoRetention(t tb, b *archiveBench) {
	f := rawFile("file-1", archiveHour)
	b.mustImport(f)
	if compactor, ok := b.ArchiveTarget.(driver.Compactor); ok {
		if err := compactor.Compact(t.Context(), archiveTable()); err != nil {
			t.Errorf("Compact = %v, want nil", err)
		}
	}
	b.expectAll(f)
}
