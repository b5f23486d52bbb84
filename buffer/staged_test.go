package buffer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/casetest"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/proctest"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/trigger"
)

const (
	stagedSlices = 3
	stagedRows   = 20 // a slice
)

// stagedText is the value of a row. It hardly compresses, so that a wrong bit is in the bytes of rows.
func stagedText(id int) string {
	rng, text := rand.New(rand.NewPCG(uint64(id), 9)), make([]byte, 50)
	for i := range text {
		text[i] = byte('a' + rng.IntN(26))
	}
	return string(text)
}

// stagedOptions work on a real disk below root. A missing object is given up at its second attempt.
func stagedOptions(root string) buffer.Options {
	return buffer.Options{
		Staging: dir.Staging(filepath.Join(root, "staging")), Target: dir.Tables(filepath.Join(root, "tables")),
		Tuning: buffer.Tuning{MemTableBytes: 1 << 20, UnreadableAfter: 1, Retry: buffer.Retry{Initial: time.Millisecond, Max: 5 * time.Millisecond}},
	}
}

func stagedSink(e driver.Encoding) func(*buffer.SinkConfig) {
	return func(c *buffer.SinkConfig) {
		c.Encoding, c.Upload.Count = e, stagedRows
		c.Import = trigger.Conditions{Count: 100_000, Interval: 24 * time.Hour}
	}
}

// stagedFolder returns a folder whose buffer has put all slices of a file into staging.
func stagedFolder(t *testing.T, e driver.Encoding) (root string) {
	t.Helper()
	root = t.TempDir()
	b := openAt(t, filepath.Join(root, "data"), stagedOptions(root))
	s := define(t, b, "a", stagedSink(e))
	for id := range stagedSlices * stagedRows {
		put1(t, b, s, id, stagedText(id))
	}
	for n := 0; n < stagedSlices; runtime.Gosched() {
		if n = 0; t.Context().Err() != nil {
			t.Fatal("the slices are not in staging")
		}
		for _, sl := range b.Sink("a").Slices() {
			if sl.State == buffer.SliceUploaded {
				n++
			}
		}
	}
	closeBuffer(t, b)
	return root
}

// stagedCopy returns a copy of a folder, and the paths of the objects in its staging.
func stagedCopy(t *testing.T, from string) (root string, objects []string) {
	t.Helper()
	root = filepath.Join(t.TempDir(), "copy")
	err := disktest.Copy(from, root)
	if err == nil {
		objects, err = disktest.Files(filepath.Join(root, "staging"))
	}
	if err != nil || len(objects) != stagedSlices {
		t.Fatalf("%v: staging has %q, want %d objects", err, objects, stagedSlices)
	}
	return root, objects
}

// flipBit inverts a bit of a file.
func flipBit(t *testing.T, path string, rng *rand.Rand) (what string) {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	at, bit := rng.IntN(len(data)), rng.IntN(8)
	data[at] ^= 1 << bit
	must(t, os.WriteFile(path, data, 0o600))
	return fmt.Sprintf("bit %d of byte %d of %d", bit, at, len(data))
}

// importStaged imports a folder. Each row is in the table once and as it was sent, or counted as damage. It returns the rows of the table.
func importStaged(t *testing.T, root string, e driver.Encoding) (imported int) {
	t.Helper()
	opts := stagedOptions(root)
	b := openAt(t, filepath.Join(root, "data"), opts)
	defer closeBuffer(t, b)
	define(t, b, "a", stagedSink(e))
	flush(t, b, "a")
	seen := map[string]int{}
	for row, err := range opts.Target.(*dir.TableDir).Rows("in.c-test.a") {
		must(t, err)
		if id, err := strconv.Atoi(row[0]); err != nil || row[1] != stagedText(id) {
			t.Errorf("the table has a row that was not sent: %q", row)
		}
		if seen[row[0]]++; seen[row[0]] == 2 {
			t.Errorf("row %s is in the table twice", row[0])
		}
	}
	lost := int64(0)
	list, err := b.Damaged(t.Context())
	must(t, err)
	for _, d := range list {
		lost += d.Rows
	}
	const rows = stagedSlices * stagedRows
	if int64(len(seen))+lost != rows || len(seen)%stagedRows != 0 {
		t.Errorf("the table has %d rows and %d are reported as damage, want %d together, in whole slices; damage %+v", len(seen), lost, rows, list)
	}
	if s := b.Stats().Sinks[0]; s.Damaged.Rows != lost {
		t.Errorf("the ledger counts %d damaged rows, the list %d", s.Damaged.Rows, lost)
	}
	verify(t, b)
	return len(seen)
}

// A wrong bit in an object is noticed in each encoding, unless the rows are equal to the sent rows. The slices whose objects are intact are imported.
func TestFlippedBitInStaging(t *testing.T) {
	for _, e := range []driver.Encoding{driver.None, driver.Gzip, driver.Zstd} {
		t.Run(e.String(), func(t *testing.T) {
			folder, rng, lossy := stagedFolder(t, e), seedtest.Rand(t), 0
			for range casetest.Of(500, 12, 12) {
				root, objects := stagedCopy(t, folder)
				what := flipBit(t, objects[rng.IntN(len(objects))], rng)
				n := importStaged(t, root, e)
				if n < (stagedSlices-1)*stagedRows || e == driver.None && n != (stagedSlices-1)*stagedRows {
					t.Errorf("the table has %d rows, want those of the %d intact slices", n, stagedSlices-1)
				}
				if n < stagedSlices*stagedRows {
					lossy++
				}
				if t.Failed() {
					t.Fatalf("wrong: %s", what)
				}
			}
			if lossy == 0 {
				t.Error("no wrong bit was noticed")
			}
		})
	}
}

// A missing object is given up while staging contains a different object of the file. If all objects are missing the file waits, because staging may be
// unavailable.
func TestMissingObjectInStaging(t *testing.T) {
	folder := stagedFolder(t, driver.Gzip)
	root, objects := stagedCopy(t, folder)
	must(t, os.Remove(objects[1]))
	if n, want := importStaged(t, root, driver.Gzip), (stagedSlices-1)*stagedRows; n != want {
		t.Errorf("one object is missing: the table has %d rows, want %d", n, want)
	}

	root, _ = stagedCopy(t, folder)
	staging, away := filepath.Join(root, "staging"), filepath.Join(root, "away")
	must(t, os.Rename(staging, away))
	b := openAt(t, filepath.Join(root, "data"), stagedOptions(root))
	define(t, b, "a", stagedSink(driver.Gzip))
	ctx, cancel := context.WithCancel(t.Context())
	flushed := make(chan error, 1)
	go func() { flushed <- b.Sink("a").Flush(ctx) }()
	for b.Stats().Sinks[0].Files[0].Attempt < 4 {
		runtime.Gosched()
	}
	cancel()
	<-flushed
	if s := b.Stats().Sinks[0]; s.Damaged.Rows != 0 || s.Staging.Rows != stagedSlices*stagedRows {
		t.Errorf("staging is away: %d damaged and %d waiting rows, want 0 and %d", s.Damaged.Rows, s.Staging.Rows, stagedSlices*stagedRows)
	}
	closeBuffer(t, b)
	must(t, os.Rename(away, staging))
	if n := importStaged(t, root, driver.Gzip); n != stagedSlices*stagedRows {
		t.Errorf("staging is back: the table has %d rows, want %d", n, stagedSlices*stagedRows)
	}
}

// A process is killed while it gives a damaged object up and imports the other ones. Each intact row is in the table once.
func TestKillWhileAnObjectIsGivenUp(t *testing.T) {
	if root, ok := proctest.Child(); ok {
		b := openAt(t, filepath.Join(root, "data"), stagedOptions(root))
		define(t, b, "a", stagedSink(driver.None))
		fmt.Println("open")
		flush(t, b, "a")
		fmt.Println("flushed")
		<-t.Context().Done()
	}
	folder, rng := stagedFolder(t, driver.None), seedtest.Rand(t)
	for range proctest.Kills(t) {
		root, objects := stagedCopy(t, folder)
		if at := rng.IntN(len(objects)); rng.IntN(2) == 0 {
			flipBit(t, objects[at], rng)
		} else if err := os.Remove(objects[at]); err != nil {
			t.Fatal(err)
		}
		p := proctest.Start(t, t.Name(), root)
		p.Lines(1, time.Duration(rng.IntN(40_000))*time.Microsecond, func(string) {})
		if n, want := importStaged(t, root, driver.None), (stagedSlices-1)*stagedRows; n != want {
			t.Fatalf("the table has %d rows, want %d", n, want)
		}
	}
}

// keptStaging loses the result of each Put once. Its second Put finds the object.
type keptStaging struct {
	driver.Staging
	root string
	harm func(path string)
}

func (s *keptStaging) Put(ctx context.Context, obj driver.Object, src driver.Content) error {
	path := filepath.Join(s.root, obj.ID+".slice")
	_, err := os.Stat(path)
	absent := errors.Is(err, fs.ErrNotExist)
	if err := s.Staging.Put(ctx, obj, src); err != nil || !absent || s.harm == nil {
		return err
	}
	s.harm(path)
	s.harm = nil
	return io.ErrUnexpectedEOF
}

// An object of an earlier attempt that was damaged meanwhile is put again from the local level. No row is lost.
func TestDamagedObjectOfAnEarlierAttempt(t *testing.T) {
	for _, e := range []driver.Encoding{driver.None, driver.Gzip, driver.Zstd} {
		t.Run(e.String(), func(t *testing.T) {
			root, rng := t.TempDir(), seedtest.Rand(t)
			opts := stagedOptions(root)
			opts.Staging = &keptStaging{opts.Staging, filepath.Join(root, "staging"), func(path string) {
				data, err := os.ReadFile(path)
				if err != nil {
					t.Error(err)
				}
				data[len(data)/2+rng.IntN(len(data)/4)] ^= 1
				if err := os.WriteFile(path, data, 0o600); err != nil {
					t.Error(err)
				}
			}}
			b := openAt(t, filepath.Join(root, "data"), opts)
			defer closeBuffer(t, b)
			s := define(t, b, "a", stagedSink(e))
			for id := range stagedRows {
				put1(t, b, s, id, strings.Repeat(stagedText(id), 10))
			}
			flush(t, b, "a")
			n := 0
			for row, err := range opts.Target.(*dir.TableDir).Rows("in.c-test.a") {
				if n++; err != nil || row[1] != strings.Repeat(stagedText(n-1), 10) {
					t.Errorf("row %d is %q, %v", n-1, row, err)
				}
			}
			if n != stagedRows {
				t.Errorf("the table has %d rows, want %d", n, stagedRows)
			}
			verify(t, b)
		})
	}
}
