package checkpoint_test

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/cluster/internal/checkpoint"
)

var benchSize = flag.Int64("mb", 64, "size of the checkpoint that the benchmarks save and fetch")

// tables is how many tables the checkpoint of the benchmarks has.
const tables = 32

// random gives bytes that no file system makes smaller.
type random struct{ *rand.PCG }

func (r random) Read(p []byte) (int, error) {
	for i := range p {
		if i%8 == 0 {
			v := r.Uint64()
			for j := i; j < min(i+8, len(p)); j++ {
				p[j] = byte(v >> (8 * (j - i)))
			}
		}
	}
	return len(p), nil
}

func makeTable(b *testing.B, from string, n int) {
	b.Helper()
	f, err := os.Create(filepath.Join(from, fmt.Sprintf("%06d.sst", n)))
	if err == nil {
		_, err = io.Copy(f, io.LimitReader(random{rand.NewPCG(uint64(n), 1)}, *benchSize<<20/tables))
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkCheckpoint saves and fetches a checkpoint of random tables, with a shared folder on the disk of the benchmark:
//
//	cd cluster && go test ./internal/checkpoint -run '^$' -bench Checkpoint -benchtime 1x -mb 1024
func BenchmarkCheckpoint(b *testing.B) {
	tmp := b.TempDir()
	from := filepath.Join(tmp, "snapshot", "local")
	if err := os.MkdirAll(from, 0o700); err != nil {
		b.Fatal(err)
	}
	for n := range tables {
		makeTable(b, from, n)
	}
	s := checkpoint.New(dir.Staging(filepath.Join(tmp, "staging")), newOwners(), checkpoint.Options{})
	number := uint64(0)
	save := func(b *testing.B, before *checkpoint.Manifest) checkpoint.Manifest {
		b.Helper()
		number++
		m, _, err := s.Save(b.Context(), filepath.Dir(from), checkpoint.Manifest{Instance: instance, Epoch: number, Number: number}, before)
		if err != nil {
			b.Fatal(err)
		}
		return m
	}
	var last checkpoint.Manifest
	b.Run("save=all", func(b *testing.B) {
		b.SetBytes(*benchSize << 20)
		for b.Loop() {
			last = save(b, nil)
		}
	})
	b.Run("save=2of32", func(b *testing.B) {
		b.SetBytes(*benchSize << 20)
		for b.Loop() {
			b.StopTimer()
			for range 2 {
				makeTable(b, from, tables+int(number))
				number++
			}
			b.StartTimer()
			last = save(b, &last)
		}
	})
	b.Run("fetch", func(b *testing.B) {
		b.SetBytes(*benchSize << 20)
		for b.Loop() {
			to := filepath.Join(tmp, "fetched")
			if err := s.Fetch(b.Context(), last, to); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			if err := os.RemoveAll(to); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	})
}
