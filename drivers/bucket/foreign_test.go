package bucket_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/bucket"
	"github.com/forebay/forebay/internal/buckettest"
)

func (w *world) put(t *testing.T, key string, data []byte) {
	t.Helper()
	_, err := w.sdk.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &w.name, Key: &key, Body: bytes.NewReader(data)})
	check(t, err)
}

func (w *world) remove(t *testing.T, key string) {
	t.Helper()
	_, err := w.sdk.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &w.name, Key: &key})
	check(t, err)
}

func compressed(t *testing.T, level int, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	zw, err := gzip.NewWriterLevel(&b, level)
	check(t, err)
	_, err = zw.Write([]byte(text))
	check(t, err)
	check(t, zw.Close())
	return b.Bytes()
}

// A slice counts as stored only if the object under its key has its rows. Then the local rows are deleted.
func TestForeignSlice(t *testing.T) {
	w := newWorld(t)
	s := w.staging(t)
	rows := strings.Repeat("\"a row\"\n", 40_000)
	own := content(compressed(t, gzip.BestSpeed, rows))
	obj := driver.Object{ID: "id", FileID: "file", Rows: 40_000, Encoding: driver.Gzip}
	const key = "id.slice"
	for name, data := range map[string][]byte{
		"other rows": compressed(t, gzip.BestSpeed, strings.Replace(rows, "row", "cow", 1)), "fewer rows": compressed(t, gzip.BestSpeed, rows[:8]),
		"a torn one": own[:len(own)/2], "plain rows": []byte(rows), "nothing": nil,
	} {
		w.put(t, key, data)
		if err := s.Put(t.Context(), obj, own); !driver.IsPermanent(err) || !strings.Contains(fmt.Sprint(err), key) {
			t.Errorf("Put beside an object with %s = %v, want a permanent error with its key", name, err)
		}
		if got := w.get(t, key); !bytes.Equal(got, data) {
			t.Errorf("the object with %s was replaced", name)
		}
		w.remove(t, key)
		check(t, s.Put(t.Context(), obj, own))
		expectObject(t, s, "id", own)
		w.remove(t, key)
	}
	other := compressed(t, gzip.HuffmanOnly, rows) // so large that a part of it arrives
	w.put(t, key, other)
	w.proxy.First(1, buckettest.TornAnswer, method(http.MethodGet))
	if err := s.Put(t.Context(), obj, own); err == nil || driver.IsPermanent(err) {
		t.Errorf("Put that cannot read the object = %v, want an error that a retry fixes", err)
	}
	check(t, s.Put(t.Context(), obj, own))
	expectObject(t, s, "id", other)
}

// An object that has the name of a part, and other rows, is not taken for the file.
func TestForeignPart(t *testing.T) {
	w := newWorld(t)
	tables := openTables(t, buckettest.S3URL(w.server, w.name), bucket.TablesOptions{Scratch: t.TempDir()})
	table := driver.Table{ID: "events", Columns: []datatype.Column{{Name: "id", Type: datatype.Int64}, {Name: "a", Type: datatype.String}}}
	const key = "events/file-1.7.parquet"
	w.put(t, key, []byte("no rows"))
	err := tables.Import(t.Context(), file("file-1", table, "a", "b"))
	if !driver.IsPermanent(err) || !strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), "has 7 rows, but the file of that id has 2") {
		t.Errorf("Import = %v, want a permanent error that names %s", err, key)
	}
	w.remove(t, key)
	check(t, tables.Import(t.Context(), file("file-1", table, "a", "b")))
	if rows := w.rows(t, "", "events"); len(rows) != 2 {
		t.Errorf("got %d rows, want 2", len(rows))
	}
}

// Two engines, which know nothing of each other, import the same files at once.
func TestTwoImporters(t *testing.T) {
	w := newWorld(t)
	table := driver.Table{ID: "events", Columns: []datatype.Column{{Name: "id", Type: datatype.Int64}, {Name: "day", Type: datatype.Date}}}
	const files = 4
	var wait sync.WaitGroup
	for range 2 {
		tables := openTables(t, buckettest.S3URL(w.server, w.name), bucket.TablesOptions{PartitionBy: "day", Scratch: t.TempDir()})
		for i := range files {
			wait.Go(func() {
				if err := tables.Import(t.Context(), file(fmt.Sprint("file-", i), table, "2026-11-20", "2026-11-21", "2026-11-20")); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wait.Wait()
	if rows, keys := w.rows(t, "", "events"), w.keys(t); len(rows) != 3*files || len(keys) != 2*files+1 {
		t.Errorf("got %d rows in %d objects, want %d in %d", len(rows), len(keys), 3*files, 2*files+1)
	}
}

// Orphans are found after the first page of a list, which has 1,000 objects.
func TestOrphansBehindThousandObjects(t *testing.T) {
	w := newWorld(t)
	s := w.staging(t)
	check(t, s.Put(t.Context(), object("a0-s000003"), content("\"a\"\n")))
	for i := range 1001 { // of no engine, and before the slices
		check(t, os.WriteFile(w.file(fmt.Sprintf("a0-s-%04d", i)), nil, 0o600))
	}
	check(t, s.Put(t.Context(), object("a0-s000001"), content("\"a\"\n")))
	check(t, s.Put(t.Context(), object("a0-s000002"), content("\"a\"\n")))
	if removed, err := s.RemoveOrphans(t.Context(), "a0-s000003", -time.Hour); removed != 2 || err != nil {
		t.Errorf("RemoveOrphans = %d, %v, want 2", removed, err)
	}
	keys := w.keys(t)
	if keys = slices.DeleteFunc(keys, func(key string) bool { return strings.HasPrefix(key, "a0-s-") }); !slices.Equal(keys, []string{"a0-s000003.slice"}) {
		t.Errorf("left are %q", keys)
	}
}
