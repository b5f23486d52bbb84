package buffer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/casetest"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/pebblestore"
	"github.com/forebay/forebay/internal/seedtest"
)

// damageWorld is a data directory with rows in every state, imported, in staging, sealed and open, of two sinks, in
// tables and in the log of the store.
type damageWorld struct {
	fs                      *disktest.Disk
	mem                     *buffertest.Memory
	opts                    buffer.Options
	stagingDown, targetDown atomic.Bool
	rows                    int // acknowledged rows of each sink, with the ids 0, 1, …
	log                     bytes.Buffer
}

var damageSinks = []string{"a", "b"}

func newDamageWorld(t *testing.T, inTables bool) *damageWorld {
	t.Helper()
	return newDamageWorldOn(t, disktest.New(t), inTables, false)
}

func newDamageWorldOn(t *testing.T, fs *disktest.Disk, inTables, keepFormat bool) *damageWorld {
	t.Helper()
	w := &damageWorld{fs: fs, mem: buffertest.NewMemory()}
	w.mem.Before = func(_ context.Context, c buffertest.Call) error {
		if c.Op == buffertest.OpPut && w.stagingDown.Load() || c.Op == buffertest.OpImport && w.targetDown.Load() {
			return errors.New("down")
		}
		return nil
	}
	w.opts = memoryOptions(t, w.mem)
	w.opts.KeepFormat = keepFormat
	w.opts = localdisk.On(w.opts, w.fs)
	w.opts.Logger = slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	w.opts.Retry = buffer.Retry{Initial: time.Millisecond, Max: 5 * time.Millisecond}
	b, err := buffer.Open("data", w.opts)
	must(t, err)
	noise := noise{rand.New(rand.NewPCG(1, 2))}
	var sinks []*buffer.DefinedSink
	for _, id := range damageSinks {
		sinks = append(sinks, define(t, b, id, func(c *buffer.SinkConfig) { c.Encoding = driver.None; c.Import.Count = 1000 }))
	}
	append40 := func() {
		for i := range 40 {
			for _, s := range sinks {
				ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(w.rows, noise.text(300)), Count: 1})
				if err == nil && i%4 == 3 {
					err = ticket.Wait(t.Context())
				}
				must(t, err)
			}
			w.rows++
		}
	}
	closeFiles := func() {
		for _, id := range damageSinks {
			must(t, b.Sink(id).CloseFile(t.Context(), 1))
		}
	}
	append40()
	for _, id := range damageSinks {
		must(t, b.Sink(id).Flush(t.Context()))
	}
	w.targetDown.Store(true)
	append40()
	closeFiles()
	for _, id := range damageSinks {
		eventually(t, func() bool { st, _ := b.Sink(id).Stats(); return st.Staging.Rows == 40 })
	}
	w.stagingDown.Store(true)
	append40()
	closeFiles()
	append40()
	must(t, b.Close())
	if inTables {
		w.toTables(t)
	}
	return w
}

// toTables moves everything from the log of the store into tables.
func (w *damageWorld) toTables(t *testing.T) {
	t.Helper()
	db, err := pebble.Open("data", &pebble.Options{FS: w.fs, FormatMajorVersion: pebble.FormatNewest, Logger: quiet{}})
	must(t, err)
	must(t, errors.Join(db.Flush(), db.Compact(t.Context(), []byte("a"), []byte("z"), false), db.Close()))
}

// files returns the names of the files with bytes in the data directory.
func (w *damageWorld) files(t *testing.T) map[string]int {
	t.Helper()
	names, err := w.fs.List("data")
	must(t, err)
	sizes := map[string]int{}
	for _, name := range names {
		if data, err := w.fs.Read("data/" + name); err == nil {
			sizes[name] = len(data)
		}
	}
	return sizes
}

// check opens the damaged directory, lets everything flow, and returns how many rows are missing. Each row must be there
// once, or damage must be reported.
func (w *damageWorld) check(t *testing.T) (missing int, list []buffer.Damage) {
	t.Helper()
	w.stagingDown.Store(false)
	w.targetDown.Store(false)
	b, err := buffer.Open("data", w.opts)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	defer func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, id := range damageSinks {
		put(t, b, define(t, b, id, func(c *buffer.SinkConfig) { c.Encoding = driver.None; c.Import.Count = 1000 }), w.rows, w.rows+3)
	}
	for _, st := range b.Stats().Sinks {
		if err := b.Sink(st.ID).Flush(ctx); err != nil {
			t.Errorf("flush %s: %v", st.ID, err)
		}
	}
	verify(t, b)
	if list, err = b.Damaged(ctx); err != nil {
		t.Fatal(err)
	}
	for _, id := range damageSinks {
		seen := map[string]int{}
		for _, row := range ids(w.mem, "in.c-test."+id) {
			if seen[row]++; seen[row] == 2 {
				t.Errorf("sink %s: row %s is there twice", id, row)
			}
		}
		for i := range w.rows + 3 {
			if seen[fmt.Sprint(i)] == 0 {
				missing++
				if i >= w.rows {
					t.Errorf("sink %s: row %d, which came after the damage, is missing", id, i)
				}
			}
		}
	}
	counted, uncounted := int64(0), false
	for _, d := range list {
		counted += d.Rows
		uncounted = uncounted || d.Uncounted
		if d.Reason == "" || d.At.IsZero() {
			t.Errorf("damage %+v", d)
		}
	}
	if int64(missing) > counted && !uncounted {
		t.Errorf("%d rows are missing, %d are reported: %+v", missing, counted, list)
	}
	if len(list) > 0 && !strings.Contains(w.log.String(), "damage") {
		t.Errorf("the damage is not logged: %s", &w.log)
	}
	return missing, list
}

// Any byte of any file of a data directory may rot. The process starts, and each acknowledged row arrives once or is
// reported.
func TestAnyDamagedByte(t *testing.T) {
	disktest.Each(t, func(t *testing.T, disk func(testing.TB) *disktest.Disk) {
		rng := seedtest.Rand(t)
		for _, inTables := range []bool{false, true} {
			for name, size := range newDamageWorldOn(t, disk(t), inTables, false).files(t) {
				if name == "LOCK" || size == 0 {
					continue
				}
				places := casetest.Of(12, 3, 2) // the first byte, the last one, and bytes between them, which the seed draws where they are few
				for i := range places {
					at := i * (size - 1) / (places - 1)
					if !casetest.All() && 0 < i && i < places-1 {
						at = rng.IntN(size)
					}
					t.Run(fmt.Sprintf("%s/%v/%d", name, inTables, at), func(t *testing.T) {
						t.Parallel()
						w := newDamageWorldOn(t, disk(t), inTables, false)
						data, err := w.fs.Read("data/" + name)
						if err != nil || at >= len(data) {
							t.Skipf("the file is not there this time, or shorter: %v", err)
						}
						w.fs.Rot("data/"+name, at)
						if name == "forebay-format" {
							var format *buffer.FormatError
							b, err := buffer.Open("data", w.opts)
							if err != nil {
								if !errors.As(err, &format) {
									t.Errorf("open: %v, want a FormatError", err)
								}
								return
							}
							closeBuffer(t, b) // a later version that this release knows, as after an upgrade that was cut short
						}
						var damaged *buffer.StoreDamageError
						if in, err := buffer.Inspect("data", localdisk.On(buffer.InspectOptions{}, w.fs)); err == nil {
							_ = in.Close()
						} else if !errors.As(err, &damaged) {
							t.Errorf("inspect: %v, want a StoreDamageError", err)
						}
						missing, list := w.check(t)
						t.Logf("%d of %d rows are missing, damage %+v", missing, 2*w.rows, summary(list))
					})
				}
			}
		}
	})
}

func summary(list []buffer.Damage) (out []string) {
	for _, d := range list {
		out = append(out, fmt.Sprintf("%s/%s/%d-%d: %d rows (%v): %s", d.SinkID, d.SliceID, d.FirstChunk, d.LastChunk, d.Rows, d.Uncounted, d.Reason))
	}
	return out
}

// A file may be gone, or cut to nothing.
func TestAnyMissingFile(t *testing.T) {
	disktest.Each(t, func(t *testing.T, disk func(testing.TB) *disktest.Disk) {
		for _, inTables := range []bool{false, true} {
			for name := range newDamageWorldOn(t, disk(t), inTables, false).files(t) {
				if name == "LOCK" {
					continue
				}
				for _, cut := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/%v/cut=%v", name, inTables, cut), func(t *testing.T) {
						t.Parallel()
						w := newDamageWorldOn(t, disk(t), inTables, false)
						path := "data/" + name
						if _, err := w.fs.Stat(path); err != nil {
							t.Skip("the file is not there this time")
						}
						if cut {
							half, err := w.fs.Open(path)
							must(t, err)
							data, err := io.ReadAll(half)
							must(t, err)
							f, err := w.fs.Create(path, vfs.WriteCategoryUnspecified)
							if err == nil {
								_, err = f.Write(data[:len(data)/2])
							}
							must(t, errors.Join(err, f.Close(), half.Close()))
							if name == "forebay-format" {
								return
							}
						} else if err := w.fs.Remove(path); err != nil {
							t.Fatal(err)
						}
						missing, list := w.check(t)
						t.Logf("%d of %d rows are missing, damage %+v", missing, 2*w.rows, summary(list))
					})
				}
			}
		}
	})
}

// A damaged store that has lost its format file too is not taken for a new folder.
func TestDamageWithoutAFormatFile(t *testing.T) {
	disktest.Each(t, func(t *testing.T, disk func(testing.TB) *disktest.Disk) {
		for _, inTables := range []bool{false, true} {
			for name := range newDamageWorldOn(t, disk(t), inTables, false).files(t) {
				if name == "LOCK" || name == "forebay-format" {
					continue
				}
				t.Run(fmt.Sprintf("%s/%v", name, inTables), func(t *testing.T) {
					t.Parallel()
					w := newDamageWorldOn(t, disk(t), inTables, false)
					if _, err := w.fs.Stat("data/" + name); err != nil {
						t.Skip("the file is not there this time")
					}
					for _, path := range []string{"data/" + name, "data/forebay-format"} {
						must(t, w.fs.Remove(path))
					}
					missing, list := w.check(t)
					t.Logf("%d of %d rows are missing, damage %+v", missing, 2*w.rows, summary(list))
				})
			}
		}
	})
}

// A salvaged folder has the version of its format file, and is then upgraded like any other.
func TestSalvageKeepsTheFormat(t *testing.T) {
	for _, tc := range []struct {
		file string // "" to lose it
		keep bool
		want string
	}{{"1\n", true, "1/1"}, {"1\n", false, "2/2"}, {"2\n", true, "2/2"}, {"", true, "2/2"}} {
		w := newDamageWorldOn(t, disktest.New(t), false, true)
		wantFormat(t, w.fs, "1/1")
		for name := range w.files(t) {
			if strings.HasPrefix(name, "MANIFEST-") || name == "forebay-format" && tc.file != "1\n" {
				must(t, w.fs.Remove("data/"+name))
			}
		}
		if tc.file == "2\n" { // an upgrade was cut short
			must(t, pebblestore.WriteNote(w.fs, "data", "forebay-format", tc.file))
		}
		w.opts.KeepFormat = tc.keep
		if missing, _ := w.check(t); missing > 0 || !strings.Contains(w.log.String(), "local level salvaged") {
			t.Errorf("file %q: %d rows are missing, the log has %s", tc.file, missing, &w.log)
		}
		wantFormat(t, w.fs, tc.want)
	}
}

// eventually waits for a condition that something in the background brings about.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("it did not come about")
		}
	}
}

// change replaces the content of a file of the data directory.
func (w *damageWorld) change(t *testing.T, name string, change func([]byte) []byte) {
	t.Helper()
	old, err := w.fs.Read("data/" + name)
	must(t, err)
	data := change(bytes.Clone(old))
	writeFile(t, w.fs, "data/"+name, data)
}

// The database notes its settings in a file, and compares them when it is opened. No byte of it stops the start.
func TestDamagedSettingsStopNothing(t *testing.T) {
	settings := func(w *damageWorld) string {
		for name := range w.files(t) {
			if strings.HasPrefix(name, "OPTIONS-") {
				return name
			}
		}
		t.Fatal("there are no settings")
		return ""
	}
	for _, word := range []string{"comparer=", "merger=", "wal_dir=", "[Options]", "pebble_version=", "="} {
		for _, garbage := range []string{"x", "\x00", "]\n["} {
			t.Run(fmt.Sprintf("%s%q", word, garbage), func(t *testing.T) {
				w := newDamageWorld(t, false)
				w.change(t, settings(w), func(text []byte) []byte {
					at := bytes.Index(text, []byte(word))
					if at < 0 {
						t.Fatalf("%q is not in the settings", word)
					}
					return append(text[:at+len(word)], append([]byte(garbage), text[at+len(word)+1:]...)...)
				})
				if missing, list := w.check(t); missing > 0 || len(list) > 0 {
					t.Errorf("got %d missing rows and damage %+v, want none", missing, summary(list))
				}
			})
		}
	}
}

// The note of the last Close tells a log that was cut from one that a crash has torn. With the note damaged as well the
// loss is reported all the same.
func TestDamagedNoteDoesNotHideALoss(t *testing.T) {
	for at := range 4 {
		for _, left := range []int{0, 1, 5, 9} {
			t.Run(fmt.Sprintf("%d/%d", at, left), func(t *testing.T) {
				w := newDamageWorld(t, false)
				for name := range w.files(t) {
					if strings.HasSuffix(name, ".log") {
						w.change(t, name, func(data []byte) []byte { return data[:len(data)*left/10] })
					}
				}
				w.change(t, "forebay-closed", func(data []byte) []byte {
					data[at*(len(data)-1)/3] ^= 4
					return data
				})
				missing, list := w.check(t) // which demands a report of the missing rows
				if left < 5 && missing == 0 {
					t.Error("nothing is missing: this test is about rows that are lost")
				}
				if len(list) == 0 {
					t.Error("a damaged note is damage")
				}
			})
		}
	}
}
