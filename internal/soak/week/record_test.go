package main

import (
	"testing"
	"time"

	"github.com/forebay/forebay/internal/seedtest"
)

// Nodes that take more on a later day fail the run, even if they take less on the last day. On the first day they may take less.
func TestMemoryThatGrows(t *testing.T) {
	for _, c := range []struct {
		first, step, last float64 // MiB on the first day, how much each day after the second adds to 100, and the reduction on the last
		day               time.Duration
		want              bool
	}{
		{20, 0, 0, 10 * time.Minute, false},
		{20, 9, 0, 10 * time.Minute, false},
		{20, 11, 0, 10 * time.Minute, true},
		{20, 13, 50, 10 * time.Minute, true},
		{100, 11, 0, 10 * time.Second, false},
	} {
		r := &recorder{cfg: config{days: maxDays}, calendar: calendar{day: c.day, days: maxDays}}
		for day := range maxDays {
			for i := range 10 {
				var s sample
				s[dayNumber], s[resident] = float64(day+1), c.first*(1<<20)
				if day > 0 {
					s[resident] = (100 + c.step*float64(day-1)) * (1 << 20)
				}
				if day == maxDays-1 {
					s[resident] -= c.last * (1 << 20)
				}
				if i == 0 { // a moment with much
					s[resident] *= 10
				}
				r.list = append(r.list, s)
			}
		}
		if err := r.grows(); (err != nil) != c.want {
			t.Errorf("got %+v: %v, want (err != nil) == %v", c, err, c.want)
		}
	}
}

// Each kind of fault comes as often as the others of its row.
func TestSequence(t *testing.T) {
	counts := map[fault]int{}
	for _, f := range sequence(seedtest.Rand(t), 180) {
		counts[f]++
	}
	want := []int{18, 20, 30}
	for i, row := range kinds {
		for _, f := range row {
			if counts[f] != want[i] {
				t.Errorf("%s happens %d times, want %d", f, counts[f], want[i])
			}
		}
	}
}
