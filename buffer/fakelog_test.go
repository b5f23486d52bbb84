package buffer_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
)

var errLogDown = errors.New("the log is down")

// fakeLog is a changelog whose log is outside of the machine. It checks the buffer's side of the contract.
type fakeLog struct {
	t *testing.T
	// delay of the next confirmation. Optional.
	delay func() time.Duration

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each change of what follows
	stored  [][]byte      // the batches 1, 2, …
	away    bool          // appends get no reply
	stopAt  int           // batches above get no reply; 0 if all get one
	err     error         // of Begin and of appends
	begun   int           // calls of Begin
	pending [][]byte      // appended by the last session after stored
}

func newFakeLog(t *testing.T) *fakeLog { return &fakeLog{t: t, changed: make(chan struct{})} }

// set changes the log.
func (l *fakeLog) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *fakeLog) setAway(away bool)  { l.set(func() { l.away = away }) }
func (l *fakeLog) setError(err error) { l.set(func() { l.err = err }) }

// silent reports whether some appends get no reply.
func (l *fakeLog) silent() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.away || l.stopAt > 0
}

func (l *fakeLog) calls() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.begun
}

func (l *fakeLog) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.stored)
}

// batches yields the batches after one number, up to a second number.
func (l *fakeLog) batches(after, to int) iter.Seq2[buffer.LogBatch, error] {
	l.mu.Lock()
	stored := slices.Clone(l.stored[:to])
	l.mu.Unlock()
	return func(yield func(buffer.LogBatch, error) bool) {
		for n := after; n < to; n++ {
			if !yield(buffer.LogBatch{Number: uint64(n + 1), Data: stored[n]}, nil) {
				return
			}
		}
	}
}

// open returns the log as an owner sees it. Earlier owners are fenced with its first Begin.
func (l *fakeLog) open() *fakeOwner { return &fakeOwner{log: l} }

type fakeOwner struct {
	log  *fakeLog
	last *session
}

// session is what follows one Begin.
type session struct {
	log   *fakeLog
	begun int
	last  int // the number that was appended last
}

func (o *fakeOwner) Begin(_ context.Context, at buffer.LogPosition) iter.Seq2[buffer.LogBatch, error] {
	l := o.log
	l.mu.Lock()
	defer l.mu.Unlock()
	none := func(err error) iter.Seq2[buffer.LogBatch, error] {
		return func(yield func(buffer.LogBatch, error) bool) { yield(buffer.LogBatch{}, err) }
	}
	l.begun++
	if l.err != nil {
		return none(l.err)
	}
	if l.away {
		return none(errLogDown)
	}
	copies := map[int][]byte{}
	if at.Tail != nil {
		for b, err := range at.Tail {
			if err != nil {
				return none(err)
			}
			copies[int(b.Number)] = b.Data
		}
	}
	for n, data := range copies {
		if n <= len(l.stored) && !bytes.Equal(data, l.stored[n-1]) {
			l.t.Errorf("the copy of batch %d is not what the log has", n)
		}
	}
	// What the store has and the log lacks was kept, here or there.
	for n := len(l.stored); n < int(at.Number); n++ {
		data := copies[n+1]
		if len(l.pending) > 0 {
			if data != nil && !bytes.Equal(data, l.pending[0]) {
				l.t.Errorf("the copy of batch %d is not what was appended", n+1)
			}
			data, l.pending = l.pending[0], l.pending[1:]
		}
		if data == nil {
			return none(fmt.Errorf("the log ends with batch %d, the store with batch %d", n, at.Number))
		}
		l.stored = append(l.stored, data)
	}
	l.pending = nil
	if want := string(mark(int(at.Number))); at.Number > 0 && string(at.Mark) != want {
		l.t.Errorf("the mark of batch %d is %q, want %q", at.Number, at.Mark, want)
	}
	o.last = &session{log: l, begun: l.begun, last: len(l.stored)}
	stored := slices.Clone(l.stored)
	return func(yield func(buffer.LogBatch, error) bool) {
		for n := int(at.Number); n < len(stored); n++ {
			if !yield(buffer.LogBatch{Number: uint64(n + 1), Data: stored[n]}, nil) {
				return
			}
		}
	}
}

func mark(number int) []byte { return fmt.Append(nil, "mark ", number) }

func (o *fakeOwner) Mark() []byte { return mark(o.last.last + 1) }

func sum(data []byte) uint64 { return crc64.Checksum(data, crc64.MakeTable(crc64.ECMA)) }

func (o *fakeOwner) Append(number uint64, data []byte) func(context.Context) error {
	s, l, before := o.last, o.log, sum(data)
	s.last++
	if int(number) != s.last {
		l.t.Errorf("batch %d follows batch %d", number, s.last-1)
	}
	if binary.LittleEndian.Uint64(data) != 0 {
		l.t.Errorf("batch %d has a sequence number", number)
	}
	l.mu.Lock()
	if s.begun == l.begun {
		l.pending = append(l.pending, bytes.Clone(data))
	}
	l.mu.Unlock()
	return func(ctx context.Context) error {
		if l.delay != nil {
			select {
			case <-time.After(l.delay()):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		for {
			l.mu.Lock()
			switch {
			case s.begun != l.begun:
				l.mu.Unlock()
				return fmt.Errorf("batch %d: %w", number, buffer.ErrFenced)
			case l.err != nil:
				defer l.mu.Unlock()
				return l.err
			case !l.away && (l.stopAt == 0 || int(number) <= l.stopAt):
				defer l.mu.Unlock()
				if sum(data) != before {
					l.t.Errorf("batch %d has changed before it was confirmed", number)
				}
				if len(l.stored) != int(number)-1 {
					l.t.Errorf("batch %d is waited for when the log has %d", number, len(l.stored))
				}
				l.stored, l.pending = append(l.stored, l.pending[0]), l.pending[1:]
				return nil
			}
			changed := l.changed
			l.mu.Unlock()
			select {
			case <-changed:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}
