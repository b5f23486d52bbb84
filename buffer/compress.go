package buffer

import (
	"bytes"
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/quickgzip"
)

const (
	// compressMin is the chunk size below which compression is left to the upload, where small chunks are packed
	// together, because computing codes for one row takes long, and describing them takes nearly the bytes that they
	// spare.
	compressMin = 4 << 10
	// quickFrom is how many bytes of such chunks in one group are worth a quick member each. Many small chunks at once
	// come from many busy sinks, and then the bytes cost more than to halve them, because each is written to the log, inserted
	// into the write buffer and written to a table. With fewer there is time, and the upload packs them better. Hysteresis:
	// enter above quickFrom, leave below quickFrom/4, because groups are smaller while their chunks take less time.
	quickFrom = 128 << 10
	// quickRest is how many chunks of a sink are left alone after one that did not become half as long.
	quickRest = 16
	// packParallel is how many bytes to compress make a second core worth its wake-up.
	packParallel = 128 << 10
)

// payload is the stored form of a chunk. It is valid until the compressor is reset.
type payload struct {
	encoding format.Encoding
	data     []byte
	way      packing
}

// packing says how a chunk is compressed.
type packing uint8

const (
	packNot packing = iota
	packQuick
	packWell
)

// bestPacking returns what suits the size and the sink of the chunk, without regard to its group. With a gzipLevel nothing is
// packed quickly.
func (c *chunk) bestPacking(gzipLevel int) packing {
	switch {
	case c.def.Encoding == format.None:
		return packNot
	case c.precompressed:
		return packQuick
	case len(c.data) >= compressMin:
		return packWell
	case c.def.Encoding == format.Gzip && gzipLevel == 0:
		return packQuick
	}
	return packNot
}

// payloads of the chunks of one group.
type payloads struct {
	list []payload
	size int // upper bound of the batch
	// spread is set while many sinks have a few rows each (see quickFrom).
	spread bool
}

func (p payloads) at(i int) payload { return p.list[i] }

// packer compresses the chunks of a group, on up to four cores. Its zero value is ready. It is the committer's.
type packer struct {
	gzipLevel int // Tuning.GzipLevel
	spare     int // bound of the chunks that are kept, spareBytes if 0
	lanes     [4]compressor
	list      []payload
	spread    bool
}

// pack compresses the chunks that are worth it. The result is valid until reset.
func (p *packer) pack(chunks []*chunk) payloads {
	well, quickly, precompressed := 0, 0, 0
	for _, ch := range chunks {
		pl := payload{encoding: format.None, data: ch.data, way: ch.bestPacking(p.gzipLevel)}
		switch pl.way {
		case packWell:
			well += len(ch.data)
		case packQuick:
			if ch.precompressed {
				pl.encoding = format.Gzip
				precompressed += int(ch.raw)
			} else if ch.sink.rest > 0 {
				ch.sink.rest--
				pl.way = packNot
			} else {
				quickly += len(ch.data)
			}
		}
		p.list = append(p.list, pl)
	}
	switch small := quickly + precompressed; {
	case small >= quickFrom:
		p.spread = true
	case small < quickFrom/4:
		p.spread = false
	}
	if !p.spread {
		quickly = 0
	}
	large := well > cmp.Or(p.spare, spareBytes) // its chunks are too many to be kept
	var next atomic.Int64
	work := func(lane *compressor) {
		lane.gzipLevel = p.gzipLevel
		for i := int(next.Add(1)) - 1; i < len(chunks); i = int(next.Add(1)) - 1 {
			ch, pl := chunks[i], &p.list[i]
			switch {
			case pl.way == packWell:
				pl.encoding, pl.data = ch.def.Encoding, lane.member(ch.def.Encoding, ch.data)
				if large { // then the group is not in memory twice
					ch.data = nil
				}
			case pl.way == packQuick && quickly > 0 && !ch.precompressed:
				if member := lane.quickMember(ch.data); member != nil {
					pl.encoding, pl.data = format.Gzip, member
				}
			}
		}
	}
	var others sync.WaitGroup
	for i := 1; i < min(len(p.lanes), len(chunks), runtime.GOMAXPROCS(0)) && well+quickly >= packParallel; i++ {
		others.Go(func() { work(&p.lanes[i]) })
	}
	if well+quickly > 0 {
		work(&p.lanes[0])
	}
	others.Wait()
	if p.spread {
		for i, pl := range p.list {
			ch := chunks[i]
			if pl.way == packQuick && pl.encoding == format.None {
				ch.sink.rest = quickRest
			}
			if single := pl.way == packQuick && pl.encoding == format.Gzip && ch.appends == 1; ch.sink.single.Load() != single {
				ch.sink.single.Store(single)
			}
		}
	}
	size := 0
	for _, pl := range p.list {
		size += len(pl.data) + format.ChunkHeaderSize + format.ChunkKeySize + 16
	}
	return payloads{list: p.list, size: size, spread: p.spread}
}

// reset invalidates all payloads.
func (p *packer) reset() {
	clear(p.list)
	p.list = p.list[:0]
	for i := range p.lanes {
		p.lanes[i].reset()
	}
}

const (
	// blockBytes is the size of the memory that a compressor keeps from one group to the next.
	blockBytes = 1 << 20
	// firstBlockBytes is the size of its first block.
	firstBlockBytes = 16 << 10
)

// compressor turns rows into independent gzip members or zstd frames. It keeps its encoders and a block of memory from one
// group to the next. It is not safe for concurrent use. Its zero value is ready.
type compressor struct {
	gzipLevel int // 0 for quickgzip, otherwise the level of the library
	gz        *quickgzip.LongEncoder
	library   *gzip.Writer
	zs        *zstd.Encoder
	block     []byte // members of the group. The members of earlier blocks keep these
	quick     quickgzip.Encoder
}

// room returns memory for a member of at most size bytes. A block does not grow, because the copy would need both. The next one is twice as large, so that
// the upload of a few rows does not clear a block of full size.
func (c *compressor) room(size int) []byte {
	if cap(c.block)-len(c.block) < size {
		c.block = make([]byte, 0, max(size, min(blockBytes, max(firstBlockBytes, 2*cap(c.block)))))
	}
	return c.block[len(c.block):]
}

// keep returns a member that was appended to what room has returned. Its memory is in use until reset.
func (c *compressor) keep(member []byte) []byte {
	if cap(c.block) > blockBytes && len(member) < cap(c.block)/2 { // the block, which a huge row has made, serves the next one
		return slices.Clone(member)
	}
	c.block = c.block[:len(c.block)+len(member)]
	return member
}

// quickMember is member for gzip and chunks below compressMin, without custom codes. It returns nil when that is not
// worth it.
func (c *compressor) quickMember(data []byte) []byte {
	out := c.quick.Append(c.room(quickgzip.Room(len(data))), data)
	if out == nil {
		return nil
	}
	return c.keep(out)
}

// member returns one complete member in the compressor's memory.
func (c *compressor) member(e format.Encoding, data []byte) []byte {
	switch e {
	case format.Gzip:
		if c.gzipLevel > 0 {
			return c.libraryMember(data)
		}
		if c.gz == nil {
			c.gz = new(quickgzip.LongEncoder)
		}
		return c.keep(c.gz.Append(c.room(quickgzip.Room(len(data))), data))
	case format.Zstd:
		if c.zs == nil {
			c.zs, _ = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
		}
		return c.keep(c.zs.EncodeAll(data, c.room(c.zs.MaxEncodedSize(len(data)))))
	}
	panic(fmt.Sprintf("buffer: no members of encoding %s", driver.Encoding(e)))
}

// libraryMember returns a gzip member of the library.
func (c *compressor) libraryMember(data []byte) []byte {
	out := bytes.NewBuffer(c.room(quickgzip.Room(len(data))))
	if c.library == nil {
		c.library, _ = gzip.NewWriterLevel(out, c.gzipLevel) // Options.Validate has checked the level
	} else {
		c.library.Reset(out)
	}
	_, _ = c.library.Write(data) // a bytes.Buffer does not fail
	_ = c.library.Close()
	return c.keep(out.Bytes())
}

// reset invalidates all members.
func (c *compressor) reset() {
	if cap(c.block) > blockBytes {
		c.block = nil
	}
	c.block = c.block[:0]
}
