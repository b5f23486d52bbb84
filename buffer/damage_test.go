package buffer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
)

// editChunks changes the stored chunks of a store that is closed. change returns the new value, nil to delete it.
func editChunks(t *testing.T, fs vfs.FS, change func(n int, value []byte) []byte) {
	t.Helper()
	db, err := pebble.Open("data", &pebble.Options{FS: fs, FormatMajorVersion: pebble.FormatNewest, Logger: quiet{}})
	must(t, err)
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte("c"), UpperBound: []byte("d")})
	must(t, err)
	batch := db.NewBatch()
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		if value := change(n, bytes.Clone(it.Value())); value == nil {
			_ = batch.Delete(it.Key(), nil)
		} else {
			_ = batch.Set(it.Key(), value, nil)
		}
		n++
	}
	must(t, errors.Join(it.Close(), db.Apply(batch, pebble.Sync), db.Close()))
}

// noise makes text that hardly compresses, so that the store has many blocks.
type noise struct{ *rand.Rand }

func (n noise) text(size int) string {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte('0' + n.IntN(64))
	}
	return strings.ReplaceAll(string(b), `"`, " ")
}

type quiet struct{}

func (quiet) Infof(string, ...any)              {}
func (quiet) Errorf(string, ...any)             {}
func (quiet) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// damagedRun stores ten chunks of ten rows each, applies the damage while the buffer is closed, and lets the rest flow.
// It returns the ids that reached the table.
func damagedRun(t *testing.T, sealed bool, enc driver.Encoding, damage func(fs *disktest.Disk)) (got []string, b *buffer.Buffer, log string) {
	t.Helper()
	fs := disktest.New(t)
	mem := buffertest.NewMemory()
	var down atomic.Bool
	down.Store(true)
	mem.After = failWhile(down.Load, errors.New("the answer was lost"), buffertest.OpPut)
	var text bytes.Buffer
	opts := memoryOptions(t, mem)
	opts = localdisk.On(opts, fs)
	opts.Logger = slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelError}))
	b, err := buffer.Open("data", opts)
	must(t, err)
	s := define(t, b, "a", func(c *buffer.SinkConfig) {
		c.Encoding = enc
		if sealed {
			c.Upload.Count = 100
		}
	})
	noise := noise{rand.New(rand.NewPCG(1, 2))}
	for i := range 10 {
		var data []byte
		for j := range 10 {
			data = append(data, row(10*i+j, noise.text(700))...)
		}
		mustStore(t, b, buffer.Rows{Sink: s, Data: data, Count: 10})
	}
	must(t, b.Close())
	damage(fs)
	down.Store(false)
	b = open(t, opts)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := b.Sink("a").Flush(ctx); err != nil {
		t.Fatalf("flush: %v", err)
	}
	verify(t, b)
	return ids(mem, "in.c-test.a"), b, text.String()
}

func TestDamagedChunksAreSetAside(t *testing.T) {
	flip := func(at int) func([]byte) []byte {
		return func(v []byte) []byte {
			v[(at+len(v))%len(v)] ^= 4
			return v
		}
	}
	for _, tc := range []struct {
		name   string
		chunks []int
		change func([]byte) []byte
		places int
		// rows that are counted as damaged, where it is not ten a chunk
		rows int64
	}{
		{name: "payload of the first", chunks: []int{0}, change: flip(100), places: 1},
		{name: "payload of one between", chunks: []int{4}, change: flip(-1), places: 1},
		{name: "payload of the last", chunks: []int{9}, change: flip(80), places: 1},
		{name: "encoding", chunks: []int{3}, change: flip(1), places: 1},
		{name: "version", chunks: []int{3}, change: flip(0), places: 1},
		{name: "number of rows", chunks: []int{5}, change: flip(8), places: 1},
		{name: "running totals", chunks: []int{5}, change: flip(17), places: 1},
		{name: "neighbours", chunks: []int{4, 5, 6}, change: flip(200), places: 1},
		{name: "the last three", chunks: []int{7, 8, 9}, change: flip(200), places: 1},
		{name: "several places", chunks: []int{0, 2, 9}, change: flip(200), places: 3},
		{name: "cut off", chunks: []int{2}, change: func(v []byte) []byte { return v[:20] }, places: 1},
		{name: "missing", chunks: []int{2}, change: func([]byte) []byte { return nil }, places: 1},
		{name: "all", chunks: []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, change: flip(300), places: 1},
	} {
		for _, sealed := range []bool{true, false} {
			for _, enc := range []driver.Encoding{driver.None, driver.Gzip} {
				if testing.Short() && (enc == driver.None) != sealed {
					continue
				}
				t.Run(fmt.Sprintf("%s/sealed=%v/%s", tc.name, sealed, enc), func(t *testing.T) {
					lost := map[int]bool{}
					for _, c := range tc.chunks {
						lost[c] = true
					}
					got, b, log := damagedRun(t, sealed, enc, func(fs *disktest.Disk) {
						editChunks(t, fs, func(n int, v []byte) []byte {
							if lost[n] {
								return tc.change(v)
							}
							return v
						})
					})
					var want []string
					for i := range 100 {
						if !lost[i/10] {
							want = append(want, fmt.Sprint(i))
						}
					}
					if fmt.Sprint(got) != fmt.Sprint(want) {
						t.Errorf("the table has %v, want %v", got, want)
					}
					st, _ := b.Sink("a").Stats()
					if n := int64(10 * len(lost)); st.Damaged.Rows != n || st.Accepted != 100 || st.Target.Rows != 100-n {
						t.Errorf("accepted %d, imported %d, damaged %d, want 100, %d, %d", st.Accepted, st.Target.Rows, st.Damaged.Rows, 100-n, n)
					}
					list, err := b.Damaged(t.Context())
					must(t, err)
					if len(list) != tc.places || strings.Count(log, "stored rows damaged") != tc.places {
						t.Errorf("damage %+v, log %s: want %d places", list, log, tc.places)
					}
					rows := int64(0)
					for _, d := range list {
						rows += d.Rows
						if d.SinkID != "a" || d.SliceID == "" || d.Reason == "" || d.At.IsZero() {
							t.Errorf("damage %+v", d)
						}
					}
					if rows != st.Damaged.Rows {
						t.Errorf("%d rows are listed, %d counted, want %v", rows, st.Damaged.Rows, st.Damaged.Rows)
					}
				})
			}
		}
	}
}

// Damage that the store finds by its own checksums takes a block or a file of it, and no more.
func TestDamagedStoreFilesLoseOnlyTheirRows(t *testing.T) {
	for i := range 6 {
		sealed, at := i%2 == 0, 10+40*(i/2) // percent of the file
		t.Run(fmt.Sprintf("sealed=%v/at=%d", sealed, at), func(t *testing.T) {
			damaged := 0
			got, b, _ := damagedRun(t, sealed, driver.None, func(fs *disktest.Disk) {
				editChunks(t, fs, func(_ int, v []byte) []byte { return v })
				// Opening the store has written the rows to a table. Compact, so that there is one copy.
				db, err := pebble.Open("data", &pebble.Options{FS: fs, FormatMajorVersion: pebble.FormatNewest, Logger: quiet{}})
				must(t, err)
				must(t, errors.Join(db.Flush(), db.Compact(t.Context(), []byte("a"), []byte("z"), false), db.Close()))
				names, _ := fs.List("data")
				for _, name := range names {
					if !strings.HasSuffix(name, ".sst") {
						continue
					}
					data, err := fs.Read("data/" + name)
					must(t, err)
					if len(data) > 20<<10 {
						fs.Rot("data/"+name, at*len(data)/100)
						damaged++
					}
				}
			})
			if damaged != 1 {
				t.Fatalf("%d tables were damaged, want 1", damaged)
			}
			st, _ := b.Sink("a").Stats()
			// The row count of the end of an open slice was in the damaged block, so at least one row counts as damaged.
			all := int64(len(got))+st.Damaged.Rows == 100 || !sealed && len(got) == 90 && st.Damaged.Rows == 1
			if len(got) < 50 || len(got) == 100 || !all {
				t.Errorf("got %d rows in the table and %d damaged, want 50 to 99 rows that make 100 with the damaged rows", len(got), st.Damaged.Rows)
			}
		})
	}
}

// A sector that the disk does not give back is tried for Tuning.UnreadableAfter. If it comes back by then nothing is
// lost. Else its rows are damage, and the other rows continue.
func TestUnreadableSector(t *testing.T) {
	for _, comesBack := range []bool{true, false} {
		t.Run(fmt.Sprintf("comes back=%v", comesBack), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var down, broken atomic.Bool
				mem, disk := downMemory(&down), disktest.New(t)
				opts := memoryOptions(t, mem)
				tenChunks(t, disk, opts, &down)
				opts = localdisk.On(opts, disktest.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
					if broken.Load() && op.Kind == errorfs.OpFileReadAt && strings.HasSuffix(op.Path, ".sst") &&
						op.Offset > 28<<10 && op.Offset < 36<<10 {
						return syscall.EIO
					}
					return nil
				})))
				broken.Store(true)
				b := open(t, opts)
				time.Sleep(59 * time.Minute)
				synctest.Wait()
				st, _ := b.Sink("a").Stats()
				if st.Damaged.Rows != 0 || st.Local.Rows != 100 {
					t.Fatalf("after 59 minutes: %s, damaged %d", state(b, "a"), st.Damaged.Rows)
				}
				if st.Files[0].Attempt < 10 {
					t.Errorf("got %d attempts in 59 minutes, want at least 10", st.Files[0].Attempt)
				}
				broken.Store(!comesBack)
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				must(t, b.Sink("a").Flush(t.Context()))
				verify(t, b)
				st, _ = b.Sink("a").Stats()
				list, err := b.Damaged(t.Context())
				must(t, err)
				if comesBack {
					if st.Target.Rows != 100 || len(list) != 0 {
						t.Errorf("got %s, damage %+v, want 100 rows in the table and no damage", state(b, "a"), list)
					}
					return
				}
				if st.Target.Rows < 70 || st.Damaged.Rows == 0 || st.Target.Rows+st.Damaged.Rows != 100 {
					t.Errorf("got %s, damaged %d, want 100 rows in both, and at least 70 in the table", state(b, "a"), st.Damaged.Rows)
				}
				if len(list) != 1 || list[0].Rows != st.Damaged.Rows || !strings.Contains(list[0].Reason, "input/output error") {
					t.Errorf("damage %+v", list)
				}
			})
		})
	}
}
