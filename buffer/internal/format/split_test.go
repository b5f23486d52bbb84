package format_test

import (
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
