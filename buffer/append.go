package buffer

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/internal/pebblestore"
)

// chunkBytes is the size at which a chunk is full and a new one begins, within the same commit.
const chunkBytes = 256 << 10

// Rows are encoded rows for one sink.
type Rows struct {
	// Sink is a handle of [Buffer.Define].
	Sink *DefinedSink
	// Data is CSV. Each row ends with "\n". Append copies it.
	Data []byte
	// Count is the number of rows in Data.
	Count int
	// Rejects are records that the sink cannot map, for its quarantine (see [SinkConfig.Quarantine]). They are stored in one batch with the
	// rows. There may be no rows then. Append copies them. Default: none.
	Rejects []Reject

	// Claim is the turn of the call that the rows belong to, and Receipt is the data that a later call with its key finds.
	// They are stored in one batch with the rows. Append copies Receipt. Default: the rows have no key.
	Claim   *Claim
	Receipt []byte

	// Position, if not nil, is stored in one batch with the rows. Default: none.
	Position *Position
}

// Append accepts rows for one or more sinks, all or none of them. It returns as soon as they are in memory. at is the
// time of acceptance. Rows that no caller waits for are on disk after Tuning.SyncInterval and one commit.
//
// With an error nothing was taken: [*OverloadError] (retry later), [*TooLargeError] (more than can ever be admitted),
// [ErrClosed], [*FailedError], or the error of ctx.
func (b *Buffer) Append(ctx context.Context, at time.Time, rows ...Rows) (Ticket, error) {
	return b.append(ctx, at, rows, false)
}

// AppendWhenRoom is Append that waits at a bound, including the bound of one sink, until there is room or ctx ends.
// Callers get room in order of arrival, calls for one sink among each other, and all calls where the memory or the disk is
// full. Calls of Append that arrive meanwhile queue after them or are refused.
//
// When ctx ends nothing was taken, and the error wraps its cause and the [*OverloadError] that names the full resource.
// Errors other than a full bound are returned at once.
func (b *Buffer) AppendWhenRoom(ctx context.Context, at time.Time, rows ...Rows) (Ticket, error) {
	return b.append(ctx, at, rows, true)
}

func (b *Buffer) append(ctx context.Context, at time.Time, rows []Rows, patient bool) (Ticket, error) {
	if err := ctx.Err(); err != nil {
		return Ticket{}, context.Cause(ctx)
	}
	ticket := Ticket{b: b, epoch: b.store.Now().Epoch, local: true} // read before looking at state that a reopening changes
	var size int64
	for i := range rows {
		if rows[i].Sink == nil {
			return Ticket{}, fmt.Errorf("buffer: append: element %d has no Sink", i)
		}
		if (rows[i].Count < 1 || len(rows[i].Data) == 0) && (len(rows[i].Rejects) == 0 || rows[i].Count != 0 || len(rows[i].Data) > 0) {
			return Ticket{}, fmt.Errorf("buffer: append to sink %q: %d rows of %d bytes", rows[i].Sink.ID(), rows[i].Count, len(rows[i].Data))
		}
		if rows[i].Sink.state.gone.Load() {
			return Ticket{}, fmt.Errorf("%w: %q was lost in a failure of the disk, define it again", ErrUnknownSink, rows[i].Sink.ID())
		}
		size += int64(len(rows[i].Data))
		ticket.local = ticket.local && rows[i].Sink.local
		if len(rows[i].Rejects) > 0 && !rows[i].Sink.state.hadQuarantine(b) {
			return Ticket{}, fmt.Errorf("%w: %q", ErrNoQuarantine, rows[i].Sink.ID())
		}
		for _, r := range rows[i].Rejects {
			size += r.size()
		}
		size += rows[i].noteSize()
	}
	if err := b.admission.admit(ctx, rows, size, patient, ticket.local); err != nil {
		return Ticket{}, err
	}
	// Close waits for the callers that are inside, so it finds the rows of all sinks or of none.
	b.gate.intake.RLock()
	defer b.gate.intake.RUnlock()
	if b.store.Now().Phase >= pebblestore.PhaseClosing {
		b.admission.cancel(rows, size, patient)
		return Ticket{}, ErrClosed
	}
	ms := at.UnixMilli()
	var last *group
	for i := range rows {
		r := &rows[i]
		g := r.Sink.append(r, ms, patient)
		if last != nil && g != last {
			ticket.many = true
		}
		if last == nil || g.seq > last.seq {
			last = g
		}
	}
	if last != nil && !last.noticed.Load() && last.noticed.CompareAndSwap(false, true) {
		b.gate.kick()
	}
	ticket.g = last
	return ticket, nil
}

// chunk gathers the rows of one sink and definition for one commit.
type chunk struct {
	sink  *sinkState
	def   *format.Definition
	group *group
	data  []byte
	// precompressed is set when data holds one gzip member for each Append. See DefinedSink.precompress.
	precompressed bool
	local         bool // its callers do not wait for the changelog
	appends       int  // how many have put rows into it
	notes         []note
	positions     []Position
	rejects       []rejectedRow
	rejectBytes   int64
	noteBytes     int64
	raw           int64 // row bytes
	rows          int64
	first         int64
	last          int64
}

// rejectedRow is a rejected record on its way to the disk.
type rejectedRow struct {
	Reject
	at int64
}

// release ends the shares of a chunk in its sink.
func (c *chunk) release() {
	c.sink.room.pending.Add(-c.raw)
	if len(c.rejects) > 0 {
		c.sink.rejecting.records.Add(-int64(len(c.rejects)))
		c.sink.rejecting.bytes.Add(-c.rejectBytes)
	}
}

// addRejects copies rejected records into the chunk and returns their bytes.
func (c *chunk) addRejects(rejects []Reject, at int64) (size int64) {
	for _, r := range rejects {
		c.rejects = append(c.rejects, rejectedRow{Reject{slices.Clone(r.Info), slices.Clone(r.Data)}, at})
		size += r.size()
	}
	c.rejectBytes += size
	c.sink.rejecting.records.Add(int64(len(rejects)))
	c.sink.rejecting.bytes.Add(size)
	return size
}

// append puts rows into the sink's open chunk and returns the group that will commit them. reserved is set when the rows
// have their room of the sink already. Otherwise it is counted under the lock, because two cores would fight for the counter.
func (s *DefinedSink) append(r *Rows, at int64, reserved bool) *group {
	st, data := s.state, r.Data
	size := int64(len(data))
	pre := s.precompress(data)
	member := pre.member()
	st.mu.Lock()
	c := st.open
	if c == nil || c.def != s.def || c.raw+size > chunkBytes && c.rows > 0 || c.precompressed && member == nil || c.local != s.local || c.group.full.Load() {
		if s.local {
			c = s.b.gate.joinLocal(st, s.def)
		} else {
			c = s.b.gate.join(st, s.def)
		}
		c.precompressed = member != nil
		st.open = c
	}
	if r.Count > 0 {
		if c.precompressed {
			data = member
		}
		if c.rows == 0 {
			c.first = at
		}
		c.first, c.last = min(c.first, at), max(c.last, at)
		c.data = append(c.data, data...)
		c.raw += size
		c.rows += int64(r.Count)
		c.appends++
		if !reserved {
			st.room.pending.Add(size)
		}
	}
	if len(r.Rejects) > 0 {
		size += c.addRejects(r.Rejects, at)
	}
	if r.Claim != nil {
		c.notes = append(c.notes, newNote(r, at))
		c.noteBytes += r.noteSize()
		size += r.noteSize()
	}
	if r.Position != nil {
		c.positions = append(c.positions, *r.Position)
	}
	g := c.group
	st.mu.Unlock()
	pre.release()
	s.b.gate.grow(g, size)
	return g
}
