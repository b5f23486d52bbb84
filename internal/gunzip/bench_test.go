package gunzip_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/forebay/forebay/internal/gunzip"
	"github.com/forebay/forebay/internal/quickgzip"
)

// BenchmarkRead reads slices of members of several sizes, with this package and with the library.
//
//	go test ./internal/gunzip -run '^$' -bench Read -count 10 | benchstat -col /reader -
func BenchmarkRead(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{1 << 10, 4 << 10, 16 << 10, 128 << 10} {
		var slice []byte
		total := 0
		for ; total < 1<<20; total += size {
			text := rows(rng, size)
			var short quickgzip.Encoder
			var long quickgzip.LongEncoder
			var m []byte
			room := make([]byte, 0, quickgzip.Room(size))
			if size < 4<<10 {
				m = short.Append(room, text)
			}
			if m == nil {
				m = long.Append(room, text)
			}
			slice = append(slice, m...)
		}
		run := func(name string, open func(io.Reader) (io.ReadCloser, error)) {
			b.Run(fmt.Sprintf("size=%d/reader=%s", size, name), func(b *testing.B) {
				b.SetBytes(int64(total))
				b.ReportAllocs()
				for b.Loop() {
					r, err := open(bytes.NewReader(slice))
					if err != nil {
						b.Fatal(err)
					}
					if n, err := io.Copy(io.Discard, struct{ io.Reader }{r}); err != nil || n != int64(total) {
						b.Fatal(n, err)
					}
					r.Close()
				}
			})
		}
		run("own", func(src io.Reader) (io.ReadCloser, error) { return gunzip.NewReader(src) })
		run("library", func(src io.Reader) (io.ReadCloser, error) { return gzip.NewReader(src) })
	}
}
