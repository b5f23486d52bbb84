//go:build linux

// Package fulldisktest plays a target on a small ext4 volume that becomes full while files are imported.
package fulldisktest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/seedtest"
)

// Mount mounts an empty ext4 volume of some MiB, made with further options of mkfs. It skips the test where it cannot.
func Mount(t *testing.T, size int, options ...string) string {
	t.Helper()
	image, at := filepath.Join(t.TempDir(), "image"), t.TempDir()
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, int64(size)<<20)); err != nil {
		t.Fatal(err)
	}
	mkfs := append(append([]string{"mkfs.ext4", "-q", "-F", "-m", "0"}, options...), image)
	for _, args := range [][]string{mkfs, {"mount", "-o", "loop", image, at}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Skipf("needs mkfs.ext4 and the right to mount a small file system (root on Linux): %s: %v: %s", args[0], err, bytes.TrimSpace(out))
		}
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", at).CombinedOutput(); err != nil {
			t.Errorf("unmount: %v: %s", err, out)
		}
	})
	return at
}

// Move moves a folder of a server that does not run into another one, and leaves a link. The owner of the files owns both.
func Move(t *testing.T, from, folder string) {
	t.Helper()
	to := filepath.Join(folder, filepath.Base(from))
	for _, args := range [][]string{
		{"cp", "-a", from, to}, {"chown", "--reference", from, folder}, {"rm", "-r", from}, {"ln", "-s", to, from}, {"chown", "-h", "--reference", to, from},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: got %v, want no error: %s", args, err, out)
		}
	}
}

// Harness describes the target that [Play] tests.
type Harness struct {
	// Open opens the target in a folder. Play calls its Close, if it has one.
	Open func(t *testing.T, folder string) driver.Target
	// Rows reads the texts of all rows of a table.
	Rows func(t *testing.T, target driver.Target, folder, table string) [][]string
	// Log is the name of the log that the target moves into its file at a checkpoint. The volume becomes full when the log has nearly Checkpoint
	// bytes. "" means that the volume becomes full after some files.
	Log        string
	Checkpoint int64
	// Files fills the volume with empty files, not with bytes. A target that looks for free bytes before it writes then fails in the middle.
	Files bool
	// MiB is the size of the volume. Zero means 64.
	MiB int
}

// The size of the play. The volume must hold all rows.
const (
	workers  = 4 // each has a table
	bursts   = 3 // the volume becomes full that often
	fileRows = 200
	refusals = 3 // of each worker while the volume is full
)

// player imports files until it is stopped.
type player struct {
	h        Harness
	target   driver.Target
	folder   string
	refused  [workers]atomic.Int64
	imported [workers]atomic.Int64
	stop     atomic.Bool
	reasons  sync.Map // from the reason of a refusal to true
}

// Play imports files into four tables at once while the volume becomes full and gets free again. Each file whose import succeeded must be stored
// once, with the texts that it had, in the open target and after it was opened again.
func Play(t *testing.T, h Harness) {
	t.Helper()
	if testing.Short() {
		t.Skip("it mounts a volume and fills it")
	}
	rng := seedtest.Rand(t)
	var options []string
	if h.Files {
		options = []string{"-N", "8000"} // files and folders
	}
	disk := Mount(t, cmp.Or(h.MiB, 64), options...)
	folder := filepath.Join(disk, "target")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	p := &player{h: h, target: h.Open(t, folder), folder: folder}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for worker := range workers {
		if err := p.target.Ensure(ctx, table(worker)); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() { p.work(ctx, t, worker) })
	}
	for range bursts {
		p.fill(ctx, t, disk, folder, rng.IntN(2<<20))
	}
	p.stop.Store(true)
	wg.Wait()
	p.check(t, "open")
	p.close(t)
	p.target = h.Open(t, folder)
	p.check(t, "opened again")
	p.close(t)
}

func (p *player) close(t *testing.T) {
	if c, ok := p.target.(io.Closer); ok {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

func table(worker int) driver.Table {
	return driver.Table{ID: fmt.Sprint("t", worker), Columns: []datatype.Column{{Name: "id", Type: datatype.Int64}, {Name: "text", Type: datatype.String}}}
}

// text returns the text of a row, which does not compress.
func text(id int64) string {
	rng := rand.New(rand.NewPCG(uint64(id), 1))
	b := make([]byte, 100+id%400)
	for i := range b {
		b[i] = byte('a' + rng.IntN(26))
	}
	return string(b)
}

// file returns the file of a worker with a number. The ids of its rows begin at number times fileRows.
func file(worker int, number int64) *driver.File {
	var csv bytes.Buffer
	for id := number * fileRows; id < (number+1)*fileRows; id++ {
		fmt.Fprintf(&csv, "\"%d\",\"%s\"\n", id, text(id))
	}
	id := fmt.Sprintf("file-%d-%d", worker, number)
	f := &driver.File{
		ID: id, SinkID: "source/sink", Table: table(worker), Rows: fileRows, RawBytes: int64(csv.Len()),
		Slices: []driver.Object{{ID: id + "-s", FileID: id, SinkID: "source/sink", Rows: fileRows, RawBytes: int64(csv.Len())}},
		OpenSlice: func(context.Context, driver.Object) (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(csv.Bytes())), nil
		},
	}
	f.SaveProgress = func(_ context.Context, progress []byte) error { // of the engine, whose disk is a different one
		f.Progress = bytes.Clone(progress)
		return nil
	}
	return f
}

// work imports one file after another, each until it succeeds, as the engine does.
func (p *player) work(ctx context.Context, t *testing.T, worker int) {
	for !p.stop.Load() {
		f := file(worker, p.imported[worker].Load())
		for {
			err := p.target.Import(ctx, f)
			if err == nil {
				break
			}
			if refused := (*driver.RowsError)(nil); ctx.Err() != nil || errors.As(err, &refused) {
				t.Errorf("import of %s: %v", f.ID, err)
				return
			}
			p.refused[worker].Add(1)
			if _, known := p.reasons.LoadOrStore(reasonOf(err), true); !known {
				t.Logf("a refusal: %.400s", err)
			}
		}
		p.imported[worker].Add(1)
		if c, ok := p.target.(driver.Compactor); ok {
			_ = c.Compact(ctx, f.Table) // the volume may be full
		}
	}
}

// reasonOf returns the end of the first line of an error, without numbers.
func reasonOf(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return strings.TrimRight(line[strings.LastIndex(line, ": ")+1:], "0123456789.")
}

// until waits for a condition.
func until(ctx context.Context, t *testing.T, what string, met func() bool) {
	t.Helper()
	for !met() {
		select {
		case <-ctx.Done():
			t.Errorf("waited in vain: %s", what)
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// fill makes the volume full but for some bytes, until each worker was refused several times, and frees it until each worker has imported again.
func (p *player) fill(ctx context.Context, t *testing.T, disk, folder string, free int) {
	t.Helper()
	all := func(counts *[workers]atomic.Int64, more int64) func() bool {
		var from [workers]int64
		for i := range counts {
			from[i] = counts[i].Load()
		}
		return func() bool {
			for i := range counts {
				if counts[i].Load() < from[i]+more {
					return false
				}
			}
			return true
		}
	}
	until(ctx, t, "each worker imports", all(&p.imported, 5))
	if p.h.Log != "" {
		until(ctx, t, "the log is nearly as long as a checkpoint needs", func() bool {
			log, err := os.Stat(filepath.Join(folder, p.h.Log))
			return err == nil && log.Size() > p.h.Checkpoint*3/4 && log.Size() < p.h.Checkpoint
		})
	}
	ballast := filepath.Join(disk, "ballast")
	before := all(&p.refused, refusals)
	occupy := occupyBytes
	if p.h.Files {
		occupy = occupyFiles
	}
	if err := occupy(ballast, free); err != nil {
		t.Fatal(err)
	}
	until(ctx, t, "each worker is refused", before)
	if err := os.RemoveAll(ballast); err != nil {
		t.Fatal(err)
	}
}

// occupyBytes writes a file until the volume is full, and then gives some bytes back.
func occupyBytes(path string, free int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	size := int64(0)
	for block := make([]byte, 1<<20); len(block) >= 4096; {
		n, err := f.Write(block)
		if size += int64(n); err != nil {
			block = block[:len(block)/2]
		}
	}
	return errors.Join(f.Truncate(max(0, size-int64(free))), f.Close())
}

// occupyFiles creates files in a folder until the volume can have no more, and then removes some, one for each 64 KiB.
func occupyFiles(path string, free int) error {
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	name := func(n int) string { return filepath.Join(path, strconv.Itoa(n)) }
	for n := 0; ; n++ {
		f, err := os.Create(name(n))
		if err == nil {
			err = f.Close()
		}
		switch {
		case errors.Is(err, syscall.ENOSPC):
			for range min(n, free>>16) {
				n--
				err = os.Remove(name(n))
				if err != nil {
					return err
				}
			}
			return nil
		case err != nil:
			return err
		}
	}
}

// check compares the tables with the files whose import succeeded.
func (p *player) check(t *testing.T, when string) {
	t.Helper()
	for worker := range workers {
		files := p.imported[worker].Load()
		stored, wrong := map[int64]int{}, 0
		for _, row := range p.h.Rows(t, p.target, p.folder, table(worker).ID) {
			id, err := strconv.ParseInt(row[0], 10, 64)
			if err != nil || row[1] != text(id) {
				if wrong++; wrong == 1 {
					t.Errorf("%s: t%d: row %s has the text %.60q of %d bytes, want %.60q", when, worker, row[0], row[1], len(row[1]), text(id))
				}
			}
			stored[id]++
		}
		lost, doubled := 0, 0
		for id := range files * fileRows {
			if stored[id] == 0 {
				lost++
			}
			doubled += max(0, stored[id]-1)
		}
		if lost+doubled+wrong > 0 || int64(len(stored)) != files*fileRows {
			t.Errorf("%s: t%d: %d rows of %d files were imported: %d are lost, %d doubled, %d have wrong texts, %d others are stored",
				when, worker, files*fileRows, files, lost, doubled, wrong, int64(len(stored))-files*fileRows+int64(lost))
		}
	}
	for worker := range workers {
		t.Logf("%s: t%d: %d files were imported, %d attempts refused", when, worker, p.imported[worker].Load(), p.refused[worker].Load())
	}
}
