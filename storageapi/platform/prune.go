package platform

import (
	"errors"
	"time"

	"github.com/forebay/forebay/storageapi"
)

// pruneBatch is how many records one change deletes at most.
const pruneBatch = 500

// prune deletes the records of jobs and events whose time is over at now. A job that has not ended stays, whatever its age. Each
// change deletes records together with what refers to them, so that a crash leaves nothing half.
func (s *Server) prune(now time.Time) error {
	return errors.Join(
		s.pruneKind("job", now, s.opts.KeepJobs, func(rec record) (aged, error) {
			var r jobRecord
			err := rec.decode(&r)
			return aged{r.Created, r.Ended, []string{jobKey(r.ID)}}, err
		}),
		s.pruneKind("queue-job", now, s.opts.KeepJobs, func(rec record) (aged, error) {
			var r queueRecord
			err := rec.decode(&r)
			return aged{r.Created, r.Ended, []string{queueJobKey(r.ID)}}, err
		}),
		s.pruneKind("event", now, s.opts.KeepEvents, func(rec record) (aged, error) {
			var e storedEvent
			err := rec.decode(&e)
			return aged{e.Created, e.Created, e.keys()}, err
		}),
	)
}

// aged is a record that is deleted some time after its end. One without an end stays.
type aged struct {
	created, ended storageapi.Time
	keys           []string
}

// pruneKind deletes what has ended longer than keep ago, of one kind of records, which stand in the order of their creation.
func (s *Server) pruneKind(kind string, now time.Time, keep time.Duration, look func(rec record) (aged, error)) error {
	if keep < 0 {
		return nil
	}
	before := now.Add(-keep)
	for from := key(kind, ""); from != ""; {
		var keys []string
		next := ""
		err := s.store.view(func(tx *txn) error {
			n := 0
			for k, rec := range tx.scanFrom(key(kind, ""), from) {
				a, err := look(rec)
				if err != nil || !a.created.Before(before) {
					return err
				}
				if n++; n > pruneBatch {
					next = key(kind, k)
					return nil
				}
				if !a.ended.IsZero() && a.ended.Before(before) {
					keys = append(keys, a.keys...)
				}
			}
			return nil
		})
		if err == nil && len(keys) > 0 {
			err = s.store.update("", func(tx *txn) error {
				for _, k := range keys {
					if err := tx.delete(k); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err != nil {
			return err
		}
		from = next
	}
	return nil
}
