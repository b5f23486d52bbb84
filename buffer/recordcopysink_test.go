package buffer_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
)

// recordTables moves everything from the log of a store into tables, with separate tables for the keys of calls. It returns the paths of the
// tables that have anything else, and of those of them that have records of sinks.
func recordTables(t *testing.T, fs *disktest.Disk) (all, sinks []string) {
	t.Helper()
	opts := &pebble.Options{FS: fs, FormatMajorVersion: pebble.FormatNewest, Logger: quiet{}}
	opts.Experimental.SpanPolicyFunc = pebble.MakeStaticSpanPolicyFunc(
		bytes.Compare, pebble.KeyRange{Start: []byte{format.PrefixReceipt}, End: []byte{format.PrefixReceipt + 1}}, pebble.SpanPolicy{},
	)
	db, err := pebble.Open("data", opts)
	if err == nil {
		err = errors.Join(db.Flush(), db.Compact(t.Context(), []byte("a"), []byte("z"), false))
	}
	must(t, err)
	levels, err := db.SSTables()
	must(t, err)
	for _, level := range levels {
		for _, table := range level {
			first, last := table.Smallest.UserKey[0], table.Largest.UserKey[0]
			if first == format.PrefixReceipt {
				continue
			}
			path := fmt.Sprintf("data/%06d.sst", table.FileNum)
			if all = append(all, path); last >= format.PrefixSink {
				if sinks = append(sinks, path); first <= format.PrefixReceipt {
					t.Fatalf("a table has keys of calls and records of sinks, from %q to %q", first, last)
				}
			}
		}
	}
	must(t, db.Close())
	if len(sinks) == 0 || len(all) == len(sinks) {
		t.Fatalf("the tables %q have records of sinks, the tables %q other records", sinks, all)
	}
	return all, sinks
}

// The record of a sink has its positions and its number, by which its keys are stored. If the record is lost, a replay continues where it stopped,
// no call with a key is stored a second time, and the ledger counts the earlier rows.
func TestLostRecordsOfSinks(t *testing.T) {
	disktest.Each(t, func(t *testing.T, disk func(testing.TB) *disktest.Disk) {
		for _, how := range []string{"damaged", "missing"} {
			t.Run(how, func(t *testing.T) {
				const calls = 5
				fs, mem := disk(t), buffertest.NewMemory()
				opts := localdisk.On(memoryOptions(t, mem), fs)
				b := openAt(t, "data", opts)
				other, s := define(t, b, "a"), define(t, b, "b")
				mustOnce(t, b, calls, other)
				must(t, b.Sink("b").SetPosition(t.Context(), *at("run", "0")))
				for i := range calls {
					mustOnce(t, b, i, s)
					mustStore(t, b, buffer.Rows{Sink: s, Data: row(100+i, "v"), Count: 1, Position: at("run", fmt.Sprint(i+1))})
				}
				flush(t, b, "a")
				flush(t, b, "b")
				before, _ := b.Sink("b").Stats()
				closeBuffer(t, b)

				_, tables := recordTables(t, fs)
				for _, path := range tables {
					if how == "missing" {
						must(t, fs.Remove(path))
					} else {
						fs.Rot(path, 10)
					}
				}
				b = openAt(t, "data", opts)
				if list, err := b.Damaged(t.Context()); err != nil || len(list) == 0 {
					t.Errorf("damage %v, error %v, want a report", list, err)
				}
				s, other = define(t, b, "b"), define(t, b, "a") // in the other order
				if got, err := b.Sink("b").Position(t.Context(), "run"); string(got) != fmt.Sprint(calls) || err != nil {
					t.Errorf("the position is %q, %v, want %d", got, err, calls)
				}
				for i := range calls {
					if n := mustOnce(t, b, i, s); n != 0 {
						t.Errorf("call %d is stored a second time", i)
					}
				}
				if n := mustOnce(t, b, calls, other); n != 0 {
					t.Error("the call of the other sink is stored a second time")
				}
				if after, _ := b.Sink("b").Stats(); after.Accepted != before.Accepted || after.Target.Rows != before.Target.Rows {
					t.Errorf("the ledger has %d accepted and %d imported rows, want %d and %d", after.Accepted, after.Target.Rows, before.Accepted, before.Target.Rows)
				}
				verify(t, b)
				closeBuffer(t, b)
			})
		}
	})
}

// If nothing is left that names the sinks, keys of their calls say nothing about the sinks that get their numbers.
func TestKeysOfLostSinks(t *testing.T) {
	disktest.Each(t, func(t *testing.T, disk func(testing.TB) *disktest.Disk) {
		fs := disk(t)
		opts := localdisk.On(memoryOptions(t, buffertest.NewMemory()), fs)
		b := openAt(t, "data", opts)
		mustOnce(t, b, 1, define(t, b, "a"))
		flush(t, b, "a")
		closeBuffer(t, b)
		tables, _ := recordTables(t, fs)
		for _, path := range append(tables, "data/"+format.CopyFile) {
			must(t, fs.Remove(path))
		}
		b = openAt(t, "data", opts)
		if list, err := b.Damaged(t.Context()); err != nil || len(list) == 0 {
			t.Errorf("damage %v, error %v, want a report", list, err)
		}
		if n := mustOnce(t, b, 1, define(t, b, "b")); n != 1 {
			t.Error("sink b, which is new, counts the call as stored because the lost sink a had stored it")
		}
		closeBuffer(t, b)
	})
}
