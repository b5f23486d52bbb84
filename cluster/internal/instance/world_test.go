package instance

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/changelog/changelogtest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/trigger"
)

// world is what outlives the processes: the log, the store of owners, staging and tables, and what clients were told.
type world struct {
	*testing.T
	story bool         // the log of all processes is printed
	logs  slog.Handler // gets it too, unless nil
	// checkpointBytes is the option of all instances.
	checkpointBytes int64
	size            int             // of a row, at least
	sinkBytes       int64           // MaxSinkBytes of all engines, 0 for the default
	archive         forebay.Archive // of all engines, nil for none
	log             *changelogtest.Log
	owners          *changelogtest.Owners
	forgetRecords   func()             // the store of owners goes back to when it was empty
	mem             *buffertest.Memory // staging and tables

	nodes     []*worldNode
	processes sync.WaitGroup
	clients   sync.WaitGroup

	mu    sync.Mutex
	sent  int
	acked map[string]string // the rows that were acknowledged, with the instance
	// local are the acknowledged rows of the sink with AckLocal, with the instance, and void the rows among them that are not in the table. They
	// may be lost with the disk, and with an instance that is adopted. Once a later row has been acknowledged that waits for
	// the log, or the next process has opened the instance, the log has them as well, and they are among acked.
	local     map[string]string
	localSink bool // there is such a sink
	// rejected are the records that were acknowledged and are in a quarantine, with the instance.
	rejected map[string]string
	void     int
	// lostTwice are instances that were adopted after their log was lost and before their owner had begun a new log. Their
	// acknowledged rows are on that owner's disk, if anywhere.
	lostTwice map[string]bool
	rotten    map[string]bool   // the instances whose disk has lost something
	meant     map[string]string // the first content of each object's and file's id
}

const (
	worldLease = 12 * time.Second
	worldTable = "in.c-test.rows"
	localTable = "in.c-test.local"
)

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		T: t, log: changelogtest.NewLog(seed, changelogtest.Faults{}), owners: changelogtest.NewOwners(seed, changelogtest.Faults{}),
		mem: buffertest.NewMemory(), acked: map[string]string{}, local: map[string]string{}, rejected: map[string]string{}, lostTwice: map[string]bool{}, rotten: map[string]bool{}, meant: map[string]string{}, checkpointBytes: 64 << 10,
	}
	w.forgetRecords = w.owners.Save()
	t.Cleanup(func() {
		for _, n := range w.nodes {
			if n.runs != nil {
				n.kill(nil, true)
			}
		}
		w.clients.Wait()
		w.processes.Wait()
	})
	return w
}

// rot notes that tables of an instance are damaged. Rows that its disk alone had acknowledged may be lost.
func (w *world) rot(instance string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rotten[instance] = true
}

// means checks that an id stands for the same rows, whoever uses it.
func (w *world) means(id, what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if before, again := w.meant[id]; again && before != what {
		w.Errorf("the %s stands for others than before", id)
	}
	w.meant[id] = what
}

// worldNode is a machine with a disk.
type worldNode struct {
	w    *world
	name string
	disk *vfs.MemFS
	runs *worldProcess // nil if none
	last *worldProcess // the newest

	newest atomic.Pointer[worldProcess] // the same, for other processes
}

func (w *world) node(name string) *worldNode {
	n := &worldNode{w: w, name: name, disk: vfs.NewCrashableMem()}
	w.nodes = append(w.nodes, n)
	return n
}

// worldProcess is a process of a node. It opens the instance of its folder, adopts instances of others, and begins a new one when it
// is fenced.
type worldProcess struct {
	*link
	node   *worldNode
	disk   *vfs.MemFS
	cancel context.CancelFunc
	done   chan struct{} // closed when the process has ended

	instanceMu sync.Mutex
	instance   *Instance // nil if not open
}

func (p *worldProcess) options() Options {
	mem := linkedMemory{p.link, p.w.mem}
	o := Options{
		Log: linkedLog{p.link, p.w.log}, Owners: linkedOwners{p.link, p.w.owners}, Node: p.node.name, Lease: worldLease,
		Engine: forebay.Options{Staging: mem, Target: mem, Archive: p.w.archive, ReplayElsewhere: p.runElsewhere, Buffer: localdisk.On(buffer.Tuning{
			MemTableBytes: 1 << 20, MinImportInterval: time.Second, MaxSinkBytes: p.w.sinkBytes,
			Retry: buffer.Retry{Initial: time.Second, Max: 10 * time.Second, Jitter: -1},
		}, vfs.FS(p.disk))},
		CheckpointBytes: p.w.checkpointBytes,
	}
	var handlers []slog.Handler
	if p.w.story {
		handlers = append(handlers, slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
	}
	if p.w.logs != nil {
		handlers = append(handlers, p.w.logs)
	}
	o.Logger = slog.New(slog.NewMultiHandler(handlers...)).With("process", p.name)
	return o
}

var worldSource = forebay.Source{
	ID: "s",
	Settings: forebay.Settings{
		Upload: trigger.Conditions{Interval: time.Second, Count: 20}, Import: trigger.Conditions{Interval: 3 * time.Second, Count: 60},
	},
	Sinks: []forebay.Sink{{ID: "k", Table: forebay.Table{ID: worldTable, Columns: mapping.Columns{mapping.Path("id", "id", mapping.RawString())}}}},
}

// localSource has a sink with AckLocal.
var localSource = forebay.Source{
	ID: "l", Settings: worldSource.Settings,
	Sinks: []forebay.Sink{{ID: "k", AckLocal: true, Table: forebay.Table{ID: localTable, Columns: worldSource.Sinks[0].Table.Columns}}},
}

// start starts a process, which opens its instance as soon as it can.
func (n *worldNode) start() *worldProcess {
	ctx, cancel := context.WithCancel(context.Background())
	p := &worldProcess{link: &link{w: n.w, name: n.name}, node: n, disk: n.disk, cancel: cancel, done: make(chan struct{})}
	before := n.last
	n.runs, n.last = p, p
	n.newest.Store(p)
	n.w.processes.Go(func() {
		defer close(p.done)
		if before != nil && before.disk == p.disk {
			<-before.done // it was told to end
		}
		for ctx.Err() == nil {
			p.live(ctx)
		}
	})
	return p
}

// live is the life of a process with one instance.
func (p *worldProcess) live(ctx context.Context) {
	p.w.mu.Lock()
	before := maps.Clone(p.w.local)
	p.w.mu.Unlock()
	i, err := Open(ctx, "node", p.options())
	if err != nil {
		if ctx.Err() == nil {
			p.w.Errorf("%s cannot open its instance: %v", p.name, err)
			p.cancel()
		}
		return
	}
	p.w.mu.Lock()
	for id, instance := range before { // what this disk had acknowledged is in the log now
		switch {
		case instance != i.Keeper().Instance():
		case p.w.rotten[instance] && p.w.acked[id] == "": // perhaps the log never had it, and the disk was restored
			delete(p.w.local, id)
		default:
			p.w.acked[id] = instance
		}
	}
	p.w.mu.Unlock()
	defer p.set(nil)
	var adopting sync.WaitGroup
	adopting.Go(func() { _ = changelog.Adopt(ctx, i.Keeper(), i.Drain) })
	for i.Engine().Define(ctx, worldSource) != nil && ctx.Err() == nil && i.Err() == nil {
		time.Sleep(time.Second)
	}
	for p.w.localSink && i.Engine().Define(ctx, localSource) != nil && ctx.Err() == nil && i.Err() == nil {
		time.Sleep(time.Second)
	}
	p.set(i)
	select {
	case <-ctx.Done():
	case <-i.Done():
	}
	p.set(nil)
	if err := i.Close(); err != nil && i.Err() == nil {
		p.w.Errorf("%s cannot close its instance: %v", p.name, err)
	}
	adopting.Wait()
}

func (p *worldProcess) set(i *Instance) {
	p.instanceMu.Lock()
	defer p.instanceMu.Unlock()
	p.instance = i
}

// open returns the instance, or nil if it is not open.
func (p *worldProcess) open() *Instance {
	p.instanceMu.Lock()
	defer p.instanceMu.Unlock()
	return p.instance
}

// opened waits until the instance is open.
func (p *worldProcess) opened() *Instance {
	p.w.Helper()
	p.w.await(p.name+" opens its instance", func() bool { return p.open() != nil })
	return p.open()
}

// kill ends the process of a node at once. Its disk keeps synced data, and a part of the rest if there is an rng, or is lost.
func (n *worldNode) kill(rng *rand.Rand, diskLost bool) {
	p := n.runs
	n.runs = nil
	p.die()
	switch {
	case diskLost:
		n.disk = vfs.NewCrashableMem()
	case rng != nil:
		n.disk = p.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
	default:
		n.disk = p.disk.CrashClone(vfs.CrashCloneCfg{})
	}
	p.cancel()
}

// stop ends the process of a node in order.
func (n *worldNode) stop() {
	n.runs.cancel()
	n.runs = nil
}

// put sends rows to the instance of a process, one after the other, and notes which were acknowledged.
func (p *worldProcess) put(i *Instance, rows int) {
	w, name := p.w, i.Keeper().Instance()
	for range rows {
		w.mu.Lock()
		w.sent++
		id, source := fmt.Sprint(w.sent), "s"
		for noise := rand.New(rand.NewPCG(uint64(w.sent), 1)); len(id) < w.size; {
			id += strconv.FormatUint(noise.Uint64(), 36)
		}
		var before []string // local rows that the log has once it has this row
		if w.localSink && w.sent%3 > 0 {
			source = "l"
		} else {
			for id, instance := range w.local {
				if instance == name {
					before = append(before, id)
				}
			}
		}
		w.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		_, err := i.Engine().Ingest(ctx, source, mapping.JSON([]byte(`{"id":"`+id+`"}`)))
		cancel()
		if err != nil || !p.alive() {
			return
		}
		w.mu.Lock()
		if source == "l" {
			w.local[id] = name
		} else {
			w.acked[id] = name
		}
		for _, id := range before {
			w.acked[id] = name
		}
		w.mu.Unlock()
	}
}

// records returns the records of all instances.
func (w *world) records() map[string]changelog.Owner {
	all := map[string]changelog.Owner{}
	for v, err := range w.owners.Watch(context.Background(), changelog.OwnerKey("")) {
		if err != nil {
			return w.records()
		}
		if v.Version == 0 {
			break
		}
		var o changelog.Owner
		if err := o.UnmarshalJSON(v.Value); err != nil {
			w.Error(err)
		}
		all[strings.TrimPrefix(v.Key, changelog.OwnerKey(""))] = o
	}
	return all
}

// await waits until cond holds, for at most five minutes of the bubble's time.
func (w *world) await(what string, cond func() bool) {
	w.Helper()
	for range 3000 {
		if cond() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	w.Fatalf("it does not come to pass: %s; the records are %+v", what, w.records())
}

// check compares the table with what clients were told.
func (w *world) check() {
	w.Helper()
	records := w.records()
	w.mu.Lock()
	defer w.mu.Unlock()
	count := map[string]int{}
	for _, row := range append(w.mem.Rows(worldTable), w.mem.Rows(localTable)...) {
		count[row[0]]++
	}
	var lost, twice []string
	for id, instance := range w.local {
		switch {
		case count[id] > 0 || w.acked[id] != "" || w.lostTwice[instance]: // looked at below
		case records[instance].State == changelog.Retired || w.rotten[instance]:
			w.void++
		default:
			lost = append(lost, id+" of the sink with AckLocal of "+instance)
		}
	}
	for id, instance := range w.acked {
		if count[id] == 0 && !w.lostTwice[instance] {
			lost = append(lost, id+" of "+instance)
		}
	}
	for id, n := range count {
		if n > 1 {
			twice = append(twice, id)
		}
	}
	slices.Sort(lost)
	if len(lost)+len(twice) > 0 {
		w.Errorf("of %d acknowledged rows %d are lost: %v; %d are in the table twice: %v", len(w.acked), len(lost), lost[:min(20, len(lost))], len(twice), twice[:min(20, len(twice))])
	}
}
