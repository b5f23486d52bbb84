// Package tailrows stores pieces of rows once, however often the call is repeated, even after a crash. The number of stored pieces is a position, which
// is in one batch with the rows.
package tailrows

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/forebay/forebay/buffer"
)

func position(name string, value []byte) buffer.Position {
	return buffer.Position{Name: "tail:" + name, Value: value}
}

// Append stores those pieces, in their order, that earlier calls with the name have not stored. It returns when they are acknowledged. stored are the
// rows of this call. Each call has the same pieces, or more at their end.
func Append(ctx context.Context, b *buffer.Buffer, sink *buffer.DefinedSink, name string, pieces []buffer.TailRows) (stored int64, err error) {
	have, err := begin(ctx, b, sink.ID(), name)
	if err != nil {
		return 0, err
	}
	for n := have; n < len(pieces); n++ {
		next := position(name, strconv.AppendInt(nil, int64(n)+1, 10))
		ticket, err := b.AppendWhenRoom(ctx, time.Now(), buffer.Rows{Sink: sink, Data: pieces[n].Data, Count: pieces[n].Count, Position: &next})
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

// begin returns how many pieces are stored under a name. The name is stored before its first piece.
func begin(ctx context.Context, b *buffer.Buffer, sinkID, name string) (int, error) {
	value, err := b.Sink(sinkID).Position(ctx, position(name, nil).Name)
	if err != nil {
		return 0, err
	}
	if value == nil {
		return 0, b.Sink(sinkID).SetPosition(ctx, position(name, []byte("0")))
	}
	have, err := strconv.Atoi(string(value))
	if err != nil {
		return 0, fmt.Errorf("how much of %q is stored cannot be read: %w", name, err)
	}
	return have, nil
}

// End forgets how much is stored under a name. A later call of Append stores everything again.
func End(ctx context.Context, b *buffer.Buffer, sinkID, name string) error {
	return b.Sink(sinkID).SetPosition(ctx, position(name, nil))
}
