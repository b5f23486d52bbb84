package forebay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/forebay/forebay/buffer"
)

// ErrOtherColumns is returned by [SinkHandle.AppendTail] for rows that were mapped with other columns than the sink has. None of them was stored.
var ErrOtherColumns = errors.New("the rows have other columns than the sink")

const tailPosition = "tail:"

// AppendTail stores rows that another engine has mapped, and that are lost with it, as new rows of a sink. The pieces come from
// [buffer.Inspection.Tail], of that sink, in their order. It returns when they are acknowledged. Each piece is stored once under a name of up to 50
// bytes, however often the call is repeated with the same pieces, even after a crash, because the engine keeps under the name how many it has, until
// [SinkHandle.EndTail]. stored are the rows of this call.
//
// The upload, the quarantine and the counters of the sink treat them like any rows. Errors in addition to the errors of the buffer:
// [ErrUnknownSource], [ErrDisabledSource], [ErrUnknownSink], [ErrOtherColumns], [ErrClosed].
func (h SinkHandle) AppendTail(ctx context.Context, name string, pieces []buffer.TailRows) (stored int64, err error) {
	_, s, err := h.open(ctx)
	if err != nil {
		return 0, err
	}
	if !s.mapped(pieces) {
		return 0, fmt.Errorf("%w %q of source %q", ErrOtherColumns, h.sink, h.source)
	}
	id := h.id()
	value, err := h.e.buf.Position(ctx, id, tailPosition+name)
	switch {
	case err != nil:
		return 0, h.known(err)
	case value == nil:
		if err := h.e.buf.SetPosition(ctx, id, buffer.Position{Name: tailPosition + name, Value: []byte("0")}); err != nil {
			return 0, h.known(err)
		}
		value = []byte("0")
	}
	have, err := strconv.Atoi(string(value))
	if err != nil {
		return 0, fmt.Errorf("how much of %q is stored cannot be read: %w", name, err)
	}
	for n := have; n < len(pieces); n++ {
		ticket, err := h.e.buf.AppendWhenRoom(ctx, time.Now(), buffer.Rows{
			Sink: s.handle, Data: pieces[n].Data, Count: pieces[n].Count,
			Position: &buffer.Position{Name: tailPosition + name, Value: strconv.AppendInt(nil, int64(n)+1, 10)},
		})
		if err != nil {
			return stored, err
		}
		if err := ticket.Wait(ctx); err != nil {
			return stored, err
		}
		stored += int64(pieces[n].Count)
	}
	return stored, nil
}

// mapped reports whether rows have the columns of the sink.
func (s *sink) mapped(pieces []buffer.TailRows) bool {
	return !slices.ContainsFunc(pieces, func(p buffer.TailRows) bool { return !slices.Equal(p.Columns, s.mapper.Columns()) })
}

// HasColumns reports whether [SinkHandle.AppendTail] accepts the columns of rows.
func (h SinkHandle) HasColumns(pieces []buffer.TailRows) bool {
	src := h.e.sources.Get(h.source)
	if src == nil {
		return false
	}
	s := src.sink(h.sink)
	return s != nil && s.mapped(pieces)
}

// EndTail forgets how much [SinkHandle.AppendTail] has stored under a name. A later call of that would store everything again.
func (h SinkHandle) EndTail(ctx context.Context, name string) error {
	return h.known(h.e.buf.SetPosition(ctx, h.id(), buffer.Position{Name: tailPosition + name}))
}
