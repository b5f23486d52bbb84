package buffer

import (
	"container/list"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Callers that wait for room stand in lines, one for memory and disk, which all share, and one for the share of each sink. A
// caller passes the lines of its sinks, in the order of its rows, and then the common line. So a full sink blocks only its own
// callers, and callers of one sink keep their order. Freed room is reserved for the first in the line. New callers join the end
// of a non-empty line.

// line is a queue of callers. Its zero value is ready.
type line struct {
	// n counts the callers in the line and those about to enter. They raise it before they look for room, so whoever frees room and
	// then reads 0 freed it before they looked.
	n      atomic.Int32
	mu     sync.Mutex
	places list.List // of *stand
	err    error     // set by end
}

// stand is one caller in a line.
type stand struct {
	// try reserves the room that the caller needs, or returns the resource that is short.
	try func() *OverloadError
	// patient callers wait until their context ends. The others wait for a time, and never for the disk.
	patient bool
	short   *OverloadError // the last result of try
	ready   chan struct{}  // closed when the caller has its reservation or err
	err     error
}

// enter returns nil once try has reserved the room that the caller needs. lacking is called before it waits. When a
// reservation comes together with the end of ctx, undo gives it back.
func (l *line) enter(ctx context.Context, patient bool, timeout time.Duration, try func() *OverloadError, undo func(), lacking func()) error {
	l.n.Add(1)
	defer l.n.Add(-1)
	p := &stand{try: try, patient: patient, ready: make(chan struct{})}
	l.mu.Lock()
	switch {
	case l.err != nil:
		l.mu.Unlock()
		return l.err
	case l.places.Len() > 0:
		p.short = l.places.Front().Value.(*stand).short
	default:
		if p.short = try(); p.short == nil {
			l.mu.Unlock()
			return nil
		}
	}
	var at *list.Element // nil if the caller does not wait
	if patient || timeout > 0 && p.short.Resource != "disk" {
		at = l.places.PushBack(p)
	}
	l.mu.Unlock()
	// A caller that tries without the lock takes too much for a moment. A caller that tried in that moment is in the line now,
	// and no other would wake it.
	l.serve(nil)
	if at == nil {
		return p.short
	}
	lacking()
	var expired <-chan time.Time
	if !patient {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		expired = timer.C
	}
	var err error
	select {
	case <-p.ready:
		return p.err
	case <-expired:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	l.mu.Lock()
	select {
	case <-p.ready:
		l.mu.Unlock()
		if err == nil || p.err != nil { // the room came with the timeout
			return p.err
		}
		undo()
	default:
		l.places.Remove(at)
		l.mu.Unlock()
	}
	l.serve(nil) // later callers may need less, or just the room that was given back
	switch {
	case err == nil:
		return p.short
	case patient:
		return fmt.Errorf("buffer: no room came: %w; %w", err, p.short)
	}
	return err
}

// serve lets callers continue from the front of the line as long as there is room for them, or all of them with an error. It
// returns the overload of the first remaining caller.
func (l *line) serve(err error) *OverloadError {
	if l.n.Load() == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for at := l.places.Front(); at != nil; at = l.places.Front() {
		p := at.Value.(*stand)
		if p.err = err; err == nil {
			if p.short = p.try(); p.short != nil {
				if p.patient || p.short.Resource != "disk" {
					return p.short
				}
				p.err = p.short
			}
		}
		l.places.Remove(at)
		close(p.ready)
	}
	return nil
}

// end ends the line. No more callers get room.
func (l *line) end(err error) {
	l.mu.Lock()
	l.err = err
	l.mu.Unlock()
	l.serve(err)
}

// rooms are the lines of a buffer.
type rooms struct {
	common line
	// waiters counts those in the lines of sinks, which are in full.
	waiters atomic.Int32
	mu      sync.Mutex
	full    map[*sinkState]int
	err     error
}

// enterSink waits for the share of a sink.
func (b *Buffer) enterSink(ctx context.Context, s *sinkState, size int64) error {
	limit := b.opts.MaxSinkBytes
	if s.room.n.Load() == 0 && s.reserve(size, limit) == nil {
		return nil
	}
	r := &b.rooms
	r.waiters.Add(1)
	defer r.waiters.Add(-1)
	r.mu.Lock()
	if r.full == nil {
		r.full = make(map[*sinkState]int)
	}
	r.full[s]++
	if r.err != nil {
		s.room.end(r.err)
	}
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.full[s]--; r.full[s] == 0 {
			delete(r.full, s)
		}
	}()
	return s.room.enter(ctx, true, 0, func() *OverloadError { return s.reserve(size, limit) },
		func() { s.pending.Add(-size) }, b.gate.kick)
}

// reserve takes a share of the sink. It compares the bytes in use before the call, as Full does, so one call may exceed the
// bound.
func (s *sinkState) reserve(size, limit int64) *OverloadError {
	pending := s.pending.Add(size)
	used := pending + s.waiting.Load() - size
	if used < limit {
		return nil
	}
	s.pending.Add(-size)
	return fullSink(used, limit)
}

func fullSink(used, limit int64) *OverloadError {
	return &OverloadError{Resource: "sink", Used: used, Limit: limit, RetryAfter: 5 * time.Second}
}

// serveRoom is called when room was freed, the store has failed, or Close has begun.
func (b *Buffer) serveRoom() {
	var err error
	if f := b.failure(); f != nil {
		err = f
	}
	if b.rooms.waiters.Load() > 0 {
		b.rooms.mu.Lock()
		full := slices.Collect(maps.Keys(b.rooms.full))
		b.rooms.mu.Unlock()
		for _, s := range full {
			s.room.serve(err)
		}
	}
	if short := b.rooms.common.serve(err); short != nil && short.Resource == "disk" {
		b.seekRelief(short.size)
	}
}

// roomier is called when the store has room again.
func (b *Buffer) roomier() {
	b.endRefusing()
	b.serveRoom()
}

// endRoom ends all waiting when the buffer closes.
func (b *Buffer) endRoom() {
	b.rooms.mu.Lock()
	b.rooms.err = ErrClosed
	for s := range b.rooms.full {
		s.room.end(ErrClosed)
	}
	b.rooms.mu.Unlock()
	b.rooms.common.end(ErrClosed)
}

// admit reserves room for rows of size bytes in total, or says why there is none. A patient call waits for it and also reserves
// the shares of its sinks. A local call does not queue after the calls that wait for the changelog. Shares of other calls are counted when their rows
// are put into chunks.
func (b *Buffer) admit(ctx context.Context, rows []Rows, size int64, patient, local bool) error {
	if f := b.failure(); f != nil {
		return f
	}
	// Checked first, because a failed try leads to the line.
	if limit := b.opts.MaxPendingBytes; size > limit {
		return &TooLargeError{Size: size, Limit: limit, Option: "MaxPendingBytes"}
	}
	if limit := b.opts.MaxDiskBytes; size > limit {
		return &TooLargeError{Size: size, Limit: limit, Option: "MaxDiskBytes"}
	}
	if !patient {
		if !local && b.rooms.common.n.Load() > 0 || b.reserve(size, local) != nil {
			return b.enterCommon(ctx, size, false, local)
		}
		return nil
	}
	for i := range rows {
		if rows[i].Count == 0 { // rejected records have separate bounds
			continue
		}
		if err := b.enterSink(ctx, rows[i].Sink.state, int64(len(rows[i].Data))); err != nil {
			b.release(rows[:i])
			return err
		}
	}
	if (local || b.rooms.common.n.Load() == 0) && b.reserve(size, local) == nil {
		return nil
	}
	if err := b.enterCommon(ctx, size, true, local); err != nil {
		b.release(rows)
		return err
	}
	return nil
}

// release gives the shares of sinks back.
func (b *Buffer) release(rows []Rows) {
	for i := range rows {
		s := rows[i].Sink.state
		s.pending.Add(-int64(len(rows[i].Data)))
		s.room.serve(nil)
	}
}

// enterCommon waits for memory and disk.
func (b *Buffer) enterCommon(ctx context.Context, size int64, patient, local bool) error {
	try := func() *OverloadError {
		over := b.reserve(size, local)
		if patient && over != nil && over.Resource == "disk" {
			b.noteFull(over)
		}
		return over
	}
	err := b.rooms.common.enter(ctx, patient, b.opts.AdmissionWait, try,
		func() { b.pending.Add(-size) },
		func() {
			b.gate.kick()
			b.seekRelief(size)
		})
	if over, ok := err.(*OverloadError); ok { //nolint:errorlint // of enter itself
		if over.Resource == "disk" {
			b.seekRelief(size)
			b.refusing.CompareAndSwap(0, b.now().UnixMilli())
		}
		b.refuse(over)
		if over.Resource == "disk" {
			b.noteFull(over)
		}
	}
	return err
}

// fullEvery is the least time between two lines about a full disk.
const fullEvery = time.Minute

// noteFull logs that the disk is full, with the calls that were refused since the last line.
func (b *Buffer) noteFull(over *OverloadError) {
	now := b.now().UnixMilli()
	if last := b.toldFull.Load(); last != 0 && now-last < fullEvery.Milliseconds() || !b.toldFull.CompareAndSwap(last, now) {
		return
	}
	refused := b.overloadsDisk.Load()
	attrs := []any{
		"dir", b.dir, "used", over.Used, "limit", over.Limit, "refused_calls", refused - b.toldRefused.Swap(refused),
		"waiting_calls", b.rooms.common.n.Load(),
	}
	if over.Volume == "" {
		// Fields: dir, used, limit, refused_calls, waiting_calls.
		b.log.Warn("rows refused at the disk limit", append(attrs, "next", "repair the slow target, or raise MaxDiskBytes")...)
		return
	}
	// Fields: dir, used, limit, refused_calls, waiting_calls, free_bytes.
	b.log.Warn("rows refused on a full volume", append(attrs, "free_bytes", over.Free, "next", "free space on the volume")...)
}

// diskBound is the greatest LocalBytes at which rows are still accepted: MaxDiskBytes, or less if the volume has less room.
func (b *Buffer) diskBound(local int64) int64 {
	if left, less := b.store.Opening().VolumeLeft(); less {
		return min(b.opts.MaxDiskBytes, local+left)
	}
	return b.opts.MaxDiskBytes
}

// roomAgain is the part of Tuning.MaxDiskBytes that must be free before refusing counts as over. Small rows may pass where large ones are
// refused.
const roomAgain = 16

// endRefusing notes that there is room again.
func (b *Buffer) endRefusing() {
	limit := b.opts.MaxDiskBytes
	if b.refusing.Load() != 0 && b.store.Opening().Full() == nil && b.pending.Load()+b.local.Load()+b.staged.Load() < limit-limit/roomAgain {
		b.refusing.Store(0)
	}
}

func (b *Buffer) overloads(resource string) *atomic.Int64 {
	if resource == "memory" {
		return &b.overloadsMemory
	}
	return &b.overloadsDisk
}
