package buffer

import (
	"testing"

	"github.com/forebay/forebay/internal/synctest"
)

// Commits come out in the order in which they were added, each when it was handed, and no goroutine waits forever, whether
// the sync of the log comes before the commit is handed, after it, or not at all.
func TestSyncQueue(t *testing.T) {
	for name, syncs := range map[string]struct{ before, after, none bool }{
		"the sync comes before the commit is handed": {before: true},
		"the sync comes afterwards":                  {after: true},
		"there is no sync":                           {none: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newSyncQueue()
				var got []*commit
				done := make(chan struct{})
				go func() {
					defer close(done)
					for {
						c, ok := q.next()
						if !ok {
							return
						}
						got = append(got, c)
						q.finished()
					}
				}()
				var want []*commit
				for range 5 {
					c := &commit{}
					want = append(want, c)
					q.add(c)
					if syncs.before {
						q.wake()
						synctest.Wait() // the syncer finds the commit preparing
					}
					if len(got) == len(want) {
						t.Fatal("a commit came out before it was handed")
					}
					q.hand(c, !syncs.none)
					if syncs.after {
						q.wake()
					}
					synctest.Wait()
					if n := q.underway.Load(); n != 0 || len(got) != len(want) || got[len(got)-1] != c {
						t.Fatalf("%d commits are underway, %d of %d came out", n, len(got), len(want))
					}
				}
				q.close()
				<-done
			})
		})
	}
}

// The committer may be two commits ahead of the disk.
func TestSyncQueueIsShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newSyncQueue()
		added := 0
		go func() {
			for range 4 {
				c := &commit{}
				q.add(c)
				added++
				q.hand(c, false)
			}
			q.close()
		}()
		synctest.Wait()
		if added != 2 {
			t.Errorf("%d commits were added while the disk stands still, want 2", added)
		}
		n := 0
		for _, ok := q.next(); ok; _, ok = q.next() {
			n++
		}
		if n != 4 {
			t.Errorf("%d commits came out, want 4", n)
		}
	})
}
