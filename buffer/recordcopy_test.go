package buffer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/pebblestore"
)

// tablesApart moves everything from the log of a store into tables, as the buffer does it. Chunks have separate tables. It returns the records of
// sinks, files and slices, and the names of the tables that hold them.
func (w *damageWorld) tablesApart(t *testing.T) (records map[string]string, tables []string) {
	t.Helper()
	opts := &pebble.Options{FS: w.fs, FormatMajorVersion: pebble.FormatNewest, Logger: quiet{}}
	opts.Experimental.SpanPolicyFunc = pebble.MakeStaticSpanPolicyFunc(
		bytes.Compare, pebble.KeyRange{Start: []byte{format.PrefixChunk}, End: []byte{format.PrefixChunk + 1}}, pebble.SpanPolicy{},
	)
	db, err := pebble.Open("data", opts)
	must(t, err)
	must(t, errors.Join(db.Flush(), db.Compact(t.Context(), []byte("a"), []byte("z"), false)))
	records, live := map[string]string{}, map[string]bool{}
	levels, err := db.SSTables()
	must(t, err)
	for _, level := range levels {
		for _, table := range level {
			name := fmt.Sprintf("%06d.sst", table.FileNum)
			live[name] = true
			first, last := table.Smallest.UserKey[0], table.Largest.UserKey[0]
			if first > format.PrefixSink || last < format.PrefixFile {
				continue
			}
			if tables = append(tables, name); first <= format.PrefixChunk {
				t.Fatalf("table %s has chunks and records of files or slices: from %q to %q", name, first, last)
			}
		}
	}
	for _, prefix := range []byte{format.PrefixSink, format.PrefixFile, format.PrefixSlice} {
		it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte{prefix}, UpperBound: []byte{prefix + 1}})
		must(t, err)
		for ok := it.First(); ok; ok = it.Next() {
			records[string(it.Key())] = string(it.Value())
		}
		must(t, it.Close())
	}
	must(t, db.Close())
	for name := range w.files(t) { // the store may still have to delete tables that the compaction has replaced
		if strings.HasSuffix(name, ".sst") && !live[name] {
			must(t, w.fs.Remove("data/"+name))
		}
	}
	return records, tables
}

// The records of files and slices lie in small tables. If they are lost, all rows arrive, the rows in staging, and the rows whose chunks are in
// other tables.
func TestLostRecordsLoseNoRows(t *testing.T) {
	disktest.Each(t, func(t *testing.T, disk func(testing.TB) *disktest.Disk) {
		for _, how := range []string{"wrong byte at the start", "wrong byte in the middle", "wrong byte at the end", "missing"} {
			t.Run(how, func(t *testing.T) {
				w := newDamageWorldOn(t, disk(t), false, false)
				records, tables := w.tablesApart(t)
				if len(tables) == 0 || len(records) < 10 {
					t.Fatalf("the tables %q have %d records of files and slices", tables, len(records))
				}
				for _, name := range tables {
					path := "data/" + name
					data, err := w.fs.Read(path)
					must(t, err)
					switch how {
					case "wrong byte at the start":
						w.fs.Rot(path, 10)
					case "wrong byte in the middle":
						w.fs.Rot(path, len(data)/2)
					case "wrong byte at the end":
						w.fs.Rot(path, len(data)-10)
					case "missing":
						must(t, w.fs.Remove(path))
					}
				}
				missing, list := w.check(t)
				if missing > 0 {
					t.Errorf("%s: %d of %d rows are missing, want none; damage %q", how, missing, 2*w.rows, summary(list))
				}
				if len(list) == 0 {
					t.Error("the damage is not reported")
				}
			})
		}
	})
}

// After Close the copy of the records is equal to the records of the store.
func TestCopyOfTheRecords(t *testing.T) {
	disktest.Each(t, func(t *testing.T, disk func(testing.TB) *disktest.Disk) {
		w := newDamageWorldOn(t, disk(t), false, false)
		for i, state := range []string{"after the first process", "after a second process, which imported everything"} {
			if i == 1 {
				if missing, _ := w.check(t); missing > 0 {
					t.Fatalf("%d rows are missing without any damage, want 0", missing)
				}
			}
			copied := map[string]string{}
			text, err := w.fs.Read("data/" + format.CopyFile)
			must(t, err)
			for i, line := range bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n")) {
				kind, num, content, ok := format.ParseCopyLine(line)
				if !ok || (i == 0) != (kind == format.CopyInstance) {
					t.Fatalf("%s: line %d of the copy is %q", state, i, line)
				}
				key := string(format.FileKey(num))
				switch kind {
				case format.PrefixSlice:
					key = string(format.SliceKey(num))
				case format.PrefixSink:
					key = string(format.SinkKey(uint32(num)))
				}
				if copied[key] = string(content); len(content) == 0 || i == 0 {
					delete(copied, key)
				}
			}
			stored, _ := w.tablesApart(t)
			for key, record := range stored {
				if copied[key] != record {
					t.Errorf("%s: the copy of record %q is %s, want %s", state, key, copied[key], record)
				}
			}
			if len(copied) != len(stored) || len(stored) == 0 {
				t.Errorf("%s: the copy has %d records, want %d", state, len(copied), len(stored))
			}
		}
	})
}

// A loss of power may leave an old copy. It says that files wait that were imported, and their objects in staging are gone. Together with damage
// of the store it neither doubles a row nor holds a file.
func TestOldCopyOfTheRecordsDoublesNothing(t *testing.T) {
	disktest.Each(t, func(t *testing.T, disk func(testing.TB) *disktest.Disk) {
		w := newDamageWorldOn(t, disk(t), false, false)
		old, err := w.fs.Read("data/" + format.CopyFile)
		must(t, err)
		if missing, _ := w.check(t); missing > 0 {
			t.Fatalf("%d rows are missing without any damage, want 0", missing)
		}
		_, tables := w.tablesApart(t)
		for _, name := range tables {
			must(t, w.fs.Remove("data/"+name))
		}
		if err := pebblestore.WriteNote(w.fs, "data", format.CopyFile, string(old)); err != nil || len(tables) == 0 {
			t.Fatalf("%v, %d tables have records", err, len(tables))
		}
		b := open(t, w.opts)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		for _, id := range damageSinks {
			define(t, b, id, func(c *buffer.SinkConfig) { c.Encoding = driver.None; c.Import.Count = 1000 })
			if err := b.Sink(id).Flush(ctx); err != nil {
				t.Errorf("flush %s: %v", id, err)
			}
			seen := map[string]bool{}
			for _, row := range ids(w.mem, "in.c-test."+id) {
				if seen[row] {
					t.Errorf("sink %s: row %s is there twice", id, row)
				}
				seen[row] = true
			}
			if want := w.rows + 3; len(seen) != want {
				t.Errorf("sink %s: the table has %d rows, want %d", id, len(seen), want)
			}
		}
		verify(t, b)
	})
}
