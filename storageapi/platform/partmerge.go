package platform

import (
	"context"
	"errors"
	"math"

	"github.com/forebay/forebay/storageapi"
)

// Each import adds a part, and reading a table opens all its parts. So neighbouring parts are merged in the background when an
// import has made them too many. Then mergeCount parts of about one size become one. A row is rewritten once for each size that its
// part grows through, not with each import.
//
// A merge is queued with the key of its table, so it never runs during a job that changes the table. It has no record. Until its
// one change is on disk, the table consists of the old parts, and the next opening sweeps the new file. The merged part keeps the
// times of the imports, because a query can select rows by time.

const (
	// mergeCount is how many parts of about one size make a merge.
	mergeCount = 10
	// smallPart is the size up to which parts are of one size, in bytes. Each further size is mergeCount times as large.
	smallPart = 256 << 10
	// maxMerged bounds a merged part in bytes, and so the time that imports of the table wait for a merge.
	maxMerged = 128 << 20
	// maxSpans bounds the imports whose rows are in one part, because their times are in its record.
	maxSpans = 4096
)

// sizeClass orders parts by their size.
func sizeClass(bytes int64) int {
	class := 0
	for limit := int64(smallPart); bytes > limit && class < 10; limit *= mergeCount {
		class++
	}
	return class
}

// planMerge returns neighbouring parts to merge, or nil. It prefers small sizes, and includes smaller parts in between.
func planMerge(list []part) []part {
	for class := 0; class <= sizeClass(maxMerged); class++ {
		for i := 0; i < len(list); {
			var size, spans int64
			count, end := 0, i
			for end < len(list) && sizeClass(list[end].Bytes) <= class {
				size += list[end].Bytes
				spans += int64(max(1, len(list[end].Spans)))
				if size > maxMerged || spans > maxSpans {
					break
				}
				if sizeClass(list[end].Bytes) == class {
					count++
				}
				end++
			}
			if count >= mergeCount {
				return list[i:end]
			}
			i = max(end, i+1)
		}
	}
	return nil
}

// mergeLater queues a merge of a table's parts if there are enough of them.
func (s *Server) mergeLater(branch, id string) {
	due, err := viewed(s.store, func(tx *txn) (bool, error) {
		return planMerge(all[part](tx, key("part", branch, id, ""))) != nil, nil
	})
	if err == nil && due {
		var job int64
		if job, err = s.store.ids.take(); err == nil {
			s.jobs.add(keyedJob{job, tableLock(branch, id), func(ctx context.Context) { s.runMerge(ctx, branch, id) }})
		}
	}
	if err != nil {
		s.log.Warn("platform: the parts of a table could not be looked at", "table", id, "error", err)
	}
}

// runMerge merges until nothing is left to merge. What fails is tried again after the next import.
func (s *Server) runMerge(ctx context.Context, branch, id string) {
	for {
		merged, err := s.mergeParts(ctx, branch, id)
		if err != nil && ctx.Err() == nil && !isNotFound(err) {
			s.log.Warn("platform: the parts of a table could not be merged", "table", id, "error", err)
		}
		if err != nil || !merged {
			return
		}
	}
}

// errPartsChanged ends a merge whose parts were replaced meanwhile.
var errPartsChanged = errors.New("the parts have changed")

// mergeParts makes one merge, if one is due.
func (s *Server) mergeParts(ctx context.Context, branch, id string) (merged bool, err error) {
	t, list, release, err := s.parts.acquire(s.store, branch, id)
	if err != nil {
		return false, err
	}
	defer release()
	old := planMerge(list)
	if old == nil {
		return false, nil
	}
	fresh, err := s.rewrite(ctx, t, old, func(storageapi.Time, [][]byte) bool { return true })
	if err != nil {
		return false, err
	}
	err = s.store.update(tableLock(branch, id), func(tx *txn) error {
		now, err := latest(tx, t)
		if err != nil {
			return err
		}
		for _, pt := range old {
			var there part
			if !tx.get(partKey(branch, id, pt.place()), &there) || there.ID != pt.ID {
				return errPartsChanged
			}
			tx.delete(partKey(branch, id, pt.place()))
			now.Bytes -= pt.Bytes
		}
		now.Bytes += fresh.Bytes
		tx.put(partKey(branch, id, fresh.place()), fresh)
		putTable(tx, now)
		return nil
	})
	if errors.Is(err, errPartsChanged) || isNotFound(err) {
		s.parts.remove(t.Incarnation, []part{fresh})
		s.parts.removeEmpty(t.Incarnation)
		return false, nil
	}
	if err != nil { // the change may be on disk nevertheless
		return false, err
	}
	s.parts.remove(t.Incarnation, old)
	return true, nil
}

// span is a run of rows of one import within a part.
type span struct {
	Rows int64           `json:"rows"`
	At   storageapi.Time `json:"at"`
}

// rowTimes gives the time of each row of a part, one after the other.
type rowTimes struct {
	spans []span
	left  int64
}

func (pt part) times() *rowTimes {
	spans := pt.Spans
	if len(spans) == 0 {
		spans = []span{{math.MaxInt64, pt.At}}
	}
	return &rowTimes{spans: spans, left: spans[0].Rows}
}

func (r *rowTimes) next() storageapi.Time {
	for r.left == 0 && len(r.spans) > 1 {
		r.spans = r.spans[1:]
		r.left = r.spans[0].Rows
	}
	r.left--
	return r.spans[0].At
}
