package instance

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/cluster/changelog"
)

// batchLog is the log of an instance as the [buffer.Changelog] of its engine, with a [changelog.Appender] for each opening of the local
// level.
type batchLog struct {
	log    changelog.Log
	keeper *changelog.Keeper
	node   string
	logger *slog.Logger
	// owner is the record as it was when the batchLog was made. The generation of the log stays while it is open.
	owner changelog.Owner

	room *room

	// ctx ends with close, and when the log cannot continue after the last batch of the local level. Then its cause says why, with [buffer.ErrFenced]
	// if the log is another owner's.
	ctx context.Context
	end context.CancelCauseFunc

	mu       sync.Mutex
	appender *changelog.Appender // nil while the log is being opened
	opening  time.Time           // since when it is nil
	detach   func() bool         // lets the end of ctx forget the appender
	// kept are the batches that this process appended and that were not yet reported as stored in the log, ascending. Their bytes are still valid.
	kept []buffer.LogBatch

	// begun, unless nil, receives the end of the log when an opening has found it, before anything is appended.
	begun func(ctx context.Context, end changelog.LogEnd) error

	mark     []byte          // what Mark returned, to be written again
	failure  error           // of the last opening
	missing  time.Time       // since when each opening found no log
	released changelog.Point // the last batch that an appender before this one released

	lostSince time.Time // when endIfLost found first that the log is lost
}

var errClosed = errors.New("the log of the instance is closed")

// newLog returns the log of the keeper's instance. The caller closes it when the engine is closed.
func newLog(log changelog.Log, keeper *changelog.Keeper, node string, logger *slog.Logger) *batchLog {
	l := &batchLog{log: log, keeper: keeper, node: node, logger: logger, owner: keeper.Owner(), room: newRoom()}
	l.ctx, l.end = context.WithCancelCause(context.Background())
	return l
}

// Begin implements [buffer.Changelog]. It opens the log under a new epoch, and passes on batches as they are read.
func (l *batchLog) Begin(ctx context.Context, at buffer.LogPosition) iter.Seq2[buffer.LogBatch, error] {
	return func(yield func(buffer.LogBatch, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(l.ctx, func() { cancel(context.Cause(l.ctx)) })()
		stopped := errors.New("the local level accepts no more rows")
		l.failure = nil
		l.closeAppender() // of the previous opening
		opts, err := l.options(at)
		if err == nil {
			opts.Apply = func(_ context.Context, b changelog.StoredBatch) error {
				if !yield(buffer.LogBatch{Number: b.Number, Data: b.Data}, nil) {
					return stopped
				}
				return nil
			}
			var a *changelog.Appender
			if a, err = changelog.OpenAppender(ctx, opts); err == nil {
				l.mu.Lock()
				l.appender = a
				l.detach = context.AfterFunc(l.ctx, a.Close) // an opening that waits for the log ends
				l.mu.Unlock()
				// What follows from batches that are appended again must not begin before the log has them.
				if err = awaitAppended(ctx, a); err == nil && l.begun != nil {
					next := a.Mark()
					err = l.begun(ctx, changelog.LogEnd{Number: next.Number - 1, Chain: next.Before})
				}
				if err == nil {
					l.keeper.SetReleased(a.State().Released.Number)
					return
				}
			}
		}
		if !errors.Is(err, stopped) {
			l.failure = l.ended(err)
			yield(buffer.LogBatch{}, l.failure)
		}
	}
}

// options returns the options of the next appender, which starts at the local level's position.
func (l *batchLog) options(at buffer.LogPosition) (changelog.AppenderOptions, error) {
	opts := changelog.AppenderOptions{
		Log: l.log, Instance: l.name(), Node: l.node, Logger: l.logger,
		NextEpoch: l.keeper.NextEpoch, Valid: l.keeper.Valid, Released: l.keeper.Owner().Released,
		MaxBytes: math.MaxInt, // the buffer bounds the batches in progress
	}
	var err error
	if opts.Store, err = l.at(at); err != nil {
		return opts, err
	}
	// The record gets this with the new epoch. If the log went back, no node takes the remaining log for complete.
	l.keeper.SetReleased(opts.Store.Released.Number)
	// The store may lack batches that it had before it failed. Then the log, which has them, is read from where the store ends.
	if l.released.Number > opts.Store.Released.Number && l.released.Number <= at.Number {
		opts.Store.Released = l.released
	}
	first := opts.Store.Released.Number + 1
	l.mu.Lock()
	l.kept = slices.DeleteFunc(l.kept, func(b buffer.LogBatch) bool { return b.Number < first || b.Number > at.Number })
	kept := slices.Clone(l.kept)
	l.mu.Unlock()
	if opts.Local, err = copies(at, first); err != nil || opts.Local != nil {
		return opts, err
	}
	if len(kept) > 0 && kept[0].Number == first && kept[len(kept)-1].Number == at.Number {
		opts.Local = func(yield func([]byte, error) bool) {
			for _, b := range kept {
				if !yield(b.Data, nil) {
					return
				}
			}
		}
	}
	return opts, nil
}

// name is the log's.
func (l *batchLog) name() string { return l.owner.LogName(l.keeper.Instance()) }

// at returns the mark of a position for the log of the present generation. A mark of an earlier generation means nothing in
// this log, which begins after the batch that the record names.
func (l *batchLog) at(at buffer.LogPosition) (changelog.Mark, error) {
	m, err := parseMark(at)
	switch {
	case err != nil, m.generation == l.owner.Generation:
		return m.Mark, err
	case m.generation > l.owner.Generation:
		return m.Mark, fmt.Errorf("%w: the local level has batch %d of its generation %d, and the record says %d",
			changelog.ErrWentBack, at.Number, m.generation, l.owner.Generation)
	case at.Number != l.owner.Start:
		return m.Mark, fmt.Errorf("%w: the local level has batch %d of generation %d, and generation %d begins after batch %d",
			changelog.ErrTrimmed, at.Number, m.generation, l.owner.Generation, l.owner.Start)
	}
	return changelog.Mark{Number: at.Number, Released: changelog.Point{Number: at.Number}}, nil
}

// copies returns the batches of a local level from one number on up to its last one, nil if it does not have copies of all of them.
func copies(at buffer.LogPosition, first uint64) (iter.Seq2[[]byte, error], error) {
	if at.Tail == nil || first > at.Number {
		return nil, nil
	}
	var found [][]byte
	next := first
	for b, err := range at.Tail {
		switch {
		case err != nil:
			return nil, fmt.Errorf("read the copies of the last batches: %w", err)
		case b.Number < first || b.Number > at.Number:
			continue
		case b.Number != next:
			return nil, nil
		}
		found, next = append(found, b.Data), next+1
	}
	if next <= at.Number {
		return nil, nil
	}
	return func(yield func([]byte, error) bool) {
		for _, data := range found {
			if !yield(data, nil) {
				return
			}
		}
	}, nil
}

// awaitAppended returns when the log has all batches that were given to an appender.
func awaitAppended(ctx context.Context, a *changelog.Appender) error {
	for {
		s := a.State()
		switch {
		case s.Status == changelog.Ended:
			return s.Cause
		case s.Waiting == 0:
			return nil
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// closeAppender ends the appender and notes its last released batch.
func (l *batchLog) closeAppender() {
	l.mu.Lock()
	a := l.appender
	if l.appender = nil; a != nil {
		l.opening = time.Now()
	}
	l.mu.Unlock()
	if a != nil {
		l.detach()
		a.Close()
		l.released = a.State().Released
	}
}

// Mark implements [buffer.Changelog]. It waits until the log has room, see [room].
func (l *batchLog) Mark() []byte {
	l.room.hold()
	l.mark = appendMark(l.mark[:0], mark{l.appender.Mark(), l.owner.Generation})
	return l.mark
}

// Append implements [buffer.Changelog].
func (l *batchLog) Append(number uint64, data []byte) func(context.Context) error {
	l.mu.Lock()
	l.kept = append(l.kept, buffer.LogBatch{Number: number, Data: data})
	l.mu.Unlock()
	l.room.add(len(data))
	p := l.appender.Append(data)
	return func(ctx context.Context) error {
		if err := p.Wait(ctx); err != nil {
			return l.ended(err)
		}
		l.mu.Lock()
		n := 0
		for n < len(l.kept) && l.kept[n].Number <= number {
			l.kept[n] = buffer.LogBatch{} // its bytes are free
			n++
		}
		l.kept = l.kept[n:]
		l.mu.Unlock()
		l.keeper.SetReleased(number)
		return nil
	}
}

// ended returns an error of package changelog as the buffer's, and ends the log if no attempt to open it can help. A log that is missing
// for as long as a lease is lost.
func (l *batchLog) ended(err error) error {
	switch {
	case errors.Is(err, changelog.ErrFenced):
		err = fmt.Errorf("%w: %w", buffer.ErrFenced, err)
	case errors.Is(err, changelog.ErrMissing):
		if l.missing.IsZero() {
			l.missing = time.Now()
		}
		if time.Since(l.missing) < l.owner.Lease {
			return err
		}
	case !errors.Is(err, changelog.ErrWentBack) && !errors.Is(err, changelog.ErrHole) && !mustRestore(err):
		l.missing = time.Time{}
		return err
	}
	l.end(err)
	return err
}

// endIfLost ends the log if its appender cannot open it for as long as a lease, because it is missing or has a hole. An outage before that
// does not count, because servers that have just come back may not know their streams yet. One goroutine calls it again and again.
func (l *batchLog) endIfLost() {
	a := l.now()
	if a == nil {
		return
	}
	s := a.State()
	switch {
	case s.Status != changelog.Suspect || !isLogLost(s.Cause):
	case l.lostSince.Before(s.Since): // it was not, since the log worked last
		l.lostSince = time.Now()
	case time.Since(l.lostSince) >= l.owner.Lease:
		l.end(s.Cause)
	}
}

// await returns when a batch is released.
func (l *batchLog) await(ctx context.Context, number uint64) error {
	for {
		if a := l.now(); a != nil && a.State().Released.Number >= number {
			return nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// waiting returns the bytes that are not in the log yet.
func (l *batchLog) waiting() int64 {
	if a := l.now(); a != nil {
		return int64(a.State().WaitingBytes)
	}
	return 0
}

var errOpening = errors.New("the log is being opened")

// checkpointed notes in the log that there is a checkpoint with a batch.
func (l *batchLog) checkpointed(ctx context.Context, number uint64) error {
	a := l.now()
	if a == nil {
		return errOpening
	}
	return a.Checkpointed(ctx, number)
}

// now returns the appender, nil while there is none.
func (l *batchLog) now() *changelog.Appender {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.appender
}

// close ends the appender. What it has not released fails.
func (l *batchLog) close() {
	l.end(errClosed)
	l.closeAppender()
}

// mark is stored in the local level with the number of each batch.
type mark struct {
	changelog.Mark
	generation uint64 // of the log that has the batch
}

// The first byte of a mark. Marks of the first log of an instance are the same in all releases.
const (
	markVersion     = 1
	markOfALaterLog = 2 // the generation follows
)

// appendMark appends a mark as the local level stores it with its number. The missing parts are the version, the generation, the chain,
// and the point of the last released batch.
func appendMark(to []byte, m mark) []byte {
	if m.generation == 0 {
		to = append(to, markVersion)
	} else {
		to = binary.AppendUvarint(append(to, markOfALaterLog), m.generation)
	}
	to = binary.LittleEndian.AppendUint64(to, m.Before)
	to = binary.LittleEndian.AppendUint64(to, m.Released.Chain)
	to = binary.AppendUvarint(to, uint64(m.Released.Position))
	to = binary.AppendUvarint(to, m.Released.Epoch)
	to = binary.AppendUvarint(to, m.Released.Number)
	return append(to, m.Released.Node...)
}

// parseMark returns the mark of a position. That of an empty store is zero.
func parseMark(at buffer.LogPosition) (m mark, err error) {
	if at.Number == 0 {
		return m, nil
	}
	rest, ok := at.Mark, true
	next := func() uint64 {
		v, n := binary.Uvarint(rest)
		ok = ok && n > 0
		rest = rest[max(0, n):]
		return v
	}
	version := byte(0)
	if len(rest) > 0 {
		version, rest = rest[0], rest[1:]
	}
	if version == markOfALaterLog {
		m.generation = next()
		ok = ok && m.generation > 0
	}
	if !ok || version != markVersion && version != markOfALaterLog || len(rest) < 17 {
		return mark{}, fmt.Errorf("the mark of batch %d has %d bytes, or another version: % x", at.Number, len(at.Mark), at.Mark[:min(1, len(at.Mark))])
	}
	m.Number = at.Number
	m.Before = binary.LittleEndian.Uint64(rest)
	m.Released.Chain = binary.LittleEndian.Uint64(rest[8:])
	rest = rest[16:]
	m.Released.Position = changelog.Position(next())
	m.Released.Epoch, m.Released.Number = next(), next()
	m.Released.Node = string(rest)
	if !ok || m.Released.Number >= m.Number {
		return m, fmt.Errorf("the mark of batch %d cannot be read: it says that batch %d was released", at.Number, m.Released.Number)
	}
	return m, nil
}
