package natsdriver

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/forebay/forebay/cluster/internal/clustertest"
)

// startsLed starts an appender whose log the server b shall lead, and waits until it does.
func startsLed(t *testing.T) (l *Log, n *node) {
	t.Helper()
	l = newLog(t, 1, Options{Leader: theCluster(t).Options(1).Name})
	n = startNode(t, l, created(t, l))
	awaitLed(t, l, n)
	return l, n
}

func awaitLed(t *testing.T, l *Log, n *node) {
	t.Helper()
	if err := clustertest.Eventually(func() error {
		if at := leader(t, l, n.instance); at != 1 {
			return fmt.Errorf("server %d leads the log", at)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// The log of a node is led by the server that its options name: from the start, and again after an election that a different server has won.
func TestLeaderReturns(t *testing.T) {
	l, n := startsLed(t)
	for _, other := range []int{2, 0} {
		moveLeader(t, newLog(t, 0, Options{}), n.instance, other)
		n.append(20)
		awaitLed(t, l, n)
		n.append(20)
	}
	n.released(len(n.pending))
	n.check(l)
}

// When a replica is lost, the leader moves to the other one and back, so that the lost one does not depose it at its return with a higher term.
func TestTermRisesForALostReplica(t *testing.T) {
	l, n := startsLed(t)
	stream, err := l.name(n.instance)
	if err != nil {
		t.Fatal(err)
	}
	before := l.options.elections.last(stream).count
	start := stop(t, 2)
	if err := clustertest.Eventually(func() error {
		if last := l.options.elections.last(stream); last.count < before+2 || last.leader != theCluster(t).Options(1).Name {
			return fmt.Errorf("%d elections, the last one won by %q", last.count-before, last.leader)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	n.append(20)
	n.released(len(n.pending))
	start()
	ready(t)
	n.check(l)
}

// An append that reached no leader ends with the next election, and a request is repeated. Without that they wait for their time-outs, which are longer
// here than the test waits.
func TestElectionEndsWaiting(t *testing.T) {
	const never = time.Hour
	l := newLog(t, 0, Options{AppendTimeout: never, Timeout: never})
	n := startNode(t, l, created(t, l))
	mover := newLog(t, 1, Options{})
	lost := func() error {
		if n.State().Epoch > 1 {
			return nil
		}
		return errors.New("no append was lost")
	}
	for round := 0; lost() != nil && round < 100; round++ {
		for range 20 {
			n.pending = append(n.pending, n.Append(data(len(n.pending)+1)))
		}
		moveLeader(t, mover, n.instance, round%clustertest.Size)
		n.released(len(n.pending))
	}
	if err := lost(); err != nil {
		t.Error(err)
	}
	n.check(l)
}

// Without a named leader, a log leaves a server that is slow for one that is not.
func TestSlowLeaderIsLeft(t *testing.T) {
	c, links, err := clustertest.StartLinked()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(links.Close)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	conn, err := c.Connect(1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	l, err := NewLog(conn, patient(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	if err := clustertest.Eventually(func() error { return l.Create(t.Context(), t.Name()) }); err != nil {
		t.Fatal(err)
	}
	for _, other := range []int{1, 2} {
		if err := errors.Join(links.Delay(0, other, 300), links.Delay(other, 0, 300)); err != nil {
			t.Fatal(err)
		}
	}
	moveLeader(t, l, t.Name(), 0)
	n := startNode(t, l, t.Name())
	if err := clustertest.Eventually(func() error {
		n.append(4)
		n.released(len(n.pending))
		if pace := l.Pace(t.Name()); pace.Leader != "b" && pace.Leader != "c" || pace.Records < paceRecords {
			return fmt.Errorf("%d records took %s each under the leader %s", pace.Records, pace.Took, pace.Leader)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	n.check(l)
}

// A replica that stays silent moves the leader once, also for the next writer. One that has returned does so again.
func TestSilentReplicaIsNewOnce(t *testing.T) {
	l := &Log{silent: map[string][]string{}}
	for step, look := range []struct {
		silent, current []string
		want            bool
	}{
		{nil, []string{"b", "c"}, false},
		{[]string{"b"}, []string{"c"}, true},
		{[]string{"b"}, []string{"c"}, false},
		{[]string{"b", "c"}, nil, true},
		{[]string{"c"}, []string{"b"}, false},
		{[]string{"b", "c"}, nil, true},
	} {
		if got := l.newlySilent("i", look.silent, look.current); got != look.want {
			t.Errorf("look %d with silent %q and current %q: newlySilent = %t, want %t", step, look.silent, look.current, got, look.want)
		}
	}
	if !l.newlySilent("another", []string{"b"}, nil) {
		t.Error("a silent replica of another instance is known, want it new")
	}
}
