package changelogtest

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
)

// writer appends after its marker. The lock of the network guards it, except for the fields of the one goroutine that appends.
type writer struct {
	net    *network
	stream *stream
	record changelog.Record // the marker
	marker changelog.Position
	window chan struct{} // has one element for each record in flight
	out    link
	back   link

	next    changelog.Position // the end of the log, if everything in flight is stored
	tickets []*ticket          // in flight, in order
	err     error              // why the writer is dead
}

type ticket struct {
	ended     chan struct{}
	position  changelog.Position
	err       error
	responded bool
	timer     *time.Timer
}

func newWriter(s *stream, record changelog.Record, at changelog.Position) *writer {
	return &writer{net: s.net, stream: s, record: record, marker: at, next: at, window: make(chan struct{}, changelog.Window)}
}

// Marker implements [changelog.Writer].
func (w *writer) Marker() changelog.Position { return w.marker }

// Append implements [changelog.Writer].
func (w *writer) Append(r changelog.Record) changelog.Ticket {
	r.Data = bytes.Clone(r.Data)
	t := &ticket{ended: make(chan struct{})}
	w.window <- struct{}{}
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	w.tickets = append(w.tickets, t)
	if w.err != nil {
		w.fail(w.err)
		return t
	}
	expected := w.next
	w.next++
	t.position = w.next
	w.net.request(&w.out, func() {
		w.stream.append(w.record, expected, r, func(at changelog.Position, err error) {
			if err == nil && at != expected+1 {
				err = fmt.Errorf("%w: the record behind %d is a duplicate of the one at %d", changelog.ErrUnknown, expected, at)
			}
			w.net.respond(&w.back, func() { w.responded(t, err) })
		})
	})
	if timeout := w.net.timeout(); !t.responded {
		t.timer = time.AfterFunc(timeout, func() {
			w.net.mu.Lock()
			defer w.net.mu.Unlock()
			w.responded(t, noResponse(timeout))
		})
	}
	return t
}

// responded handles the first response to a ticket, and ends the tickets whose turn it is. The caller holds the lock.
func (w *writer) responded(t *ticket, err error) {
	if t.responded {
		return
	}
	t.responded, t.err = true, err
	for len(w.tickets) > 0 && w.tickets[0].responded {
		if err := w.tickets[0].err; err != nil {
			w.fail(err)
			return
		}
		w.end()
	}
}

// fail ends the writer and all its tickets. The caller holds the lock.
func (w *writer) fail(err error) {
	w.err = err
	for len(w.tickets) > 0 {
		w.tickets[0].responded, w.tickets[0].err = true, err
		w.end()
	}
}

// end ends the oldest ticket.
func (w *writer) end() {
	t := w.tickets[0]
	w.tickets = w.tickets[1:]
	if t.timer != nil {
		t.timer.Stop()
	}
	close(t.ended)
	<-w.window
}

// Close implements [changelog.Writer]. Requests in flight arrive nevertheless.
func (w *writer) Close() error {
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	if w.err == nil {
		w.fail(fmt.Errorf("%w: the writer is closed", changelog.ErrUnknown))
	}
	return nil
}

// Wait implements [changelog.Ticket].
func (t *ticket) Wait(ctx context.Context) (changelog.Position, error) {
	select {
	case <-t.ended:
	default:
		select {
		case <-t.ended:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	if t.err != nil {
		return 0, t.err
	}
	return t.position, nil
}
