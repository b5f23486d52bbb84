package proctest

import (
	"fmt"
	"iter"
	"strings"
)

// Audit compares rows that were acknowledged with rows that are stored.
type Audit struct {
	// Acknowledged and Stored count different rows.
	Acknowledged, Stored int
	// Lost rows were acknowledged and are not stored. Doubled rows are stored more than once. Unknown rows were not acknowledged and are stored.
	Lost, Doubled, Unknown int

	examples []string
}

// Compare returns the audit. stored has how often each row is stored.
func Compare[K comparable](acknowledged iter.Seq[K], stored map[K]int) (a Audit) {
	known := map[K]bool{}
	for row := range acknowledged {
		if known[row] {
			continue
		}
		known[row] = true
		if stored[row] == 0 {
			a.wrong(&a.Lost, "lost", row)
		}
	}
	for row, n := range stored {
		switch {
		case n > 1:
			a.wrong(&a.Doubled, "doubled", row)
		case n < 1:
			continue
		}
		if a.Stored++; !known[row] {
			a.Unknown++
		}
	}
	a.Acknowledged = len(known)
	return a
}

func (a *Audit) wrong(count *int, what string, row any) {
	if *count++; *count <= 5 {
		a.examples = append(a.examples, fmt.Sprint(what, " ", row))
	}
}

func (a Audit) String() string {
	return fmt.Sprintf("%d acknowledged rows, %d stored, %d of them not acknowledged", a.Acknowledged, a.Stored, a.Unknown)
}

// Err is nil unless a row is lost or doubled.
func (a Audit) Err() error {
	if a.Lost+a.Doubled == 0 {
		return nil
	}
	return fmt.Errorf("%d rows are lost, %d are doubled: %s", a.Lost, a.Doubled, strings.Join(a.examples, ", "))
}

// reporter is the part of [testing.TB] that [Check] needs.
type reporter interface {
	tb
	Errorf(format string, args ...any)
	Logf(format string, args ...any)
}

// Check fails the test unless each acknowledged row is stored once, and no other row twice.
func Check[K comparable](t reporter, acknowledged iter.Seq[K], stored map[K]int) Audit {
	t.Helper()
	a := Compare(acknowledged, stored)
	t.Logf("%v", a)
	if err := a.Err(); err != nil {
		t.Errorf("got %v, want each row once", err)
	}
	return a
}
