package forebay_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping"
)

// Pieces are stored once under a name, even when a call ends in the middle, until the name is forgotten.
func TestAppendTail(t *testing.T) {
	mem := buffertest.NewMemory()
	e, err := forebay.Open(t.TempDir(), forebay.Options{Staging: mem, Target: mem})
	must(t, err)
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	mustDefine(t, e, forebay.Source{ID: "s", Sinks: []forebay.Sink{{ID: "k", Table: forebay.Table{
		ID: "in.c-test.rows", Columns: mapping.Columns{mapping.Path("id", "id", mapping.RawString())},
	}}}})
	piece := func(ids ...string) buffer.TailRows {
		p := buffer.TailRows{SinkID: "s/k", Columns: []datatype.Column{{Name: "id"}}, Count: len(ids)}
		for _, id := range ids {
			p.Data = fmt.Appendf(p.Data, "%q\n", id)
		}
		return p
	}
	all := []buffer.TailRows{piece("1", "2"), piece("3"), piece("4")}
	for n, c := range []struct {
		pieces []buffer.TailRows
		want   int64
	}{{all[:1], 2}, {all[:1], 0}, {all, 2}, {all, 0}} {
		if stored, err := e.Sink("s", "k").AppendTail(t.Context(), "once", c.pieces); err != nil || stored != c.want {
			t.Errorf("call %d has stored %d rows, %v; want %d", n, stored, err, c.want)
		}
	}
	other := piece("5")
	other.Columns = []datatype.Column{{Name: "key"}}
	for want, at := range map[error][]string{
		forebay.ErrOtherColumns: {"s", "k"}, forebay.ErrUnknownSink: {"s", "x"}, forebay.ErrUnknownSource: {"x", "k"},
	} {
		if stored, err := e.Sink(at[0], at[1]).AppendTail(t.Context(), "other", []buffer.TailRows{piece("6"), other}); !errors.Is(err, want) || stored > 0 {
			t.Errorf("got %d rows, %v; want %v", stored, err, want)
		}
	}
	if e.Sink("s", "k").HasColumns([]buffer.TailRows{other}) || !e.Sink("s", "k").HasColumns(all) || e.Sink("x", "k").HasColumns(all) {
		t.Error("HasColumns says something else than AppendTail")
	}
	if err := e.Sink("s", "k").EndTail(t.Context(), "once"); err != nil {
		t.Error(err)
	}
	if stored, err := e.Sink("s", "k").AppendTail(t.Context(), "once", all[2:]); err != nil || stored != 1 {
		t.Errorf("%d rows, %v, after the name was forgotten", stored, err)
	}
	must(t, e.FlushAll(t.Context()))
	var got []string
	for _, row := range mem.Rows("in.c-test.rows") {
		got = append(got, row[0])
	}
	slices.Sort(got)
	if want := []string{"1", "2", "3", "4", "4"}; !slices.Equal(got, want) {
		t.Errorf("the table has %q, want %q", got, want)
	}
}
