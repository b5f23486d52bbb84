package platform

import (
	"errors"
	"time"

	"github.com/forebay/forebay/storageapi"
)

// pruneBatch is how many records one change deletes at most.
const pruneBatch = 500

// prune deletes the records of jobs and events that are too old at now. Jobs that have not ended stay. Each change deletes records
// together with their index entries.
func (s *Server) prune(now time.Time) error {
	return errors.Join(
		pruneKind(s.store, "job", now, s.opts.KeepJobs, func(r jobRecord) aged {
			return aged{r.Created, r.Ended, []string{jobKey(r.ID)}}
		}),
		pruneKind(s.store, "queue-job", now, s.opts.KeepJobs, func(r queueRecord) aged {
			return aged{r.Created, r.Ended, []string{queueJobKey(r.ID)}}
		}),
		pruneKind(s.store, "event", now, s.opts.KeepEvents, func(e storedEvent) aged { return aged{e.Created, e.Created, e.keys()} }),
	)
}

// aged is a record that is deleted some time after its end. One without an end stays.
type aged struct {
	created, ended storageapi.Time
	keys           []string
}

// pruneKind deletes the records of one kind that ended longer than keep ago. Records are in the order of their creation.
func pruneKind[R any](s *store, kind string, now time.Time, keep time.Duration, look func(r R) aged) error {
	if keep < 0 {
		return nil
	}
	before := now.Add(-keep)
	for from := key(kind, ""); from != ""; {
		var keys []string
		next := ""
		err := s.view(func(tx *txn) error {
			n := 0
			for k, data := range tx.scanFrom(key(kind, ""), from) {
				var r R
				if !tx.decode(key(kind, k), data, &r) {
					break
				}
				a := look(r)
				if !a.created.Before(before) {
					break
				}
				if n++; n > pruneBatch {
					next = key(kind, k)
					break
				}
				if !a.ended.IsZero() && a.ended.Before(before) {
					keys = append(keys, a.keys...)
				}
			}
			return nil
		})
		if err == nil && len(keys) > 0 {
			err = s.update("", func(tx *txn) error { tx.delete(keys...); return nil })
		}
		if err != nil {
			return err
		}
		from = next
	}
	return nil
}
