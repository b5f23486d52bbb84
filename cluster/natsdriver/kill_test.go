package natsdriver

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/internal/clustertest"
	"github.com/forebay/forebay/cluster/natsserver"
	"github.com/forebay/forebay/internal/proctest"
)

// process is the configuration of a server in a separate process.
type process struct {
	Name, Dir, Listen, Secret string
	Peers                     []string
}

func (p process) options() natsserver.Options {
	return natsserver.Options{Name: p.Name, Dir: p.Dir, Listen: p.Listen, Secret: p.Secret, Peers: p.Peers}
}

// serve runs a server of the cluster in a separate process.
func serve(arg string) error {
	var p process
	if err := json.Unmarshal([]byte(arg), &p); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), clustertest.Patience)
	defer cancel()
	if _, err := natsserver.Start(ctx, p.options()); err != nil {
		return err
	}
	fmt.Println("started")
	_, err := io.Copy(io.Discard, os.Stdin) // until the test ends or kills this process
	return err
}

// moveLeader makes a server the leader of the stream of an instance.
func moveLeader(t *testing.T, l *Log, instance string, server int) {
	t.Helper()
	stream, err := l.name(instance)
	if err != nil {
		t.Fatal(err)
	}
	lead(t, l, stream, server)
}

func lead(t *testing.T, l *Log, stream string, server int) {
	t.Helper()
	if err := clustertest.Eventually(func() error { return l.lead(t.Context(), stream, theCluster(t).Options(server).Name) }); err != nil {
		t.Fatal(err)
	}
}

// candidate is a node with its own instance, named for it, that adopts silent instances.
type candidate struct {
	own     *changelog.Keeper
	adopted chan *changelog.Keeper
}

func startCandidate(t *testing.T, owners changelog.Owners, node string) *candidate {
	t.Helper()
	// Twice as long as an election takes here, so that the leases of beating nodes outlast it as a rule.
	own, err := changelog.Take(within(t), owners, rand.Text(), 0, changelog.LeaseOptions{Node: node, Lease: 9 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	c := &candidate{own, make(chan *changelog.Keeper, 10)}
	ctx, cancel := context.WithCancel(t.Context())
	var adopting sync.WaitGroup
	adopting.Go(func() {
		_ = changelog.Adopt(ctx, own, func(ctx context.Context, k *changelog.Keeper) {
			c.adopted <- k
			<-ctx.Done()
		})
	})
	t.Cleanup(func() {
		cancel()
		adopting.Wait()
		own.Close()
	})
	return c
}

// A stop in good order hands over the leadership. After a kill the others must elect a leader, while appends are in flight.
func TestLeaderIsKilledWhileAppending(t *testing.T) {
	if arg, ok := proctest.Child(); ok {
		t.Fatal(serve(arg))
	}
	l := newLog(t, 0, Options{AppendTimeout: 2 * time.Second})
	instance := created(t, l)
	cluster := rand.Text() // a test that runs again finds no silent owners
	owners := newOwners(t, 1, Options{Cluster: cluster})
	if err := owners.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	const killed = 2
	start := stop(t, killed)
	o := theCluster(t).Options(killed)
	child := proctest.Start(t, t.Name(), proctest.JSON(process{o.Name, o.Dir, o.Listen, o.Secret, o.Peers}))
	if line := child.Line(); line != "started" {
		t.Fatal(line)
	}
	moveLeader(t, l, instance, killed)
	lead(t, l, "KV_"+owners.bucket, killed)
	a, b := startCandidate(t, newOwners(t, 0, Options{Cluster: cluster}), "node-a"), startCandidate(t, owners, "node-b")
	n := startNode(t, l, instance)
	n.append(200)
	child.Kill()
	at := time.Now()
	n.append(200)
	t.Logf("appends went on %s after the kill", time.Since(at).Round(time.Millisecond))
	for _, c := range []*candidate{a, b} {
		if err := c.own.Beat(within(t)); err != nil {
			t.Errorf("%s beats after the election: got %v, want no error", c.own.Owner().Node, err)
		}
	}
	t.Logf("owners beat %s after the kill", time.Since(at).Round(time.Millisecond))
	if len(a.adopted)+len(b.adopted) > 0 {
		t.Error("an owner that beats was adopted")
	}
	silent := time.Now()
	a.own.Close()
	start()
	ready(t)
	n.append(100)
	n.released(len(n.pending))
	n.check(l)
	moveLeader(t, l, instance, killed) // its disk is as good as the disks of the others
	n.check(newLog(t, killed, Options{}))

	select {
	case k := <-b.adopted:
		if k.Instance() != a.own.Instance() || k.Owner().State != changelog.Adopting || k.Owner().Epoch <= a.own.Owner().Epoch {
			t.Errorf("%s was adopted with %+v", k.Instance(), k.Owner())
		}
		t.Logf("the silent owner was adopted within %s", time.Since(silent).Round(time.Millisecond))
	case <-within(t).Done():
		t.Error("nobody adopts an owner that is silent")
	}
}
