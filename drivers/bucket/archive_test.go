package bucket_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/bucket"
	"github.com/forebay/forebay/internal/buckettest"
	"github.com/forebay/forebay/mapping"
)

func openArchive(t *testing.T, url string, o bucket.ArchiveOptions) *bucket.Archive {
	t.Helper()
	a, err := bucket.OpenArchive(t.Context(), url, o)
	check(t, err)
	t.Cleanup(func() { check(t, a.Close()) })
	return a
}

var _ forebay.Archive = (*bucket.Archive)(nil)

// archiveSuite runs the suite of archives below prefixes of a bucket.
func archiveSuite(t *testing.T, url func(prefix string) string) {
	prefix, scratch := "", t.TempDir()
	reopen := func(t *testing.T, keepFor time.Duration) buffertest.ArchiveTarget {
		return openArchive(t, url(prefix), bucket.ArchiveOptions{KeepFor: keepFor, Scratch: scratch, PartSize: partSize})
	}
	buffertest.Archive(t, buffertest.ArchiveHarness{
		Open: func(t *testing.T, keepFor time.Duration) buffertest.ArchiveTarget {
			prefix = fmt.Sprintf("archive-%d", nextName.Add(1))
			return reopen(t, keepFor)
		},
		Reopen: func(t *testing.T) buffertest.ArchiveTarget { return reopen(t, 0) },
	})
	if left, err := os.ReadDir(scratch); len(left) > 0 || err != nil {
		t.Errorf("%d folders are left in the scratch folder, %v", len(left), err)
	}
}

func TestArchiveS3(t *testing.T) {
	w := newWorld(t)
	archiveSuite(t, func(prefix string) string {
		return strings.Replace(buckettest.S3URL(w.server, w.name), "?", "/"+prefix+"?", 1)
	})
	w.expectUploads(t, 0)
}

func TestArchiveGCS(t *testing.T) {
	server, err := buckettest.StartGCS("gcs-archive")
	check(t, err)
	t.Cleanup(func() { check(t, server.Close()) })
	t.Setenv("STORAGE_EMULATOR_HOST", server.Address)
	archiveSuite(t, func(prefix string) string { return "gs://gcs-archive/" + prefix })
}

func TestArchiveAzure(t *testing.T) {
	address := buckettest.Azurite(t)
	createContainer(t, address, "archive")
	archiveSuite(t, func(prefix string) string {
		return fmt.Sprintf("azblob://archive/%s?protocol=http&localemu=true&domain=%s", prefix, address)
	})
}

var rawTable = driver.Table{ID: "web", Columns: []datatype.Column{{Name: "received", Type: datatype.Timestamp}, {Name: "body"}}}

// rawFile has a record for each time.
func rawFile(id string, body string, times ...time.Time) *driver.File {
	var data strings.Builder
	for i, at := range times {
		fmt.Fprintf(&data, "\"%s\",\"%d%s\"\n", at.UTC().Format("2006-01-02T15:04:05.000000Z"), i, body)
	}
	return &driver.File{
		ID: id, Table: rawTable, Rows: int64(len(times)), Slices: []driver.Object{{ID: id + "-0", Rows: int64(len(times))}},
		OpenSlice: func(context.Context, driver.Object) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(data.String())), nil
		},
	}
}

var someHour = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

// Objects have the names of docs/archive.md, and are the objects of dir.Archive byte for byte. Other objects of the folder are left alone.
func TestArchiveObjects(t *testing.T) {
	w := newWorld(t)
	url := buckettest.S3URL(w.server, w.name)
	a := openArchive(t, url, bucket.ArchiveOptions{Scratch: t.TempDir(), KeepFor: time.Hour})
	others := []string{"web/2026-01-02T03/notes.txt", "web/dt=2026-01-02/f.1.parquet", "web/x.csv.gz", "web2/2026-01-02T03/f-1.csv.gz"}
	for _, key := range others {
		w.put(t, key, []byte("x"))
	}
	f := rawFile("f-1", "", someHour, someHour.Add(time.Hour))
	check(t, a.Import(t.Context(), f))
	keys := []string{"web/2026-01-02T03/f-1.csv.gz", "web/2026-01-02T04/f-1.csv.gz"}
	want := slices.Sorted(slices.Values(append(slices.Clone(others), keys...)))
	if got := w.keys(t); !slices.Equal(got, want) {
		t.Errorf("objects %q, want %q", got, want)
	}
	folder := t.TempDir()
	check(t, dir.Archive(folder, dir.ArchiveOptions{}).Import(t.Context(), f))
	for _, key := range keys {
		local, err := os.ReadFile(folder + "/" + key)
		check(t, err)
		if !slices.Equal(local, w.get(t, key)) {
			t.Errorf("%s differs from the object of a folder", key)
		}
	}
	check(t, a.Compact(t.Context(), rawTable))
	if got := w.keys(t); !slices.Equal(got, others) {
		t.Errorf("after the retention there are %q, want %q", got, others)
	}
	if _, err := bucket.OpenArchive(t.Context(), url, bucket.ArchiveOptions{KeepFor: -1}); err == nil {
		t.Error("a negative retention is taken")
	}
}

// A file counts as stored only if its objects are there. If a store says so of a missing object, and then does not respond to a check,
// the import fails.
func TestArchiveOfATakenKeyThatIsFree(t *testing.T) {
	w := newWorld(t)
	a := openArchive(t, buckettest.S3URL(w.proxy.Address, w.name), bucket.ArchiveOptions{Scratch: t.TempDir()})
	f := rawFile("f-1", "", someHour)
	w.proxy.Break(func(r *http.Request) buckettest.Fault {
		switch r.Method {
		case http.MethodPut:
			return buckettest.Taken
		case http.MethodHead:
			return buckettest.SlowDown
		}
		return buckettest.None
	})
	if err := a.Import(t.Context(), f); err == nil {
		t.Errorf("the file is stored, and the objects are %q", w.keys(t))
	}
	w.proxy.Break(nil)
	check(t, a.Import(t.Context(), f))
	if got, want := w.keys(t), []string{"web/2026-01-02T03/f-1.csv.gz"}; !slices.Equal(got, want) {
		t.Errorf("objects %q, want %q", got, want)
	}
}

// A listing of an hour asks for the objects of that hour alone, and an expiry for the oldest ones.
func TestArchiveListsLittle(t *testing.T) {
	w := newWorld(t)
	a := openArchive(t, buckettest.S3URL(w.proxy.Address, w.name), bucket.ArchiveOptions{Scratch: t.TempDir()})
	var prefixes []string
	w.proxy.Break(func(r *http.Request) buckettest.Fault {
		if r.URL.Query().Has("list-type") {
			prefixes = append(prefixes, r.URL.Query().Get("prefix"))
		}
		return buckettest.None
	})
	for _, hours := range []int{1, 5, 24} {
		_, err := a.Objects(t.Context(), "web", someHour.Add(time.Minute), someHour.Add(time.Duration(hours)*time.Hour))
		check(t, err)
	}
	w.proxy.Break(nil)
	if want := []string{"web/2026-01-02T0", "web/2026-01-02T0", "web/2026-01-0"}; !slices.Equal(prefixes, want) {
		t.Errorf("listed %q, want %q", prefixes, want)
	}
}

// An object that breaks off, or is removed or replaced while it is read, gives an error.
func TestArchiveReadFaults(t *testing.T) {
	w := newWorld(t)
	a := openArchive(t, buckettest.S3URL(w.proxy.Address, w.name), bucket.ArchiveOptions{Scratch: t.TempDir(), PartSize: partSize})
	rng, noise := rand.New(rand.NewPCG(1, 2)), make([]byte, 2*partSize) // 6 of 8 bits, so gzip leaves more than a piece
	for i := range noise {
		noise[i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[rng.IntN(64)]
	}
	check(t, a.Import(t.Context(), rawFile("f-1", string(noise), someHour)))
	const object = "2026-01-02T03/f-1.csv.gz"
	stored := w.get(t, "web/"+object)
	if len(stored) <= partSize {
		t.Fatalf("the object has %d bytes, want more than a piece", len(stored))
	}
	read := func(between func()) error {
		rc, err := a.Open(t.Context(), "web", object)
		if err != nil {
			return err
		}
		defer rc.Close()
		if _, err := io.CopyN(io.Discard, rc, 1000); err != nil {
			return err
		}
		between()
		_, err = io.Copy(io.Discard, rc)
		return err
	}
	check(t, read(func() {}))
	if err := read(func() { w.proxy.First(-1, buckettest.TornAnswer, method(http.MethodGet)) }); err == nil || driver.IsPermanent(err) {
		t.Errorf("a torn answer: %v, want an error that a retry fixes", err)
	}
	w.proxy.Break(nil)
	if err := read(func() { w.put(t, "web/"+object, stored[:partSize+1]) }); !driver.IsPermanent(err) {
		t.Errorf("an object that was replaced: %v, want a permanent error", err)
	}
	w.put(t, "web/"+object, stored)
	if err := read(func() { w.remove(t, "web/"+object) }); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an object that was removed: %v, want fs.ErrNotExist", err)
	}
}

// Raw records of an engine go through a bucket that fails now and then, and are mapped again into another sink, each once. A run resumes where
// it was interrupted.
func TestEngineReplaysFromBucket(t *testing.T) {
	w := newWorld(t)
	folder, data := t.TempDir(), t.TempDir()
	source := forebay.Source{ID: "shop", Archive: &forebay.ArchiveSettings{}, Sinks: []forebay.Sink{{
		ID: "orders", Table: forebay.Table{ID: "orders", Columns: mapping.Columns{mapping.Path("id", "id")}},
	}}}
	archive := openArchive(t, buckettest.S3URL(w.proxy.Address, w.name), bucket.ArchiveOptions{Scratch: t.TempDir()})
	opened := func() *forebay.Engine {
		e, err := forebay.Open(data, forebay.Options{Archive: archive, Target: dir.Tables(folder)})
		check(t, err)
		check(t, e.Define(t.Context(), source))
		return e
	}
	e := opened()
	const rows = 2000
	for part := range 4 { // an import each
		var recs []*mapping.Record
		for i := range rows / 4 {
			recs = append(recs, mapping.JSON(fmt.Appendf(nil, `{"id":%d}`, part*rows/4+i)))
		}
		_, err := e.IngestBatch(t.Context(), "shop", recs)
		check(t, err)
		w.proxy.First(1, buckettest.Lost, method(http.MethodPut))
		check(t, e.Flush(t.Context(), "shop"))
	}
	source.Sinks = append(source.Sinks, forebay.Sink{
		ID: "again", Table: forebay.Table{ID: "again", Columns: mapping.Columns{mapping.Path("id", "id")}},
	})
	check(t, e.Define(t.Context(), source))
	run := forebay.ReplayOptions{Run: "all"}
	gets := 0
	w.proxy.Break(func(r *http.Request) buckettest.Fault {
		if r.Method == http.MethodGet && !r.URL.Query().Has("list-type") {
			gets++
		}
		if gets > 2 {
			return buckettest.TornAnswer
		}
		return buckettest.None
	})
	first, err := e.Sink("shop", "again").Replay(t.Context(), run)
	if err == nil || first.Stored == 0 || first.Stored >= rows {
		t.Fatalf("the run through a bucket that breaks = %+v, %v, want a part and an error", first, err)
	}
	w.proxy.Break(nil)
	check(t, e.Close())
	e = opened()
	for range 2 {
		done, err := e.Sink("shop", "again").Replay(t.Context(), run)
		if err != nil || done.Stored != rows || !done.Done() {
			t.Fatalf("the run = %+v, %v, want %d rows", done, err, rows)
		}
	}
	check(t, e.Flush(t.Context(), "shop"))
	check(t, e.Close())
	seen := make(map[string]int)
	for row, err := range dir.Tables(folder).Rows("again") {
		check(t, err)
		seen[row[0]]++
	}
	for i := range rows {
		if n := seen[fmt.Sprint(i)]; n != 1 {
			t.Errorf("record %d is in the table %d times", i, n)
		}
	}
}
