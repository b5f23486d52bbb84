package natsdriver

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/forebay/forebay/cluster/internal/clustertest"
	"github.com/forebay/forebay/cluster/natsserver"
	"github.com/forebay/forebay/internal/killtest"
)

// process is what a server in a process of its own is told.
type process struct {
	Name, Dir, Listen, Secret string
	Peers                     []string
}

func (p process) options() natsserver.Options {
	return natsserver.Options{Name: p.Name, Dir: p.Dir, Listen: p.Listen, Secret: p.Secret, Peers: p.Peers}
}

// serve runs a server of the cluster in a process of its own.
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
	if err := clustertest.Eventually(func() error { return l.lead(t.Context(), instance, theCluster(t).Options(server).Name) }); err != nil {
		t.Fatal(err)
	}
}

// A stop in good order hands over the leadership. After a kill the others must elect a leader, while appends are under way.
func TestLeaderIsKilledWhileAppending(t *testing.T) {
	if arg, ok := killtest.Child(); ok {
		t.Fatal(serve(arg))
	}
	l := newLog(t, 0, Options{AppendTimeout: 2 * time.Second})
	instance := created(t, l)
	const killed = 2
	start := stop(t, killed)
	o := theCluster(t).Options(killed)
	arg, err := json.Marshal(process{o.Name, o.Dir, o.Listen, o.Secret, o.Peers})
	if err != nil {
		t.Fatal(err)
	}
	child := killtest.Start(t, t.Name(), string(arg))
	t.Cleanup(child.Kill)
	if line := child.Line(); line != "started" {
		t.Fatal(line)
	}
	moveLeader(t, l, instance, killed)
	n := startNode(t, l, instance)
	n.append(200)
	child.Kill()
	at := time.Now()
	n.append(200)
	t.Logf("appends went on %s after the kill", time.Since(at).Round(time.Millisecond))
	start()
	ready(t)
	n.append(100)
	n.released(len(n.pending))
	n.check(l)
	moveLeader(t, l, instance, killed) // what it has on its disk is as good as what the others have
	n.check(newLog(t, killed, Options{}))
}
