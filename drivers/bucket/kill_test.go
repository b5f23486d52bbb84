package bucket_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/bucket"
	"github.com/forebay/forebay/internal/buckettest"
	"github.com/forebay/forebay/internal/proctest"
	"github.com/forebay/forebay/internal/seedtest"
)

// A process is killed while it stores slices of several parts. A slice that it has reported is there. The slice at the kill is there whole or
// not at all, and the next attempt stores it once. Uploads that are left open can be removed.
func TestKillsDuringUploads(t *testing.T) {
	if url, ok := proctest.Child(); ok {
		putUntilKilled(t, url)
	}
	if testing.Short() {
		t.Skip("it starts processes")
	}
	w := newWorld(t)
	s := open(t, buckettest.S3URL(w.server, w.name), bucket.Options{PartSize: partSize})
	kills := proctest.Kills(t)
	t.Logf("%d kills", kills)
	rng := seedtest.Rand(t)
	var said, before, uploads int
	for i := range kills {
		p := proctest.Start(t, t.Name(), buckettest.S3URL(w.server, w.name)+fmt.Sprintf("#%d", i))
		done := make(map[string]bool)
		p.Lines(1+rng.IntN(2), time.Duration(rng.Int64N(int64(80*time.Millisecond))), func(line string) { done[line] = true })
		delete(done, "begin")
		said += len(done)
		stored := make(map[string]bool)
		for _, key := range w.keys(t) {
			stored[key] = true
			expectObject(t, s, key[:len(key)-len(".slice")], large)
		}
		before += len(stored) - len(done)
		for id := range done {
			if !stored[id+".slice"] {
				t.Fatalf("kill %d: Put of %s had returned nil, and the object is not there", i, id)
			}
		}
		for id := range done { // no process has recorded that
			check(t, s.Put(t.Context(), object(id), large))
			expectObject(t, s, id, large)
			break
		}
		next := object(fmt.Sprintf("kill-%d-%d", i, len(done)))
		check(t, s.Put(t.Context(), next, large))
		expectObject(t, s, next.ID, large)
		for n := range len(done) + 1 {
			check(t, s.Delete(t.Context(), object(fmt.Sprintf("kill-%d-%d", i, n))))
		}
		if left := w.keys(t); len(left) != 0 {
			t.Fatalf("kill %d: objects %q are left", i, left)
		}
		removed, err := s.RemoveUploads(t.Context(), -time.Hour)
		check(t, err)
		uploads += removed
		w.expectUploads(t, 0)
	}
	t.Logf("%d slices were stored before a kill, %d more were stored and not yet reported, %d uploads were left open", said, before, uploads)
}

func putUntilKilled(t *testing.T, place string) {
	url, i, _ := strings.Cut(place, "#")
	s, err := bucket.Open(t.Context(), url, bucket.Options{PartSize: partSize})
	check(t, err)
	fmt.Println("begin")
	for n := 0; ; n++ {
		id := fmt.Sprintf("kill-%s-%d", i, n)
		check(t, s.Put(context.Background(), object(id), large))
		fmt.Println(id)
	}
}

// killed describes the files that a process imports, one after the other, until it is killed. A file is several objects.
type killed struct {
	file  func(id string) *driver.File
	open  func(ctx context.Context, url string) (driver.Target, error)
	count func(id string) int // of the parts of a file that are there
	whole int                 // parts of a file
}

// importUntilKilled says the number of each file before its import.
func (k killed) importUntilKilled(t *testing.T, place string) {
	url, i, _ := strings.Cut(place, "#")
	target, err := k.open(context.Background(), url)
	check(t, err)
	for n := 0; ; n++ {
		fmt.Println(n)
		check(t, target.Import(context.Background(), k.file(fmt.Sprintf("kill-%s-%d", i, n))))
	}
}

// run kills the process again and again. A file that it has reported is there whole. After the next attempt, which target makes, the file
// at the kill is there too. It returns the number of files.
func (k killed) run(t *testing.T, url string, target driver.Target) (files int) {
	t.Helper()
	kills := proctest.Kills(t)
	t.Logf("%d kills", kills)
	rng := seedtest.Rand(t)
	torn := 0
	for i := range kills {
		p := proctest.Start(t, t.Name(), fmt.Sprintf("%s#%d", url, i))
		done := 0
		p.Lines(1+rng.IntN(3), time.Duration(rng.Int64N(int64(20*time.Millisecond))), func(string) { done++ })
		for n := range done {
			id := fmt.Sprintf("kill-%d-%d", i, n)
			if n == done-1 { // the process was killed in this import, or after it
				if got := k.count(id); got > 0 && got < k.whole {
					torn++
				}
				check(t, target.Import(t.Context(), k.file(id)))
			}
			if got := k.count(id); got != k.whole {
				t.Fatalf("kill %d: %s has %d parts, want %d", i, id, got, k.whole)
			}
		}
		files += done
	}
	t.Logf("%d files, %d of them were there in part after the kill", files, torn)
	return files
}

// runInUploads kills the process again and again while an upload in parts is open. The file at the kill is there whole or not at all, and
// once after the next attempt, which target makes. remove finds and removes the uploads that the kills have left open.
func (k killed) runInUploads(t *testing.T, w *world, url string, target driver.Target, remove func(context.Context, time.Duration) (int, error)) {
	t.Helper()
	uploads, whole := 0, 0
	for i := range proctest.Kills(t) {
		p, id := proctest.Start(t, t.Name(), fmt.Sprintf("%s#%d", url, i)), fmt.Sprintf("kill-%d-0", i)
		p.Line() // the import begins
		for deadline := time.Now().Add(time.Minute); w.uploads(t) == 0 && k.count(id) == 0; {
			if time.Now().After(deadline) {
				t.Fatal("no upload is open")
			}
		}
		p.Kill()
		if got := k.count(id); got == k.whole {
			whole++
		} else if got != 0 {
			t.Fatalf("kill %d: %s has %d parts, want all or none", i, id, got)
		}
		check(t, target.Import(t.Context(), k.file(id)))
		if got := k.count(id); got != k.whole {
			t.Fatalf("kill %d: %s has %d parts, want %d", i, id, got, k.whole)
		}
		removed, err := remove(t.Context(), -time.Hour)
		check(t, err)
		uploads += removed
		w.expectUploads(t, 0)
	}
	t.Logf("%d kills: %d uploads were left open, %d files were there whole", proctest.Kills(t), uploads, whole)
	if uploads == 0 {
		seedtest.Missed(t, "no kill has left an upload open")
	}
}

var dayTable = driver.Table{ID: "events", Columns: []datatype.Column{{Name: "id", Type: datatype.Int64}, {Name: "day", Type: datatype.Date}}}

const dayFileRows, dayFileParts = 6, 4

// A process is killed while it imports files of several days, which are several objects. Each row of a file is there once.
func TestKillsDuringImportsOfDays(t *testing.T) {
	k := killed{
		file: func(id string) *driver.File {
			return file(id, dayTable, "2026-11-20", "2026-11-21", "2026-11-22", "2026-11-23", "2026-11-20", "2026-11-21")
		},
		open: func(ctx context.Context, url string) (driver.Target, error) {
			return bucket.OpenTables(ctx, url, bucket.TablesOptions{PartitionBy: "day"})
		},
		whole: dayFileRows,
	}
	if place, ok := proctest.Child(); ok {
		k.importUntilKilled(t, place)
	}
	if testing.Short() {
		t.Skip("it starts processes")
	}
	w := newWorld(t)
	keepScratch(t)
	url := buckettest.S3URL(w.server, w.name)
	tables := openTables(t, url, bucket.TablesOptions{PartitionBy: "day"})
	check(t, tables.Ensure(t.Context(), dayTable))
	k.count = func(id string) int {
		n, err := tables.CountFile(t.Context(), dayTable, id)
		check(t, err)
		return int(n)
	}
	files := k.run(t, url, tables)
	if got := len(w.rows(t, "", dayTable.ID)); got != files*dayFileRows {
		t.Errorf("got %d rows, want %d", got, files*dayFileRows)
	}
	if got := len(w.keys(t)); got != files*dayFileParts+1 {
		t.Errorf("got %d objects, want %d parts and a definition", got, files*dayFileParts)
	}
}

const killHours = 4

// A process is killed while it archives files of several hours, which are several objects. Each record of a file is there once.
func TestKillsDuringArchiving(t *testing.T) {
	k := killed{
		file: func(id string) *driver.File {
			var times []time.Time
			for i := range 2 * killHours {
				times = append(times, someHour.Add(time.Duration(i%killHours)*time.Hour))
			}
			return rawFile(id, "", times...)
		},
		open: func(ctx context.Context, url string) (driver.Target, error) {
			return bucket.OpenArchive(ctx, url, bucket.ArchiveOptions{})
		},
		whole: killHours,
	}
	if place, ok := proctest.Child(); ok {
		k.importUntilKilled(t, place)
	}
	if testing.Short() {
		t.Skip("it starts processes")
	}
	w := newWorld(t)
	keepScratch(t)
	url := buckettest.S3URL(w.server, w.name)
	a := openArchive(t, url, bucket.ArchiveOptions{})
	k.count = func(id string) (objects int) {
		for _, key := range w.keys(t) {
			if strings.HasSuffix(key, "/"+id+".csv.gz") {
				objects++
			}
		}
		return objects
	}
	files := k.run(t, url, a)
	records := 0
	objects, err := a.Objects(t.Context(), "web", someHour, someHour.Add(killHours*time.Hour))
	check(t, err)
	for _, object := range objects {
		rc, err := a.Open(t.Context(), "web", object)
		check(t, err)
		text, err := io.ReadAll(rc)
		check(t, err)
		check(t, rc.Close())
		records += strings.Count(string(text), "\n") - 1
	}
	if records != files*2*killHours {
		t.Errorf("got %d records, want %d", records, files*2*killHours)
	}
}
