package dir_test

import (
	"bytes"
	stdgzip "compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// A slice is many concatenated members (gzip) or frames (zstd). Chunks are compressed when they are committed, small ones
// when they are uploaded, and nothing is compressed twice. Readers of the system, of Python and of the libraries read it.
func TestSlicesAreReadByEverybody(t *testing.T) {
	for _, encoding := range []driver.Encoding{driver.Gzip, driver.Zstd} {
		t.Run(encoding.String(), func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			target := &keepingTarget{TableDir: dir.TablesWith(filepath.Join(root, "tables"), dir.TablesOptions{Gzip: true})}
			b, err := buffer.Open(filepath.Join(root, "local"), buffer.Options{
				Staging: dir.Staging(filepath.Join(root, "staging")), Target: target,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			table := driver.Table{ID: "in.c-test.t", Columns: datatype.UntypedColumns("id", "text")}
			sink, err := b.Define(t.Context(), buffer.SinkConfig{ID: "s", Table: table, Encoding: encoding})
			if err != nil {
				t.Fatal(err)
			}
			var want []byte
			id := 0
			// One commit each. A large one becomes a member at once, commits of one row wait and are packed together.
			for _, rows := range []int{300, 1, 1, 1, 300, 1, 4000} {
				var data []byte
				for range rows {
					data = fmt.Appendf(data, "\"%d\",\"%s \"\"quoted\"\"\nsecond line %x\"\n", id, strings.Repeat("ab", id%70), uint32(id)*2654435761)
					id++
				}
				ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: sink, Data: data, Count: rows})
				if err == nil {
					err = ticket.Wait(t.Context())
				}
				if err != nil {
					t.Fatal(err)
				}
				want = append(want, data...)
			}
			if err := b.Sink("s").Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			parts, err := filepath.Glob(filepath.Join(target.Path(table.ID), "*.csv.gz"))
			if err != nil || len(parts) != 1 || len(target.slices) != 1 {
				t.Fatalf("parts %q, %v, %d slices, want one each", parts, err, len(target.slices))
			}
			slice := filepath.Join(root, "slice"+encoding.Extension())
			if err := os.WriteFile(slice, target.slices[0].data, 0o600); err != nil {
				t.Fatal(err)
			}
			sliceReaders, magic := gzipReaders, []byte{0x1f, 0x8b, 8}
			if encoding == driver.Zstd {
				sliceReaders, magic = zstdReaders, []byte{0x28, 0xb5, 0x2f, 0xfd}
			}
			if n := bytes.Count(target.slices[0].data, magic); n < 4 {
				t.Fatalf("the slice has %d members, want several", n)
			}
			t.Run("slice", func(t *testing.T) { readByAll(t, sliceReaders, slice, want) })
			t.Run("part", func(t *testing.T) { readByAll(t, gzipReaders, parts[0], append([]byte("\"id\",\"text\"\n"), want...)) })
		})
	}
}

// keepingTarget keeps the stored bytes of all slices.
type keepingTarget struct {
	*dir.TableDir
	mu     sync.Mutex
	slices []keptSlice
}

type keptSlice struct {
	sink string
	data []byte
}

func (k *keepingTarget) Import(ctx context.Context, f *driver.File) error {
	for _, obj := range f.Slices {
		rc, err := f.OpenSlice(ctx, obj)
		if err != nil {
			return err
		}
		data, err := io.ReadAll(rc)
		if err := errors.Join(err, rc.Close()); err != nil {
			return err
		}
		k.mu.Lock()
		k.slices = append(k.slices, keptSlice{f.SinkID, data})
		k.mu.Unlock()
	}
	return k.TableDir.Import(ctx, f)
}

// reader is a way to read a compressed file. If its program is missing the error is [exec.ErrNotFound].
type reader struct {
	name      string
	read      func(path string) ([]byte, error)
	testsOnly bool // it only checks the file
}

// readByAll checks that all readers find the same content.
func readByAll(t *testing.T, readers []reader, path string, want []byte) {
	for _, r := range readers {
		t.Run(r.name, func(t *testing.T) {
			got, err := r.read(path)
			if errors.Is(err, exec.ErrNotFound) {
				t.Skipf("not on this machine: %v", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			if !r.testsOnly && !bytes.Equal(got, want) {
				t.Errorf("%d bytes are read, want the %d that were appended", len(got), len(want))
			}
		})
	}
}

var gzipReaders = []reader{
	{name: "gzip -t", testsOnly: true, read: command("gzip", "-t")},
	{name: "gzip -dc", read: command("gzip", "-dc")},
	{name: "python3", read: command("python3", "-c",
		"import gzip, shutil, sys\nwith gzip.open(sys.argv[1]) as f: shutil.copyfileobj(f, sys.stdout.buffer)")},
	{name: "compress/gzip", read: func(path string) ([]byte, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		zr, err := stdgzip.NewReader(f)
		if err != nil {
			return nil, err
		}
		return io.ReadAll(zr)
	}},
	{name: "driver.Decode", read: decoded(driver.Gzip)},
}

var zstdReaders = []reader{
	{name: "zstd -t", testsOnly: true, read: command("zstd", "-q", "-t")},
	{name: "zstd -dc", read: command("zstd", "-q", "-dc")},
	{name: "klauspost/zstd", read: func(path string) ([]byte, error) {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		zr, err := zstd.NewReader(nil)
		if err != nil {
			return nil, err
		}
		defer zr.Close()
		return zr.DecodeAll(data, nil)
	}},
	{name: "driver.Decode", read: decoded(driver.Zstd)},
}

func command(name string, args ...string) func(string) ([]byte, error) {
	return func(path string) ([]byte, error) {
		if _, err := exec.LookPath(name); err != nil {
			return nil, err
		}
		var stderr bytes.Buffer
		cmd := exec.Command(name, append(args[:len(args):len(args)], path)...)
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("%w: %s", err, stderr.String())
		}
		return out, nil
	}
}

func decoded(e driver.Encoding) func(string) ([]byte, error) {
	return func(path string) ([]byte, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		plain, err := driver.Decode(e, f)
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(plain)
		return data, errors.Join(err, plain.Close())
	}
}
