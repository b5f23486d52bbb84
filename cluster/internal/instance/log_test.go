package instance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"weak"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/changelog/changelogtest"
	"github.com/forebay/forebay/internal/synctest"
)

// A mark is read as it was written. One that is cut, or of another version, is refused. An empty store has the zero mark.
func TestMark(t *testing.T) {
	far := changelog.Mark{Number: 1 << 40, Before: 1 << 63, Released: changelog.Point{Position: 7e9, Epoch: 12, Node: "node-1", Number: 1<<40 - 3, Chain: 42}}
	for _, m := range []mark{{changelog.Mark{Number: 1}, 0}, {far, 0}, {changelog.Mark{Number: 1}, 1}, {far, 1 << 40}} {
		stored := appendMark(nil, m)
		if got, err := parseMark(buffer.LogPosition{Number: m.Number, Mark: stored}); err != nil || got != m {
			t.Errorf("%+v is read as %+v: %v", m, got, err)
		}
		for n := range len(stored) - len(m.Released.Node) {
			if got, err := parseMark(buffer.LogPosition{Number: m.Number, Mark: stored[:n]}); err == nil {
				t.Errorf("%d bytes of the mark of %+v are read as %+v", n, m, got)
			}
		}
		stored[0] += 2
		if _, err := parseMark(buffer.LogPosition{Number: m.Number, Mark: stored}); err == nil {
			t.Error("a mark of another version is read")
		}
	}
	if got, err := parseMark(buffer.LogPosition{}); err != nil || got != (mark{}) {
		t.Errorf("no mark is read as %+v: %v", got, err)
	}
}

// logged is a batchLog with the positions that a store of it may have.
type logged struct {
	*testing.T
	*batchLog
	*link
	log    *changelogtest.Log
	owners *changelogtest.Owners
	marks  []buffer.LogPosition
}

func newLogged(t *testing.T) *logged {
	t.Helper()
	log, owners := changelogtest.NewLog(1, changelogtest.Faults{}), changelogtest.NewOwners(1, changelogtest.Faults{})
	if err := log.Create(t.Context(), "a-1"); err != nil {
		t.Fatal(err)
	}
	k, err := changelog.Take(t.Context(), owners, "a-1", 0, changelog.LeaseOptions{Node: "a"})
	if err != nil {
		t.Fatal(err)
	}
	link := &link{}
	l := &logged{t, newLog(linkedLog{link, log}, k, "a", slog.New(slog.DiscardHandler)), link, log, owners, []buffer.LogPosition{{}}}
	t.Cleanup(func() {
		l.close()
		k.Close()
	})
	return l
}

// begin opens the log for a store with n batches and returns the batches that it lacks.
func (l *logged) begin(n int) (lacks string, err error) {
	for b, err := range l.Begin(context.Background(), l.marks[n]) {
		if err != nil {
			return lacks, err
		}
		lacks += string(b.Data)
	}
	l.marks = slices.Clip(l.marks[:n+1+len(lacks)/2])
	return lacks, nil
}

// append appends batch "n ".
func (l *logged) append() (wait func() error) {
	n := len(l.marks)
	l.marks = append(l.marks, buffer.LogPosition{Number: uint64(n), Mark: slices.Clone(l.Mark())})
	w := l.Append(uint64(n), fmt.Appendf(nil, "%d ", n))
	return func() error { return w(context.Background()) }
}

// content returns all batches of the log.
func (l *logged) content() string {
	l.Helper()
	var all strings.Builder
	for b, err := range changelog.Batches(context.Background(), l.log, "a-1", changelog.Point{}) {
		if err != nil {
			l.Fatal(err)
		}
		all.Write(b.Data)
	}
	return all.String()
}

// cut lets only some of the next batches reach the log, and the appender hears of fewer. Each waits until heard is closed.
func (l *logged) cut(reach, hear int) (heard chan struct{}) {
	heard = make(chan struct{})
	var mu sync.Mutex // guards reach and hear
	lost := fmt.Errorf("%w: lost", changelog.ErrUnknown)
	l.setHooks(func(call string) error {
		mu.Lock()
		defer mu.Unlock()
		if call == "log append b" {
			reach--
		}
		if call == "log open" || reach < 0 {
			return lost
		}
		return nil
	}, func(string) error {
		<-heard
		mu.Lock()
		defer mu.Unlock()
		if hear--; hear < 0 {
			return lost
		}
		return nil
	})
	return heard
}

// The local level fails and is opened again, by one process, while three batches are on their way to the log. Whichever of them the store
// has, the log has, and the appender knows of. Each is in both afterwards, once.
func TestLocalLevelReopens(t *testing.T) {
	const batches = 4
	for reach := range batches {
		for hear := range reach + 1 {
			for stored := 1; stored <= batches; stored++ {
				synctest.Test(t, func(t *testing.T) {
					l := newLogged(t)
					if lacks, err := l.begin(0); lacks != "" || err != nil {
						t.Fatal(lacks, err)
					}
					if err := l.append()(); err != nil {
						t.Fatal(err)
					}
					heard := l.cut(reach, hear)
					var waits []func() error
					for range batches - 1 {
						waits = append(waits, l.append())
					}
					synctest.Wait() // nothing more reaches the log
					close(heard)
					for _, wait := range waits[:hear] {
						if err := wait(); err != nil {
							t.Fatal(err)
						}
					}
					l.setHooks(nil, nil)
					lacks, err := l.begin(stored)
					if err != nil {
						t.Fatalf("%d stored, %d in the log, %d heard: got %v, want no error", stored, 1+reach, 1+hear, err)
					}
					if err := l.append()(); err != nil {
						t.Error(err)
					}
					want := "1 2 3 4 "[:2*stored] + lacks
					want += fmt.Sprintf("%d ", len(want)/2+1)
					if got := l.content(); got != want || len(want)/2 < 2+reach {
						t.Errorf("%d stored, %d in the log, %d heard: the store gets %q, the log has %q", stored, 1+reach, 1+hear, lacks, got)
					}
				})
			}
		}
	}
}

// Another process does not have the batches that the log lacks. It gets an error that is final, as with another owner.
func TestLogCannotGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLogged(t)
		if _, err := l.begin(0); err != nil {
			t.Fatal(err)
		}
		if err := l.append()(); err != nil {
			t.Fatal(err)
		}
		l.log.Cut("a-1", 1, 2)
		l.append()
		l.close()
		if !l.log.Elect("a-1", 1) { // which never got it
			t.Fatal("the replica is not elected")
		}
		l.batchLog = newLog(l.log, l.keeper, "a", l.logger)
		if _, err := l.begin(2); !errors.Is(err, changelog.ErrAhead) || !errors.Is(context.Cause(l.ctx), changelog.ErrAhead) {
			t.Errorf("got %v, %v, want errors.Is(err, changelog.ErrAhead) and errors.Is(context.Cause(l.ctx), changelog.ErrAhead)", err, context.Cause(l.ctx))
		}
		l.close()
		if _, err := l.log.Open(t.Context(), "a-1", changelog.Record{Kind: changelog.Opened, Epoch: 100, Node: "b"}); err != nil {
			t.Fatal(err)
		}
		l.batchLog = newLog(l.log, l.keeper, "a", l.logger)
		if _, err := l.begin(1); !errors.Is(err, buffer.ErrFenced) || !errors.Is(context.Cause(l.ctx), buffer.ErrFenced) {
			t.Errorf("got %v, %v, want errors.Is(err, buffer.ErrFenced) and errors.Is(context.Cause(l.ctx), buffer.ErrFenced)", err, context.Cause(l.ctx))
		}
	})
}

// A log went back, and the record of the owner is older than its store. The next adopter must not take the
// remaining log for complete.
func TestLogWentBackBehindRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLogged(t)
		if _, err := l.begin(0); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := l.append()(); err != nil {
				t.Fatal(err)
			}
		}
		m, err := parseMark(l.marks[3])
		if err != nil || m.Released.Number != 2 {
			t.Fatal(m, err)
		}
		l.close()
		l.keeper.Close()
		l.log.Rollback("a-1", m.Released.Position-1)
		k, err := changelog.Take(t.Context(), l.owners, "a-1", 0, changelog.LeaseOptions{Node: "a"})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		if released := k.Owner().Released; released != 0 {
			t.Fatalf("the record has batch %d without the store", released)
		}
		l.batchLog = newLog(l.log, k, "a", l.logger)
		if _, err := l.begin(3); !errors.Is(err, changelog.ErrWentBack) {
			t.Error(err)
		}
		if released := k.Owner().Released; released != 2 {
			t.Errorf("the record has batch %d, want 2", released)
		}
	})
}

// An appender that has ended is forgotten when the log is opened again, because a log may be opened many times in the life of an instance.
func TestEndedAppendersAreForgotten(t *testing.T) {
	l := newLogged(t)
	begin := func() weak.Pointer[changelog.Appender] {
		for _, err := range l.Begin(t.Context(), buffer.LogPosition{}) {
			if err != nil {
				t.Fatal(err)
			}
		}
		return weak.Make(l.now())
	}
	before := begin()
	begin()
	for range 100 {
		if runtime.GC(); before.Value() == nil {
			return
		}
		runtime.Gosched()
	}
	t.Error("the appender before is still there")
}
