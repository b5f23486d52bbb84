package changelog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
)

// HoleError says where a log cannot be read on. It is [ErrHole].
type HoleError struct {
	// Position of the entry that does not fit.
	Position Position
	// Number of the batch that should follow.
	Number uint64
	// Reason says what does not fit.
	Reason string
}

func (e *HoleError) Error() string {
	return fmt.Sprintf("%v at position %d, where batch %d should follow: %s", ErrHole, e.Position, e.Number, e.Reason)
}

// Unwrap returns [ErrHole].
func (e *HoleError) Unwrap() error { return ErrHole }

// Elector is a [Log] whose streams have replicas, one of which leads. [OpenAppender] and [Batches] use it when they find a hole, because the
// replica that leads may have lost what others have.
type Elector interface {
	// Leaders makes one after the other of the replicas lead that do not lead now, and yields the name of each when it does. What Read
	// yields afterwards comes from there, or is what that replica has as well. An error says that one of them, or all that follow, could
	// not be asked. A stream of one replica has no others.
	Leaders(ctx context.Context, instance string) iter.Seq2[string, error]
}

// withAnyLeader calls read until it finds no hole, with each replica of the stream as the leader. An error is ErrHole only if none of
// them has the missing part. A replica that cannot be asked, or does not respond, may have it.
func withAnyLeader(ctx context.Context, log Log, instance string, logger *slog.Logger, read func() error) error {
	err := read()
	elector, ok := log.(Elector)
	if !ok || !errors.Is(err, ErrHole) {
		return err
	}
	var unasked error
	for leader, failed := range elector.Leaders(ctx, instance) {
		if failed != nil {
			unasked = errors.Join(unasked, failed)
			continue
		}
		logger.Warn("log has a hole", "leader", leader, "cause", err, "next", "the log is read again from a different leader; check the disks of the servers")
		again := read()
		switch {
		case errors.Is(again, ErrHole):
			err = again
		case errors.Is(again, context.DeadlineExceeded) && ctx.Err() == nil: // it leads, or did for a moment, and does not respond
			unasked = errors.Join(unasked, again)
		default:
			return again
		}
	}
	if unasked != nil {
		return fmt.Errorf("the log has a hole on each replica that responds (%v), and some replicas do not respond: %w: %w", err, ErrUnasked, unasked)
	}
	return err
}
