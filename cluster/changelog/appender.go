package changelog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/forebay/forebay/driverkit/warnlog"
)

// AppenderOptions of an [Appender]. A zero field means its default. The fields without one are required.
type AppenderOptions struct {
	// Log has a stream for Instance.
	Log      Log
	Instance string // the name of a data directory
	// Node is the owner's name: 1 to 128 printable ASCII characters without spaces.
	Node string

	// Store is the mark of the last batch that the local store has, or that its checkpoint has. The log is read from Store.Released
	// on, so it may be trimmed up to there and no further. Default: the store is empty.
	Store Mark
	// Local yields the batches of the store after Store.Released, up to Store.Number. There are no more of them than
	// Append accepts before it blocks. They must not change until the log has them. Without Local a store that has batches which the
	// log lacks cannot be opened (ErrAhead), and its last batch is not compared with the log's.
	Local iter.Seq2[[]byte, error]
	// Apply stores a batch that the log has and the store lacks. It is called by OpenAppender alone, in order.
	Apply func(context.Context, StoredBatch) error
	// Released is the highest number of a batch that any durable place names as released. A log that ends before it went back.
	// Default: none is known.
	Released uint64

	// NextEpoch makes the owner's epoch a new one, higher than all before, and fails with ErrFenced if another node owns the instance.
	NextEpoch func(context.Context) (uint64, error)
	// Valid says whether the lease still holds. It is asked before each batch is released, so it must be cheap.
	Valid func() bool

	// MaxBytes bounds the memory of the batches that are not released yet. A batch counts with its data and [BatchOverhead]. At the bound
	// Append waits. One larger batch is let through alone. Default: 4 MiB.
	MaxBytes int
	// RetryMin and RetryMax bound the wait between two attempts to open a log again that failed. Default: 100 ms and 1 s.
	RetryMin, RetryMax time.Duration
	// Logger gets at Warn that the log failed, at Info that it works again, and at Error that the appender cannot continue. Default:
	// warnings and errors go to [slog.Default]; [slog.DiscardHandler] silences them.
	Logger *slog.Logger
}

// BatchOverhead is more than an [Appender] holds for a batch that is not released, in addition to the data.
const BatchOverhead = 512

func (o AppenderOptions) withDefaults() AppenderOptions {
	o.MaxBytes = cmp.Or(o.MaxBytes, 4<<20)
	o.RetryMin = cmp.Or(o.RetryMin, 100*time.Millisecond)
	o.RetryMax = cmp.Or(o.RetryMax, max(time.Second, o.RetryMin))
	o.Logger = warnlog.Or(o.Logger)
	return o
}

// Validate returns one error that names every breach.
func (o AppenderOptions) Validate() error {
	o = o.withDefaults()
	var errs []error
	check := func(ok bool, text string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(text, args...))
		}
	}
	check(o.Log != nil, "Log is required")
	check(o.Instance != "", "Instance is required")
	check(validNode(o.Node), "Node is %q: want 1 to %d printable ASCII characters without spaces", o.Node, maxNode)
	check(o.Apply != nil, "Apply is required")
	check(o.NextEpoch != nil, "NextEpoch is required")
	check(o.Valid != nil, "Valid is required")
	check(o.MaxBytes > 0, "MaxBytes is %d: want more than 0", o.MaxBytes)
	check(0 < o.RetryMin && o.RetryMin <= o.RetryMax, "RetryMin is %v and RetryMax %v: want 0 < RetryMin <= RetryMax", o.RetryMin, o.RetryMax)
	return errors.Join(errs...)
}

// Appender appends the batches of an owner to the log of its instance and releases them in order. When the log fails, the appender
// reopens it until the log responds or another owner has fenced the appender. It reopens a full log when Stat shows room, after a
// Trim. Its methods may be called concurrently.
type Appender struct {
	opts  AppenderOptions
	order sync.Mutex // of the calls of Append
	stop  context.CancelFunc
	done  chan struct{} // closed when run has ended

	mu sync.Mutex // not held while the log or a function of the options is called
	// changed is signaled when the queue or sent has changed, the writer has ended, or the appender has.
	changed sync.Cond
	// queue has the batches that are not released, in order, and while the appender is running the other records between them.
	// The first sent of them were handed to the writer.
	queue fifo
	sent  int
	// batches counts the ones in the queue, and bytes their data.
	batches, bytes int
	// last is the number of the last batch, and chain the chain after it.
	last, chain uint64
	state       State
}

// Status says what an [Appender] can do.
type Status int

const (
	// Running means that batches are appended and released.
	Running Status = iota
	// Suspect means that an append failed, or the lease has run out. Nothing is released until the log was opened again.
	Suspect
	// Ended means that the appender was closed, or it cannot continue. Unreleased batches have failed.
	Ended
)

// State of an [Appender].
type State struct {
	// Status since a time. Cause says why it is Suspect or Ended.
	Status Status
	Since  time.Time
	Cause  error
	// Epoch under which the log was opened last.
	Epoch uint64
	// Released is the last batch that was released.
	Released Point
	// Waiting are the batches that are not released, and WaitingBytes their data. The first of them waits since WaitingSince, which is
	// zero without one.
	Waiting, WaitingBytes int
	WaitingSince          time.Time
}

// A store writes a Mark into each batch, so that it knows the newest batch that it contains and how to find that
// batch in the log.
type Mark struct {
	// Number of the batch, and the chain before it.
	Number, Before uint64
	// Released is the last batch that was released when this one was made.
	Released Point
}

// Pending is a batch that was given to [Appender.Append].
type Pending struct {
	parts []Record // without epoch and node
	one   [1]Record
	bytes int
	since time.Time // when Append was called
	done  chan struct{}
	err   error // set before done is closed
}

// fifo is a queue. After an outage it may be long, so nothing is moved when its first element is removed.
type fifo struct {
	from  []*Pending
	taken int // of from
}

func (q *fifo) all() []*Pending { return q.from[q.taken:] }

func (q *fifo) push(p *Pending) { q.from = append(q.from, p) }

func (q *fifo) pop() *Pending {
	p := q.from[q.taken]
	q.from[q.taken] = nil
	if q.taken++; 2*q.taken >= len(q.from) {
		n := copy(q.from, q.from[q.taken:])
		clear(q.from[n:])
		q.from, q.taken = q.from[:n], 0
	}
	return p
}

func (p *Pending) end(err error) {
	p.err = err
	close(p.done)
}

// Number of the batch; 0 if the appender had ended before.
func (p *Pending) Number() uint64 {
	if len(p.parts) == 0 {
		return 0
	}
	return p.parts[0].Number
}

// batch reports whether p is a batch, and not another record.
func (p *Pending) batch() bool { return p.parts[0].Kind == Batch }

// chain returns the chain after the batch.
func (p *Pending) chain() uint64 { return p.parts[len(p.parts)-1].Chain }

// Wait returns nil once the batch and all batches before it are permanently in the log. With any other error than that of ctx the
// batch has failed permanently. It is unknown whether the log has it ([ErrUnknown]), or another owner decides that ([ErrFenced]), or the
// log went back ([ErrWentBack]). With the error of ctx the batch is still in progress.
func (p *Pending) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	default:
	}
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// OpenAppender makes one attempt to open the log under a new epoch. It fences every writer before, reads from the point of the store
// up to its own marker, applies the batches that the store lacks, and begins to append those missing from the log.
//
// After an error the store may have some of the missing batches, so take Store and Local from it again for the next attempt.
//   - ErrFenced: another node, or a copy of this one, has continued the log. The store must no longer be used.
//   - ErrWentBack: the log must no longer be used.
//   - ErrAhead: the store has batches that the log lacks, and Local does not yield them. They were never reported as released. Restore the
//     store without them, from a checkpoint and the log.
//   - ErrTrimmed: the store is too old. Restore a checkpoint.
//   - ErrHole: an entry is missing or damaged, for all replicas if the log is an [Elector].
//   - ErrMissing: there is no log, which is never the same as an empty one.
//   - Others: the log did not respond, or an error of Local or Apply.
//
// Expected positions alone do not fence a writer that has several appends in flight. Say that an adopter's marker takes the position that
// the owner expects for its batch 7. The log refuses 7, but the owner's batch 8 expects the next position, which is free: 8 is
// accepted and acknowledged. Releasing in order saves it: 7 never succeeds, so 8 is never released, and by the rule above it
// is void. For the same reason nothing is sent again inside a pipeline. A time-out is not a failure. Only the records before the
// next marker says whether the batch was stored.
func OpenAppender(ctx context.Context, opts AppenderOptions) (*Appender, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	a := &Appender{opts: opts.withDefaults(), done: make(chan struct{})}
	a.opts.Logger = a.opts.Logger.With("instance", opts.Instance, "node", opts.Node)
	a.changed.L = &a.mu
	from := opts.Store.Released
	a.last, a.chain, a.state.Released = from.Number, from.Chain, from
	if opts.Local != nil {
		for data, err := range opts.Local {
			if err != nil {
				return nil, fmt.Errorf("read the batches of the local store: %w", err)
			}
			a.push(a.cut(data))
		}
	}
	w, err := a.open(ctx, opts.Apply)
	if err != nil {
		return nil, err
	}
	a.state.Since = time.Now()
	ctx, a.stop = context.WithCancel(context.WithoutCancel(ctx))
	go a.run(ctx, w)
	return a, nil
}

// Append gives a batch the next number and begins to append it. It waits while MaxBytes are unreleased, even if the log is
// away. The data must not change until the Pending has ended. The calls decide the order of the batches.
func (a *Appender) Append(data []byte) *Pending {
	a.order.Lock()
	defer a.order.Unlock()
	p := a.cut(data)
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.batches > 0 && a.bytes+len(data) > a.opts.MaxBytes-(a.batches+1)*BatchOverhead && a.state.Status != Ended {
		a.changed.Wait()
	}
	if a.state.Status == Ended {
		p.parts = nil
		p.end(a.state.Cause)
		return p
	}
	a.push(p)
	a.changed.Broadcast()
	return p
}

// cut makes the next batch. No other goroutine may push one meanwhile.
func (a *Appender) cut(data []byte) *Pending {
	mark := a.Mark()
	p := &Pending{bytes: len(data), since: time.Now(), done: make(chan struct{})}
	p.parts = cut(p.one[:0], mark.Number, data, mark.Before)
	return p
}

// Checkpointed appends a record of the kind [Checkpoint] after all batches so far, and waits until it is in the log. Number is the
// last batch that the checkpoint has. No other owner had opened the log before that record. It fails if ctx ends, which does not
// take the record back, and with State.Cause while the appender is not Running, for example with [ErrFull]. The appender does not
// repeat it.
func (a *Appender) Checkpointed(ctx context.Context, number uint64) error {
	return a.note(ctx, func(last uint64) (Record, error) {
		if number > last {
			return Record{}, fmt.Errorf("the checkpoint has batch %d, and the last one is %d", number, last)
		}
		return Record{Kind: Checkpoint, Number: number}, nil
	})
}

// Finish appends a record of the kind [Closed], as Checkpointed does. Nothing may be appended after it.
func (a *Appender) Finish(ctx context.Context) error {
	return a.note(ctx, func(last uint64) (Record, error) { return Record{Kind: Closed, Number: last}, nil })
}

// note appends a record that is not a batch. record gets the number of the last batch before it.
func (a *Appender) note(ctx context.Context, record func(last uint64) (Record, error)) error {
	p, err := a.pushNote(record)
	if err != nil {
		return err
	}
	return p.Wait(ctx)
}

func (a *Appender) pushNote(record func(last uint64) (Record, error)) (*Pending, error) {
	a.order.Lock() // a batch that waits for room comes first
	defer a.order.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	r, err := record(a.last)
	if err != nil {
		return nil, err
	}
	if a.state.Status != Running {
		return nil, a.state.Cause
	}
	p := &Pending{done: make(chan struct{})}
	p.parts = append(p.one[:0], r)
	a.queue.push(p)
	a.changed.Broadcast()
	return p, nil
}

func (a *Appender) push(p *Pending) {
	a.queue.push(p)
	a.batches++
	a.bytes += p.bytes
	a.last, a.chain = p.Number(), p.chain()
}

// Mark returns the mark of the next batch, for the store to write into it. It is right if the caller alone appends.
func (a *Appender) Mark() Mark {
	a.mu.Lock()
	defer a.mu.Unlock()
	return Mark{Number: a.last + 1, Before: a.chain, Released: a.state.Released}
}

// next returns the next batch for the writer, once there is one, or nil when ctx has ended.
func (a *Appender) next(ctx context.Context) *Pending {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.sent == len(a.queue.all()) && ctx.Err() == nil {
		a.changed.Wait()
	}
	if ctx.Err() != nil {
		return nil
	}
	a.sent++
	return a.queue.all()[a.sent-1]
}

// wake makes the waiters look again.
func (a *Appender) wake() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.changed.Broadcast()
}

var errLease = errors.New("the lease has run out")

// release ends the first record of the queue, which the log has up to the point.
func (a *Appender) release(at Point) error {
	if !a.opts.Valid() {
		return errLease
	}
	a.mu.Lock()
	p := a.queue.pop()
	a.sent = max(0, a.sent-1)
	if p.batch() {
		a.batches--
		a.bytes -= p.bytes
		a.state.Released = at
	}
	a.changed.Broadcast()
	a.mu.Unlock()
	p.end(nil)
	return nil
}

// State returns the state as it is now.
func (a *Appender) State() State {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.state
	s.Waiting, s.WaitingBytes = a.batches, a.bytes
	for _, p := range a.queue.all() {
		if p.batch() { // notes are few
			s.WaitingSince = p.since
			break
		}
	}
	return s
}

// setState changes the status and reports whether it was different before.
func (a *Appender) setState(status Status, cause error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	changed := a.state.Status != status
	if changed {
		a.state.Status, a.state.Since = status, time.Now()
	}
	a.state.Cause = cause
	if status != Running {
		a.dropNotes(cause)
	}
	return changed
}

// dropNotes fails the queued records other than batches. They were appended, if at all, before the log failed.
func (a *Appender) dropNotes(cause error) {
	a.queue = fifo{from: slices.DeleteFunc(a.queue.all(), func(p *Pending) bool {
		if p.batch() {
			return false
		}
		p.end(cause)
		return true
	})}
}

// end fails unreleased batches and all later appends.
func (a *Appender) end(cause error) {
	a.setState(Ended, cause)
	a.mu.Lock()
	queue := a.queue.all()
	a.queue, a.batches, a.bytes, a.sent = fifo{}, 0, 0, 0
	a.changed.Broadcast()
	a.mu.Unlock()
	for _, p := range queue {
		p.end(cause)
	}
}

// Close ends the appender. What is not released fails with [ErrUnknown], so wait for it first. The log stays as it is.
func (a *Appender) Close() {
	a.stop()
	<-a.done
}
