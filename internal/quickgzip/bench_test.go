package quickgzip

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/gzip"
)

// BenchmarkMember compares the encoders with level 1 of the library, on rows in chunks of the sizes that commits make.
//
//	go test ./internal/quickgzip -run '^$' -bench Member -count 10 | benchstat -col /encoder -
func BenchmarkMember(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{1 << 10, 16 << 10, 128 << 10} {
		rows := csvRows(rng, size, 9)
		var written int
		run := func(name string, encode func() int) {
			b.Run(fmt.Sprintf("size=%d/encoder=%s", size, name), func(b *testing.B) {
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					written = encode()
				}
				b.ReportMetric(float64(written)/float64(size), "of_text")
			})
		}
		dst := make([]byte, 0, Room(size))
		if size < 4<<10 {
			var short Encoder
			run("short", func() int { return len(short.Append(dst, rows)) })
		}
		var long LongEncoder
		run("long", func() int { return len(long.Append(dst, rows)) })
		var count counter
		library, err := gzip.NewWriterLevel(&count, gzip.BestSpeed)
		if err != nil {
			b.Fatal(err)
		}
		run("library", func() int {
			count = 0
			library.Reset(&count)
			if _, err := library.Write(rows); err != nil {
				b.Fatal(err)
			}
			if err := library.Close(); err != nil {
				b.Fatal(err)
			}
			return int(count)
		})
	}
}

// counter counts the bytes that are written to it.
type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
