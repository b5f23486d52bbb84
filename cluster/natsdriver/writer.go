package natsdriver

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/nats-io/nats.go/jetstream"
)

// writer appends with up to Window messages in flight. Each expects to stand directly after the previous one, so a message that is lost or
// refused takes along all later messages.
type writer struct {
	log      *Log
	instance string
	stream   jetstream.Stream
	owner    owner
	subject  string
	marker   changelog.Position
	js       jetstream.JetStream // not shared, because its acknowledgements end with the writer

	last    uint64        // the sequence that the next append expects before it. Only Append uses it, and left
	left    int64         // how many bytes still fit into the stream, if nothing was trimmed
	window  chan struct{} // holds one element for each append in flight
	holding sync.Mutex    // held by the goroutine that takes the whole window
	queue   chan *ticket  // the appends in flight, in order

	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	stopped chan struct{} // closed when no other ticket will succeed, and err is set before
	err     error
	staying chan struct{} // closed when stay has ended
}

func newWriter(l *Log, instance string, stream jetstream.Stream, me owner, end uint64, left int64) (*writer, error) {
	js, err := jetstream.New(l.conn, jetstream.WithPublishAsyncTimeout(l.options.AppendTimeout))
	if err != nil {
		return nil, err
	}
	w := &writer{
		log: l, instance: instance, stream: stream, owner: me, subject: me.subject(stream.CachedInfo()), marker: changelog.Position(end), js: js, last: end, left: left,
		window: make(chan struct{}, changelog.Window), queue: make(chan *ticket, changelog.Window), stopped: make(chan struct{}),
		staying: make(chan struct{}),
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	go w.settle()
	go w.stay()
	return w, nil
}

func (w *writer) Marker() changelog.Position { return w.marker }

// Append may ask the leader whether there is room. See fit.
func (w *writer) Append(r changelog.Record) changelog.Ticket {
	t := &ticket{writer: w, position: changelog.Position(w.last + 1)}
	select {
	case <-w.stopped:
		return t
	default:
	}
	t.err = w.fit(int64(len(r.Data) + len(w.subject) + len(r.Node) + 512)) // with the other headers
	select {
	case <-w.stopped:
		return t
	case w.window <- struct{}{}:
	}
	if t.err == nil {
		t.elections, t.sent = w.elected().count, time.Now()
		t.published, t.err = w.publish(r)
	}
	t.done = make(chan struct{})
	w.last++
	w.queue <- t
	return t
}

// publish sends without retries, because a repeated message would arrive after later ones.
func (w *writer) publish(r changelog.Record) (jetstream.PubAckFuture, error) {
	options := []jetstream.PublishOpt{jetstream.WithRetryAttempts(0), jetstream.WithExpectLastSequence(w.last)}
	if r.Kind == changelog.Batch { // other kinds have no unique number
		id := strconv.FormatUint(r.Epoch, 10) + "." + strconv.FormatUint(r.Number, 10) + "." + strconv.Itoa(r.Part)
		options = append(options, jetstream.WithMsgID(id))
	}
	return w.js.PublishMsgAsync(message(w.subject, r), options...)
}

// fit takes room for a record of at most so many bytes. When the known room is used up, it waits until nothing is in flight and asks the
// leader. With trims that happens once in some dozen MB. It also reserves more. The servers' own bound includes the room for markers,
// so it would be too late.
func (w *writer) fit(size int64) error {
	if w.left -= size; w.left >= 0 {
		return nil
	}
	release, ok := w.hold()
	if !ok {
		return nil
	}
	defer release()
	ctx, cancel := context.WithTimeout(w.ctx, w.log.options.AppendTimeout)
	defer cancel()
	info, err := w.log.info(ctx, w.stream, w.last)
	if err != nil {
		return err
	}
	info, refused := w.log.reserve(ctx, w.stream, info, size, false)
	if w.left = bound(info) - int64(info.State.Bytes) - size; w.left >= 0 {
		return nil
	}
	if refused != nil {
		return fmt.Errorf("%w: %d of %d bytes: %w", changelog.ErrFull, info.State.Bytes, bound(info), refused)
	}
	return fmt.Errorf("%w: %d of %d bytes", changelog.ErrFull, info.State.Bytes, bound(info))
}

// hold waits until nothing is in flight, and keeps it so until release. It returns false if the writer has ended.
func (w *writer) hold() (release func(), ok bool) {
	w.holding.Lock()
	for held := range changelog.Window {
		select {
		case <-w.stopped:
			w.free(held)
			return nil, false
		case w.window <- struct{}{}:
		}
	}
	return func() { w.free(changelog.Window) }, true
}

func (w *writer) free(held int) {
	for range held {
		<-w.window
	}
	w.holding.Unlock()
}

func (w *writer) elected() election {
	return w.log.options.elections.last(w.stream.CachedInfo().Config.Name)
}

// settle ends the tickets in order, until the first one that fails.
func (w *writer) settle() {
	defer close(w.stopped)
	for {
		select {
		case t := <-w.queue:
			if err := w.await(t); err != nil {
				w.err = fmt.Errorf("natsdriver: append to %s at %d: %w", w.subject, t.position, w.reason(err))
				return
			}
			close(t.done)
			<-w.window
		case <-w.ctx.Done():
			w.err = fmt.Errorf("natsdriver: append to %s: %w: %w", w.subject, changelog.ErrUnknown, errClosed)
			return
		}
	}
}

var errClosed = errors.New("the writer was closed")

// await returns nil if an append has got its expected position. A duplicate is acknowledged with the position of the first
// copy, which may be a void one after another writer's record.
func (w *writer) await(t *ticket) error {
	if t.err != nil {
		return t.err
	}
	var late <-chan time.Time // after an election since the append was sent
	for {
		elected := w.elected()
		if late == nil && (elected.count != t.elections || t.sent.Sub(elected.at) < lateAfter) {
			late = time.After(max(lateAfter, 4*w.log.Pace(w.instance).Took))
		}
		select {
		case ack := <-t.published.Ok():
			if ack.Sequence != uint64(t.position) {
				return fmt.Errorf("the record is at %d (duplicate: %t)", ack.Sequence, ack.Duplicate)
			}
			w.log.took(w.instance, time.Since(t.sent))
			return nil
		case err := <-t.published.Err():
			return err
		case <-elected.next:
		case <-late:
			return errElected
		case <-w.ctx.Done():
			return errClosed
		}
	}
}

// reason finds the meaning of an append's error. After a refusal it looks for a higher epoch.
func (w *writer) reason(err error) error {
	ctx, cancel := context.WithTimeout(w.ctx, w.log.options.AppendTimeout)
	defer cancel()
	if wrongLast(err) {
		higher := func(o owner) bool { return o.epoch > w.owner.epoch }
		if _, fence := w.log.fenced(ctx, w.stream, 0, higher); errors.Is(fence, changelog.ErrFenced) {
			return fmt.Errorf("%w: %w", fence, err)
		}
	}
	return failure(err, func() bool { return w.log.full(ctx, w.stream) })
}

// Close gives up the appends in flight. It must be called after a failure too.
func (w *writer) Close() error {
	w.cancel()
	<-w.stopped
	<-w.staying
	w.js.CleanupPublisher()
	return nil
}

// ticket is an append in flight.
type ticket struct {
	writer    *writer
	position  changelog.Position
	published jetstream.PubAckFuture
	err       error // of publishing
	elections int   // of the stream, when it was sent
	sent      time.Time
	done      chan struct{} // closed when the append has succeeded, or nil if it was not sent
}

// Wait gives an outcome that is known also to a context that has ended.
func (t *ticket) Wait(ctx context.Context) (changelog.Position, error) {
	select {
	case <-t.done:
	case <-t.writer.stopped:
	case <-ctx.Done():
	}
	select {
	case <-t.done:
		return t.position, nil
	default:
	}
	select {
	case <-t.writer.stopped:
		return 0, t.writer.err
	default:
		return 0, context.Cause(ctx)
	}
}
