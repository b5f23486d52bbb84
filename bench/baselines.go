package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// A committer makes rows durable in groups. While one group is written and synced, the next one gathers. It is the
// smallest honest form of group commit, with no mapping, framing or index around it.
type committer struct {
	sink func(group []byte) error

	mu      sync.Mutex
	gather  *group
	wake    chan struct{} // holds a token when gather is not empty
	stopped chan struct{}
}

type group struct {
	rows []byte
	done chan struct{} // closed when err is set
	err  error
}

// newCommitter starts the goroutine that calls sink, one group at a time. close ends it.
func newCommitter(sink func(group []byte) error) *committer {
	c := &committer{
		sink:    sink,
		gather:  &group{done: make(chan struct{})},
		wake:    make(chan struct{}, 1),
		stopped: make(chan struct{}),
	}
	go c.run()
	return c
}

// append returns when the group with the row is durable. The row is copied.
func (c *committer) append(row []byte) error {
	c.mu.Lock()
	g := c.gather
	first := len(g.rows) == 0
	g.rows = append(g.rows, row...)
	c.mu.Unlock()
	if first {
		c.wake <- struct{}{}
	}
	<-g.done
	return g.err
}

func (c *committer) run() {
	defer close(c.stopped)
	var spare []byte
	for range c.wake {
		next := &group{rows: spare[:0], done: make(chan struct{})}
		c.mu.Lock()
		g := c.gather
		c.gather = next
		c.mu.Unlock()
		g.err = c.sink(g.rows)
		spare = g.rows
		close(g.done)
	}
}

// close waits for the group in flight. No append may run or follow.
func (c *committer) close() {
	close(c.wake)
	<-c.stopped
}

// rawfile appends bare rows of one size to one growing file.
func rawfile(w workload, callers int) scenarioFunc {
	return func(ctx context.Context, e *env) (*sample, error) {
		f, err := os.Create(filepath.Join(e.dir, "rawfile"))
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return commitRows(ctx, e, w, callers, func(group []byte) error {
			if _, err := f.Write(group); err != nil {
				return err
			}
			return e.volume.datasync(f, int64(len(group)), true)
		})
	}
}

// rawfileReused appends bare rows of one size to segments that have been written before.
func rawfileReused(w workload, callers int) scenarioFunc {
	return func(ctx context.Context, e *env) (*sample, error) {
		r, err := e.ring.get(e)
		if err != nil {
			return nil, err
		}
		return commitRows(ctx, e, w, callers, r.append)
	}
}

func commitRows(ctx context.Context, e *env, w workload, callers int, sink func([]byte) error) (*sample, error) {
	return commitGroups(ctx, e, w.row(), callers, sink)
}

func commitGroups(ctx context.Context, e *env, row []byte, callers int, sink func([]byte) error) (*sample, error) {
	var written int64
	c := newCommitter(func(group []byte) error {
		written += int64(len(group))
		return sink(group)
	})
	s, err := measure(ctx, e, load{
		callers: callers, rowBytes: len(row), every: 1,
		start: func(int) operation {
			return func() (int, error) { return 1, c.append(row) }
		},
	})
	c.close()
	if err != nil {
		return nil, err
	}
	if want := s.Total * int64(len(row)); written != want {
		return nil, fmt.Errorf("%d bytes were written, the acknowledged rows have %d", written, want)
	}
	return s, nil
}

// pebbleSet stores every row with a separate synced Set. The store groups the syncs. It is the obvious way without
// chunks. The memtable is as large as a log segment of the ring, and automatic compactions are off, so that the
// figure is for the log and the memtable alone.
func pebbleSet(w workload, callers int) scenarioFunc {
	return func(ctx context.Context, e *env) (_ *sample, err error) {
		row := w.row()
		db, err := pebble.Open(filepath.Join(e.dir, "pebble-set"), &pebble.Options{
			FS:                          e.volume.fs(),
			MemTableSize:                segmentSize,
			MemTableStopWritesThreshold: ringFiles,
			L0StopWritesThreshold:       1 << 20,
			DisableAutomaticCompactions: true,
			Logger:                      silent{},
		})
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, db.Close()) }()

		var sequence atomic.Uint64
		s, err := measure(ctx, e, load{
			callers: callers, rowBytes: len(row), every: 1,
			start: func(int) operation {
				key := make([]byte, 8)
				return func() (int, error) {
					binary.BigEndian.PutUint64(key, sequence.Add(1))
					return 1, db.Set(key, row, pebble.Sync)
				}
			},
		})
		if err != nil {
			return nil, err
		}
		return s, countKeys(db, s.Total)
	}
}

func countKeys(db *pebble.DB, want int64) (err error) {
	it, err := db.NewIter(nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	var got int64
	for valid := it.First(); valid; valid = it.Next() {
		got++
	}
	if got != want {
		return fmt.Errorf("the store has %d rows, %d were acknowledged", got, want)
	}
	return it.Error()
}

// silent drops the store's reports about its own work.
type silent struct{}

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}

// Fatalf is called for errors after which the store cannot continue.
func (silent) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
