package quarantine

import (
	"context"
	"errors"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/internal/kept"
	"github.com/forebay/forebay/mapping"
)

// ReplayResult counts what became of the records of a replay.
type ReplayResult struct {
	// Replayed records are rows now. Rejected records have failed again and stay in the quarantine, with the new reason. Gone records had
	// left the quarantine because another call has replayed or discarded them, or they have expired.
	Replayed, Rejected, Gone int
}

const (
	// replayRecords and replayBytes bound the records that one commit of a replay reads and maps.
	replayRecords = 256
	replayBytes   = 1 << 20
)

// Replay maps records with the current definition of the sink and moves the accepted ones to its rows, durably. Each becomes one row
// whatever fails and however often Replay is called. Other sinks of the source are not touched. The row has the arrival time of
// the event, and follows the rows of later events.
//
// It also fails with the errors of [Host.Sink], which an engine returns for a source that is disabled or a sink that is disabled or
// was removed, or an [*buffer.OverloadError]. Records before the error are counted in the result. The call may be repeated.
func (q Quarantine) Replay(ctx context.Context, ids ...string) (res ReplayResult, err error) {
	p := replayer{q: q}
	for _, id := range ids {
		if err := p.add(ctx, id); err != nil {
			err = errors.Join(err, p.flush(ctx)) // the mapped records do not wait for the next call
			return p.res, err
		}
	}
	err = p.flush(ctx)
	return p.res, err
}

// ReplayAll is Replay for the records that a filter selects when it is called. Records that are rejected meanwhile, or fail again,
// are not tried once more.
func (q Quarantine) ReplayAll(ctx context.Context, f Filter) (ReplayResult, error) {
	ids, err := q.ids(ctx, f)
	if err != nil {
		return ReplayResult{}, err
	}
	return q.Replay(ctx, ids...)
}

// replayer maps records and gathers their rows for a commit.
type replayer struct {
	q    Quarantine
	res  ReplayResult
	sink Sink // of the rows that wait
	rows []buffer.ReplayRow
	size int
}

// add maps one record. Its row waits for flush. A rejection is recorded immediately.
func (p *replayer) add(ctx context.Context, id string) error {
	if len(p.rows) == replayRecords || p.size >= replayBytes {
		if err := p.flush(ctx); err != nil {
			return err
		}
	}
	s, err := p.q.host.Sink(ctx)
	if err != nil {
		return err
	}
	if len(p.rows) > 0 && (p.sink.Handle != s.Handle || p.sink.Mapper != s.Mapper) { // the definition has changed
		if err := p.flush(ctx); err != nil {
			return err
		}
	}
	p.sink = s
	for {
		c, data, err := Read(ctx, p.q, id)
		switch {
		case errors.Is(err, buffer.ErrUnknownRejected):
			p.res.Gone++
			return nil
		case err != nil:
			return err
		}
		row, cause := s.row(&c, data)
		if size := len(row); cause == nil && size > s.MaxRowBytes {
			cause = &mapping.RowTooLargeError{Size: size, Limit: s.MaxRowBytes}
		}
		if cause == nil {
			p.rows = append(p.rows, buffer.ReplayRow{ID: id, Revision: c.Revision, Row: row})
			p.size += len(row)
			return nil
		}
		info := kept.RejectionOf(cause, kept.DefinitionName{Mapping: s.Mapping, Version: s.Version})
		info.Failed, info.TriedAt = c.Failed+1, time.Now().UTC()
		info.EditedAt, info.EditedBy = c.EditedAt, c.EditedBy
		switch err := p.q.buf.Sink(p.q.id()).UpdateRejected(ctx, id, c.Revision, info.Encode(), nil); {
		case errors.Is(err, buffer.ErrRejectedChanged):
			continue
		case errors.Is(err, buffer.ErrUnknownRejected):
			p.res.Gone++
			return nil
		case err != nil:
			return p.q.host.Known(err)
		}
		p.res.Rejected++
		return nil
	}
}

// row maps a record of the quarantine. Of a row that the target has refused it takes the cells. data is the stored form.
func (s *Sink) row(c *Content, data []byte) ([]byte, error) {
	if c.Poison == nil {
		return s.Mapper.AppendRow(nil, c.Record)
	}
	cells, _, err := s.refusedRow(c.Poison, data)
	if err != nil {
		return nil, err
	}
	return kept.AppendCells(nil, cells), nil
}

// flush moves the records whose rows wait. A record that was edited since it was mapped is mapped once more.
func (p *replayer) flush(ctx context.Context) error {
	rows := p.rows
	if p.rows, p.size = nil, 0; len(rows) == 0 {
		return nil
	}
	outcomes, err := p.sink.Handle.ReplayRejected(ctx, time.Now(), rows...)
	if err != nil {
		return p.q.host.Known(err)
	}
	var again []string
	for i, err := range outcomes {
		switch {
		case err == nil:
			p.res.Replayed++
		case errors.Is(err, buffer.ErrRejectedChanged):
			again = append(again, rows[i].ID)
		default:
			p.res.Gone++
		}
	}
	for _, id := range again {
		if err := p.add(ctx, id); err != nil {
			return err
		}
	}
	return p.flush(ctx)
}
