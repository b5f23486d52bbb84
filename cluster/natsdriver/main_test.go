package natsdriver

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/internal/clustertest"
	"github.com/nats-io/nats.go"
)

// One cluster serves all tests of the package, because its start takes an election. A test that stops a server starts it again.
var shared struct {
	sync.Once
	*clustertest.Cluster
	err error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.Cluster != nil {
		if err := shared.Close(); err != nil {
			fmt.Println(err)
			code = 1
		}
	}
	os.Exit(code)
}

func theCluster(tb testing.TB) *clustertest.Cluster {
	tb.Helper()
	shared.Do(func() { shared.Cluster, shared.err = clustertest.Start(nil) })
	if shared.err != nil {
		tb.Fatal(shared.err)
	}
	return shared.Cluster
}

// connect returns a connection to a server of the cluster.
func connect(tb testing.TB, server int) *nats.Conn {
	tb.Helper()
	conn, err := theCluster(tb).Connect(server)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(conn.Close)
	return conn
}

// patient lets a loaded machine take its time, except where a test sets its own time-out.
func patient(o Options) Options {
	o.MaxBytes = cmp.Or(o.MaxBytes, 64<<20)
	o.AppendTimeout = cmp.Or(o.AppendTimeout, clustertest.Patience)
	o.Timeout = cmp.Or(o.Timeout, clustertest.Patience)
	return o
}

func newLog(tb testing.TB, server int, o Options) *Log {
	tb.Helper()
	l, err := NewLog(connect(tb, server), patient(o))
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

func newOwners(tb testing.TB, server int, o Options) *Owners {
	tb.Helper()
	owners, err := NewOwners(connect(tb, server), patient(o))
	if err != nil {
		tb.Fatal(err)
	}
	return owners
}

// created makes the log of an instance named for the test.
func created(tb testing.TB, l *Log) (instance string) {
	tb.Helper()
	create(tb, l, tb.Name())
	return tb.Name()
}

// create makes the log of an instance. One of an earlier run of the test is removed.
func create(tb testing.TB, l *Log, instance string) {
	tb.Helper()
	if err := errors.Join(l.Delete(tb.Context(), instance), l.Create(tb.Context(), instance)); err != nil {
		tb.Fatal(err)
	}
}

func marker(epoch uint64, node string) changelog.Record {
	return changelog.Record{Kind: changelog.Opened, Epoch: epoch, Node: node}
}

func batch(epoch, number uint64, data string) changelog.Record {
	return changelog.Record{Kind: changelog.Batch, Epoch: epoch, Number: number, Part: 1, Parts: 1, Node: "node-1", Data: []byte(data)}
}

func open(tb testing.TB, l *Log, instance string, epoch uint64) changelog.Writer {
	tb.Helper()
	w, err := l.Open(tb.Context(), instance, marker(epoch, "node-1"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = w.Close() })
	return w
}

// read returns the batches of a log.
func read(tb testing.TB, l *Log, instance string) (batches []changelog.Entry) {
	tb.Helper()
	for e, err := range l.Read(tb.Context(), instance, 1) {
		if err != nil {
			tb.Fatal(err)
		}
		if e.Kind == changelog.Batch {
			batches = append(batches, e)
		}
	}
	return batches
}
