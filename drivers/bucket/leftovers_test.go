package bucket_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/bucket"
	"github.com/forebay/forebay/drivers/parquet"
	"github.com/forebay/forebay/internal/buckettest"
	"github.com/forebay/forebay/internal/proctest"
)

// Slices of other engines, known slices, and objects that are no slices stay.
func TestRemoveOrphans(t *testing.T) {
	w := newWorld(t)
	s := w.staging(t)
	for _, id := range []string{"a0-s000001", "a0-s000002", "a0-s00000a", "a0-s00000b", "a1-s000001", "a0-f000001", "a0-s1", "a-s-s00001", "a0-s000002-r1", "a0-s00000a-r1"} {
		check(t, s.Put(t.Context(), object(id), content("\"a\"\n")))
	}
	for _, c := range []struct {
		oldest string
		age    time.Duration
		want   string
	}{
		{"a0-s00000a", time.Hour, "0 <nil>"},
		{"a0-s00000a", -time.Hour, "3 <nil>"},
		{"a0-s00000a", -time.Hour, "0 <nil>"},
		{"b-s00000a", -time.Hour, "0 <nil>"},
		{"a-s0000002", -time.Hour, "0 <nil>"},
	} {
		if removed, err := s.RemoveOrphans(t.Context(), c.oldest, c.age); fmt.Sprint(removed, err) != c.want {
			t.Errorf("below %s, age %v: %d, %v, want %s", c.oldest, c.age, removed, err, c.want)
		}
	}
	want := []string{"a-s-s00001.slice", "a0-f000001.slice", "a0-s00000a-r1.slice", "a0-s00000a.slice", "a0-s00000b.slice", "a0-s1.slice", "a1-s000001.slice"}
	if got := w.keys(t); !slices.Equal(got, want) {
		t.Errorf("objects %q, want %q", got, want)
	}
	for _, id := range []string{"", "a0", "a0-s", "a0-f000001", "A/../"} {
		if _, err := s.RemoveOrphans(t.Context(), id, 0); err == nil {
			t.Errorf("%q counts as the id of a slice", id)
		}
	}
}

func TestRemoveUploads(t *testing.T) {
	w := newWorld(t)
	url := strings.Replace(buckettest.S3URL(w.server, w.name), "?", "/ours?", 1)
	s := open(t, url, bucket.Options{})
	for _, key := range []string{"ours/a.slice", "ours/b.slice", "theirs"} {
		w.createUpload(t, key)
	}
	for _, c := range []struct {
		age        time.Duration
		want, left int
	}{{time.Hour, 0, 3}, {-time.Hour, 2, 1}, {-time.Hour, 0, 1}} {
		removed, err := s.RemoveUploads(t.Context(), c.age)
		check(t, err)
		if removed != c.want {
			t.Errorf("age %v: %d removed, want %d", c.age, removed, c.want)
		}
		w.expectUploads(t, c.left)
	}
	removed, err := open(t, "mem://", bucket.Options{}).RemoveUploads(t.Context(), 0)
	if fmt.Sprint(removed, err) != "0 <nil>" {
		t.Errorf("in memory: %d, %v", removed, err)
	}
}

// Tables and archives list and abort their own uploads alone. Other engines may use the prefix for other things, and other programs the bucket.
func TestRemoveUploadsOfTablesAndArchives(t *testing.T) {
	w := newWorld(t)
	keys := []string{
		"ours/a.slice", "ours/in.c-web.events/file-1.7.parquet", "ours/in.c-web.events/dt=2026-11-22/file-2.8.parquet", "ours/web/2026-11-22T03/file-3.csv.gz",
		"ours/in.c-web.events/theirs.parquet", "ours/web/theirs.csv.gz", "theirs/in.c-web.events/file-1.7.parquet", "ours/theirs",
	}
	for _, key := range keys {
		w.createUpload(t, key)
	}
	url := strings.Replace(buckettest.S3URL(w.server, w.name), "?", "/ours?", 1)
	a := openArchive(t, url, bucket.ArchiveOptions{})
	tables := openTables(t, url, bucket.TablesOptions{Scratch: t.TempDir()})
	for _, c := range []struct {
		name   string
		list   func(context.Context, time.Duration) ([]bucket.Leftover, error)
		remove func(context.Context, time.Duration) (int, error)
		want   []string
	}{
		{"staging", open(t, url, bucket.Options{}).Uploads, open(t, url, bucket.Options{}).RemoveUploads, []string{"a.slice"}},
		{"tables", tables.Uploads, tables.RemoveUploads, []string{"in.c-web.events/dt=2026-11-22/file-2.8.parquet", "in.c-web.events/file-1.7.parquet"}},
		{"archive", a.Uploads, a.RemoveUploads, []string{"web/2026-11-22T03/file-3.csv.gz"}},
	} {
		if young, err := c.list(t.Context(), time.Hour); len(young) != 0 || err != nil {
			t.Errorf("%s: %v are older than an hour, %v", c.name, young, err)
		}
		found, err := c.list(t.Context(), -time.Hour)
		check(t, err)
		var got []string
		for _, f := range found {
			got = append(got, f.Key)
			if time.Since(f.At) > time.Minute {
				t.Errorf("%s: got begin %s, want at most a minute ago", f.Key, f.At)
			}
		}
		if slices.Sort(got); !slices.Equal(got, c.want) {
			t.Errorf("%s: uploads %q, want %q", c.name, got, c.want)
		}
		for _, want := range []int{len(c.want), 0} {
			if removed, err := c.remove(t.Context(), -time.Hour); removed != want || err != nil {
				t.Errorf("%s: got %d removed, %v, want %d", c.name, removed, err, want)
			}
		}
	}
	w.expectUploads(t, 4)
}

// randomText is text that no codec makes smaller than three quarters, the same for the same seed.
func randomText(seed uint64, size int) string {
	rng, raw := rand.New(rand.NewPCG(seed, 1)), make([]byte, size*3/4)
	for i := range raw {
		raw[i] = byte(rng.Uint32())
	}
	return base64.StdEncoding.EncodeToString(raw)
}

// largeTable has few large rows, so that the part of a file takes several parts of an upload.
var largeTable = driver.Table{ID: "large", Columns: []datatype.Column{{Name: "id", Type: datatype.Int64}, {Name: "text", Type: datatype.String}}}

const largeRows, largeRow = 2, 3 << 20

// A process is killed while it imports large files into a table.
func TestKillsDuringLargeImports(t *testing.T) {
	k := killed{
		file: func(id string) *driver.File {
			var cells []string
			for i := range uint64(largeRows) {
				cells = append(cells, randomText(i, largeRow))
			}
			return file(id, largeTable, cells...)
		},
		open: func(ctx context.Context, url string) (driver.Target, error) {
			return bucket.OpenTables(ctx, url, bucket.TablesOptions{Compression: parquet.Plain, PartSize: partSize})
		},
		whole: largeRows,
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
	tables := openTables(t, url, bucket.TablesOptions{Compression: parquet.Plain, PartSize: partSize})
	check(t, tables.Ensure(t.Context(), largeTable))
	k.count = func(id string) int {
		n, err := tables.CountFile(t.Context(), largeTable, id)
		check(t, err)
		return int(n)
	}
	k.runInUploads(t, w, url, tables, tables.RemoveUploads)
}

// The same for raw records.
func TestKillsDuringLargeArchiving(t *testing.T) {
	k := killed{
		file: func(id string) *driver.File { return rawFile(id, randomText(7, 3*largeRow), someHour) },
		open: func(ctx context.Context, url string) (driver.Target, error) {
			return bucket.OpenArchive(ctx, url, bucket.ArchiveOptions{PartSize: partSize})
		},
		whole: 1,
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
	a := openArchive(t, url, bucket.ArchiveOptions{PartSize: partSize})
	k.count = func(id string) (objects int) {
		for _, key := range w.keys(t) {
			if strings.HasSuffix(key, "/"+id+".csv.gz") {
				objects++
			}
		}
		return objects
	}
	k.runInUploads(t, w, url, a, a.RemoveUploads)
}
