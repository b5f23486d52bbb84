package salvage

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/forebay/forebay/buffer/internal/format"
)

// settleRejects keeps the rejected records whose head and record are whole. An edit that is lost leaves the record as it arrived.
func (p *plan) settleRejects(sink func(num uint32, id string) *ledgerOf) {
	p.keepRecords = map[string]bool{}
	order := func(a, b rejectAt) int { return cmp.Or(cmp.Compare(a.sink, b.sink), cmp.Compare(a.seq, b.seq)) }
	for _, at := range slices.SortedFunc(maps.Keys(p.rejects), order) {
		key := format.RejectKey(at.sink, at.seq)
		if p.wiped(key) {
			continue
		}
		r := p.rejects[at].rec
		has := func(revision uint32) bool {
			key := string(format.RecordKey(at.sink, at.seq, revision))
			return p.bodies[key] && !p.wiped([]byte(key))
		}
		if !has(0) {
			continue // balanceQuarantine counts it
		}
		if r.Edit > 0 && !has(r.Edit) {
			p.lose(format.Damage{
				SinkID: r.SinkID, FirstChunk: -1, LastChunk: -1,
				Reason: fmt.Sprintf("the edit of the rejected record %s is lost, the original record is not", r.ID),
			})
			r.Edit, r.Edited = 0, 0
			r.Revision++ // earlier reads of it returned other bytes
		}
		p.keepRecords[string(format.RecordKey(at.sink, at.seq, 0))] = true
		if r.Edit > 0 {
			p.keepRecords[string(format.RecordKey(at.sink, at.seq, r.Edit))] = true
		}
		l := sink(at.sink, r.SinkID)
		r.SinkID = l.rec.ID
		l.moved = l.moved || r.Moved
		if r.From == nil {
			l.held.Add(1, r.Size())
		} // else it arrives, and the ledger does not count it yet
		p.set(key, format.Encode(&r))
	}
}

// balanceQuarantine makes the ledger of the quarantine hold. Records that it knew and that are nowhere are lost.
func (l *ledgerOf) balanceQuarantine(p *plan) {
	q := &l.rec.Quarantine
	lost := q.Added.Rows - q.Left() - l.held.Rows
	switch {
	case lost > 0:
		q.Lost.Add(lost, 0)
		p.lose(format.Damage{
			SinkID: l.rec.ID, FirstChunk: -1, LastChunk: -1,
			Reason: fmt.Sprintf("%d records of the quarantine are lost, or have left it and the record of that is lost", lost),
		})
	case lost < 0:
		q.Added.Add(-lost, 0)
		p.lose(format.Damage{
			SinkID: l.rec.ID, FirstChunk: -1, LastChunk: -1,
			Reason: fmt.Sprintf("the quarantine has %d records more than its ledger: they are new, or have left it and the record of that is lost; "+
				"look into the table before you replay them", -lost),
		})
	}
	if (l.held.Rows > 0 || l.moved) && q.MaxAge == 0 { // its bounds are lost, so it keeps the records until the next definition
		q.MaxBytes, q.MaxRecords, q.MaxAge = 1<<62, 1<<30, 1<<62
	}
}
