package tailrows

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

// Pieces are stored once under a name, even if a call ends in the middle or the buffer is opened again, until the name is forgotten.
func TestAppend(t *testing.T) {
	mem, folder := buffertest.NewMemory(), t.TempDir()
	open := func() (*buffer.Buffer, *buffer.DefinedSink) {
		b, err := buffer.Open(folder, buffer.Options{Staging: mem, Target: mem})
		if err != nil {
			t.Fatal(err)
		}
		sink, err := b.Define(t.Context(), buffer.SinkConfig{ID: "s/k", Table: driver.Table{ID: "rows", Columns: []datatype.Column{{Name: "id"}}}})
		if err != nil {
			t.Fatal(err)
		}
		return b, sink
	}
	piece := func(ids ...string) buffer.TailRows {
		p := buffer.TailRows{Count: len(ids)}
		for _, id := range ids {
			p.Data = fmt.Appendf(p.Data, "%q\n", id)
		}
		return p
	}
	all := []buffer.TailRows{piece("1", "2"), piece("3"), piece("4")}
	b, sink := open()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if stored, err := Append(ended, b, sink, "once", all); err == nil || stored != 0 {
		t.Errorf("a call whose context has ended stored %d rows, %v, want an error", stored, err)
	}
	for n, c := range []struct {
		pieces []buffer.TailRows
		reopen bool
		want   int64
	}{{pieces: all[:1], want: 2}, {pieces: all[:1]}, {pieces: all, reopen: true, want: 2}, {pieces: all, reopen: true}} {
		if c.reopen {
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
			b, sink = open()
		}
		if stored, err := Append(t.Context(), b, sink, "once", c.pieces); err != nil || stored != c.want {
			t.Errorf("call %d stored %d rows, %v, want %d", n, stored, err, c.want)
		}
	}
	if err := End(t.Context(), b, "s/k", "once"); err != nil {
		t.Fatal(err)
	}
	if stored, err := Append(t.Context(), b, sink, "once", all[2:]); err != nil || stored != 1 {
		t.Errorf("after End %d rows were stored, %v, want 1", stored, err)
	}
	if err := b.Sink("s/k").Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, row := range mem.Rows("rows") {
		got = append(got, row[0])
	}
	slices.Sort(got)
	if want := []string{"1", "2", "3", "4", "4"}; !slices.Equal(got, want) {
		t.Errorf("the table has %q, want %q", got, want)
	}
}
