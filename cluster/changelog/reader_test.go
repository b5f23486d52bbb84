package changelog_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/internal/fuzztest"
)

// entries is a log that can be read and does nothing else.
type entries struct {
	changelog.Log
	list    []changelog.Entry
	trimmed changelog.Position // the last one that is gone
	err     error              // after the entries
}

func (l entries) Read(_ context.Context, _ string, from changelog.Position) iter.Seq2[changelog.Entry, error] {
	return func(yield func(changelog.Entry, error) bool) {
		if from <= l.trimmed {
			yield(changelog.Entry{}, changelog.ErrTrimmed)
			return
		}
		for _, e := range l.list {
			if e.Position >= from && !yield(e, nil) {
				return
			}
		}
		if l.err != nil {
			yield(changelog.Entry{}, l.err)
		}
	}
}

var entryPattern = regexp.MustCompile(`^([obcz?])(\d+)([a-z])(?:(\d+)(?:\.(\d)/(\d))?)?(!)?$`)

// parseEntries reads a log from words such as o1a (a marks epoch 1), b1a7 (batch 7 of epoch 1 and node a), b1a7.2/3 (a part of it),
// c1a7 and z1a7. Each part has the chain that its writer gives it. A trailing ! changes a byte afterwards.
func parseEntries(text string) []changelog.Entry {
	var list []changelog.Entry
	type batch struct {
		number, epoch uint64
		node          string
	}
	chains := map[batch]uint64{}
	before := func(b batch) uint64 {
		for epoch := b.epoch; epoch > 0 && b.number > 1; epoch-- {
			for _, node := range []string{b.node, "a", "b", "c"} {
				if c, ok := chains[batch{b.number - 1, epoch, node}]; ok {
					return c
				}
			}
		}
		return 0
	}
	for i, word := range strings.Fields(text) {
		m := entryPattern.FindStringSubmatch(word)
		if m == nil {
			panic("entry " + word)
		}
		number := func(s string) int {
			n, _ := strconv.Atoi(s)
			return n
		}
		e := changelog.Entry{Position: changelog.Position(i + 1)}
		e.Kind, e.Epoch, e.Node, e.Number = changelog.Kind(m[1][0]), uint64(number(m[2])), m[3], uint64(number(m[4]))
		if e.Kind == changelog.Batch {
			e.Part, e.Parts = max(1, number(m[5])), max(1, number(m[6]))
			e.Data = []byte(word)
			b := batch{e.Number, e.Epoch, e.Node}
			chain := chains[b]
			if e.Part == 1 {
				chain = before(b)
			}
			e.Chain = changelog.Chain(chain, e.Record)
			chains[b] = e.Chain
			if m[7] != "" {
				e.Data[0] ^= 1
			}
		}
		list = append(list, e)
	}
	return list
}

// readAll returns the words of the batches after a point, and the last point.
func readAll(log changelog.Log, from changelog.Point) (words []string, at changelog.Point, err error) {
	at = from
	for b, err := range changelog.Batches(context.Background(), log, "i", from) {
		if err != nil {
			return words, at, err
		}
		words = append(words, string(b.Data))
		at = b.Point
	}
	return words, at, nil
}

func TestReadingRule(t *testing.T) {
	for _, c := range []struct{ name, log, want, err string }{
		{name: "empty"},
		{name: "only markers", log: "o1a o1a o1a"},
		{name: "batches", log: "o1a b1a1 b1a2 b1a3", want: "b1a1 b1a2 b1a3"},
		{name: "parts are joined", log: "o1a b1a1.1/3 b1a1.2/3 b1a1.3/3 b1a2", want: "b1a1.1/3b1a1.2/3b1a1.3/3 b1a2"},
		{name: "the next epoch goes on", log: "o1a b1a1 o2a b2a2 o5b b5b3", want: "b1a1 b2a2 b5b3"},
		{name: "checkpoints and the end", log: "o1a c1a0 b1a1 c1a1 b1a2 c1a1 z1a2", want: "b1a1 b1a2"},

		{name: "a fenced writer is void", log: "o1a b1a1 o2b b1a2 b2b2 b1a3 b2b3", want: "b1a1 b2b2 b2b3"},
		{name: "of the same node as well", log: "o1a b1a1 o2a b1a2 b2a2 b1a3 b2a3", want: "b1a1 b2a2 b2a3"},
		{name: "its other records as well", log: "o1a b1a1 o2b o1a c1a7 b2b2 z1a9", want: "b1a1 b2b2"},
		{name: "what it sent behind the marker", log: "o1a b1a1 o2b b1a2 b1a3", want: "b1a1"},
		{name: "an epoch has one node", log: "o1a o2b o2a b2a1 b2b1 c2a5 b2a2 b2b2", want: "b2b1 b2b2"},
		{name: "an incomplete batch, then another epoch", log: "o1a b1a1 b1a2.1/2 o2a b2a2", want: "b1a1 b2a2"},
		{name: "an incomplete batch, then the same again", log: "o1a b1a1.1/2 b1a1.1/3 b1a1.2/3 b1a1.3/3", want: "b1a1.1/3b1a1.2/3b1a1.3/3"},
		{name: "the rest of it behind the marker", log: "o1a b1a1.1/2 o2b b1a1.2/2 b2b1", want: "b2b1"},
		{name: "an incomplete batch at the end", log: "o1a b1a1 b1a2.1/2", want: "b1a1"},

		{name: "no marker", log: "b1a1", err: "position 1, where batch 1 should follow: no marker opens its epoch 1"},
		{name: "no marker of a later epoch", log: "o1a b1a1 b2b2", want: "b1a1", err: "position 3, where batch 2 should follow: no marker opens its epoch 2"},
		{name: "a number is missing", log: "o1a b1a1 b1a3", want: "b1a1", err: "position 3, where batch 2 should follow: batch 3, part 1 of 1, after 0 parts"},
		{name: "a number twice", log: "o1a b1a1 b1a1", want: "b1a1", err: "position 3, where batch 2"},
		{name: "the first number is missing", log: "o1a b1a2", err: "position 2, where batch 1"},
		{name: "another epoch leaves a number out", log: "o1a b1a1 o2b b2b3", want: "b1a1", err: "position 4, where batch 2"},
		{name: "a part is missing", log: "o1a b1a1.1/3 b1a1.3/3", err: "position 3, where batch 1 should follow: batch 1, part 3 of 3, after 1 parts"},
		{name: "the first part is missing", log: "o1a b1a1.2/2", err: "position 2, where batch 1"},
		{name: "the rest of a batch by another epoch", log: "o1a b1a1.1/2 o2b b2b1.2/2", err: "position 4, where batch 1 should follow: batch 1, part 2 of 2, after 0 parts"},
		{name: "parts of other batches", log: "o1a b1a1.1/2 b1a2.2/2", err: "position 3, where batch 1"},
		{name: "the number of parts changes", log: "o1a b1a1.1/2 b1a1.2/3", err: "position 3, where batch 1"},
		{name: "more parts than all", log: "o1a b1a1.2/1", err: "position 2, where batch 1"},
		{name: "an incomplete batch, then the next", log: "o1a b1a1.1/2 b1a2", err: "position 3, where batch 1"},
		{name: "a changed byte", log: "o1a b1a1 b1a2! b1a3", want: "b1a1", err: "position 3, where batch 2 should follow: the chain of batch 2, part 1 of 1, does not fit"},
		{name: "a changed byte of a part", log: "o1a b1a1.1/2 b1a1.2/2!", err: "part 2 of 2, does not fit"},
		{name: "a checkpoint of the future", log: "o1a b1a1 c1a2", want: "b1a1", err: "position 3, where batch 2 should follow: a record of kind c names batch 2"},
		{name: "the end in front of a batch", log: "o1a b1a1 z1a0", want: "b1a1", err: "names batch 0"},
		{name: "the end behind a batch that is missing", log: "o1a b1a1 z1a2", want: "b1a1", err: "names batch 2"},
		{name: "an unknown kind", log: "o1a ?1a1", err: `unknown kind '?'`},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := entries{list: parseEntries(c.log)}
			words, at, err := readAll(log, changelog.Point{})
			if got := strings.Join(words, " "); got != c.want {
				t.Errorf("%s is read as %q, want %q", c.log, got, c.want)
			}
			if c.err == "" && err != nil || c.err != "" && (!errors.Is(err, changelog.ErrHole) || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("error %v, want %q", err, c.err)
			}
			if at.Number != uint64(len(words)) {
				t.Errorf("the last batch of %q has number %d", words, at.Number)
			}
			readFromEverywhere(t, log)
		})
	}
}

// readFromEverywhere reads from each batch that counts, and again from a log that was trimmed up to there. Later batches must equal the batches a
// read from the start finds.
func readFromEverywhere(t *testing.T, log entries) {
	t.Helper()
	all, _, end := readAll(log, changelog.Point{})
	n := 0
	for b, err := range changelog.Batches(t.Context(), log, "i", changelog.Point{}) {
		if err != nil {
			return
		}
		n++
		trimmed := entries{list: log.list[b.Position:], trimmed: b.Position, err: log.err}
		for _, l := range []entries{log, trimmed} {
			rest, _, err := readAll(l, b.Point)
			if fmt.Sprint(rest) != fmt.Sprint(all[n:]) || fmt.Sprint(err) != fmt.Sprint(end) {
				t.Errorf("behind batch %d: %q, %v, want %q, %v", b.Number, rest, err, all[n:], end)
			}
		}
	}
}

func TestReadingFromAPoint(t *testing.T) {
	list := parseEntries("o1a b1a1 b1a2 o2b b2b3 b2b4")
	_, at, err := readAll(entries{list: list[:5]}, changelog.Point{})
	if err != nil || at.Number != 3 || at.Epoch != 2 || at.Node != "b" || at.Position != 5 {
		t.Fatalf("point %+v, %v", at, err)
	}
	other := at
	other.Chain++
	for _, c := range []struct {
		name string
		log  entries
		from changelog.Point
		want error
	}{
		{"it is there", entries{list: list}, at, nil},
		{"it is the start of a log behind a checkpoint", entries{list: parseEntries("o7a b7a4 b7a5")}, changelog.Point{Number: 3}, nil},
		{"another checkpoint", entries{list: parseEntries("o7a b7a4 b7a5")}, changelog.Point{Number: 2}, changelog.ErrHole},
		{"it is the last", entries{list: list[:5]}, at, nil},
		{"it is trimmed", entries{list: list[5:], trimmed: 5}, at, nil},
		{"more is trimmed", entries{list: parseEntries("o1a b1a1 b1a2 o2b b2b3 b2b4 b2b5")[6:], trimmed: 6}, at, changelog.ErrTrimmed},
		{"the start is trimmed", entries{list: list[1:], trimmed: 1}, changelog.Point{}, changelog.ErrTrimmed},
		{"the log ends in front of it", entries{list: list[:4]}, at, changelog.ErrWentBack},
		{"the log is empty", entries{}, at, changelog.ErrWentBack},
		{"another batch is there", entries{list: list}, other, changelog.ErrWentBack},
		{"a marker is there", entries{list: parseEntries("o1a b1a1 b1a2 o2b o2b b2b3")}, at, changelog.ErrWentBack},
		{"another chain follows a trimmed one", entries{list: list[5:], trimmed: 5}, other, changelog.ErrHole},
		{"the log cannot be read", entries{err: changelog.ErrMissing}, at, changelog.ErrMissing},
		{"nor read on", entries{list: list, err: changelog.ErrHole}, at, changelog.ErrHole},
	} {
		t.Run(c.name, func(t *testing.T) {
			if words, _, err := readAll(c.log, c.from); !errors.Is(err, c.want) {
				t.Errorf("got %q, %v, want %v", words, err, c.want)
			}
		})
	}
}

// Whatever the entries are, reading ends with an error or with consecutive numbers in growing epochs, and it does not depend on
// where it began.
func FuzzReader(f *testing.F) {
	target := fuzztest.New(f)
	target.Add([]byte("batches and a \x00 marker, then \x01\x21\x41 others \x02 and \x03 parts \x04"))
	target.Add([]byte{9, 9, 0x20, 9, 0x21, 9, 2, 0x40, 9, 3, 4, 1, 9, 0x61, 9})
	target.Fuzz(func(t *testing.T, script []byte) {
		words := []string{"o1a"}
		epoch, node, number := 1, "a", 0
		for _, b := range script[:min(len(script), 60)] {
			vary := int(b >> 5)
			other := string(rune('a' + vary%3))
			switch b & 15 {
			case 0:
				epoch, node = epoch+vary%2, other
				words = append(words, fmt.Sprintf("o%d%s", epoch, node))
			case 1:
				words = append(words, fmt.Sprintf("b%d%s%d", 1+vary%epoch, other, number+vary%3))
			case 2:
				words = append(words, fmt.Sprintf("b%d%s%d.1/2", epoch, node, number+1))
			case 3:
				number++
				words = append(words, fmt.Sprintf("b%d%s%d.1/2 b%d%s%d.2/2", epoch, node, number, epoch, node, number))
			case 4:
				words = append(words, fmt.Sprintf("c%d%s%d", epoch, node, number))
			default:
				number++
				words = append(words, fmt.Sprintf("b%d%s%d", epoch, node, number))
			}
		}
		log := entries{list: parseEntries(strings.Join(words, " "))}
		before := changelog.Point{}
		for b, err := range changelog.Batches(t.Context(), log, "i", before) {
			if err != nil {
				break
			}
			if b.Number != before.Number+1 || b.Epoch < before.Epoch || b.Position <= before.Position ||
				b.Epoch == before.Epoch && b.Node != before.Node {
				t.Fatalf("got %+v after %+v, want the next number at a higher position, and one node in an epoch", b.Point, before)
			}
			before = b.Point
		}
		readFromEverywhere(t, log)
	})
}
