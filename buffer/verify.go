package buffer

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/driver"
)

// Report is the result of [Buffer.Verify], the counters of the ledger next to the recounted rows.
type Report struct {
	// Sinks are sorted by id.
	Sinks []SinkReport
}

// OK reports whether nothing differs.
func (r Report) OK() bool {
	for _, s := range r.Sinks {
		if len(s.Differences) > 0 {
			return false
		}
	}
	return true
}

// SinkReport compares one sink. The ledger holds when Accepted = Imported + Local + Staging + Expired +
// Damaged + Discarded + Poison.
type SinkReport struct {
	// ID is the id of the sink.
	ID string
	// Accepted, Imported, Expired, Damaged and Discarded are the counters of the ledger.
	Accepted, Imported, Expired, Damaged, Discarded int64
	// Poison counts the rows that the target refused and that went to the quarantine.
	Poison int64
	// Quarantined are the rejected records that could be read back. They are no rows. See [QuarantineStats] for their ledger.
	Quarantined int64
	// Local and Staging are the rows counted in the stored bytes.
	Local, Staging int64
	// TakenAway are imported rows that readers of the table removed on purpose. See [driver.Taker]. Imported includes them.
	TakenAway int64
	// Differences describe in words what does not agree. It is empty when everything agrees.
	Differences []string
}

// Verify recounts the stored rows of every sink and compares them with the ledger. It reads and decodes every local chunk
// and every staged object. It asks a target that is a [driver.Counter] for the rows of the imported files that are still listed.
// Rows keep flowing meanwhile. A slice that moves on while it is read is left out, so a report made under load may be
// partial, but a difference is always a real one. The error is about reading, not about the ledger.
func (b *Buffer) Verify(ctx context.Context) (Report, error) {
	// Read within a commit. When it returns, the store has everything that the records speak of. The state in memory may
	// be ahead of it.
	return b.verify(ctx, func(read func()) error { return b.do(ctx, func(*txn) { read() }) })
}

// verify compares all sinks. view calls a function that reads the state.
func (b *Buffer) verify(ctx context.Context, view func(read func()) error) (Report, error) {
	var ids []string
	if err := view(func() { ids = slices.Sorted(maps.Keys(b.mu.sinks)) }); err != nil {
		return Report{}, err
	}
	var report Report
	for _, id := range ids {
		var l ledger
		err := view(func() { l = b.ledger(id) })
		if err == nil {
			err = b.verifySink(ctx, &l)
		}
		if err != nil {
			return report, fmt.Errorf("buffer: verify sink %q: %w", id, err)
		}
		report.Sinks = append(report.Sinks, l.report)
	}
	return report, nil
}

// part is a slice that waits, as the ledger has it.
type part struct {
	sl    *slice
	state format.SliceState
	format.Tally
	ext   format.Extent
	sum   format.Checksum
	whole int64 // rows before damage was set aside, as the chunks count them
	obj   driver.Object
}

// ended is an imported file.
type ended struct {
	table driver.Table
	id    string
	rows  int64
}

// ledger is the state of one sink according to the records.
type ledger struct {
	report   SinkReport
	parts    []part
	waiting  int64
	imported []ended
	epoch    uint64
	// held and quarantine are the rejected records and their ledger.
	held       []held
	quarantine format.Quarantine
}

// ledger reads the records of a sink. Called with mu held.
func (b *Buffer) ledger(id string) ledger {
	s := b.mu.sinks[id]
	l := ledger{epoch: b.store.Now().Epoch, report: SinkReport{ID: id}}
	if s == nil {
		return l // its definition had not reached the disk when the store was reopened
	}
	l.held, l.quarantine = s.held.clone(), s.rec.Quarantine
	l.report.Accepted, l.report.Imported = s.accepted().Rows, s.rec.Imported.Rows
	l.report.Expired, l.report.Damaged, l.report.Discarded = s.rec.Expired.Rows, s.rec.Damaged.Rows, s.rec.Discarded.Rows
	l.report.Poison = s.rec.Poison.Rows
	for _, f := range s.files {
		switch {
		case f.rec.Forgotten:
		case f.rec.Split != nil:
			for _, p := range f.rec.Split.Parts {
				if p.Imported {
					l.imported = append(l.imported, ended{tableOf(f.rec.Def), p.ID, cmp.Or(p.Rows, p.Left())})
				}
			}
		case f.rec.State == format.FileImported:
			l.imported = append(l.imported, ended{tableOf(f.rec.Def), b.fileID(f), f.rec.Rows})
		}
		for _, sl := range f.slices {
			if sl.rec.State != format.SliceImported {
				l.parts = append(l.parts, part{sl, sl.rec.State, sl.Tally, sl.rec.Extent(), sl.rec.Object, sl.Rows + sl.rec.Lost.Rows, b.object(sl)})
				l.waiting += sl.Rows
			}
		}
	}
	return l
}

// verifySink compares the ledger of a sink with the stored rows and completes its report.
func (b *Buffer) verifySink(ctx context.Context, l *ledger) error {
	r := &l.report
	differ := func(format string, args ...any) { r.Differences = append(r.Differences, fmt.Sprintf(format, args...)) }
	if r.Accepted != r.Imported+r.Expired+r.Damaged+r.Discarded+r.Poison+l.waiting {
		differ("ledger: accepted %d, but imported %d + waiting %d + expired %d + damaged %d + discarded %d + refused by the target %d",
			r.Accepted, r.Imported, l.waiting, r.Expired, r.Damaged, r.Discarded, r.Poison)
	}
	for _, p := range l.parts {
		if err := ctx.Err(); err != nil {
			return err
		}
		var rows, raw int64
		var err error
		switch {
		case p.state == format.SliceUploaded && b.opts.Staging == nil: // only in an Inspection
			rows, raw = p.Rows, p.Raw
		case p.state == format.SliceUploaded:
			rows, raw, _, err = b.countStaged(ctx, p.obj, p.sum)
		default:
			rows, raw, err = b.countLocal(p.sl.num, p.ext, p.whole)
		}
		b.mu.RLock()
		moved := p.sl.rec.State != p.state && (p.sl.rec.State != format.SliceUploading || p.state != format.SliceWriting)
		reopened := b.store.Now().Epoch != l.epoch
		b.mu.RUnlock()
		if f := b.failure(); f != nil {
			return f
		}
		if reopened {
			return errReopened
		}
		if moved {
			continue
		}
		if damage, ok := errors.AsType[*DamageError](err); ok {
			damage.SinkID, damage.SliceID = r.ID, p.obj.ID
			if b.reportDamage(damage) {
				return &FailedError{Err: b.storeDamage(damage)}
			}
			differ("%v", damage)
			continue
		}
		if errors.Is(err, fs.ErrNotExist) {
			differ("slice %s: its %d rows are no longer in staging", p.obj.ID, p.Rows)
			continue
		}
		if unreadable := (*stagedError)(nil); errors.As(err, &unreadable) && ctx.Err() == nil {
			differ("slice %s: %d rows in staging cannot be read: %v", p.obj.ID, p.Rows, unreadable.err)
			continue
		}
		if err != nil {
			return err
		}
		if p.state == format.SliceUploaded {
			r.Staging += rows
		} else {
			r.Local += rows
		}
		if rows != p.Rows || raw != p.Raw {
			differ("slice %s (%s): %d rows of %d bytes are stored, the ledger has %d of %d", p.obj.ID, p.state, rows, raw, p.Rows, p.Raw)
		}
	}
	if err := b.verifyHeld(ctx, l, differ); err != nil {
		return err
	}
	for _, f := range l.imported {
		target := b.targetOf(r.ID, f.table.Target)
		if counter, ok := target.(driver.Counter); ok {
			var n int64
			taken := false
			if err := b.Alone(ctx, f.table, func(ctx context.Context) (err error) {
				if n, err = counter.CountFile(ctx, f.table, f.id); err != nil {
					return err
				}
				if taker, ok := target.(driver.Taker); ok && n < f.rows {
					taken, err = taker.TakenAway(ctx, f.table, f.id)
				}
				return err
			}); err != nil {
				return err
			}
			switch {
			case taken:
				r.TakenAway += f.rows - n
			case n != f.rows:
				differ("file %s: the table has %d rows of it, the ledger %d", f.id, n, f.rows)
			}
		}
	}
	return nil
}

// countLocal counts the rows of the stored chunks of a slice up to the row number upTo, because a writing slice grows
// meanwhile.
func (b *Buffer) countLocal(num uint64, ext format.Extent, upTo int64) (rows, raw int64, err error) {
	err = b.eachChunk(num, ext, func(seq int, h format.ChunkHeader, payload []byte) error {
		if h.Slice.Rows > upTo {
			return io.EOF
		}
		n, size, err := countRows(driver.Encoding(h.Encoding), io.NopCloser(bytes.NewReader(payload)))
		if err != nil {
			return &DamageError{Chunk: seq, Rows: h.Rows, Err: err}
		}
		if n != h.Rows || size != h.Raw {
			return &DamageError{Chunk: seq, Rows: h.Rows, Err: fmt.Errorf("%d rows of %d bytes, its head says %d of %d",
				n, size, h.Rows, h.Raw)}
		}
		rows += n
		raw += size
		return nil
	})
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return rows, raw, err
}
