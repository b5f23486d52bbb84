package format_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/internal/seedtest"
)

// walk imports a file whose target refuses some rows and names none, and returns how many imports and rows that took.
func walk(t *testing.T, rows int64, bad ...int64) (imports int, sent int64) {
	t.Helper()
	s := format.Whole("f", rows)
	for i := s.Next(); i >= 0; i = s.Next() {
		p := s.Parts[i]
		imports++
		sent += p.Left()
		s = s.Clone()
		if !slices.ContainsFunc(bad, func(row int64) bool {
			return row >= p.From && row < p.To && !slices.ContainsFunc(slices.Collect(p.Skip.All()), func(r format.RefusedRow) bool { return r.Row == row })
		}) {
			s.Parts[i].Imported = true
			continue
		}
		s.Parts[i].Refused = []format.RefusedRow{{Row: -1, Reason: "r"}}
		s.Replace(i, "f")
	}
	if n := s.Imported(); n != rows-int64(len(bad)) || s.Poison() != int64(len(bad)) {
		t.Fatalf("%d rows are imported and %d are not, want %d", n, s.Poison(), len(bad))
	}
	return imports, sent
}

// A few refused rows of a large file are found with few imports, if the target names none. docs/quarantine.md has the figures.
func TestImportsToFindRefusedRows(t *testing.T) {
	const rows, files = 1_000_000, 200
	rng := seedtest.Rand(t)
	for _, c := range []struct{ bad, most int }{{1, 44}, {10, 400}} {
		sum, most, sent := 0, 0, int64(0)
		for range files {
			var bad []int64
			for len(bad) < c.bad {
				if row := rng.Int64N(rows); !slices.Contains(bad, row) {
					bad = append(bad, row)
				}
			}
			n, all := walk(t, rows, bad...)
			sum, most, sent = sum+n, max(most, n), sent+all
		}
		t.Logf("%d refused rows of %d: %d imports on average, at most %d, %.1f times the rows are sent", c.bad, rows, sum/files, most,
			float64(sent)/rows/files)
		if most > c.most {
			t.Errorf("%d refused rows took %d imports, want at most %d", c.bad, most, c.most)
		}
	}
}

// Rows are erased in the parts that have something to import. A part that the target has refused keeps the refusal, and nothing is named
// twice.
func TestEraseRows(t *testing.T) {
	refused := func(rows ...int64) (all []format.RefusedRow) {
		for _, row := range rows {
			all = append(all, format.RefusedRow{Row: row, Reason: "r"})
		}
		return all
	}
	s := &format.Split{Parts: []format.Part{
		{ID: "imported", From: 0, To: 10, Imported: true},
		{ID: "refused", From: 10, To: 20, Refused: refused(12), Skip: format.Refuse(refused(11)...)},
		{ID: "unnamed", From: 20, To: 30, Refused: refused(-1)},
		{ID: "given up", From: 30, To: 40, GivenUp: true},
		{ID: "open", From: 40, To: 50},
	}}
	rows := []int64{5, 10, 11, 12, 13, 25, 35, 40, 49}
	if n := s.Erase(rows); n != 5 {
		t.Errorf("%d rows are erased, want 5", n)
	}
	if n := s.Erase(rows); n != 0 {
		t.Errorf("%d rows are erased once more, want 0", n)
	}
	var got []string
	for _, p := range s.Parts {
		for _, r := range p.Refused {
			got = append(got, fmt.Sprint(p.ID, " ", r.Row, " ", r.Reason))
		}
	}
	e := format.ReasonErased
	want := []string{"refused 10 " + e, "refused 12 r", "refused 13 " + e, "unnamed 25 " + e, "open 40 " + e, "open 49 " + e}
	if !slices.Equal(got, want) {
		t.Errorf("the parts have %q, want %q", got, want)
	}
}

// However many rows are erased, a file stays one part, which may lose a damaged slice. Rows that the target has refused may cut it, because the
// target has probably not tried the rows after them. While a part waits for the target's word about erased rows, it keeps all rows.
func TestErasedRowsLeaveOnePart(t *testing.T) {
	var rows []int64
	for row := range int64(1500) {
		rows = append(rows, row, row) // named twice by a faulty caller
	}
	for _, reason := range []string{format.ReasonErased, "refused"} {
		s := format.Whole("f", 5000)
		if n := s.Erase(rows); n != 1500 {
			t.Fatalf("got %d erased rows, want 1500", n)
		}
		for i := range s.Parts[0].Refused {
			s.Parts[0].Refused[i].Reason = reason
		}
		if s.MayLose() {
			t.Errorf("%s: a row may be lost before the target has said whether it has stored the part", reason)
		}
		s.Replace(0, "f")
		want := map[string]int{format.ReasonErased: 1, "refused": 2}[reason]
		if len(s.Parts) != want || s.MayLose() != (want == 1) {
			t.Errorf("%s: got %d parts that may lose rows: %t, want %d parts", reason, len(s.Parts), s.MayLose(), want)
		}
	}
}
