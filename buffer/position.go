package buffer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/missing"
)

// Position is the progress of a caller that makes rows for a sink from an ordered source, for [Rows.Position]. The rows and the position
// after them are one batch, so a caller that begins again at [SinkHandle.Position] makes each row once.
type Position struct {
	// Name tells the positions of one sink apart. [SinkHandle.SetPosition] has begun it.
	Name string
	// Value is the caller's, up to 4 KiB. Append keeps it. Do not change it.
	Value []byte
}

// RunPosition is the prefix of the names of the positions of replays of an archive. [Moves.ReceivePositions] moves them with the instance of a lost node.
const RunPosition = "replay/"

// Bounds of positions. The record of a sink holds them, and each commit with one writes that record.
const (
	maxPositions     = 16
	maxPositionName  = 64
	maxPositionValue = 4 << 10
)

// ErrTooManyPositions is returned by [SinkHandle.SetPosition] for a 17th position of a sink.
var ErrTooManyPositions = errors.New("a sink may have at most 16 positions")

// Position returns the value of a position that is on disk, nil if there is none. Rows that were appended before the call, with later
// positions, are on disk or have failed when it returns. The caller owns the value.
//
// Errors: [ErrUnknownSink], [ErrPositionArrives], a [*FailedError], [ErrClosed], the error of ctx.
func (h SinkHandle) Position(ctx context.Context, name string) ([]byte, error) {
	all, arriving, err := h.positions(ctx)
	if err == nil && all[name] == nil && arriving[name] {
		err = fmt.Errorf("buffer: position %q of sink %q: %w", name, h.id, ErrPositionArrives)
	}
	return all[name], err
}

// Positions is [SinkHandle.Position] for all positions of a sink. It leaves out positions that arrive.
func (h SinkHandle) Positions(ctx context.Context) (map[string][]byte, error) {
	found, _, err := h.positions(ctx)
	return found, err
}

// positions returns the positions of a sink, and the names of those that arrive.
func (h SinkHandle) positions(ctx context.Context) (found map[string][]byte, arriving map[string]bool, err error) {
	unknown := false
	err = h.b.do(ctx, func(*txn) {
		s := h.b.mu.sinks[h.id]
		if unknown = s == nil; !unknown {
			found = maps.Clone(s.rec.Positions)
		}
	})
	switch {
	case err != nil:
		return nil, nil, err
	case unknown:
		return nil, nil, fmt.Errorf("%w: %q", ErrUnknownSink, h.id)
	}
	arriving = map[string]bool{}
	for name, value := range found {
		found[name] = bytes.Clone(value)
		if _, arrives, ok := parseArriving(name); ok {
			arriving[arrives] = true
			delete(found, name)
		}
	}
	return found, arriving, nil
}

// SetPosition begins a position or sets it without rows, durably. A nil value ends it. The first position upgrades the data directory to a
// format that earlier releases cannot open.
//
// Errors: [ErrTooManyPositions] and the errors of [SinkHandle.Position].
func (h SinkHandle) SetPosition(ctx context.Context, p Position) error {
	b, sinkID := h.b, h.id
	if len(p.Name) == 0 || len(p.Name) > maxPositionName || len(p.Value) > maxPositionValue {
		return fmt.Errorf("buffer: position %.80q with %d bytes: a name has 1 to %d bytes, a value up to %d", p.Name, len(p.Value), maxPositionName, maxPositionValue)
	}
	if p.Value != nil {
		if err := b.upgradeFor(format.Kept); err != nil {
			return err
		}
	}
	value := bytes.Clone(p.Value)
	var refused error
	err := b.do(ctx, func(t *txn) {
		s := b.mu.sinks[sinkID]
		if s == nil {
			refused = fmt.Errorf("%w: %q", ErrUnknownSink, sinkID)
			return
		}
		if s.positionArrives(p.Name) {
			refused = fmt.Errorf("buffer: position %q of sink %q: %w", p.Name, sinkID, ErrPositionArrives)
			return
		}
		if value == nil {
			delete(s.rec.Positions, p.Name)
			t.touchSink(s)
			return
		}
		if _, known := s.rec.Positions[p.Name]; !known && s.positions() >= maxPositions {
			refused = fmt.Errorf("%w: %q", ErrTooManyPositions, sinkID)
			return
		}
		t.upgrade(format.Kept)
		t.setPosition(s, Position{p.Name, value})
	})
	if err != nil {
		return err // the committer may still set refused
	}
	return refused
}

// setPosition puts a position into the record of the sink.
func (t *txn) setPosition(s *sinkState, p Position) {
	if s.rec.Positions == nil {
		s.rec.Positions = make(map[string][]byte)
	}
	s.rec.Positions[p.Name] = p.Value
	t.touchSink(s)
}

// addPositions moves the positions of the rows of a chunk. One that was ended meanwhile stays ended.
func (t *txn) addPositions(c *chunk) {
	for _, p := range c.positions {
		if _, known := c.sink.rec.Positions[p.Name]; known {
			t.setPosition(c.sink, p)
		}
	}
}

// targetOf returns the target of a sink whose table names a target.
func (b *Buffer) targetOf(sinkID, name string) driver.Target {
	if t := b.ownTarget(sinkID); t != nil {
		return t
	}
	return b.targetNamed(name)
}

// targetNamed returns the target with a name.
func (b *Buffer) targetNamed(name string) driver.Target {
	if name == "" {
		return b.opts.Target
	}
	if t := b.opts.Targets[name]; t != nil {
		return t
	}
	return missing.Target{Reason: errNoTarget(name)}
}

// targetOfFile is targetOf for the rows of a file. They go to the target that the sink had when the file was opened.
func (b *Buffer) targetOfFile(f *file) driver.Target {
	return b.targetOf(f.sink.id, f.target)
}

// targetIsMissing reports whether the options lack the target of a file.
func (b *Buffer) targetIsMissing(f *file) bool {
	_, is := b.targetOfFile(f).(missing.Target)
	return is
}

// errNoTarget is the reason why rows wait for a target of a name that the options do not have.
func errNoTarget(name string) error {
	return fmt.Errorf("there is no target %q: add it to the targets to import its waiting rows", name)
}

// ownTarget returns the target that Options.TargetOf gives to a sink, nil if it uses the common one.
func (b *Buffer) ownTarget(sinkID string) driver.Target {
	if b.opts.TargetOf == nil {
		return nil
	}
	return b.opts.TargetOf(sinkID)
}
