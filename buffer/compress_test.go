package buffer

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/gziptest"
	"github.com/forebay/forebay/internal/pebblestore"
)

// smallChunks returns chunks of as many sinks, of size bytes each, which repeat themselves or not.
func smallChunks(n, size int, e format.Encoding, repeating bool) []*chunk {
	rng := rand.New(rand.NewPCG(1, 1))
	def := &format.Definition{Encoding: e}
	chunks := make([]*chunk, n)
	for i := range chunks {
		var text []byte
		for len(text) < size {
			if repeating {
				text = fmt.Appendf(text, "the gate %d opens when the basin is full\n", i)
			} else {
				text = append(text, byte(rng.Uint32()))
			}
		}
		chunks[i] = &chunk{sink: &sinkState{}, def: def, data: text[:size], raw: int64(size), rows: 1}
	}
	return chunks
}

// Small chunks are compressed at once when they are many, and stay as they are for the upload when they are few, when it
// gains little, and when there is no quick way.
func TestManySmallChunksAreCompressed(t *testing.T) {
	const size = 1 << 10
	for name, c := range map[string]struct {
		chunks []*chunk
		want   format.Encoding
	}{
		"many":            {smallChunks(quickFrom/size, size, format.Gzip, true), format.Gzip},
		"few":             {smallChunks(quickFrom/size-1, size, format.Gzip, true), format.None},
		"of noise":        {smallChunks(quickFrom/size, size, format.Gzip, false), format.None},
		"not compressed":  {smallChunks(quickFrom/size, size, format.None, true), format.None},
		"by another code": {smallChunks(quickFrom/size, size, format.Zstd, true), format.None},
	} {
		t.Run(name, func(t *testing.T) {
			var p packer
			for range 3 {
				stored := p.pack(c.chunks)
				size := 0
				for i, ch := range c.chunks {
					pl := stored.at(i)
					size += len(pl.data)
					if pl.encoding != c.want {
						t.Fatalf("chunk %d is stored as %s, want %s", i, driver.Encoding(pl.encoding), driver.Encoding(c.want))
					}
					plain := pl.data
					if pl.encoding == format.Gzip {
						plain = gziptest.Read(t, pl.data)
					}
					if !bytes.Equal(plain, ch.data) {
						t.Fatalf("chunk %d is %q, want %q", i, plain, ch.data)
					}
				}
				if size > stored.size {
					t.Fatalf("%d bytes, at most %d were foretold, want at most %v", size, stored.size, stored.size)
				}
				p.reset()
			}
		})
	}
}

// Large chunks become members whatever they contain, also the chunk of a row that is larger than a chunk should be.
func TestLargeChunksAreCompressed(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing runs at the same time")
	}
	var p packer
	for range 3 {
		for _, size := range []int{compressMin, compressMin + 1, 70_000, chunkBytes, 3*chunkBytes + 1} {
			for _, repeating := range []bool{true, false} {
				chunks := smallChunks(3, size, format.Gzip, repeating)
				stored := p.pack(chunks)
				for i, ch := range chunks {
					pl := stored.at(i)
					if pl.encoding != format.Gzip || !bytes.Equal(gziptest.Read(t, pl.data), ch.data) {
						t.Fatalf("chunk %d of %d bytes is stored as %d bytes of %s", i, size, len(pl.data), driver.Encoding(pl.encoding))
					}
					if repeating && len(pl.data) > size/5 || len(pl.data) > size+size/1000+50 {
						t.Errorf("chunk %d of %d bytes became %d", i, size, len(pl.data))
					}
				}
				p.reset()
			}
		}
	}
}

// With a level of the library all members are its own. Small chunks wait for the upload, and a higher level makes fewer bytes.
func TestGzipLevel(t *testing.T) {
	sizes := make(map[int]int)
	for _, level := range []int{1, 9} {
		p := packer{gzipLevel: level}
		for range 2 {
			many := smallChunks(quickFrom>>10, 1<<10, format.Gzip, true)
			for i := range many {
				if pl := p.pack(many[i : i+1]).at(i); pl.encoding != format.None {
					t.Fatalf("level %d: a small chunk is stored as %s", level, driver.Encoding(pl.encoding))
				}
			}
			p.reset()
			large := smallChunks(1, 70_000, format.Gzip, true)
			pl := p.pack(large).at(0)
			if pl.encoding != format.Gzip || !bytes.Equal(gziptest.Read(t, pl.data), large[0].data) {
				t.Fatalf("level %d: a large chunk is stored as %d bytes of %s", level, len(pl.data), driver.Encoding(pl.encoding))
			}
			sizes[level] = len(pl.data)
			p.reset()
		}
	}
	if sizes[9] >= sizes[1] {
		t.Errorf("level 9 makes %d bytes, level 1 %d", sizes[9], sizes[1])
	}
}

// Rows that do not compress are not tried again and again.
func TestSinksOfNoiseAreLeftAlone(t *testing.T) {
	var p packer
	chunks := smallChunks(200, 1<<10, format.Gzip, false)
	tried := 0
	for range 3 * (quickRest + 1) {
		for _, pl := range p.pack(chunks).list {
			if pl.way == packQuick {
				tried++
			}
		}
		p.reset()
	}
	if tried != 3*len(chunks) {
		t.Errorf("got %d attempts, want one of each %d commits", tried, quickRest+1)
	}
}

// While many sinks have the rows of one call each, callers compress them. Whatever they append instead, nothing is lost,
// doubled or out of order, and this path is left when it no longer suits.
func TestCallersCompressRowsOfManySinks(t *testing.T) {
	const size = 1 << 10
	text := func(sink, n int) []byte {
		return fmt.Appendf(nil, "%s%d,%d\n", strings.Repeat("the gate opens ", size/15), sink, n)
	}
	noise := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	b := &Buffer{}
	b.gate.init(pebblestore.NewStore(pebblestore.StoreConfig{}), 64<<20)
	sinks := make([]*DefinedSink, quickFrom/size)
	for i := range sinks {
		sinks[i] = &DefinedSink{b: b, state: &sinkState{}, def: &format.Definition{Encoding: format.Gzip}}
	}
	texts := func(n int) func(int) [][]byte {
		return func(sink int) (rows [][]byte) {
			for i := range n {
				rows = append(rows, text(sink, i))
			}
			return rows
		}
	}
	var p packer
	for i, c := range []struct {
		rows          func(sink int) [][]byte // of one sink, each in a separate Append
		sinks         int                     // how many have rows
		precompressed int                     // chunks with members of callers for each sink
		chunks        int                     // all chunks of a sink
		members       int                     // of the chunks of a sink
	}{
		{texts(1), len(sinks), 0, 1, 1},
		{texts(1), len(sinks), 1, 1, 1},
		{texts(2), len(sinks), 1, 1, 2}, // more than expected
		{texts(2), len(sinks), 0, 1, 1},
		{texts(1), len(sinks), 0, 1, 1},
		{texts(1), len(sinks), 1, 1, 1},
		{texts(1), len(sinks) / 3, 1, 1, 1}, // still enough
		{func(sink int) [][]byte { return [][]byte{text(sink, 0), noise, text(sink, 1)} }, len(sinks) / 3, 1, 2, 1},
		{texts(1), len(sinks) / 3, 0, 1, 0}, // the chunk with noise has said that it is not worth it
		{texts(5), len(sinks) / 3, 0, 1, 1}, // long enough for the usual way
		{texts(1), 3, 0, 1, 0},              // too few
	} {
		for k, s := range sinks[:c.sinks] {
			for _, row := range c.rows(k) {
				s.append(&Rows{Data: row, Count: 1}, 1, false)
			}
		}
		g := b.gate.cur
		b.gate.cur = newGroup(g.seq + 1)
		stored := p.pack(g.chunks)
		b.gate.spread.Store(stored.spread)
		got, plain := make(map[*sinkState]*[3]int), make(map[*sinkState][]byte)
		for at, ch := range g.chunks {
			ch.sink.open = nil
			if got[ch.sink] == nil {
				got[ch.sink] = new([3]int)
			}
			pl, rows := stored.at(at), []byte(nil)
			if rows = pl.data; pl.encoding == format.Gzip {
				rows = gziptest.Read(t, pl.data)
				got[ch.sink][2] += bytes.Count(pl.data, []byte("\x1f\x8b\x08\x00"))
			}
			if ch.precompressed {
				got[ch.sink][0]++
			}
			got[ch.sink][1]++
			plain[ch.sink] = append(plain[ch.sink], rows...)
			if int64(len(rows)) != ch.raw || ch.rows < int64(ch.appends) {
				t.Fatalf("step %d: a chunk of %d bytes and %d rows says %d bytes of %d calls", i, len(rows), ch.rows, ch.raw, ch.appends)
			}
		}
		for k, s := range sinks[:c.sinks] {
			if want := bytes.Join(c.rows(k), nil); !bytes.Equal(plain[s.state], want) {
				t.Fatalf("step %d: sink %d has %q, want %q", i, k, plain[s.state], want)
			}
			if want := [3]int{c.precompressed, c.chunks, c.members}; *got[s.state] != want {
				t.Errorf("step %d: sink %d has %d precompressed chunks, chunks and members, want %d", i, k, *got[s.state], want)
				break
			}
		}
		p.reset()
	}
}
