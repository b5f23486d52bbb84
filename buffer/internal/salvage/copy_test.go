package salvage

import (
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/internal/pebblestore"
)

// copied writes a copy of records as a process leaves it.
type copied struct{ text []byte }

func (c *copied) line(kind byte, num uint64, content []byte) {
	c.text = format.AppendCopyLine(c.text, kind, num, content)
}

func (c *copied) file(num uint64, state format.FileState) {
	c.line(format.PrefixFile, num, format.Encode(&format.File{Sink: 1, SinkID: "a", State: state, Def: &format.Definition{}}))
}

func (c *copied) sink(num uint64, rec format.Sink) {
	c.line(format.PrefixSink, num, format.Encode(&rec))
}

func (c *copied) slice(num, file uint64, rows int64) {
	c.line(format.PrefixSlice, num, format.Encode(&format.Slice{File: file, State: format.SliceUploaded, Tally: format.Tally{Rows: rows}, Chunks: 1}))
}

func (c *copied) name(instance string) { c.line(format.CopyInstance, 0, []byte(instance)) }

// The copy of the records is one more place that has versions of them.
func TestCopy(t *testing.T) {
	for name, tc := range map[string]struct {
		store func(s *story)
		copy  func(c *copied)
		want  string
	}{
		"records that the store has lost": {func(*story) {}, func(c *copied) {
			c.name("old")
			c.file(3, format.FileClosing)
			c.slice(5, 3, 7)
		}, `
			file 3 importing
			sink a: sealed 7 imported 0 damaged 0
			slice 5 uploaded: 7 rows of 1 chunks
			counters 3 5`},
		"the store is further than an old copy": {func(s *story) {
			s.sink(1, format.Sink{ID: "a", Sealed: format.Count{Rows: 7}, Imported: format.Count{Rows: 7}})
			s.file(3, format.FileImported)
		}, func(c *copied) {
			c.name("old")
			c.file(3, format.FileClosing)
		}, `
			file 3 imported
			sink a: sealed 7 imported 7 damaged 0
			counters 3 0`},
		"the copy is further than the store": {func(s *story) {
			s.sink(1, format.Sink{ID: "a", Sealed: format.Count{Rows: 7}, Imported: format.Count{Rows: 7}})
			s.file(3, format.FileClosing)
			s.slice(5, 3, format.SliceUploaded, 7)
		}, func(c *copied) {
			c.name("old")
			c.file(3, format.FileImported)
		}, `
			file 3 imported
			sink a: sealed 7 imported 7 damaged 0
			slice 5 imported: 7 rows of 7 chunks
			counters 3 5`},
		"a deletion that only the copy has": {func(s *story) {
			s.sink(1, format.Sink{ID: "a"})
			s.file(3, format.FileClosing)
			s.slice(5, 3, format.SliceUploaded, 7)
		}, func(c *copied) {
			c.name("old")
			c.line(format.PrefixSlice, 5, nil)
			c.line(format.PrefixFile, 3, nil)
		}, `
			sink a: sealed 0 imported 0 damaged 0
			counters 3 5`},
		"a sink that the store has lost": {func(*story) {}, func(c *copied) {
			c.name("old")
			c.sink(2, format.Sink{ID: "b", Sealed: format.Count{Rows: 7}, Imported: format.Count{Rows: 7}})
		}, `
			sink b: sealed 7 imported 7 damaged 0
			counters 0 0`},
		"the copy has a later position": {func(s *story) {
			s.sink(1, format.Sink{ID: "a", Revision: 3, Positions: map[string][]byte{"run": []byte("old")}})
		}, func(c *copied) {
			c.name("old")
			c.sink(1, format.Sink{ID: "a", Revision: 4, Positions: map[string][]byte{"run": []byte("new")}})
		}, `
			sink a: sealed 0 imported 0 damaged 0, position run is new
			counters 0 0`},
		"the store has a later position than an old copy": {func(s *story) {
			s.sink(1, format.Sink{ID: "a", Revision: 4, Positions: map[string][]byte{"run": []byte("new")}})
		}, func(c *copied) {
			c.name("old")
			c.sink(1, format.Sink{ID: "a", Revision: 3, Positions: map[string][]byte{"run": []byte("old")}})
		}, `
			sink a: sealed 0 imported 0 damaged 0, position run is new
			counters 0 0`},
		"the last line of a record counts, and a damaged line is passed over": {func(*story) {}, func(c *copied) {
			c.name("old")
			c.file(3, format.FileClosing)
			c.slice(5, 3, 6)
			c.slice(5, 3, 7)
			c.slice(5, 3, 8)
			c.text[len(c.text)-3] ^= 1
		}, `
			file 3 importing
			sink a: sealed 7 imported 0 damaged 0
			slice 5 uploaded: 7 rows of 1 chunks
			counters 3 5`},
		"the copy of a different store": {func(s *story) { s.put([]byte(format.KeyInstance), []byte("old")) }, func(c *copied) {
			c.name("older")
			c.file(3, format.FileClosing)
			c.slice(5, 3, 7)
		}, `counters 0 0`},
		"a copy without a name": {func(*story) {}, func(c *copied) {
			c.file(3, format.FileClosing)
			c.slice(5, 3, 7)
		}, `counters 0 0`},
	} {
		t.Run(name, func(t *testing.T) {
			s, c, dir := &story{f: newFound(), t: t}, &copied{}, t.TempDir()
			tc.store(s)
			tc.copy(c)
			must(t, pebblestore.WriteNote(vfs.Default, dir, format.CopyFile, string(c.text)))
			must(t, s.f.takeCopy(vfs.Default, dir))
			p := settle(s.f, &losses{at: time.Unix(1000, 0), store: "damaged-1"}, "new", format.Typed)
			got, want := tell(t, p), strings.Split(strings.ReplaceAll(strings.TrimSpace(tc.want), "\t", ""), "\n")
			if strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("the new store has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}
