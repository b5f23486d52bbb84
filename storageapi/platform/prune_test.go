package platform

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/forebay/forebay/storageapi"
)

// Jobs that have ended and events go when they are old, with everything that refers to them. Younger ones and jobs that have
// not ended stay, and a negative time keeps all.
func TestOldRecordsArePruned(t *testing.T) {
	s, c := openForTest(t)
	ctx := t.Context()
	if _, err := c.CreateBucket(ctx, storageapi.BucketCreate{Name: "p"}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateTable(ctx, "in.c-p", storageapi.TableCreate{Name: "t", Columns: storageapi.TextColumns("a")}); err != nil {
		t.Fatal(err)
	}
	for i := range pruneBatch + 10 {
		if err := s.addEvent(&storageapi.Event{Created: now(), Component: "c", Message: fmt.Sprint(i), Type: "info", RunID: "run"}); err != nil {
			t.Fatal(err)
		}
	}
	// A job of the queue that has ended, one that has not, and a storage job that has not.
	old := storageapi.Time{Time: time.Now().Add(-time.Hour)}
	err := s.store.update("", func(tx *txn) error {
		for _, r := range []queueRecord{{ID: 1, Status: storageapi.QueueSuccess, Created: old, Ended: old}, {ID: 2, Status: storageapi.QueueCreated, Created: old}} {
			tx.put(queueJobKey(r.ID), r)
		}
		tx.put(jobKey(3), jobRecord{ID: 3, Status: storageapi.JobWaiting, Created: old})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	count := func() map[string]int {
		out := make(map[string]int)
		err := s.store.view(func(tx *txn) error {
			for _, kind := range []string{"job", "queue-job", "event", "event-run", "event-table"} {
				for range tx.scan(key(kind, ""), false) {
					out[kind]++
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	same := func(when string, want map[string]int) {
		t.Helper()
		if got := count(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: got %v, want %v", when, got, want)
		}
	}
	events := pruneBatch + 11 // with the event of the table
	all := map[string]int{"job": 2, "queue-job": 2, "event": events, "event-run": pruneBatch + 10, "event-table": 1}
	same("before", all)
	prune := func(at time.Time) {
		t.Helper()
		if err := s.prune(at); err != nil {
			t.Fatal(err)
		}
	}
	prune(time.Now().Add(keepRecords - time.Minute))
	all["queue-job"]--
	same("a minute before the end of their time", all)
	s.opts.KeepEvents = -1
	prune(time.Now().Add(keepRecords + time.Hour))
	all["job"]--
	same("with events for ever", all)
	s.opts.KeepEvents = time.Hour
	prune(time.Now().Add(2 * time.Hour))
	same("after all", map[string]int{"job": 1, "queue-job": 1})

	// What is left of a table is complete.
	for e, err := range c.TableEvents(context.WithoutCancel(ctx), "in.c-p.t") {
		t.Errorf("event %+v, %v", e, err)
	}
}
