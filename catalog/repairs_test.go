package catalog

import (
	"errors"
	"testing"
	"time"
)

func TestPendingWrites(t *testing.T) {
	r := newRepairs()
	erased := erasureKey(Task{ID: "api.delete.source/1/web/x", SourceID: "web"})
	r.writeLater(map[string][]byte{"task/1": []byte("first"), erased: nil})
	if len(r.wake) != 1 {
		t.Error("the sweep sleeps")
	}
	taken := map[string][]byte{"task/1": []byte("first"), erased: nil}
	r.writeLater(map[string][]byte{"task/1": []byte("second")}) // while the first is written

	records := map[string][]byte{}
	r.endErasures(records, "we")
	if len(records) != 0 {
		t.Errorf("records %v of another source", records)
	}
	r.endErasures(records, "web")
	if record, ok := records[erased]; !ok || record != nil {
		t.Errorf("records %v", records)
	}

	r.written(taken)
	if string(r.pendingWrites["task/1"]) != "second" || len(r.pendingWrites) != 1 {
		t.Errorf("pending %q, want the second write alone", r.pendingWrites)
	}
}

func TestReservations(t *testing.T) {
	list := &tasks{reserved: map[string]string{}, byID: map[string]*running{}}
	task := Task{ID: "one", SourceID: "web", SinkID: "a", Status: Processing}
	if err := list.reserve("web/a", task.ID); err != nil {
		t.Fatal(err)
	}
	list.start(task)
	if busy, ok := errors.AsType[*Error](list.reserve("web/a", "two")); !ok || busy.Code != Busy || busy.Task != "one" {
		t.Errorf("refused with %v", busy)
	}
	if err := list.reserve("web", ""); err != nil {
		t.Error("another entity is busy:", err)
	}
	list.release("web")
	r, err := list.find("one")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now()
	task.Status, task.FinishedAt = Succeeded, at
	list.end(task, nil)
	<-r.done
	if gone := list.expire(at.Add(keepSuccess)); len(gone) != 0 {
		t.Errorf("%v is gone too early", gone)
	}
	if gone := list.expire(at.Add(keepSuccess + 1)); len(gone) != 1 || len(list.byID) != 0 {
		t.Errorf("gone are %v", gone)
	}
	if !list.close() || list.close() || list.reserve("web", "") == nil {
		t.Error("a closed list takes reservations, or is closed twice")
	}
	list.work.Wait()
}
