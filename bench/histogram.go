package main

import (
	"math/bits"
	"time"
)

// A histogram counts durations in log-linear buckets. Every power of two is cut into 32 equal parts, so that a quantile
// is at most 1/32 (about 3 %) above the true value, from a nanosecond to hours, in a fixed 10 KB. The zero value is
// empty and ready. It is not safe for concurrent use. Every caller has its own, merged at the end.
type histogram struct {
	Counts [(histogramBits - subBits + 1) << subBits]uint64
	Total  uint64
}

const (
	// subBits is the logarithm of the parts of one power of two.
	subBits = 5
	// histogramBits bounds the values: 2^44 ns are 4.9 hours, and longer ones count as that.
	histogramBits = 44
)

// bucketOf returns the bucket of v. The first 2^subBits buckets hold one value each.
func bucketOf(v uint64) int {
	v = min(v, 1<<histogramBits-1)
	if v < 1<<subBits {
		return int(v)
	}
	shift := bits.Len64(v) - subBits - 1
	return shift<<subBits + int(v>>shift)
}

// upperBound returns the greatest value of bucket b.
func upperBound(b int) uint64 {
	if b < 1<<(subBits+1) {
		return uint64(b)
	}
	shift := b>>subBits - 1
	return (uint64(b)-uint64(shift)<<subBits+1)<<shift - 1
}

func (h *histogram) add(d time.Duration) {
	h.Counts[bucketOf(uint64(max(d, 0)))]++
	h.Total++
}

func (h *histogram) merge(other *histogram) {
	for i, n := range other.Counts {
		h.Counts[i] += n
	}
	h.Total += other.Total
}

// quantile returns the upper bound of the bucket that holds the q-th part of the values, 0 < q <= 1; 0 when empty.
func (h *histogram) quantile(q float64) time.Duration {
	var seen uint64
	for b, n := range h.Counts {
		seen += n
		if seen > 0 && float64(seen) >= q*float64(h.Total) {
			return time.Duration(upperBound(b))
		}
	}
	return 0
}
