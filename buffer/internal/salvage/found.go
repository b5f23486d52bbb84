package salvage

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/internal/pebblestore"
)

// version is a record as a store has it. rank decides between versions of the same life, revision between versions of the same rank, and seq
// between versions of the same revision.
type version[R any] struct {
	rec      R
	life     int
	rank     int64
	revision int64
	seq      uint64
}

func (v *version[R]) compare(o *version[R]) int {
	return cmp.Or(cmp.Compare(v.life, o.life), cmp.Compare(v.rank, o.rank), cmp.Compare(v.revision, o.revision), cmp.Compare(v.seq, o.seq))
}

// offer keeps the version that is furthest.
func offer[K comparable, R any](m map[K]*version[R], k K, v version[R]) {
	if old := m[k]; old == nil || v.compare(old) > 0 {
		m[k] = &v
	}
}

// chunks are the remaining chunks of one slice.
type chunks struct {
	found map[uint32]bool // true if whole
	last  uint32
	tally format.Tally // running totals of the last that is whole
	at    uint32       // its number
	rows  int64        // of the whole chunks
	raw   int64
}

// keyRange is a range of keys that were deleted. to is outside.
type keyRange struct{ from, to []byte }

// rejectAt names a rejected record.
type rejectAt struct {
	sink uint32
	seq  uint64
}

// found is everything that the tables and logs of a damaged store still hold, each record in the version that is furthest.
type found struct {
	instance            string
	lastFile, lastSlice uint64
	sinks               map[uint32]*version[format.Sink]
	files               map[uint64]*version[format.File]
	slices              map[uint64]*version[format.Slice]
	chunks              map[uint64]*chunks
	// rejects are the rejected records, bodies the keys of their records, which are written once.
	rejects    map[rejectAt]*version[format.Reject]
	bodies     map[string]bool
	lastReject uint64
	arrivals   map[uint64]*version[format.ArrivingFile]
	damage     map[string][]byte // records of earlier damage, by key
	gone       map[string]bool   // keys that were deleted
	ranges     []keyRange        // ascending and apart after join
}

func newFound() *found {
	return &found{
		sinks: map[uint32]*version[format.Sink]{}, files: map[uint64]*version[format.File]{}, slices: map[uint64]*version[format.Slice]{},
		rejects: map[rejectAt]*version[format.Reject]{}, bodies: map[string]bool{}, arrivals: map[uint64]*version[format.ArrivingFile]{},
		chunks: map[uint64]*chunks{}, damage: map[string][]byte{}, gone: map[string]bool{},
	}
}

// take notes one version of a key.
func (f *found) take(e pebblestore.Entry) error {
	switch e.Kind {
	case pebble.InternalKeyKindRangeDelete:
		f.ranges = append(f.ranges, keyRange{bytes.Clone(e.Key), bytes.Clone(e.Value)})
		return nil
	case pebble.InternalKeyKindDelete, pebble.InternalKeyKindDeleteSized, pebble.InternalKeyKindSingleDelete:
		f.gone[string(e.Key)] = true
		return nil
	case pebble.InternalKeyKindSet, pebble.InternalKeyKindSetWithDelete:
	default:
		return nil
	}
	if len(e.Key) == 0 {
		return nil
	}
	switch rest := e.Key[1:]; {
	case string(e.Key) == format.KeyInstance:
		f.instance = string(e.Value)
	case string(e.Key) == format.KeyCounters:
		file, slice, _ := format.ParseCounters(e.Value)
		f.lastFile, f.lastSlice = max(f.lastFile, file), max(f.lastSlice, slice)
	case string(e.Key) == format.KeyRejects:
		f.lastReject = max(f.lastReject, format.ParseRejects(e.Value))
	case e.Key[0] == format.PrefixReject && len(e.Key) == format.RejectKeySize:
		sink, seq, _ := format.ParseRejectKey(rest)
		f.lastReject = max(f.lastReject, seq)
		var r format.Reject
		if format.Decode(e.Value, &r) == nil && r.SinkID != "" {
			offer(f.rejects, rejectAt{sink, seq}, version[format.Reject]{rec: r, rank: int64(r.Revision), seq: e.Seq})
		}
	case e.Key[0] == format.PrefixRecord && len(e.Key) == format.RecordKeySize:
		f.bodies[string(e.Key)] = true
	case e.Key[0] == format.PrefixSink && len(rest) == 4:
		var r format.Sink
		if format.Decode(e.Value, &r) == nil && r.ID != "" {
			offer(f.sinks, binary.BigEndian.Uint32(rest), version[format.Sink]{
				rec: r, life: r.Life, rank: r.Sealed.Rows + r.Ended().Rows + r.Quarantine.Added.Rows + r.Quarantine.Left(), revision: r.Revision, seq: e.Seq,
			})
		}
	case e.Key[0] == format.PrefixFile && len(rest) == 8:
		var r format.File
		if format.Decode(e.Value, &r) == nil && r.Def != nil {
			offer(f.files, binary.BigEndian.Uint64(rest), version[format.File]{rec: r, rank: fileRank(r.State), seq: e.Seq})
		}
	case e.Key[0] == format.PrefixSlice && len(rest) == 8:
		var r format.Slice
		if format.Decode(e.Value, &r) == nil {
			offer(f.slices, binary.BigEndian.Uint64(rest), version[format.Slice]{rec: r, rank: sliceRank(r.State), revision: int64(r.Revision), seq: e.Seq})
		}
	case e.Key[0] == format.PrefixArrival && len(rest) == 8:
		num := binary.BigEndian.Uint64(rest)
		f.lastFile = max(f.lastFile, num)
		var r format.ArrivingFile
		if format.Decode(e.Value, &r) == nil && r.File.Def != nil && r.File.SinkID != "" {
			offer(f.arrivals, num, version[format.ArrivingFile]{rec: r, seq: e.Seq})
		}
	case e.Key[0] == format.PrefixChunk && len(rest) == 12:
		f.takeChunk(binary.BigEndian.Uint64(rest), binary.BigEndian.Uint32(rest[8:]), e.Value)
	case e.Key[0] == format.PrefixDamage:
		f.damage[string(e.Key)] = bytes.Clone(e.Value)
	}
	return nil
}

func (f *found) takeChunk(num uint64, seq uint32, value []byte) {
	c := f.chunks[num]
	if c == nil {
		c = &chunks{found: map[uint32]bool{}}
		f.chunks[num] = c
	}
	c.last = max(c.last, seq)
	h, _, err := format.ParseChunk(value)
	if c.found[seq] {
		return
	}
	if c.found[seq] = err == nil; err != nil {
		return
	}
	c.rows += h.Rows
	c.raw += h.Raw
	if c.tally.Rows == 0 || seq > c.at {
		c.tally, c.at = h.Slice, seq
	}
}

// fileRank orders the states as a file goes through them.
func fileRank(s format.FileState) int64 {
	return int64(slices.Index([]format.FileState{
		format.FileWriting, format.FileClosing, format.FileImporting, format.FileExpired, format.FileDiscarded, format.FileImported,
	}, s))
}

// sliceRank orders the states as a slice goes through them.
func sliceRank(s format.SliceState) int64 {
	return int64(slices.Index([]format.SliceState{
		format.SliceWriting, format.SliceUploading, format.SliceUploaded, format.SliceImported,
	}, s))
}

func (f *found) wiped(key []byte) bool {
	if f.gone[string(key)] {
		return true
	}
	i, _ := slices.BinarySearchFunc(f.ranges, key, func(r keyRange, k []byte) int {
		if bytes.Compare(r.from, k) <= 0 {
			return -1
		}
		return 1
	})
	return i > 0 && bytes.Compare(key, f.ranges[i-1].to) < 0
}

// join makes the ranges ascending and apart from each other.
func (f *found) join() {
	slices.SortFunc(f.ranges, func(a, b keyRange) int { return bytes.Compare(a.from, b.from) })
	joined := f.ranges[:0]
	for _, r := range f.ranges {
		if n := len(joined); n > 0 && bytes.Compare(r.from, joined[n-1].to) <= 0 {
			if bytes.Compare(r.to, joined[n-1].to) > 0 {
				joined[n-1].to = r.to
			}
			continue
		}
		joined = append(joined, r)
	}
	f.ranges = joined
}
