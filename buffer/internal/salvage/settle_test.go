package salvage

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/internal/pebblestore"
)

// story is a damaged store, made of the records that were written to it, in any order of time.
type story struct {
	f   *found
	seq uint64
	t   *testing.T
}

func (s *story) put(key, value []byte) {
	s.seq++
	if err := s.f.take(pebblestore.Entry{Kind: pebble.InternalKeyKindSet, Key: key, Value: value, Seq: s.seq}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *story) remove(key []byte) {
	s.seq++
	_ = s.f.take(pebblestore.Entry{Kind: pebble.InternalKeyKindDelete, Key: key, Seq: s.seq})
}

func (s *story) sink(num uint32, r format.Sink) { s.put(format.SinkKey(num), format.Encode(&r)) }

func (s *story) file(num uint64, state format.FileState) {
	s.put(format.FileKey(num), format.Encode(&format.File{Instance: "old", Sink: 1, SinkID: "a", State: state, Def: &format.Definition{}}))
}

func (s *story) slice(num, file uint64, state format.SliceState, rows int64) {
	r := format.Slice{Instance: "old", File: file, State: state}
	if state != format.SliceWriting {
		r.Tally, r.Chunks = format.Tally{Rows: rows, Raw: 10 * rows}, uint32(rows)
	}
	s.put(format.SliceKey(num), format.Encode(&r))
}

// chunks writes chunks of one row. The chunks in bad are damaged.
func (s *story) chunks(slice uint64, n int64, bad ...int64) {
	for i := range n {
		key, value := make([]byte, format.ChunkKeySize), make([]byte, format.ChunkHeaderSize)
		format.PutChunkKey(key, slice, uint32(i))
		format.PutChunkHeader(value, format.ChunkHeader{Rows: 1, Raw: 10, Slice: format.Tally{Rows: i + 1, Raw: 10 * (i + 1)}})
		if slices.Contains(bad, i) {
			value[0] ^= 1
		}
		s.put(key, value)
	}
}

// tell returns the plan as lines, the contents of the new store, and the losses that are reported.
func tell(t *testing.T, p *plan) (lines []string) {
	for _, r := range p.records {
		var line string
		switch num := uint64(r.key[len(r.key)-1]); r.key[0] {
		case format.PrefixSink:
			var v format.Sink
			must(t, format.Decode(r.value, &v))
			line = fmt.Sprintf("sink %s: sealed %d imported %d damaged %d", v.ID, v.Sealed.Rows, v.Imported.Rows, v.Damaged.Rows)
			for _, name := range slices.Sorted(maps.Keys(v.Positions)) {
				line += fmt.Sprintf(", position %s is %s", name, v.Positions[name])
			}
		case format.PrefixFile:
			var v format.File
			must(t, format.Decode(r.value, &v))
			line = fmt.Sprintf("file %d %s", num, v.State)
		case format.PrefixSlice:
			var v format.Slice
			must(t, format.Decode(r.value, &v))
			line = fmt.Sprintf("slice %d %s: %d rows of %d chunks", num, v.State, v.Rows, v.Chunks)
			if v.Salvaged {
				line += ", perhaps in staging"
			}
			if v.Uncounted {
				line += ", perhaps more"
			}
			if p.keep[num] {
				line += ", with chunks"
			}
		case 'm':
			if string(r.key) == format.KeyCounters {
				file, slice, _ := format.ParseCounters(r.value)
				line = fmt.Sprintf("counters %d %d", file, slice)
			}
		}
		if line != "" {
			lines = append(lines, line)
		}
	}
	for _, d := range p.list {
		lines = append(lines, fmt.Sprintf("lost: sink %q slice %q rows %d", d.SinkID, d.SliceID, d.Rows))
	}
	return lines
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
}

func TestSettle(t *testing.T) {
	for name, c := range map[string]struct {
		write func(s *story)
		want  string
	}{
		"nothing is left": {func(*story) {}, `counters 0 0`},
		"the furthest version of a record counts, whatever was written last": {func(s *story) {
			s.sink(1, format.Sink{ID: "a", Sealed: format.Count{Rows: 5}, Imported: format.Count{Rows: 5}})
			s.sink(1, format.Sink{ID: "a"})
			s.file(7, format.FileImported)
			s.file(7, format.FileWriting)
			s.put([]byte(format.KeyCounters), format.EncodeCounters(9, 3))
			s.put([]byte(format.KeyCounters), format.EncodeCounters(8, 4))
		}, `
			file 7 imported
			sink a: sealed 5 imported 5 damaged 0
			counters 9 4`},
		"a forgotten sink has a new life": {func(s *story) {
			s.sink(1, format.Sink{ID: "a", Life: 1})
			s.sink(1, format.Sink{ID: "a", Sealed: format.Count{Rows: 5}, Imported: format.Count{Rows: 5}})
		}, `
			sink a: sealed 0 imported 0 damaged 0
			counters 0 0`},
		"an open slice is sealed with its whole chunks": {func(s *story) {
			s.sink(1, format.Sink{ID: "a"})
			s.file(1, format.FileWriting)
			s.slice(2, 1, format.SliceWriting, 0)
			s.chunks(2, 3)
		}, `
			file 1 closing
			sink a: sealed 3 imported 0 damaged 0
			slice 2 uploading: 3 rows of 3 chunks, perhaps in staging, with chunks
			counters 1 2`},
		"an open slice whose last chunk is damaged has at least one row more": {func(s *story) {
			s.sink(1, format.Sink{ID: "a"})
			s.file(1, format.FileWriting)
			s.slice(2, 1, format.SliceWriting, 0)
			s.chunks(2, 3, 2)
		}, `
			file 1 closing
			sink a: sealed 3 imported 0 damaged 0
			slice 2 uploading: 3 rows of 3 chunks, perhaps in staging, perhaps more, with chunks
			counters 1 2`},
		"a sealed slice keeps its totals": {func(s *story) {
			s.sink(1, format.Sink{ID: "a", Sealed: format.Count{Rows: 3, Bytes: 30}})
			s.file(1, format.FileClosing)
			s.slice(2, 1, format.SliceUploading, 3)
			s.chunks(2, 3, 1)
		}, `
			file 1 closing
			sink a: sealed 3 imported 0 damaged 0
			slice 2 uploading: 3 rows of 3 chunks, perhaps in staging, with chunks
			counters 1 2`},
		"a file whose slices are all in staging is imported": {func(s *story) {
			s.sink(1, format.Sink{ID: "a", Sealed: format.Count{Rows: 3}})
			s.file(1, format.FileClosing)
			s.slice(2, 1, format.SliceUploaded, 3)
		}, `
			file 1 importing
			sink a: sealed 3 imported 0 damaged 0
			slice 2 uploaded: 3 rows of 3 chunks
			counters 1 2`},
		"the record of a sink is lost": {func(s *story) {
			s.file(1, format.FileClosing)
			s.slice(2, 1, format.SliceUploaded, 3)
		}, `
			file 1 importing
			sink a: sealed 3 imported 0 damaged 0
			slice 2 uploaded: 3 rows of 3 chunks
			counters 1 2`},
		"the record of a file is lost": {func(s *story) {
			s.sink(1, format.Sink{ID: "a", Sealed: format.Count{Rows: 3}})
			s.slice(2, 1, format.SliceUploading, 3)
			s.chunks(2, 3)
		}, `
			sink a: sealed 3 imported 0 damaged 3
			counters 1 2
			lost: sink "" slice "old-s000000000002" rows 3
			lost: sink "a" slice "" rows 3`},
		"the record of a slice is lost": {func(s *story) {
			s.put([]byte(format.KeyInstance), []byte("old"))
			s.chunks(2, 3)
		}, `
			counters 0 2
			lost: sink "" slice "old-s000000000002" rows 3`},
		"what was deleted does not come back": {func(s *story) {
			s.sink(1, format.Sink{ID: "a", Sealed: format.Count{Rows: 3}, Imported: format.Count{Rows: 3}})
			s.remove(format.FileKey(1))
			s.remove(format.SliceKey(2))
			s.file(1, format.FileImporting)
			s.slice(2, 1, format.SliceUploaded, 3)
			s.chunks(2, 3)
		}, `
			sink a: sealed 3 imported 3 damaged 0
			counters 1 2`},
		"rows that no record speaks of are damaged": {func(s *story) {
			s.sink(1, format.Sink{ID: "a", Sealed: format.Count{Rows: 9}, Imported: format.Count{Rows: 4}})
		}, `
			sink a: sealed 9 imported 4 damaged 5
			counters 0 0
			lost: sink "a" slice "" rows 5`},
	} {
		t.Run(name, func(t *testing.T) {
			s := &story{f: newFound(), t: t}
			c.write(s)
			lost := &losses{at: time.Unix(1000, 0), store: "damaged-1"}
			got := strings.Join(tell(t, settle(s.f, lost, "new", format.Newest)), "\n")
			var want []string
			for line := range strings.Lines(strings.TrimSpace(c.want)) {
				want = append(want, strings.TrimSpace(line))
			}
			if got != strings.Join(want, "\n") {
				t.Errorf("the plan is\n%s\nwant\n%s", got, strings.Join(want, "\n"))
			}
			for _, d := range lost.list {
				if d.At != lost.at || d.Store != lost.store || d.Reason == "" {
					t.Errorf("damage without time, store or reason: %+v", d)
				}
			}
		})
	}
}

func TestDeletedRanges(t *testing.T) {
	f := newFound()
	for _, r := range [][2]string{{"m", "p"}, {"a", "c"}, {"o", "q"}, {"b", "d"}, {"x", "y"}} {
		_ = f.take(pebblestore.Entry{Kind: pebble.InternalKeyKindRangeDelete, Key: []byte(r[0]), Value: []byte(r[1])})
	}
	_ = f.take(pebblestore.Entry{Kind: pebble.InternalKeyKindDelete, Key: []byte("k")})
	f.join()
	var wiped strings.Builder
	for key := byte('a'); key <= 'z'; key++ {
		if f.wiped([]byte{key}) {
			wiped.WriteByte(key)
		}
	}
	if wiped.String() != "abckmnopx" {
		t.Errorf("%s were deleted, want \"abckmnopx\"", wiped.String())
	}
}

// A file is a loss if no record of its slices is left. Otherwise it would wait forever.
func TestSettleFileWithoutSlices(t *testing.T) {
	s := &story{f: newFound(), t: t}
	s.sink(1, format.Sink{ID: "a"})
	s.file(1, format.FileClosing)
	p := settle(s.f, &losses{at: time.Unix(1000, 0)}, "new", format.Typed)
	if got := strings.Join(tell(t, p), "; "); !strings.Contains(got, `lost: sink "a"`) || strings.Contains(got, "file 1") {
		t.Errorf("the plan is %s, want a loss and no file", got)
	}
}

// The new store has the version that its definitions need: an earlier release would import the rows of a named target into the first.
func TestSettleKeepsTheVersionOfNamedTargets(t *testing.T) {
	def := &format.Definition{Table: format.Table{ID: "t", Target: "lake"}}
	for name, write := range map[string]func(s *story){
		"of a sink": func(s *story) { s.sink(1, format.Sink{ID: "a", Def: def}) },
		"of a file": func(s *story) {
			s.sink(1, format.Sink{ID: "a"})
			s.put(format.FileKey(1), format.Encode(&format.File{Instance: "old", Sink: 1, SinkID: "a", State: format.FileClosing, Def: def}))
			s.slice(1, 1, format.SliceUploaded, 2)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &story{f: newFound(), t: t}
			write(s)
			for _, r := range settle(s.f, &losses{at: time.Unix(1000, 0)}, "new", format.Typed).records {
				if string(r.key) == format.KeyFormat && string(r.value) != "5" {
					t.Errorf("the new store has the version %s, want 5", r.value)
				}
			}
		})
	}
}

// The new store gets each chunk of a slice that waits on the local level, and gets it once.
func TestWantsChunksOnce(t *testing.T) {
	s := &story{f: newFound(), t: t}
	s.chunks(1, 1)
	p := &plan{found: s.f, losses: &losses{}, keep: map[uint64]bool{1: true}}
	written := map[uint64]map[uint32]bool{}
	for i, c := range []struct {
		slice uint64
		want  bool
	}{{1, true}, {1, false}, {2, false}} {
		key, value := make([]byte, format.ChunkKeySize), make([]byte, format.ChunkHeaderSize)
		format.PutChunkKey(key, c.slice, 0)
		format.PutChunkHeader(value, format.ChunkHeader{Rows: 1, Raw: 10, Slice: format.Tally{Rows: 1, Raw: 10}})
		if got := p.wants(pebblestore.Entry{Kind: pebble.InternalKeyKindSet, Key: key, Value: value}, written); got != c.want {
			t.Errorf("call %d, a chunk of slice %d: %v, want %v", i, c.slice, got, c.want)
		}
	}
}

// A chunk that is found twice, in a log and in a table, counts once.
func TestChunkThatIsFoundTwiceCountsOnce(t *testing.T) {
	s := &story{f: newFound(), t: t}
	s.chunks(1, 3)
	s.chunks(1, 3)
	if c := s.f.chunks[1]; c.rows != 3 || c.last != 2 || c.tally.Rows != 3 {
		t.Errorf("%d rows up to chunk %d, the totals are %+v; want 3 rows up to chunk 2", c.rows, c.last, c.tally)
	}
}
