package buffer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/forebay/forebay/buffer/internal/format"
)

// A file is held for the number of its refused rows only if their numbers take more than format.MaxSplit bytes of its record.
func TestRefusedRowsThatTheRecordCannotName(t *testing.T) {
	const each = 50_000 // refused rows of a part
	named := func(parts int, apart func(i int64) int64) *format.Split {
		var skip []format.RefusedRow
		row := int64(0)
		for i := range int64(each) {
			row += apart(i)
			skip = append(skip, format.RefusedRow{Row: row, Reason: "23514"})
		}
		s := &format.Split{}
		for range parts { // the numbers of the rows do not matter here
			s.Parts = append(s.Parts, format.Part{ID: "f-p0123456789abcdef", To: 10 * each, Skip: format.Refuse(skip...)})
		}
		s.Parts[0].Refused = []format.RefusedRow{{Row: row + 1}}
		return s
	}
	irregular := func(i int64) int64 { return 1 + i*i%7 }
	for name, c := range map[string]struct {
		split *format.Split
		held  bool
	}{
		"2,000,000 rows, every second one":      {named(40, func(int64) int64 { return 2 }), false},
		"2,000,000 rows at irregular distances": {named(40, irregular), false},
		"4,000,000 rows at irregular distances": {named(80, irregular), true},
	} {
		for _, last := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", last ", last), func(t *testing.T) {
				c.split.Last = last
				why := reasonToHold(c.split, 0, int64(10*each*len(c.split.Parts)))
				if (why != "") != c.held || c.held && !strings.Contains(why, "cannot name more") {
					t.Errorf("a record of %d bytes is held because of %q, want held %t", c.split.Size(), why, c.held)
				}
			})
		}
	}
}
