package changelog_test

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/internal/fuzztest"
)

func fieldsOf(r changelog.Record) map[string]string {
	fields := map[string]string{}
	r.Fields(func(key, value string) { fields[key] = value })
	return fields
}

func parseFields(fields map[string]string) (changelog.Record, error) {
	return changelog.ParseFields(func(key string) string { return fields[key] })
}

func TestFields(t *testing.T) {
	for _, c := range []struct {
		r    changelog.Record
		want map[string]string
	}{
		{
			changelog.Record{Kind: changelog.Opened, Epoch: 7, Node: "a"},
			map[string]string{"Fb-K": "o", "Fb-E": "7", "Fb-N": "0", "Fb-Node": "a"},
		},
		{
			changelog.Record{Kind: changelog.Batch, Epoch: math.MaxUint64, Number: 12, Part: 2, Parts: 3, Chain: 0xab, Node: "zone-1/a:b"},
			map[string]string{
				"Fb-K": "b", "Fb-E": "18446744073709551615", "Fb-N": "12", "Fb-P": "2/3", "Fb-C": "00000000000000ab", "Fb-Node": "zone-1/a:b",
			},
		},
		{
			changelog.Record{Kind: changelog.Checkpoint, Epoch: 1, Number: 3, Node: "a"},
			map[string]string{"Fb-K": "c", "Fb-E": "1", "Fb-N": "3", "Fb-Node": "a"},
		},
		{
			changelog.Record{Kind: changelog.Closed, Epoch: 1, Number: 3, Node: "a"},
			map[string]string{"Fb-K": "z", "Fb-E": "1", "Fb-N": "3", "Fb-Node": "a"},
		},
	} {
		got := fieldsOf(c.r)
		if len(got) != len(c.want) {
			t.Errorf("%+v has the fields %v, want %v", c.r, got, c.want)
		}
		for key, value := range c.want {
			if got[key] != value {
				t.Errorf("%+v has %s: %q, want %q", c.r, key, got[key], value)
			}
		}
		if back, err := parseFields(got); err != nil || !equalRecords(back, c.r) {
			t.Errorf("fields of %+v are read as %+v, %v", c.r, back, err)
		}
	}
}

func equalRecords(a, b changelog.Record) bool {
	same := bytes.Equal(a.Data, b.Data)
	a.Data, b.Data = nil, nil
	return same && a.Kind == b.Kind && a.Epoch == b.Epoch && a.Number == b.Number && a.Part == b.Part && a.Parts == b.Parts &&
		a.Chain == b.Chain && a.Node == b.Node
}

func TestFieldsAreReadStrictly(t *testing.T) {
	good := changelog.Record{Kind: changelog.Batch, Epoch: 1, Number: 2, Part: 1, Parts: 2, Chain: 3, Node: "a"}
	for _, c := range []struct{ key, value string }{
		{"Fb-K", ""},
		{"Fb-K", "x"},
		{"Fb-K", "bb"},
		{"Fb-K", "o"}, // with the fields of a batch
		{"Fb-E", ""},
		{"Fb-E", "01"},
		{"Fb-E", "+1"},
		{"Fb-E", "-1"},
		{"Fb-E", "1 "},
		{"Fb-E", "18446744073709551616"},
		{"Fb-N", "0x2"},
		{"Fb-P", ""},
		{"Fb-P", "1"},
		{"Fb-P", "0/1"},
		{"Fb-P", "3/2"},
		{"Fb-P", "1/02"},
		{"Fb-P", "1/2/3"},
		{"Fb-P", "1/99999999999999999999"},
		{"Fb-C", ""},
		{"Fb-C", "3"},
		{"Fb-C", "000000000000000G"},
		{"Fb-C", "00000000000000AB"},
		{"Fb-C", "00000000000000003"},
		{"Fb-Node", ""},
		{"Fb-Node", "a b"},
		{"Fb-Node", "a\r\nFb-E: 9"},
		{"Fb-Node", "ä"},
		{"Fb-Node", "\xff"},
		{"Fb-Node", strings.Repeat("a", 129)},
	} {
		fields := fieldsOf(good)
		fields[c.key] = c.value
		if r, err := parseFields(fields); err == nil || !strings.Contains(err.Error(), "field "+c.key) && c.value != "o" {
			t.Errorf("%s: %q is read as %+v, %v", c.key, c.value, r, err)
		}
	}
}

// What is read is written in the same way again, so no two texts are one record.
func FuzzFields(f *testing.F) {
	target := fuzztest.New(f)
	target.Add("b", "1", "2", "1/2", "00000000000000ab", "a")
	target.Add("o", "9", "0", "", "", "node-1")
	target.Fuzz(func(t *testing.T, kind, epoch, number, part, chain, node string) {
		fields := map[string]string{"Fb-K": kind, "Fb-E": epoch, "Fb-N": number, "Fb-P": part, "Fb-C": chain, "Fb-Node": node}
		r, err := parseFields(fields)
		if err != nil {
			return
		}
		again := fieldsOf(r)
		for key, value := range fields {
			if again[key] != value {
				t.Errorf("%s: %q is written as %q, want %v", key, value, again[key], value)
			}
		}
	})
}

// Whatever differs between two records gives another chain, even if bytes move between fields.
func TestChain(t *testing.T) {
	r := changelog.Record{Kind: changelog.Batch, Epoch: 1, Number: 2, Part: 3, Parts: 4, Data: []byte("row")}
	seen := map[uint64]string{}
	add := func(name string, before uint64, r changelog.Record) {
		t.Helper()
		c := changelog.Chain(before, r)
		if other, ok := seen[c]; ok {
			t.Errorf("%s and %s have the same chain", name, other)
		}
		seen[c] = name
	}
	add("first", 0, r)
	add("chain before", 1, r)
	for name, change := range map[string]func(*changelog.Record){
		"number":   func(r *changelog.Record) { r.Number = 3 },
		"part":     func(r *changelog.Record) { r.Part = 4 },
		"parts":    func(r *changelog.Record) { r.Parts = 3 },
		"data":     func(r *changelog.Record) { r.Data = []byte("rox") },
		"no data":  func(r *changelog.Record) { r.Data = nil },
		"one more": func(r *changelog.Record) { r.Data = []byte("row\x00") },
	} {
		other := r
		change(&other)
		add(name, 0, other)
	}
	again := r
	again.Epoch, again.Node = 2, "b"
	if changelog.Chain(0, again) != changelog.Chain(0, r) {
		t.Error("a batch that is appended again has another chain")
	}
	if got := changelog.Chain(0, r); got != frozenChain {
		t.Errorf("the chain is %#x, was %#x: logs in use could not be read any more", got, uint64(frozenChain))
	}
}

const frozenChain = 0x6cf2bb88dfb8df62

// A record of a later format differs from a damaged one. No reader may report the log as damaged because of it.
func TestRecordOfALaterFormat(t *testing.T) {
	for text, newer := range map[string]bool{"2": true, "18446744073709551615": true, "1": false, "0": false, "02": false, "x": false} {
		for _, fields := range []map[string]string{{"Fb-F": text}, {"Fb-F": text, "Fb-K": "q", "Fb-E": "none"}} {
			if r, err := parseFields(fields); err == nil || errors.Is(err, changelog.ErrNewer) != newer {
				t.Errorf("%v is read as %+v, %v", fields, r, err)
			}
		}
	}
}
