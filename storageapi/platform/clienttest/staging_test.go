package clienttest

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/storageapi"
	"github.com/forebay/forebay/storageapi/drivers"
)

// After a restart slices go to another file of the project, and are found in both.
func TestStagingAfterRestart(t *testing.T) {
	w := newWorld(t)
	object := func(i int) driver.Object {
		return driver.Object{ID: fmt.Sprintf("s-%d", i), FileID: "f", SinkID: "web/events", Rows: 1}
	}
	for i := range 3 {
		s := newStaging(t, w, nil)
		if err := s.Put(t.Context(), object(i), bytesOf(fmt.Sprintf("\"%d\"\n", i))); err != nil {
			t.Fatal(err)
		}
	}
	s := newStaging(t, w, nil)
	read := func(i int) string {
		rc, err := s.Open(t.Context(), object(i))
		if err != nil {
			return err.Error()
		}
		defer rc.Close()
		data, _ := io.ReadAll(rc)
		return string(data)
	}
	for i := range 3 {
		if got := read(i); got != fmt.Sprintf("\"%d\"\n", i) {
			t.Errorf("slice %d is %q", i, got)
		}
	}
	if err := s.Delete(t.Context(), object(0), object(1)); err != nil {
		t.Fatal(err)
	}
	if got := read(2); got != "\"2\"\n" {
		t.Errorf("slice 2 is %q", got)
	}
	if err := s.Delete(t.Context(), object(2)); err != nil {
		t.Fatal(err)
	}
	if files, err := storageapi.Collect(w.Files(t.Context(), storageapi.FileQuery{})); err != nil || len(files) != 0 {
		t.Errorf("%d files are left, %v", len(files), err)
	}
}

// contentFunc returns a reader of the content.
type contentFunc func() (io.ReadCloser, error)

func (f contentFunc) Open() (io.ReadCloser, error) { return f() }

func (f contentFunc) WriteTo(w io.Writer) (int64, error) {
	rc, err := f()
	if err != nil {
		return 0, err
	}
	defer rc.Close()
	return io.Copy(w, rc)
}

// An upload outlives its file of the project as often as the deletion of other slices takes it away.
func TestStagingFileIsReplacedDuringUploads(t *testing.T) {
	const times = 4
	w := newWorld(t)
	s := newStaging(t, w, nil)
	object := func(id string) driver.Object {
		return driver.Object{ID: id, FileID: "f", SinkID: "web/events", Rows: 1}
	}
	replaced, opened := 0, 0
	late := contentFunc(func() (io.ReadCloser, error) {
		opened++
		if replaced < times && opened%2 == 0 { // the first reading of an attempt counts bytes, the second uploads them
			replaced++
			other := object(fmt.Sprintf("other-%d", replaced))
			if err := s.Put(t.Context(), other, bytesOf("\"other\"\n")); err != nil {
				return nil, err
			}
			if err := s.Delete(t.Context(), other); err != nil {
				return nil, err
			}
		}
		return io.NopCloser(strings.NewReader("\"late\"\n")), nil
	})
	if err := s.Put(t.Context(), object("late"), late); err != nil {
		t.Fatal(err)
	}
	rc, err := s.Open(t.Context(), object("late"))
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	if data, err := io.ReadAll(rc); string(data) != "\"late\"\n" || err != nil || replaced != times {
		t.Errorf("got %q, %v, replaced %d times, want \"late\", no error, %d", data, err, replaced, times)
	}
}

// An upload that has waited for the deletion of the last other slice shares its file of the project with later uploads. In a separate
// file it would not be safe from deletions, which then hold the lock of the other file.
func TestStagingFileIsReplacedBeforeAnUpload(t *testing.T) {
	w := newWorld(t)
	s := newStaging(t, w, nil)
	for round := range 20 {
		object := func(id string) driver.Object {
			return driver.Object{ID: id, FileID: fmt.Sprintf("f-%d", round), SinkID: "web/events", Rows: 1}
		}
		put := func(id string) {
			if err := s.Put(t.Context(), object(id), bytesOf("\"x\"\n")); err != nil {
				t.Error(err)
			}
		}
		put("deleted")
		var waiting sync.WaitGroup
		begin := func(_ http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodDelete {
				return false
			}
			w.before.Store(nil)
			started := make(chan bool)
			waiting.Go(func() {
				close(started)
				put("waiting")
			})
			<-started
			for range 100 {
				runtime.Gosched() // it waits for the lock, most of the times
			}
			return false
		}
		w.before.Store(&begin)
		if err := s.Delete(t.Context(), object("deleted")); err != nil {
			t.Fatal(err)
		}
		waiting.Wait()
		put("later")
		files, err := storageapi.Collect(w.Files(t.Context(), storageapi.FileQuery{Tags: []string{"forebay.fileID=" + object("").FileID}}))
		if err != nil || len(files) != 1 || w.before.Load() != nil {
			t.Fatalf("round %d: %d files of the project, %v", round, len(files), err)
		}
		if err := s.Delete(t.Context(), object("waiting"), object("later")); err != nil {
			t.Fatal(err)
		}
	}
}

// Slices of one kind that are in one file of the project are imported where they are, in the order of the file. Others
// are copied.
func TestSlicesInPlace(t *testing.T) {
	for name, c := range map[string]struct {
		encodings []driver.Encoding
		restart   bool
		copied    bool
	}{
		"plain":                 {encodings: []driver.Encoding{driver.None, driver.None}},
		"other order":           {encodings: []driver.Encoding{driver.None, driver.None}},
		"mixed":                 {encodings: []driver.Encoding{driver.None, driver.Gzip}, copied: true},
		"restart between":       {encodings: []driver.Encoding{driver.None, driver.None}, restart: true, copied: true},
		"one slice was revised": {encodings: []driver.Encoding{driver.None, driver.None, driver.None}, copied: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			staging := newStaging(t, w, nil)
			var note []byte
			f := memoryFile("file-1", "", &note)
			f.Slices = nil
			for i, e := range c.encodings {
				if c.restart && i == 1 {
					staging = newStaging(t, w, nil)
				}
				obj := driver.Object{ID: fmt.Sprintf("slice-%d", i), FileID: f.ID, SinkID: f.SinkID, Encoding: e, Rows: 1}
				row := fmt.Sprintf("\"%d\",\"x\"\n", i)
				if e == driver.Gzip {
					row = gzipped(t, row)
				}
				if err := staging.Put(t.Context(), obj, bytesOf(row)); err != nil {
					t.Fatal(err)
				}
				f.Slices = append(f.Slices, obj)
			}
			if name == "other order" {
				slices.Reverse(f.Slices)
			}
			if name == "one slice was revised" {
				f.Slices = f.Slices[1:]
			}
			f.OpenSlice = staging.Open
			before := count(t, w)
			target := newTarget(t, w, drivers.TargetOptions{Staging: staging})
			var prepared atomic.Int64
			watch := func(_ http.ResponseWriter, r *http.Request) bool {
				if strings.HasSuffix(r.URL.Path, "/files/prepare") {
					prepared.Add(1)
				}
				return false
			}
			w.before.Store(&watch)
			if err := target.Import(t.Context(), f); err != nil {
				t.Fatal(err)
			}
			w.before.Store(nil)
			if copied := prepared.Load() > 0; copied != c.copied {
				t.Errorf("copied: %v, want %v", copied, c.copied)
			}
			if after := count(t, w); after != before {
				t.Errorf("got %d files, before the import %d, want %v", after, before, before)
			}
			var want []string
			for _, obj := range f.Slices {
				want = append(want, strings.TrimPrefix(obj.ID, "slice-"))
			}
			var got []string
			for _, row := range w.rows(t, f.Table.ID) {
				got = append(got, row[0])
			}
			if !slices.Equal(got, want) {
				t.Errorf("rows %q, want %q", got, want)
			}
		})
	}
}

func count(t *testing.T, w *world) int {
	t.Helper()
	files, err := storageapi.Collect(w.Files(t.Context(), storageapi.FileQuery{}))
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

func gzipped(t *testing.T, s string) string {
	t.Helper()
	var b bytes.Buffer
	zw := gzip.NewWriter(&b)
	io.WriteString(zw, s)
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
