package buffer_test

import (
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
)

// A held file holds no later file of its sink. Good rows of later files arrive at their first import.
func TestHeldFileHoldsNoLaterFile(t *testing.T) {
	for name, c := range map[string]struct {
		names, rows int
		sink        func(*buffer.SinkConfig)
		refused     func(int) bool
	}{
		"all 20 rows, named":      {0, 20, quarantined(), func(int) bool { return true }},
		"all 20 rows, one named":  {1, 20, quarantined(), func(int) bool { return true }},
		"all 20 rows, none named": {-1, 20, quarantined(), func(int) bool { return true }},
		"HoldFiles":               {0, 20, quarantined(func(q *buffer.QuarantineBounds) { q.HoldFiles = true }), func(i int) bool { return i == 3 }},
		"a full quarantine":       {0, 20, quarantined(func(q *buffer.QuarantineBounds) { q.MaxRecords = 2 }), func(i int) bool { return i < 5 }},
	} {
		t.Run(name, func(t *testing.T) {
			withRefusing(t, c.names, func(t *testing.T, mem *buffertest.Memory, opts buffer.Options) {
				b := open(t, opts)
				s := define(t, b, "a", c.sink, func(c *buffer.SinkConfig) { c.Upload.Interval, c.Import.Interval = time.Second, time.Minute })
				putRows(t, b, s, c.rows, c.refused)
				time.Sleep(5 * time.Minute)
				if st, _ := b.SinkStats("a"); len(st.Files) == 0 || !st.Files[0].Permanent {
					t.Fatalf("the first file is %+v, want it held", st.Files)
				}
				before := len(mem.Rows(tableA))
				for round := range 5 {
					for i := range 10 {
						put1(t, b, s, 1000+10*round+i, "v")
					}
					time.Sleep(70 * time.Second) // the interval of imports, and the upload
					if got, want := len(mem.Rows(tableA)), before+10*(round+1); got != want {
						t.Errorf("after %d later files the table has %d rows, want %d", round+1, got, want)
					}
				}
				verify(t, b)
			})
		})
	}
}

// More refused rows than a file may name, and a quarantine without room: the good rows that precede the 10,001st refused row arrive.
func TestGoodRowsOfAFileWithTooManyRefusedRows(t *testing.T) {
	skipManyRows(t)
	const rows, good = 10_600, 300
	for name, first := range map[string]int{"first": 0, "in the middle": 5000} {
		t.Run(name, func(t *testing.T) {
			withRefusing(t, 0, func(t *testing.T, mem *buffertest.Memory, opts buffer.Options) {
				b := open(t, opts)
				s := define(t, b, "a", quarantined(func(q *buffer.QuarantineBounds) { q.MaxRecords = 50 }), func(c *buffer.SinkConfig) {
					c.Upload.Interval, c.Import.Interval = time.Minute, time.Minute
				})
				putAtOnce(t, b, s, rows, func(i int) bool { return i < first || i >= first+good })
				time.Sleep(10 * time.Minute)
				st, _ := b.SinkStats("a")
				if got := len(mem.Rows(tableA)); got != good {
					t.Errorf("the table has %d of %d good rows, and the files are %+v", got, good, st.Files)
				}
				verify(t, b)
			})
		})
	}
}
