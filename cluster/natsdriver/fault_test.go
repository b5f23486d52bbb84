package natsdriver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/internal/clustertest"
)

// within bounds a wait for something that takes an election or two.
func within(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(tb.Context(), clustertest.Patience)
	tb.Cleanup(cancel)
	return ctx
}

// stop stops a server until the function that it returns is called, or the test ends.
func stop(t *testing.T, server int) (start func()) {
	t.Helper()
	c := theCluster(t)
	if err := c.StopServer(server); err != nil {
		t.Fatal(err)
	}
	start = func() {
		if c.Server(server) != nil {
			return
		}
		if err := c.StartServer(server); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		start()
		ready(t)
	})
	return start
}

// ready waits until all servers that run have everything.
func ready(t *testing.T) {
	t.Helper()
	for i := range clustertest.Size {
		if s := theCluster(t).Server(i); s != nil {
			if err := clustertest.Eventually(s.Ready); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// leader returns the server that leads the stream of an instance.
func leader(t *testing.T, l *Log, instance string) int {
	t.Helper()
	name := ""
	if err := clustertest.Eventually(func() error {
		_, info, err := l.stream(t.Context(), instance)
		if err == nil && info.Cluster.Leader == "" {
			err = errors.New("no leader")
		}
		if err == nil {
			name = info.Cluster.Leader
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return theCluster(t).Index(name)
}

// node appends to the log of an instance as an owner does.
type node struct {
	*changelog.Appender
	t        *testing.T
	instance string
	epoch    atomic.Uint64
	pending  []*changelog.Pending
}

func data(number int) []byte { return bytes.Repeat([]byte{byte(number)}, 10_000+number) }

func startNode(t *testing.T, l *Log, instance string) *node {
	t.Helper()
	n := &node{t: t, instance: instance}
	var err error
	n.Appender, err = changelog.OpenAppender(within(t), changelog.AppenderOptions{
		Log: l, Instance: instance, Node: "node-1",
		Apply: func(context.Context, changelog.StoredBatch) error {
			return errors.New("the log of a new instance has a batch")
		},
		NextEpoch: func(context.Context) (uint64, error) { return n.epoch.Add(1), nil },
		Valid:     func() bool { return true },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

// append appends so many batches. It returns when half of them are released, so that some are in flight.
func (n *node) append(count int) {
	n.t.Helper()
	for range count {
		n.pending = append(n.pending, n.Append(data(len(n.pending)+1)))
	}
	n.released(len(n.pending) - count/2)
}

// released waits until the first batches are released.
func (n *node) released(count int) {
	n.t.Helper()
	ctx := within(n.t)
	for i, p := range n.pending[:count] {
		if err := p.Wait(ctx); err != nil {
			n.t.Fatalf("batch %d of %d: %v; state %+v", i+1, count, err, n.State())
		}
	}
}

// check reads what an adopter reads, each batch once, in order.
func (n *node) check(l *Log) {
	n.t.Helper()
	count := 0
	for b, err := range changelog.Batches(within(n.t), l, n.instance, changelog.Point{}) {
		if err != nil {
			n.t.Fatal(err)
		}
		if count++; b.Number != uint64(count) || !bytes.Equal(b.Data, data(count)) {
			n.t.Fatalf("batch %d of the log has the number %d and %d bytes", count, b.Number, len(b.Data))
		}
	}
	if count != len(n.pending) {
		n.t.Fatalf("the log has %d batches, and %d were released", count, len(n.pending))
	}
}

// Connections are to one server and do not move, so a test connects to one that it does not stop.
func others(server int) (a, b int) {
	return (server + 1) % clustertest.Size, (server + 2) % clustertest.Size
}

// A full log accepts no more records from an owner, and needs nothing but a trim.
func TestFullLogGoesOnAfterTrim(t *testing.T) {
	l := newLog(t, 0, Options{MaxBytes: minBytes})
	n := startNode(t, l, created(t, l))
	isFull := func() bool { return errors.Is(n.State().Cause, changelog.ErrFull) }
	for !isFull() {
		for range 20 {
			n.pending = append(n.pending, n.Append(make([]byte, 100_000)))
		}
		if err := clustertest.Eventually(func() error {
			if s := n.State(); s.Waiting > 0 && !isFull() {
				return fmt.Errorf("state %+v", s)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	full := n.State()
	if full.Waiting == 0 || full.Waiting > 20 {
		t.Fatalf("state %+v, want that some of 20 batches did not fit", full)
	}
	if err := n.Checkpointed(within(t), 1); !errors.Is(err, changelog.ErrFull) {
		t.Errorf("Checkpointed = %v, want changelog.ErrFull", err)
	}
	if err := l.Trim(within(t), n.instance, full.Released.Position); err != nil {
		t.Fatal(err)
	}
	n.released(len(n.pending))
	if err := n.Checkpointed(within(t), full.Released.Number); err != nil {
		t.Errorf("Checkpointed after the trim = %v", err)
	}
}

func TestLeaderStopsWhileAppending(t *testing.T) {
	l := newLog(t, 0, Options{AppendTimeout: 2 * time.Second})
	instance := created(t, l)
	leads := leader(t, l, instance)
	near, _ := others(leads)
	l = newLog(t, near, Options{AppendTimeout: 2 * time.Second})
	n := startNode(t, l, instance)
	n.append(100)
	start := stop(t, leads)
	n.append(100)
	if now := leader(t, l, instance); now == leads {
		t.Errorf("the server %d is stopped and leads", now)
	}
	start()
	ready(t)
	n.append(100)
	n.released(len(n.pending))
	n.check(l)
}

func TestTwoOfThreeAway(t *testing.T) {
	l := newLog(t, 0, Options{AppendTimeout: time.Second})
	instance := created(t, l)
	idle := instance + "-idle"
	create(t, l, idle)
	n := startNode(t, l, instance)
	n.append(50)
	n.released(50)
	startB, startC := stop(t, 1), stop(t, 2)
	p := n.Append(data(51))
	n.pending = append(n.pending, p)
	if err := clustertest.Eventually(func() error {
		if s := n.State(); s.Status != changelog.Suspect {
			return fmt.Errorf("the appender is %+v when two of three servers are away", s)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	hasty := newLog(t, 0, Options{Timeout: time.Second})
	if w, err := hasty.Open(within(t), idle, marker(1, "node-2")); err == nil {
		t.Errorf("Open without a quorum = %v, want that it gives up", w)
	}
	if err := p.Wait(ended()); !errors.Is(err, context.Canceled) {
		t.Errorf("a batch without a quorum = %v, want that it waits", err)
	}
	startB()
	startC()
	ready(t)
	n.append(50)
	n.released(len(n.pending))
	n.check(l)
}

func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// A follower that has lost its disk is filled again, and then is worth as much as before.
func TestWipedFollowerComesBack(t *testing.T) {
	l := newLog(t, 0, Options{AppendTimeout: 2 * time.Second})
	instance := created(t, l)
	leads := leader(t, l, instance)
	wiped, other := others(leads)
	l = newLog(t, other, Options{AppendTimeout: 2 * time.Second})
	n := startNode(t, l, instance)
	n.append(50)
	start := stop(t, wiped)
	n.append(50)
	if err := os.RemoveAll(theCluster(t).Options(wiped).Dir); err != nil {
		t.Fatal(err)
	}
	start()
	ready(t)
	n.append(50)
	stop(t, leads) // from now on each majority has the follower
	n.append(50)
	n.released(len(n.pending))
	n.check(newLog(t, wiped, Options{}))
}

// Responses do not arrive, so the outcome is unknown, until the log is opened again.
func TestLostAnswers(t *testing.T) {
	l := newLog(t, 0, Options{})
	instance := created(t, l)
	for epoch := uint64(1); epoch <= 3; epoch++ {
		w := open(t, l, instance, epoch)
		before := len(read(t, l, instance))
		var tickets []changelog.Ticket
		for i := range changelog.Window {
			tickets = append(tickets, w.Append(batch(epoch, uint64(before+i+1), "x")))
		}
		w.(*writer).js.CleanupPublisher() // closes the subscription to the acknowledgements
		acknowledged := 0
		for i, ticket := range tickets {
			_, err := ticket.Wait(within(t))
			switch {
			case err == nil && acknowledged < i:
				t.Fatalf("append %d succeeded behind one that failed", i+1)
			case err == nil:
				acknowledged++
			case !errors.Is(err, changelog.ErrUnknown):
				t.Fatalf("append %d without an answer = %v, want changelog.ErrUnknown", i+1, err)
			}
		}
		open(t, l, instance, epoch+100)
		after := read(t, l, instance)
		if stored := len(after) - before; stored < acknowledged || stored > len(tickets) {
			t.Fatalf("%d of %d appends are stored, %d were acknowledged", stored, len(tickets), acknowledged)
		}
		for i, e := range after {
			if e.Number != uint64(i+1) {
				t.Fatalf("batch %d of the log has the number %d", i+1, e.Number)
			}
		}
		instance = fmt.Sprintf("%s-%d", t.Name(), epoch)
		create(t, l, instance)
	}
}
