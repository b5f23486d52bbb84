package changelog_test

import (
	"context"

	"github.com/forebay/forebay/cluster/changelog"
)

// lateLog accepts records of fenced writers after the marker that fences them, which the contract of a log allows. They are void
// by their epoch.
type lateLog struct {
	changelog.Log
	s    *simulation
	sent []changelog.Record // the newest of all writers, guarded by the lock of s
}

func (l *lateLog) Open(ctx context.Context, instance string, marker changelog.Record) (changelog.Writer, error) {
	w, err := l.Log.Open(ctx, instance, marker)
	return &lateWriter{w, l}, err
}

type lateWriter struct {
	changelog.Writer
	log *lateLog
}

func (w *lateWriter) Append(r changelog.Record) changelog.Ticket {
	if late, ok := w.log.draw(r); ok {
		w.Writer.Append(late) // if it fails, so does r
	}
	return w.Writer.Append(r)
}

// draw remembers a record and returns one of a lower epoch, or of another node of the same epoch, or none.
func (l *lateLog) draw(r changelog.Record) (late changelog.Record, ok bool) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.sent = append(l.sent, r)
	l.sent = l.sent[max(0, len(l.sent)-20):]
	late = l.sent[l.s.chaos.IntN(len(l.sent))]
	if late.Epoch == r.Epoch && late.Node == r.Node || l.s.chaos.IntN(2) == 0 {
		return late, false
	}
	l.s.count["void"]++
	return late, true
}
