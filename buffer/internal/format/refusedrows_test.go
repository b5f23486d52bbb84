package format_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/internal/seedtest"
)

// Refused rows are the same after a record, whatever their places and words are. Rows with equal distances take a few bytes, others about one byte.
func TestRefusedRowsInARecord(t *testing.T) {
	rng := seedtest.Rand(t)
	said := func(n int64) format.RefusedRow {
		return format.RefusedRow{Column: "value", Reason: fmt.Sprint(n), Message: "violates the check"}
	}
	for name, c := range map[string]struct {
		refused func(row int64) bool
		words   func(row int64) int64
		most    int // bytes of the record
	}{
		"none":                       {func(int64) bool { return false }, func(int64) int64 { return 0 }, 30},
		"each":                       {func(int64) bool { return true }, func(int64) int64 { return 0 }, 120},
		"every second":               {func(row int64) bool { return row%2 == 1 }, func(int64) int64 { return 0 }, 120},
		"from the middle on":         {func(row int64) bool { return row >= 50_000 }, func(int64) int64 { return 0 }, 120},
		"half, at random":            {func(int64) bool { return rng.IntN(2) == 0 }, func(int64) int64 { return 0 }, 80_000},
		"one of a hundred":           {func(int64) bool { return rng.IntN(100) == 0 }, func(int64) int64 { return 0 }, 2500},
		"two causes, one the others": {func(int64) bool { return rng.IntN(20) == 0 }, func(row int64) int64 { return row / 30_000 }, 10_000},
		"causes that alternate":      {func(row int64) bool { return row%100 == 0 }, func(row int64) int64 { return row / 100 % 3 }, 6900},
	} {
		t.Run(name, func(t *testing.T) {
			var want []format.RefusedRow
			for row := range int64(100_000) {
				if c.refused(row) {
					r := said(c.words(row))
					r.Row = row
					want = append(want, r)
				}
			}
			rows := format.Refuse(want...)
			record, err := json.Marshal(rows)
			if err != nil {
				t.Fatal(err)
			}
			if len(record) > c.most {
				t.Errorf("a record of %d rows has %d bytes, want at most %d", len(want), len(record), c.most)
			}
			var got format.RefusedRows
			if err := json.Unmarshal(record, &got); err != nil {
				t.Fatal(err)
			}
			if got.Len() != int64(len(want)) || !slices.Equal(slices.Collect(got.All()), want) {
				t.Errorf("the record has %d other rows than the %d that were refused", got.Len(), len(want))
			}
		})
	}
}

// Files that were split by builds before the compact form have an array.
func TestRefusedRowsOfAnArray(t *testing.T) {
	var got format.RefusedRows
	err := json.Unmarshal([]byte(`[{"row":2,"column":"c","reason":"r","message":"m"},{"row":7}]`), &got)
	want := []format.RefusedRow{{Row: 2, Column: "c", Reason: "r", Message: "m"}, {Row: 7}}
	if err != nil || !slices.Equal(slices.Collect(got.All()), want) || got.Len() != 2 {
		t.Errorf("the array is %v, %v; want %v", slices.Collect(got.All()), err, want)
	}
}

// A record with wrong bytes is an error, or it has rows that ascend. It never ends the process.
func FuzzRefusedRows(f *testing.F) {
	for _, rows := range [][]format.RefusedRow{{{Row: 0}}, {{Row: 3}, {Row: 5, Reason: "r"}}, {{Row: 1}, {Row: 2}, {Row: 3}, {Row: 4}, {Row: 5}, {Row: 6}}} {
		record, _ := json.Marshal(format.Refuse(rows...))
		f.Add(record)
	}
	for _, runs := range []string{"", "AA==", "/w==", "AwD/////////////AQA=", "A/////////////8BAQA=", "AwABAQ=="} {
		f.Add(fmt.Appendf(nil, `{"words":[{}],"runs":%q}`, runs))
	}
	f.Fuzz(func(t *testing.T, record []byte) {
		var got format.RefusedRows
		if json.Unmarshal(record, &got) != nil {
			return
		}
		last, n := int64(-1), 0
		for r := range got.All() {
			if n++; r.Row <= last {
				t.Fatalf("row %d follows row %d in %q", r.Row, last, record)
			}
			if last = r.Row; n == 1000 { // a record may have any number
				return
			}
		}
		if int64(n) != got.Len() {
			t.Fatalf("%q has %d rows, and says %d", record, n, got.Len())
		}
	})
}

// The record of a file has few parts, and few bytes, however many rows the target refuses in a row, and whatever it names.
func TestPartsOfManyRefusedRows(t *testing.T) {
	for name, c := range map[string]struct{ names, from, to int64 }{
		"1000 named": {1000, 5000, 45_000},
		"one named":  {1, 500, 2500},
		"none named": {0, 500, 900},
	} {
		t.Run(name, func(t *testing.T) {
			s := format.Whole("f", 50_000)
			most := 0
			for i := s.Next(); i >= 0; i = s.Next() {
				s = s.Clone()
				p := &s.Parts[i]
				var refused []format.RefusedRow
				skip := slices.Collect(p.Skip.All())
				for row := max(p.From, c.from); row < min(p.To, c.to) && int64(len(refused)) < max(1, c.names); row++ {
					if len(skip) == 0 || !slices.ContainsFunc(skip, func(r format.RefusedRow) bool { return r.Row == row }) {
						refused = append(refused, format.RefusedRow{Row: row, Reason: "r"})
					}
				}
				if len(refused) == 0 {
					p.Imported = true
					continue
				}
				if c.names == 0 {
					refused[0].Row = -1
				}
				p.Refused = refused
				s.Replace(i, "f")
				most = max(most, len(s.Parts))
			}
			if bad := c.to - c.from; s.Poison() != bad || s.Imported() != 50_000-bad {
				t.Errorf("%d rows are refused and %d are imported, want %d and %d", s.Poison(), s.Imported(), bad, 50_000-bad)
			}
			if most > 60 || s.Size() > 10_000 {
				t.Errorf("the record had up to %d parts, and has %d bytes at last", most, s.Size())
			}
		})
	}
}
