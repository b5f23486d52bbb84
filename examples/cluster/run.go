package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/mapping"
)

// longest bounds each wait. An election takes 4 to 9 seconds, and more on a busy machine.
const longest = 3 * time.Minute

// runner runs a cluster.
type runner struct {
	config
	*load
	screen    *screen
	table     *table
	recovered time.Duration // the longest
	damaged   int           // files, really
	net       network       // nil if it cannot be cut
	rng       *mathrand.Rand

	// ended is when the last fault was over, and unready when a node was not ready since then last, in nanoseconds of the clock.
	ended, unready atomic.Int64
	figures        map[lossKind]*figures
	hurt           []*process // the nodes that the fault concerns
}

// run runs the program, with nodes, load, losses, and the comparison at the end.
func run(ctx context.Context, cfg config, out io.Writer) error {
	var err error
	if cfg.dir, err = folder(cfg.dir); err != nil {
		return err
	}
	if err := makeTable(ctx, cfg.dir); err != nil {
		return err
	}
	r := &runner{
		config: cfg, screen: newScreen(out), table: newTable(filepath.Join(cfg.dir, "tables")),
		rng: mathrand.New(mathrand.NewPCG(cfg.seed, 1)), figures: make(map[lossKind]*figures),
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	nodes, err := r.newNodes(cancel)
	if err != nil {
		return err
	}
	r.load = &load{ledger: newLedger(), nodes: nodes, keys: cfg.other == ""} // an earlier build may not know the keys of other nodes
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { r.watch(watching) })
	watch.Go(func() { r.readTable(watching) })
	if r.settle > 0 {
		watch.Go(func() { r.observe(watching) })
	}
	err = r.play(ctx)
	stop()
	watch.Wait()
	for _, p := range nodes {
		if p.cmd != nil {
			p.kill() // it has nothing left to do, or something has failed
		}
	}
	if err != nil {
		return err
	}
	return r.verdict(out)
}

// play starts the nodes, sends the events and loses nodes, and returns when the table has all acknowledged events, or the time for it is over.
func (r *runner) play(ctx context.Context) error {
	r.screen.say("%d nodes start in %s", len(r.nodes), r.dir)
	for _, p := range r.nodes {
		if err := p.start(); err != nil {
			return err
		}
	}
	if err := r.everybodyReady(ctx); err != nil {
		return fmt.Errorf("the cluster did not start: %w", err)
	}
	r.screen.say("all nodes are ready; %d clients send %d events", r.clients, r.n)
	if err := r.sendAndLose(ctx); err != nil {
		return err
	}
	return r.flushAll(ctx)
}

// folder returns a folder that is empty.
func folder(path string) (string, error) {
	if path == "" {
		return os.MkdirTemp("", "forebay-cluster-")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(path)
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("-dir is %s, which is not empty: choose another folder", path)
	}
	return path, err
}

// makeTable makes the table. Only one of several processes may do that with this driver.
func makeTable(ctx context.Context, path string) error {
	mapper, err := mapping.Compile(columns(), mapping.Options{})
	if err != nil {
		return err
	}
	return dir.Tables(filepath.Join(path, "tables")).Ensure(ctx, driver.Table{ID: tableID, Columns: mapper.Columns()})
}

// newNodes chooses the addresses at which the servers of the nodes meet, below the ports that systems give to outgoing connections.
func (r *runner) newNodes(failed func(error)) ([]*process, error) {
	var peers []string
	var listeners []net.Listener
	for attempts := 0; len(peers) < r.size; attempts++ {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+mathrand.IntN(12000)))
		if err != nil && attempts == 100 {
			return nil, fmt.Errorf("no free port on the loopback interface: %w", err)
		}
		if err == nil {
			listeners, peers = append(listeners, l), append(peers, l.Addr().String())
		}
	}
	for _, l := range listeners {
		if err := l.Close(); err != nil {
			return nil, err
		}
	}
	if r.connect != nil {
		var err error
		if r.net, err = r.connect(peers); err != nil {
			return nil, err
		}
	}
	program := r.program
	if program == "" {
		var err error
		if program, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	secret := rand.Text()
	var nodes []*process
	for i, address := range peers {
		name := string(rune('a' + i))
		cfg := nodeConfig{Name: name, Dir: r.dir, Listen: address, Peers: peers, Secret: secret, Lease: r.lease, Checkpoint: r.checkpoint}
		transport := &http.Transport{MaxIdleConnsPerHost: r.clients}
		if r.net != nil {
			cfg.Listen, cfg.Advertise, cfg.Peers = r.net.address(i)
			transport.DialContext = r.net.dial(i)
		}
		lost := func(why string) { r.screen.say("%s has lost its instance, and begins a new one: %s", name, why) }
		p := newProcess(cfg, lost, failed)
		p.program, p.next = program, r.other
		p.client = &http.Client{Transport: transport, Timeout: patience}
		p.asker = &http.Client{Transport: transport, Timeout: time.Second}
		if r.net != nil {
			p.run = func(cmd *exec.Cmd) error { return r.net.start(i, cmd) }
		}
		nodes = append(nodes, p)
	}
	return nodes, nil
}

// sendAndLose sends the events in as many parts as there are losses, and one more. In the middle of each part but the last one a node is
// lost, and the next part begins when the cluster has recovered. Until then the clients send some more events. So each loss is the only one at its time.
func (r *runner) sendAndLose(ctx context.Context) error {
	losses := r.losses()
	for i := range len(losses) + 1 {
		part := func(k int) int { return r.n * k / (2 * (len(losses) + 1)) }
		begin := int(r.next.Load()) - part(2*i)
		sent, over := make(chan error, 1), make(chan struct{})
		sending, cancel := context.WithCancel(ctx)
		go func() { sent <- r.send(sending, r.clients, begin+part(2*i+2), over) }()
		var err error
		if i < len(losses) {
			if err = r.await(sending, begin+part(2*i+1)); err == nil {
				err = r.lose(sending, losses[i])
			}
		}
		close(over)
		if err != nil {
			cancel()
		}
		if failed := <-sent; err == nil || failed != nil && !errors.Is(failed, context.Canceled) {
			err = failed
		}
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) everybodyReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	for _, p := range r.nodes {
		if err := p.awaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// flushAll lets all nodes move their rows to the table, and waits until the table has all that was acknowledged.
func (r *runner) flushAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	r.screen.say("all events are acknowledged; the last rows move to the table")
	for _, p := range r.nodes {
		if err := p.flush(ctx); err != nil {
			return err
		}
	}
	for _, p := range r.nodes {
		if err := r.table.await(ctx, r.of(p)); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
	return nil // rows that are missing now are lost
}

// verdict compares and writes the last line.
func (r *runner) verdict(out io.Writer) error {
	rows, err := stored(r.table.path)
	if err != nil {
		return err
	}
	a := compare(r.acked, rows)
	r.screen.end()
	for _, what := range slices.Sorted(func(yield func(string) bool) {
		for what, n := range r.failed {
			if !yield(fmt.Sprintf("%d attempts were repeated: %s", n, what)) {
				return
			}
		}
	}) {
		fmt.Fprintln(out, what)
	}
	if len(r.figures) > 0 {
		fmt.Fprintf(out, "| a node | runs | ready: median, longest | no node acknowledges | a node that is well does not | p99, longest of an event |\n|---|---|---|---|---|---|\n")
	}
	for _, kind := range slices.Sorted(maps.Keys(r.figures)) {
		fmt.Fprintf(out, "| %s: %s | %s |\n", kind, does[kind], r.figures[kind])
	}
	fmt.Fprintf(out, "The table, the disks and the logs of the nodes are in %s\n", r.dir)
	fmt.Fprintf(out, "cluster: sent=%d rows=%d lost=%d duplicated=%d recovered=%s unconfirmed=%d stalled=%s losses=%d damaged=%d\n",
		r.sent.Load(), a.rows, a.lost, a.duplicated, r.recovered.Round(100*time.Millisecond), a.unconfirmed,
		r.stalled.Round(100*time.Millisecond), len(r.losses()), r.damaged)
	if a.lost > 0 || a.duplicated > 0 {
		return fmt.Errorf("rows were lost or doubled: %q; everything is kept in %s", a.examples, r.dir)
	}
	return nil
}
