package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"
)

// A sample is one measurement of one scenario. A child process sends its own as JSON.
type sample struct {
	// Rows were completed in the measured window, Bytes is their size as CSV rows before compression.
	Rows, Bytes int64
	// Elapsed is the length of the window.
	Elapsed time.Duration
	// Latency holds the durations of the operations that ended in the window.
	Latency histogram
	// CPU is the user and system time of this process in the window, -1 where the system does not tell.
	CPU time.Duration
	// Client is the same of a load generator outside of this process, 0 when there is none.
	Client time.Duration
	// Allocs is the number of heap objects allocated in the window.
	Allocs uint64
	// Written is the number of bytes written to the device under test in the window, -1 if the system does not report it.
	Written int64
	// Total is the number of rows over warm-up, window and tail, all of which must be stored afterwards.
	Total int64
	// Overloads is the number of operations that were refused for lack of room and repeated.
	Overloads int64
	// Figures are values that only this scenario has, by the name of their JSON field.
	Figures map[string]float64
}

func (s *sample) rowsPerSecond() float64  { return float64(s.Rows) / s.Elapsed.Seconds() }
func (s *sample) bytesPerSecond() float64 { return float64(s.Bytes) / s.Elapsed.Seconds() }

// A load is the work of a scenario's callers.
type load struct {
	// callers run operations in a closed loop. Each starts its next one when the last has returned.
	callers  int
	rowBytes int
	// every is the distance between two operations whose latency is taken: 1 is each of them. Operations of less than
	// a few microseconds are sampled, so that the clock does not add a visible part to the measurement.
	every int
	// start returns the operation of one caller, which returns the rows that it completed.
	start func(caller int) operation
	// mark, if set, is called when the measured window begins and when it ends.
	mark func()
}

// An operation completes some rows, or fails and thereby ends the measurement.
type operation func() (rows int, err error)

const (
	warmUp int32 = iota
	window
	tail
)

// must returns v. Rows, mappings and requests are made of constants, so that an error is a mistake in this program.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// oneCore measures an operation of one caller. Fast ones are timed once in a while.
func oneCore(ctx context.Context, e *env, rowBytes, every int, op operation) (*sample, error) {
	return measure(ctx, e, load{callers: 1, rowBytes: rowBytes, every: every, start: func(int) operation { return op }})
}

// warmUpTime is how long a load runs before it is measured.
func warmUpTime(d time.Duration) time.Duration { return d / 4 }

// patience bounds how long a measured window waits for its first operation.
const patience = time.Minute

// measure runs l for a warm-up and then for e.duration, and counts operations that ended in that window. It returns when all callers have returned.
// When a disk stalls for all of it, the window lasts until the first operation has ended.
func measure(ctx context.Context, e *env, l load) (*sample, error) {
	type account struct {
		rows, total int64
		counted     bool
		latency     histogram
	}
	accounts := make([]*account, l.callers)
	operations := make([]operation, l.callers)
	for i := range operations {
		operations[i], accounts[i] = l.start(i), new(account)
	}

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var phase atomic.Int32
	var once sync.Once
	counted := make(chan struct{}) // closed once an operation has ended in the window
	var callers sync.WaitGroup
	for i, op := range operations {
		callers.Go(func() {
			a := accounts[i]
			for n := 0; phase.Load() != tail && ctx.Err() == nil; n++ {
				var begin time.Time
				timed := n%l.every == 0
				if timed {
					begin = time.Now()
				}
				rows, err := op()
				if err != nil {
					cancel(err)
					return
				}
				a.total += int64(rows)
				if phase.Load() == window {
					a.rows += int64(rows)
					if rows > 0 && !a.counted {
						a.counted = true
						once.Do(func() { close(counted) })
					}
					if timed && rows > 0 {
						a.latency.add(time.Since(begin))
					}
				}
			}
		})
	}

	wait(ctx, warmUpTime(e.duration), nil)
	before := l.boundary(e, &phase, window)
	wait(ctx, e.duration, nil)
	wait(ctx, patience, counted)
	after := l.boundary(e, &phase, tail)
	callers.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}

	s := after.since(before)
	for _, a := range accounts {
		s.Rows += a.rows
		s.Total += a.total
		s.Latency.merge(&a.latency)
	}
	s.Bytes = s.Rows * int64(l.rowBytes)
	if s.Rows == 0 {
		return nil, fmt.Errorf("no operation ended within %v", e.duration+patience)
	}
	return s, nil
}

func (l load) boundary(e *env, phase *atomic.Int32, next int32) usage {
	u := readUsage(e)
	if next == tail && e.ended != nil {
		e.ended()
	}
	phase.Store(next)
	if l.mark != nil {
		l.mark()
	}
	return u
}

// wait returns after d, or earlier when ctx ends or done is closed.
func wait(ctx context.Context, d time.Duration, done <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-done:
	case <-ctx.Done():
	}
}

// until returns when the condition holds. Conditions on statistics of an engine look at every file of its store. Where
// allocations count, ask seldom.
func until(ctx context.Context, every time.Duration, holds func() bool) error {
	for !holds() {
		if wait(ctx, every, nil); ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// usage is the resources that the process and the device have used until one moment.
type usage struct {
	at      time.Time
	cpu     time.Duration
	allocs  uint64
	written int64
}

func readUsage(e *env) usage {
	objects := []metrics.Sample{{Name: "/gc/heap/allocs:objects"}}
	metrics.Read(objects)
	return usage{at: time.Now(), cpu: processCPU(), allocs: objects[0].Value.Uint64(), written: deviceWritten(e.dir)}
}

func (u usage) since(before usage) *sample {
	s := &sample{Elapsed: u.at.Sub(before.at), CPU: -1, Allocs: u.allocs - before.allocs, Written: -1}
	if u.cpu >= 0 && before.cpu >= 0 {
		s.CPU = u.cpu - before.cpu
	}
	if u.written >= 0 && before.written >= 0 {
		s.Written = u.written - before.written
	}
	return s
}

// cleanUp removes the leftovers of the last measurement: garbage and pages not yet written.
func cleanUp() {
	runtime.GC()
	syncDisks()
}
