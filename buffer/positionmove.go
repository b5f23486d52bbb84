package buffer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/forebay/forebay/buffer/internal/format"
)

// ErrPositionArrives is returned for a position that is moving here from a different engine. Repeat the call when the move has ended.
var ErrPositionArrives = errors.New("the position is moving here from a different engine: repeat the call when the move has ended")

// arrivingPosition begins the names of positions that arrive, in the record of their sink. The instance that they come from and their own name follow.
// So an earlier release that reads the record keeps them, and takes none of them for a position of its own.
const arrivingPosition = "arriving\x00"

func arrivingName(instance, name string) string { return arrivingPosition + instance + "\x00" + name }

// parseArriving returns the instance and the name of a position that arrives.
func parseArriving(key string) (instance, name string, ok bool) {
	rest, ok := strings.CutPrefix(key, arrivingPosition)
	instance, name, _ = strings.Cut(rest, "\x00")
	return instance, name, ok
}

// positionArrives reports whether a position arrives from an engine. Called with mu held.
func (s *sinkState) positionArrives(name string) bool {
	for key := range s.rec.Positions {
		if _, arriving, ok := parseArriving(key); ok && arriving == name {
			return true
		}
	}
	return false
}

// positions returns the number of positions that do not arrive from an engine. Called with mu held.
func (s *sinkState) positions() (n int) {
	for key := range s.rec.Positions {
		if _, _, arriving := parseArriving(key); !arriving {
			n++
		}
	}
	return n
}

// Positions returns the number of positions whose names begin with a prefix, in all sinks.
func (m Moves) Positions(prefix string) (n int) {
	m.b.mu.RLock()
	defer m.b.mu.RUnlock()
	for _, s := range m.b.mu.sinks {
		for name := range s.rec.Positions {
			if strings.HasPrefix(name, prefix) {
				n++
			}
		}
	}
	return n
}

// ReceivePositions copies the positions of another buffer whose names begin with a prefix into this one, durably, and returns how many there are. The
// caller lets nothing change them until [Moves.EndArrival], and no caller finds them here until then. If a sink has a position of the name already, the
// copy is dropped at the end. ReceivePositions first deletes the copies that an earlier call made for the instance.
//
// It fails with a [*FailedError], [ErrClosed] or the error of ctx. After an error call EndArrival, or repeat the call.
func (m Moves) ReceivePositions(ctx context.Context, other *Buffer, prefix string, by Mover) (positions int, err error) {
	b := m.b
	if other == nil || other.store == nil || by.Instance == "" {
		return 0, errors.New("buffer: the positions of an open buffer move, and the mover names its instance")
	}
	if err := b.endPositions(ctx, by.Instance, false); err != nil {
		return 0, err
	}
	list := map[string][]Position{} // by sink
	other.mu.RLock()
	for id, s := range other.mu.sinks {
		for name, value := range s.rec.Positions {
			if strings.HasPrefix(name, prefix) {
				copied := format.ArrivingPosition{From: format.Arrival(by), Value: bytes.Clone(value)}
				list[id] = append(list[id], Position{Name: arrivingName(by.Instance, name), Value: format.Encode(&copied)})
				positions++
			}
		}
	}
	other.mu.RUnlock()
	if positions == 0 {
		return 0, nil
	}
	if err := b.upgradeFor(format.Kept); err != nil {
		return 0, err
	}
	if err := b.do(ctx, func(t *txn) {
		t.upgrade(format.Kept)
		for id, some := range list {
			for _, p := range some {
				t.setPosition(t.sinkNamed(id), p)
			}
		}
	}); err != nil {
		return 0, fmt.Errorf("buffer: receive %d positions from instance %s: %w", positions, by.Instance, err)
	}
	return positions, nil
}

// endPositions ends the arrival of the positions of an instance.
func (b *Buffer) endPositions(ctx context.Context, instance string, accept bool) error {
	if (Moves{b}).Positions(arrivingName(instance, "")) == 0 {
		return nil
	}
	var damaged error
	if err := b.do(ctx, func(t *txn) {
		for _, s := range b.mu.sinks {
			for key, value := range s.rec.Positions {
				from, name, ok := parseArriving(key)
				if !ok || from != instance {
					continue
				}
				var a format.ArrivingPosition
				if err := format.Decode(value, &a); err != nil {
					damaged = fmt.Errorf("buffer: the position %q that arrives in sink %q from instance %s: %w", name, s.id, instance, err)
					continue
				}
				delete(s.rec.Positions, key)
				t.touchSink(s)
				if _, has := s.rec.Positions[name]; accept && !has {
					t.setPosition(s, Position{name, a.Value})
				}
			}
		}
	}); err != nil {
		return err // the committer may still set damaged
	}
	return damaged
}
