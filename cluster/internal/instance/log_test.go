package instance

import (
	"testing"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/changelog"
)

// A mark is read as it was written. One that is cut, or of another version, is refused. An empty store has the zero mark.
func TestMark(t *testing.T) {
	for _, m := range []changelog.Mark{
		{Number: 1},
		{Number: 1 << 40, Before: 1 << 63, Released: changelog.Point{Position: 7e9, Epoch: 12, Node: "node-1", Number: 1<<40 - 3, Chain: 42}},
	} {
		mark := appendMark(nil, m)
		if got, err := parseMark(buffer.LogPosition{Number: m.Number, Mark: mark}); err != nil || got != m {
			t.Errorf("%+v is read as %+v: %v", m, got, err)
		}
		for n := range len(mark) - len(m.Released.Node) {
			if got, err := parseMark(buffer.LogPosition{Number: m.Number, Mark: mark[:n]}); err == nil {
				t.Errorf("%d bytes of the mark of %+v are read as %+v", n, m, got)
			}
		}
		mark[0]++
		if _, err := parseMark(buffer.LogPosition{Number: m.Number, Mark: mark}); err == nil {
			t.Error("a mark of another version is read")
		}
	}
	if got, err := parseMark(buffer.LogPosition{}); err != nil || got != (changelog.Mark{}) {
		t.Errorf("no mark is read as %+v: %v", got, err)
	}
}
