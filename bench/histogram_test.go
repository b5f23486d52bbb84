package main

import (
	"slices"
	"testing"
	"time"

	"github.com/forebay/forebay/internal/seedtest"
)

func TestHistogramBucketsCoverAllValues(t *testing.T) {
	var h histogram
	next := uint64(0)
	for b := range h.Counts {
		upper := upperBound(b)
		if bucketOf(next) != b || bucketOf(upper) != b {
			t.Fatalf("bucket %d: values %d to %d are counted in %d and %d", b, next, upper, bucketOf(next), bucketOf(upper))
		}
		next = upper + 1
	}
	if next != 1<<histogramBits {
		t.Errorf("the buckets end at %d, want %d", next, uint64(1)<<histogramBits)
	}
	h.add(-time.Second)
	h.add(1 << 62)
	if h.Counts[0] != 1 || h.Counts[len(h.Counts)-1] != 1 {
		t.Error("values outside of the range must be counted in the first and last bucket")
	}
}

func TestHistogramQuantile(t *testing.T) {
	rng := seedtest.Rand(t)
	for range 50 {
		var parts [3]histogram
		exact := make([]time.Duration, 1+rng.IntN(3000))
		for i := range exact {
			exact[i] = time.Duration(rng.Uint64() >> (20 + rng.IntN(40)))
			parts[i%len(parts)].add(exact[i])
		}
		slices.Sort(exact)
		var h histogram
		for i := range parts {
			h.merge(&parts[i])
		}
		for _, q := range []float64{0.001, 0.5, 0.9, 0.99, 1} {
			rank := 1
			for float64(rank) < q*float64(len(exact)) {
				rank++
			}
			want := exact[rank-1]
			got := h.quantile(q)
			if got < want || got > want+want/32 {
				t.Fatalf("quantile %v of %d values is %d, want %d to %d", q, len(exact), got, want, want+want/32)
			}
		}
	}
}

func TestHistogramOfNothing(t *testing.T) {
	var h histogram
	if got := h.quantile(0.5); got != 0 {
		t.Errorf("quantile of nothing is %v, want 0", got)
	}
}
