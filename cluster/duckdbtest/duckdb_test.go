//go:build unix

package duckdbtest

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/cluster"
	"github.com/forebay/forebay/cluster/internal/clustertest"
	"github.com/forebay/forebay/cluster/natsdriver"
	"github.com/forebay/forebay/cluster/natsserver"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/duckdb"
	"github.com/forebay/forebay/internal/proctest"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/trigger"
)

const (
	source = "web"
	table  = "in.c-web.events"
)

// config is the configuration of a node's process.
type config struct {
	Name, Dir string
	Listen    string
	Peers     []string
}

func (c config) database() string { return filepath.Join(c.Dir, "events.duckdb") }

// TestThreeProcessesFeedOneFile lets three processes, each a node of a cluster, import into one DuckDB file. Nodes are killed, one of them
// in the middle of an import, and one stands still in the middle of an import for longer than its leases. In the end the table has each
// acknowledged row once, and no other row twice.
func TestThreeProcessesFeedOneFile(t *testing.T) {
	if arg, ok := proctest.Child(); ok {
		t.Fatal(serve(context.Background(), arg))
	}
	if testing.Short() {
		t.Skip("it starts processes")
	}
	c := start(t)
	c.each(func(n *node) { n.await("acked", 100); n.await("imported", 2) })

	t.Log("a node is killed in the middle of an import")
	c.list[0].hold()
	c.list[0].restart()
	c.forget()
	c.each(func(n *node) { n.await("imported", 1) })

	t.Log("a node is killed at any moment")
	c.list[1].restart()
	c.forget()
	c.each(func(n *node) { n.await("imported", 1) })

	t.Log("a node stands still in the middle of an import")
	c.list[2].hold()
	c.list[2].signal(syscall.SIGSTOP)
	c.forget()
	// Its leases end, the others have their turns, and one of them adopts its instance. The file stays locked.
	c.list[0].await("refused", 1)
	c.list[1].await("refused", 1)
	c.list[2].signal(syscall.SIGCONT)
	c.list[2].Say("go")
	c.forget()
	c.each(func(n *node) { n.await("imported", 1) })

	t.Log("the last rows move to the table")
	c.each(func(n *node) { n.Say("end") })
	c.each(func(n *node) { n.await("flushed", 1) })
	if err := clustertest.Eventually(c.compare); err != nil { // an adopter may still import
		t.Error(err)
	}
}

// serve is a node. It accepts events all the time and prints its progress, a word and an id on each line. Its input holds further commands.
func serve(ctx context.Context, arg string) error {
	var c config
	if err := json.Unmarshal([]byte(arg), &c); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(c.Dir, c.Name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	file, err := duckdb.Open(c.database(), duckdb.Options{Shared: true, Threads: 1, MemoryLimit: 256 << 20})
	if err != nil {
		return err
	}
	defer file.Close()
	target := &observed{Target: file, goOn: make(chan struct{})}
	end := make(chan struct{})
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			switch lines.Text() {
			case "hold":
				target.hold.Store(true)
			case "go":
				close(target.goOn)
			case "end":
				close(end)
			}
		}
		os.Exit(1) // the test is gone
	}()
	for run := 0; ; run++ {
		if err := live(ctx, c, target, slog.New(slog.NewTextHandler(log, nil)), run, end); err != nil {
			return err
		}
	}
}

// observed prints how imports go, and holds one of them where its transaction has begun.
type observed struct {
	*duckdb.Target
	hold atomic.Bool
	goOn chan struct{}
}

func (o *observed) Import(ctx context.Context, f *driver.File) error {
	inner := *f
	inner.OpenSlice = func(ctx context.Context, obj driver.Object) (io.ReadCloser, error) {
		if o.hold.CompareAndSwap(true, false) {
			fmt.Println("inside", f.ID)
			select {
			case <-o.goOn:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return f.OpenSlice(ctx, obj)
	}
	err := o.Target.Import(ctx, &inner)
	switch {
	case err == nil:
		fmt.Println("imported", f.ID)
	case errors.Is(err, duckdb.ErrLocked):
		fmt.Println("refused", f.ID)
	}
	return err
}

// live opens the node and returns when it has lost its instance.
func live(ctx context.Context, c config, target driver.Target, log *slog.Logger, run int, end <-chan struct{}) error {
	n, err := cluster.Open(ctx, filepath.Join(c.Dir, c.Name), cluster.Options{
		Node:   c.Name,
		Server: &natsserver.Options{Listen: c.Listen, Peers: c.Peers, Secret: "s3cret", MaxStore: 4 << 30},
		NATS:   natsdriver.Options{MaxBytes: 128 << 20},
		Lease:  4 * time.Second,
		Engine: forebay.Options{
			Staging: dir.Staging(filepath.Join(c.Dir, "staging")), Target: target, Buffer: buffer.Tuning{MinImportInterval: time.Second},
		},
		Logger: log,
	})
	if err != nil {
		return err
	}
	defer func() { _ = n.Close() }() // the log may be away
	for defined := false; !defined; {
		src, err := n.Catalog().Source(source)
		if _, ok := n.Engine().SourceWithSecret(source, src.Secret); err == nil && ok {
			defined = true
			continue
		}
		if err != nil {
			if err := define(ctx, n.Catalog()); err != nil {
				log.Warn("another node may be faster", "error", err)
			}
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	pace := time.NewTicker(20 * time.Millisecond)
	defer pace.Stop()
	for i := 0; ; i++ {
		select {
		case <-end:
			for n.Engine().FlushAll(ctx) != nil && n.Err() == nil {
				<-pace.C
			}
			fmt.Println("flushed", c.Name)
			<-n.Done()
			return nil
		case <-n.Done():
			return nil
		case <-pace.C:
		}
		id := fmt.Sprintf("%s-%d-%d-%d", c.Name, os.Getpid(), run, i)
		deadline, cancel := context.WithTimeout(ctx, 10*time.Second)
		result, err := n.Engine().Ingest(deadline, source, mapping.JSON([]byte(`{"id":"`+id+`"}`)))
		cancel()
		if err == nil && result.Err(source) == nil {
			fmt.Println("acked", id)
		}
	}
}

func define(ctx context.Context, cat *catalog.Catalog) error {
	task, err := cat.CreateSource(catalog.By{Type: "system"}, catalog.SourceSpec{
		ID: source, Name: source, Type: forebay.HTTP,
		Settings: forebay.Settings{Upload: trigger.Conditions{Interval: 2 * time.Second}, Import: trigger.Conditions{Count: 200}}, // small loads
		Sinks:    []catalog.SinkSpec{{Name: "events", TableID: table, Columns: mapping.Columns{mapping.Path("id", "id", mapping.RawString())}}},
	})
	if err == nil {
		_, err = task.Wait(ctx)
	}
	return err
}

// nodes are the processes of the test.
type nodes struct {
	t    *testing.T
	list [clustertest.Size]*node
	file *duckdb.Target

	mu      sync.Mutex
	acked   map[string]bool
	changed chan struct{} // closed when a node has printed something
}

// node is a node as the test sees it.
type node struct {
	*nodes
	config
	*proctest.Process
	ended chan struct{} // closed when all its lines are read
	// counts are the lines that it has printed since the last forget, by their first word, guarded by nodes.mu.
	counts map[string]int
}

func start(t *testing.T) *nodes {
	t.Helper()
	peers, err := clustertest.FreeAddresses()
	if err != nil {
		t.Fatal(err)
	}
	c := &nodes{t: t, acked: map[string]bool{}, changed: make(chan struct{})}
	folder := t.TempDir()
	for i, address := range peers {
		c.list[i] = &node{nodes: c, config: config{Name: string(rune('a' + i)), Dir: folder, Listen: address, Peers: peers}, counts: map[string]int{}}
	}
	if c.file, err = duckdb.Open(c.list[0].database(), duckdb.Options{Shared: true, Threads: 1}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			c.each(func(n *node) {
				data, err := os.ReadFile(filepath.Join(folder, n.Name+".log"))
				t.Logf("%s: %v\n%s", n.Name, err, data[max(0, len(data)-8<<10):])
			})
		}
	})
	c.each((*node).start)
	return c
}

func (c *nodes) each(do func(*node)) {
	for _, n := range c.list {
		do(n)
	}
}

func (n *node) start() {
	n.t.Helper()
	n.Process = proctest.Start(n.t, n.t.Name(), proctest.JSON(n.config))
	n.ended = make(chan struct{})
	go func(lines iter.Seq[string], ended chan struct{}) {
		defer close(ended)
		for line := range lines {
			word, id, _ := strings.Cut(line, " ")
			n.mu.Lock()
			if word == "acked" {
				n.acked[id] = true
			}
			n.counts[word]++
			close(n.changed)
			n.changed = make(chan struct{})
			n.mu.Unlock()
		}
	}(n.All(), n.ended)
}

func (n *node) restart() {
	n.t.Helper()
	n.Kill()
	<-n.ended
	n.start()
}

func (n *node) signal(s syscall.Signal) {
	n.t.Helper()
	if err := n.Signal(s); err != nil {
		n.t.Fatal(err)
	}
}

func (c *nodes) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.list {
		clear(n.counts)
	}
}

// hold waits until the node is in the middle of an import and stays there.
func (n *node) hold() {
	n.t.Helper()
	n.Say("hold")
	n.await("inside", 1)
}

// await waits until the node has printed so many lines that begin with a word, since the last forget.
func (n *node) await(word string, more int) {
	n.t.Helper()
	const most = 2 * clustertest.Patience // a killed node keeps its lease for a while, and others wait for that
	patience := time.NewTimer(most)
	defer patience.Stop()
	n.mu.Lock()
	defer n.mu.Unlock()
	for n.counts[word] < more {
		changed := n.changed
		n.mu.Unlock()
		select {
		case <-changed:
		case <-n.ended:
			n.t.Errorf("node %s has ended by itself", n.Name)
		case <-patience.C:
			n.t.Errorf("node %s has not %s %d times within %s", n.Name, word, more, most)
		}
		n.mu.Lock()
		if n.t.Failed() {
			n.t.FailNow()
		}
	}
}

// compare compares the table with the acknowledged rows.
func (c *nodes) compare() error {
	rows := map[string]int{}
	if err := c.file.Use(func(db *sql.DB) error {
		list, err := db.Query("SELECT id, count(*) FROM \"" + table + "\" GROUP BY id")
		if err != nil {
			return err
		}
		defer list.Close()
		for list.Next() {
			var id string
			var n int
			if err := list.Scan(&id, &n); err != nil {
				return err
			}
			rows[id] = n
		}
		return list.Err()
	}); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	a := proctest.Compare(maps.Keys(c.acked), rows)
	if err := a.Err(); err != nil {
		return fmt.Errorf("%w: %s", err, a)
	}
	c.t.Log(a)
	return nil
}
