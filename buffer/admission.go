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

// admission decides which calls may bring rows into the buffer, and counts the bytes that fill its bounds.
//
// The bytes of a row move through three accounts: pending in memory, local on disk, and staged. Tuning.MaxPendingBytes bounds pending.
// Tuning.MaxDiskBytes bounds the sum, because pending bytes need the disk next. The volume may be full before that. A sink counts the same bytes
// in its sinkRoom, which Tuning.MaxSinkBytes bounds.
//
//   - Admitted: a call whose bytes fit into all of these bounds. It has them reserved when admit returns.
//   - Waiting: a call of Append waits Tuning.AdmissionWait for memory. It never waits for the disk, which only an import frees. A patient
//     call, of AppendWhenRoom, waits for every bound until its context ends.
//   - Refused: a call that is larger than a bound gets a TooLargeError at once. Every other call gets the OverloadError of the bound that is full.
//     Append does not look at the room of a sink. Its caller asks DefinedSink.Full before.
//
// Callers that wait for room stand in lines, one for memory and disk, which all share, and one for the room of each sink. A
// caller passes the lines of its sinks, in the order of its rows, and then the common line. So a full sink blocks only its own
// callers, and callers of one sink keep their order. Freed room is reserved for the first in the line. New callers join the end
// of a non-empty line.
//
// A call reserves first and checks afterwards, so that concurrent calls cannot pass a bound together. Bytes that move on are
// added to the next account before they are subtracted from the last one (see committed). The accounts are read in the same order,
// so no byte is missed. A lock in place of the atomic counters would be simpler, but every call on every core would take it.
type admission struct {
	b *Buffer // for the bounds of its options, the free space and the failure of its store, its log, and to wake its committer

	// pending counts the row bytes that are accepted and not yet committed, and the batches that are on disk and that the changelog
	// lacks. local counts the payload bytes on disk, staged the payload bytes in staging.
	pending, local, staged atomic.Int64
	// gathering counts the payload bytes of the writing files, which only their import moves. relief combines the requests
	// to import them because they take too much room.
	gathering atomic.Int64
	relief    relief
	// overloadsMemory and overloadsDisk count the calls that were refused, by resource.
	overloadsMemory, overloadsDisk atomic.Int64
	// refusing is as in sinkRoom, for Tuning.MaxDiskBytes and the volume.
	refusing atomic.Int64
	// toldFull is when noteFull logged last, in Unix ms. toldRefused is the value of overloadsDisk at that time.
	toldFull, toldRefused atomic.Int64

	common line
	// sinkWaiters counts the callers in the lines of sinks. The sinks with such callers are in full.
	sinkWaiters atomic.Int32
	mu          sync.Mutex
	full        map[*sinkState]int
	err         error // set by end
}

// admit reserves room for rows of size bytes in total, or says why there is none. A patient call also reserves the room of its sinks. A
// local call does not queue after the calls that wait for the changelog. The room that other calls take of their sinks is counted when their rows are
// put into chunks.
func (a *admission) admit(ctx context.Context, rows []Rows, size int64, patient, local bool) error {
	if f := a.b.failure(); f != nil {
		return f
	}
	// Checked first, because a failed try leads to the line.
	if limit := a.b.opts.MaxPendingBytes; size > limit {
		return &TooLargeError{Size: size, Limit: limit, Option: "MaxPendingBytes"}
	}
	if limit := a.b.opts.MaxDiskBytes; size > limit {
		return &TooLargeError{Size: size, Limit: limit, Option: "MaxDiskBytes"}
	}
	if !patient {
		if !local && a.common.n.Load() > 0 || a.reserve(size, local) != nil {
			return a.enterCommon(ctx, size, false, local)
		}
		return nil
	}
	for i := range rows {
		if rows[i].Count == 0 { // rejected records have separate bounds
			continue
		}
		if err := a.enterSink(ctx, rows[i].Sink.state, int64(len(rows[i].Data))); err != nil {
			releaseSinks(rows[:i])
			return err
		}
	}
	if (local || a.common.n.Load() == 0) && a.reserve(size, local) == nil {
		return nil
	}
	if err := a.enterCommon(ctx, size, true, local); err != nil {
		releaseSinks(rows)
		return err
	}
	return nil
}

// cancel ends the reservation of a call that stores nothing. Close has begun, and ends all lines.
func (a *admission) cancel(rows []Rows, size int64, patient bool) {
	a.pending.Add(-size)
	if patient {
		releaseSinks(rows)
	}
}

// giveBack ends a reservation of admit without rows.
func (a *admission) giveBack(size int64) {
	a.pending.Add(-size)
	a.serve()
}

// onDisk counts the bytes of a commit that is on disk and that the changelog lacks: early in place of raw.
func (a *admission) onDisk(raw, early int64) {
	a.pending.Add(early - raw)
	a.serve()
}

// committed moves the bytes of a commit to the local level and to staging, and serves the lines.
func (a *admission) committed(raw, local, staged int64) {
	a.staged.Add(staged)
	a.local.Add(local)
	a.pending.Add(-raw)
	a.roomier()
}

// takeUp sets the accounts of the disk from a store that was opened.
func (a *admission) takeUp(r *recovery) {
	a.local.Store(r.local)
	a.staged.Store(r.staged)
	a.gathering.Store(r.gathering)
}

// used returns the bytes that MaxDiskBytes bounds.
func (a *admission) used() int64 { return a.pending.Load() + a.local.Load() + a.staged.Load() }

// reserve takes room of memory and disk. Rows whose callers wait for the changelog leave half of the memory to the others, if there are others.
func (a *admission) reserve(size int64, local bool) *OverloadError {
	limit := a.b.opts.MaxPendingBytes
	if !local && a.b.early.Load() {
		limit = max(limit/2, size)
	}
	pending := a.pending.Add(size)
	used := pending + a.local.Load() + a.staged.Load()
	full := a.b.store.Opening().Full()
	if pending <= limit && used <= a.b.opts.MaxDiskBytes && full == nil {
		return nil
	}
	a.pending.Add(-size)
	if full != nil {
		over := &OverloadError{Resource: "disk", Used: full.Used, Limit: full.Limit, RetryAfter: 5 * time.Second}
		if full.Volume {
			over.Volume, over.Free = a.b.dir, full.Free
		}
		return over
	}
	if used > a.b.opts.MaxDiskBytes {
		return &OverloadError{Resource: "disk", Used: used - size, Limit: a.b.opts.MaxDiskBytes, RetryAfter: 5 * time.Second, size: size}
	}
	return &OverloadError{
		Resource: "memory", Used: pending - size, Limit: limit, RetryAfter: time.Second, Silent: a.b.silentSince(), size: size,
	}
}

// enterCommon waits for memory and disk.
func (a *admission) enterCommon(ctx context.Context, size int64, patient, local bool) error {
	try := func() *OverloadError {
		over := a.reserve(size, local)
		if patient && over != nil && over.Resource == "disk" {
			a.noteFull(over)
		}
		return over
	}
	err := a.common.enter(ctx, patient, a.b.opts.AdmissionWait, try,
		func() { a.pending.Add(-size) },
		func() {
			a.b.gate.kick()
			a.seekRelief(size)
		})
	if over, ok := err.(*OverloadError); ok { //nolint:errorlint // of enter itself
		if over.Resource == "disk" {
			a.seekRelief(size)
			a.refusing.CompareAndSwap(0, a.b.now().UnixMilli())
		}
		a.refuse(over)
		if over.Resource == "disk" {
			a.noteFull(over)
		}
	}
	return err
}

// enterSink waits for room of a sink.
func (a *admission) enterSink(ctx context.Context, s *sinkState, size int64) error {
	limit := a.b.opts.MaxSinkBytes
	if s.room.line.n.Load() == 0 && s.room.reserve(size, limit) == nil {
		return nil
	}
	a.sinkWaiters.Add(1)
	defer a.sinkWaiters.Add(-1)
	a.mu.Lock()
	if a.full == nil {
		a.full = make(map[*sinkState]int)
	}
	a.full[s]++
	if a.err != nil {
		s.room.line.end(a.err)
	}
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.full[s]--; a.full[s] == 0 {
			delete(a.full, s)
		}
	}()
	return s.room.line.enter(ctx, true, 0, func() *OverloadError { return s.room.reserve(size, limit) },
		func() { s.room.pending.Add(-size) }, a.b.gate.kick)
}

// roomier is called when a commit, or the store by itself, has made room.
func (a *admission) roomier() {
	a.endRefusing()
	a.serve()
}

// serve lets waiting callers continue. It is called when room was freed, the store has failed, or Close has begun.
func (a *admission) serve() {
	var err error
	if f := a.b.failure(); f != nil {
		err = f
	}
	if a.sinkWaiters.Load() > 0 {
		a.mu.Lock()
		full := slices.Collect(maps.Keys(a.full))
		a.mu.Unlock()
		for _, s := range full {
			s.room.line.serve(err)
		}
	}
	if short := a.common.serve(err); short != nil && short.Resource == "disk" {
		a.seekRelief(short.size)
	}
}

// end ends all waiting when the buffer closes.
func (a *admission) end() {
	a.mu.Lock()
	a.err = ErrClosed
	for s := range a.full {
		s.room.line.end(ErrClosed)
	}
	a.mu.Unlock()
	a.common.end(ErrClosed)
}

// refuse counts a call that is refused at a bound, and returns why.
func (a *admission) refuse(over *OverloadError) *OverloadError {
	if over.Resource == "memory" {
		a.overloadsMemory.Add(1)
	} else {
		a.overloadsDisk.Add(1)
	}
	a.b.opts.Hooks.refused(over)
	return over
}

// fullEvery is the least time between two lines about a full disk.
const fullEvery = time.Minute

// noteFull logs that the disk is full, with the calls that were refused since the last line.
func (a *admission) noteFull(over *OverloadError) {
	now := a.b.now().UnixMilli()
	if last := a.toldFull.Load(); last != 0 && now-last < fullEvery.Milliseconds() || !a.toldFull.CompareAndSwap(last, now) {
		return
	}
	refused := a.overloadsDisk.Load()
	attrs := []any{
		"dir", a.b.dir, "used", over.Used, "limit", over.Limit, "refused_calls", refused - a.toldRefused.Swap(refused),
		"waiting_calls", a.common.n.Load(),
	}
	if over.Volume == "" {
		// Fields: dir, used, limit, refused_calls, waiting_calls.
		a.b.log.Warn("rows refused at the disk limit", append(attrs, "next", "repair the slow target, or raise MaxDiskBytes")...)
		return
	}
	// Fields: dir, used, limit, refused_calls, waiting_calls, free_bytes.
	a.b.log.Warn("rows refused on a full volume", append(attrs, "free_bytes", over.Free, "next", "free space on the volume")...)
}

// diskBound is the greatest LocalBytes at which rows are still accepted: MaxDiskBytes, or less if the volume has less room.
func (a *admission) diskBound(local int64) int64 {
	if left, less := a.b.store.Opening().VolumeLeft(); less {
		return min(a.b.opts.MaxDiskBytes, local+left)
	}
	return a.b.opts.MaxDiskBytes
}

// roomAgain is the part of Tuning.MaxDiskBytes that must be free before refusing counts as over. Small rows may pass where large ones are
// refused.
const roomAgain = 16

// endRefusing notes that there is room again.
func (a *admission) endRefusing() {
	limit := a.b.opts.MaxDiskBytes
	if a.refusing.Load() != 0 && a.b.store.Opening().Full() == nil && a.used() < limit-limit/roomAgain {
		a.refusing.Store(0)
	}
}

// seekRelief asks the committer to close files (see pressure.go) for a call of size bytes that found the disk full.
func (a *admission) seekRelief(size int64) {
	if mark, gathering := a.mark(size); gathering < mark {
		return
	}
	if a.relief.ask(size) {
		_, err := a.b.post(&operation{run: func(t *txn) { t.relieveAll(a.relief.take()) }})
		if err != nil { // the buffer closes or has failed
			a.relief.take()
		}
	}
}

// mark returns how many bytes may gather at all sinks together while a call waits for need bytes, and how many do.
func (a *admission) mark(need int64) (mark, gathering int64) {
	gathering = a.gathering.Load()
	return pressureMark(a.b.opts.MaxDiskBytes, max(0, a.used()-gathering), need), gathering
}

// relief combines what several calls ask for into one operation. Its zero value is ready.
type relief struct {
	mu    sync.Mutex
	need  int64
	asked bool
}

// ask reports whether the caller must post the operation.
func (r *relief) ask(size int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := !r.asked
	r.asked, r.need = true, max(r.need, size)
	return first
}

// take returns the largest size that was asked for since the last call.
func (r *relief) take() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	need := r.need
	r.asked, r.need = false, 0
	return need
}

// sinkRoom is the room that one sink has within Tuning.MaxSinkBytes. Its zero value is ready.
type sinkRoom struct {
	// waiting counts the payload bytes in local and staging, pending the row bytes that are on their way there. A commit adds
	// to waiting before it subtracts from pending, so no byte is missing from both.
	waiting, pending atomic.Int64
	// refusing is when the first call was refused since the sink has been full, in Unix ms; 0 when none was or there is room.
	refusing atomic.Int64
	line     line // of the callers that wait for room of the sink
}

// reserve takes room of the sink. It compares the bytes in use before the call, as Full does, so one call may exceed the
// bound.
func (s *sinkRoom) reserve(size, limit int64) *OverloadError {
	pending := s.pending.Add(size)
	used := pending + s.waiting.Load() - size
	if used < limit {
		return nil
	}
	s.pending.Add(-size)
	return fullSink(used, limit)
}

// recount sets waiting, which is bounded by limit.
func (s *sinkRoom) recount(waiting, limit int64) {
	s.waiting.Store(waiting)
	if waiting < limit {
		s.refusing.Store(0)
	}
}

// releaseSinks gives the room of sinks back that a patient call has reserved.
func releaseSinks(rows []Rows) {
	for i := range rows {
		s := &rows[i].Sink.state.room
		s.pending.Add(-int64(len(rows[i].Data)))
		s.line.serve(nil)
	}
}

func fullSink(used, limit int64) *OverloadError {
	return &OverloadError{Resource: "sink", Used: used, Limit: limit, RetryAfter: 5 * time.Second}
}

// Full returns an [*OverloadError] when as much of the sink waits in local and staging as Tuning.MaxSinkBytes allows,
// else nil. Append does not look at it, so that one sink that is held up does not refuse rows for others. Whoever
// appends asks each sink before. It is also full while callers of [Buffer.AppendWhenRoom] wait for it.
func (s *DefinedSink) Full() error {
	limit := s.b.opts.MaxSinkBytes
	room := &s.state.room
	if used := room.waiting.Load(); used >= limit || room.line.n.Load() > 0 {
		if used >= limit {
			room.refusing.CompareAndSwap(0, s.b.now().UnixMilli())
		}
		return s.b.admission.refuse(fullSink(used, limit))
	}
	return nil
}

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
