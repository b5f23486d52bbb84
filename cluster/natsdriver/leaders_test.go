package natsdriver

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/internal/clustertest"
)

// damage changes a byte in the middle of an instance's stream on the disk of a stopped server.
func damage(t *testing.T, server int, l *Log, instance string) {
	t.Helper()
	name, err := l.name(instance)
	if err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(theCluster(t).Options(server).Dir, "jetstream", "*", "streams", name, "msgs", "*.blk"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("the files of %s: %q, %v", name, paths, err)
	}
	blocks, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(blocks, data(50))
	if at < 0 {
		t.Fatalf("batch 50 is not in %s of %q with %d bytes", paths[0], paths, len(blocks))
	}
	blocks[at] ^= 1
	if err := os.WriteFile(paths[0], blocks, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // else a server that loses its disk in another test is never filled, because its leader may be this replica
		ctx, cancel := context.WithTimeout(context.Background(), clustertest.Patience)
		defer cancel()
		if err := l.Delete(ctx, instance); err != nil {
			t.Error(err)
		}
	})
}

// A replica with a damaged file reports nothing, serves the records before the damage and after it, and may lead. The others have the record.
func TestHoleOfOneReplica(t *testing.T) {
	const damaged = 2
	l := newLog(t, 0, Options{})
	instance := created(t, l)
	n := startNode(t, l, instance)
	n.append(100)
	n.released(100)
	n.Close()
	start := stop(t, damaged)
	damage(t, damaged, l, instance)
	start()
	ready(t)
	moveLeader(t, l, instance, damaged)
	if err := clustertest.Eventually(func() error { // the servers choose which replica is read
		for _, err := range l.Read(within(t), instance, 1) {
			if errors.Is(err, changelog.ErrHole) {
				return nil
			}
		}
		return errors.New("the record is there")
	}); err != nil {
		t.Fatal(err)
	}
	n.check(l)

	// Another leader has the record that the damaged replica lacks.
	moveLeader(t, l, instance, 0)
	for range 10 {
		read(t, l, instance)
	}
	names := []string{}
	for name, err := range l.Leaders(within(t), instance) {
		if err != nil || leader(t, l, instance) != theCluster(t).Index(name) {
			t.Fatalf("Leaders yields %s, %v, and %d leads", name, err, leader(t, l, instance))
		}
		names = append(names, name)
	}
	if len(names) != clustertest.Size-1 {
		t.Errorf("Leaders yields %q, want the two others", names)
	}

	// It is asked even while the server of the third replica is away, whichever comes first.
	restart := stop(t, 1)
	moveLeader(t, l, instance, damaged)
	n.check(newLog(t, 0, Options{Timeout: 10 * time.Second}))
	restart()
	ready(t)
}
