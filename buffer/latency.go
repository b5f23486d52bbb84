package buffer

import (
	"math"
	"sync/atomic"
	"time"
)

const (
	// latencyFrom is the bound of the first class. Each of the others is larger by the square root of 2, up to 14 min. The last class has none.
	latencyFrom    = 50 * time.Microsecond
	latencyClasses = 50
)

// Latency counts how long something took, since Open, in classes. Its zero value has no measurement.
type Latency struct {
	counts [latencyClasses]int64
}

// Count returns the number of measurements.
func (l Latency) Count() (n int64) {
	for _, c := range l.counts {
		n += c
	}
	return n
}

// Since returns the measurements that were made after an earlier value of the same counter.
func (l Latency) Since(earlier Latency) Latency {
	for i := range l.counts {
		l.counts[i] -= earlier.counts[i]
	}
	return l
}

// Quantile returns the duration that a share q of the measurements did not exceed: 0.5 is the median. It may be off by a fifth, below 50 µs and
// above 14 min by more. It is 0 without measurements.
func (l Latency) Quantile(q float64) time.Duration {
	rank := int64(math.Ceil(q * float64(l.Count())))
	for i, c := range l.counts {
		if rank -= c; c > 0 && rank <= 0 {
			return time.Duration(float64(latencyFrom) * math.Pow(2, float64(i)/2-0.25)) // the middle of the class
		}
	}
	return 0
}

// latencyCounter counts durations. It is safe for concurrent use.
type latencyCounter struct {
	counts [latencyClasses]atomic.Int64
}

func (l *latencyCounter) add(d time.Duration) {
	class := 0
	if d > latencyFrom {
		class = min(latencyClasses-1, int(math.Ceil(2*math.Log2(float64(d)/float64(latencyFrom)))))
	}
	l.counts[class].Add(1)
}

func (l *latencyCounter) load() (out Latency) {
	for i := range l.counts {
		out.counts[i] = l.counts[i].Load()
	}
	return out
}
