package buffer

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/driver"
)

// compactEvery is the time between two calls of [driver.Compactor] for a table without imports.
const compactEvery = time.Hour

// queueCompact asks for Compactor.Compact of the table of a sink. Nothing waits for it.
func (b *Buffer) queueCompact(s *sinkState) {
	b.mu.RLock()
	def := b.compacted(s)
	b.mu.RUnlock()
	if def == nil {
		return
	}
	target := b.targetOf(s.id, def.Table.Target)
	compactor, ok := target.(driver.Compactor)
	if !ok {
		return
	}
	const key = 0 // no file has this number
	b.compacts.of(def.Table.Target).add(s.num, job{key: key, run: func(ctx context.Context) {
		b.mu.RLock()
		now := b.compacted(s)
		b.mu.RUnlock()
		if now == nil || now.Table.Target != def.Table.Target {
			return
		}
		def := now
		err := b.attempt(ctx, "compact", s.id, def.Table.Target, func(ctx context.Context) error {
			return b.alone(ctx, tableOf(def), compactPatience, func(ctx context.Context) error {
				return b.withRoom(target, 0, 0, func() error { return compactor.Compact(ctx, tableOf(def)) })
			})
		}, nil)
		if ctx.Err() != nil {
			return // the buffer closes
		}
		if _, leased := errors.AsType[*driver.LeasedError](err); err != nil && !leased { // else its holder compacts the table, or the next import does
			b.log.Warn("compact failed", "sink", s.id, "table", def.Table.ID, "cause", err, "next", "it is retried; check the target if it happens again")
		}
		b.timers.Set(timerKey{timerCompact, uint64(s.num)}, b.now().Add(compactEvery))
	}})
}

// compactLater sets the timer of a sink whose table is compacted.
func (t *txn) compactLater(s *sinkState) {
	b := t.b
	t.onDurable(func() { b.timers.Set(timerKey{timerCompact, uint64(s.num)}, b.now().Add(compactEvery)) })
}

// compacted returns the definition of a sink whose table is compacted. The sink is defined in this process, or it has its own target and is not
// forgotten yet, and then its last definition counts. Called with mu held.
func (b *Buffer) compacted(s *sinkState) *format.Definition {
	if b.ownTarget(s.id) != nil {
		return s.rec.Def
	}
	return s.def
}

// resumeCompact sets the timers of the tables after an opening. Called with mu held.
func (b *Buffer) resumeCompact() {
	for _, num := range slices.Sorted(maps.Keys(b.mu.byNum)) {
		s := b.mu.byNum[num]
		def := b.compacted(s)
		if def == nil {
			continue
		}
		if _, ok := b.targetOf(s.id, def.Table.Target).(driver.Compactor); ok {
			b.timers.Set(timerKey{timerCompact, uint64(num)}, b.now().Add(compactEvery))
		}
	}
}
