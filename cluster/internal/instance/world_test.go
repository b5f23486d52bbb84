package instance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/changelog"
	"github.com/forebay/forebay/changelog/changelogtest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/trigger"
)

// world is what outlives the processes: the log, the store of owners, staging and tables, and what clients were told.
type world struct {
	*testing.T
	story bool         // the log of all processes is printed
	logs  slog.Handler // gets it too; nil: none
	// checkpointBytes is the option of all instances.
	checkpointBytes int64
	log             *changelogtest.Log
	owners          *changelogtest.Owners
	mem             *buffertest.Memory // staging and tables

	nodes     []*worldNode
	processes sync.WaitGroup
	clients   sync.WaitGroup

	mu    sync.Mutex
	sent  int
	acked map[string]string // the rows that were acknowledged, with the instance
	meant map[string]string // what the ids of objects and files stood for first
}

const (
	worldLease = 12 * time.Second
	worldTable = "in.c-test.rows"
)

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		T: t, log: changelogtest.NewLog(seed, changelogtest.Faults{}), owners: changelogtest.NewOwners(seed, changelogtest.Faults{}),
		mem: buffertest.NewMemory(), acked: map[string]string{}, meant: map[string]string{}, checkpointBytes: 64 << 10,
	}
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

// link is the connection of one process to everything outside. A dead process gets no answer, and nothing that it asks for happens. One
// that stands still waits.
type link struct {
	w    *world
	name string

	mu   sync.Mutex
	dead bool
	held chan struct{} // nil: nothing is held up; closed: it goes on
	// before runs before each call with its name, without the lock held. With an error nothing happens.
	before func(call string) error
	// after runs after each call. With an error its answer is lost.
	after func(call string) error
}

var errDead = errors.New("the process is dead")

func (l *link) pass(ctx context.Context) error {
	for {
		l.mu.Lock()
		dead, held := l.dead, l.held
		l.mu.Unlock()
		switch {
		case dead:
			return errDead
		case held == nil:
			return nil
		}
		select {
		case <-held:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (l *link) hook(ctx context.Context, call string, at *func(string) error) error {
	if err := l.pass(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	f := *at
	l.mu.Unlock()
	if f != nil {
		if err := f(call); err != nil {
			return err
		}
	}
	return l.pass(ctx)
}

func (l *link) setHooks(before, after func(call string) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.before, l.after = before, after
}

// stop lets the process stand still.
func (l *link) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		l.held = make(chan struct{})
	}
}

func (l *link) resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held != nil {
		close(l.held)
		l.held = nil
	}
}

func (l *link) die() {
	l.mu.Lock()
	l.dead = true
	l.mu.Unlock()
	l.resume()
}

func (l *link) alive() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.dead && l.held == nil
}

// through makes a call of a process.
func through[R any](ctx context.Context, l *link, call string, do func() (R, error)) (none R, err error) {
	if err := l.hook(ctx, call, &l.before); err != nil {
		return none, err
	}
	result, err := do()
	if err := l.hook(ctx, call, &l.after); err != nil {
		return none, err
	}
	return result, err
}

func call(ctx context.Context, l *link, name string, do func() error) error {
	_, err := through(ctx, l, name, func() (struct{}, error) { return struct{}{}, do() })
	return err
}

// linkedLog is the log as a process sees it.
type linkedLog struct {
	*link
	log changelog.Log
}

func (l linkedLog) Create(ctx context.Context, instance string) error {
	return call(ctx, l.link, "log create", func() error { return l.log.Create(ctx, instance) })
}

func (l linkedLog) Open(ctx context.Context, instance string, marker changelog.Record) (changelog.Writer, error) {
	w, err := through(ctx, l.link, "log open", func() (changelog.Writer, error) { return l.log.Open(ctx, instance, marker) })
	if err != nil {
		return nil, err
	}
	return linkedWriter{w, l.link}, nil
}

func (l linkedLog) Read(ctx context.Context, instance string, from changelog.Position) iter.Seq2[changelog.Entry, error] {
	return func(yield func(changelog.Entry, error) bool) {
		if err := l.hook(ctx, "log read", &l.before); err != nil {
			yield(changelog.Entry{}, err)
			return
		}
		for e, err := range l.log.Read(ctx, instance, from) {
			if passErr := l.pass(ctx); passErr != nil {
				yield(changelog.Entry{}, passErr)
				return
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func (l linkedLog) Trim(ctx context.Context, instance string, through changelog.Position) error {
	return call(ctx, l.link, "log trim", func() error { return l.log.Trim(ctx, instance, through) })
}

func (l linkedLog) Stat(ctx context.Context, instance string) (changelog.Stat, error) {
	return through(ctx, l.link, "log stat", func() (changelog.Stat, error) { return l.log.Stat(ctx, instance) })
}

func (l linkedLog) Delete(ctx context.Context, instance string) error {
	return call(ctx, l.link, "log delete", func() error { return l.log.Delete(ctx, instance) })
}

// Leaders implements [changelog.Elector].
func (l linkedLog) Leaders(ctx context.Context, instance string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := l.hook(ctx, "log leaders", &l.before); err != nil {
			yield("", err)
			return
		}
		l.log.(changelog.Elector).Leaders(ctx, instance)(yield)
	}
}

// linkedWriter holds up appends and their answers.
type linkedWriter struct {
	changelog.Writer
	*link
}

func (w linkedWriter) Append(r changelog.Record) changelog.Ticket {
	if err := w.hook(context.Background(), "log append "+string(r.Kind), &w.before); err != nil {
		_ = w.Writer.Close() // as a connection that is lost: nothing more is stored, and nothing more is heard
		return failedTicket{err}
	}
	return linkedTicket{w.Writer.Append(r), w.link, r.Kind}
}

type linkedTicket struct {
	changelog.Ticket
	*link
	kind changelog.Kind
}

func (t linkedTicket) Wait(ctx context.Context) (changelog.Position, error) {
	at, err := t.Ticket.Wait(ctx)
	if passErr := t.hook(ctx, "log append "+string(t.kind), &t.after); passErr != nil {
		return 0, fmt.Errorf("%w: %w", changelog.ErrUnknown, passErr)
	}
	return at, err
}

type failedTicket struct{ err error }

func (t failedTicket) Wait(context.Context) (changelog.Position, error) {
	return 0, fmt.Errorf("%w: %w", changelog.ErrUnknown, t.err)
}

// linkedOwners is the store of owners as a process sees it.
type linkedOwners struct {
	*link
	owners changelog.Owners
}

func (o linkedOwners) Get(ctx context.Context, key string) (changelog.Versioned, error) {
	return through(ctx, o.link, "owners get", func() (changelog.Versioned, error) { return o.owners.Get(ctx, key) })
}

func (o linkedOwners) CompareAndSet(ctx context.Context, key string, old changelog.Version, value []byte) (changelog.Version, error) {
	return through(ctx, o.link, "owners set", func() (changelog.Version, error) { return o.owners.CompareAndSet(ctx, key, old, value) })
}

func (o linkedOwners) Watch(ctx context.Context, prefix string) iter.Seq2[changelog.Versioned, error] {
	return func(yield func(changelog.Versioned, error) bool) {
		for v, err := range o.owners.Watch(ctx, prefix) {
			if passErr := o.pass(ctx); passErr != nil {
				yield(changelog.Versioned{}, passErr)
				return
			}
			if !yield(v, err) {
				return
			}
		}
	}
}

// linkedMemory is staging and tables as a process sees them.
type linkedMemory struct {
	*link
	mem *buffertest.Memory
}

func (m linkedMemory) Put(ctx context.Context, obj buffer.Object, src buffer.Content) error {
	return call(ctx, m.link, "put "+obj.ID, func() error {
		var data bytes.Buffer
		if _, err := src.WriteTo(&data); err != nil {
			return err
		}
		m.w.means("object "+obj.ID, data.String())
		return m.mem.Put(ctx, obj, src)
	})
}

func (m linkedMemory) Open(ctx context.Context, obj buffer.Object) (io.ReadCloser, error) {
	return through(ctx, m.link, "open "+obj.ID, func() (io.ReadCloser, error) { return m.mem.Open(ctx, obj) })
}

func (m linkedMemory) Delete(ctx context.Context, objs ...buffer.Object) error {
	return call(ctx, m.link, "delete "+objs[0].ID, func() error { return m.mem.Delete(ctx, objs...) })
}

func (m linkedMemory) Ensure(ctx context.Context, t buffer.Table) error {
	return call(ctx, m.link, "ensure", func() error { return m.mem.Ensure(ctx, t) })
}

func (m linkedMemory) Import(ctx context.Context, f *buffer.File) error {
	return call(ctx, m.link, "import "+f.ID, func() error {
		m.w.means("file "+f.ID, fmt.Sprint(f.Slices))
		return m.mem.Import(ctx, f)
	})
}

func (m linkedMemory) CountFile(ctx context.Context, t buffer.Table, id string) (int64, error) {
	return m.mem.CountFile(ctx, t, id)
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
	runs *worldProcess // nil: none
	last *worldProcess // the newest
}

func (w *world) node(name string) *worldNode {
	n := &worldNode{w: w, name: name, disk: vfs.NewCrashableMem()}
	w.nodes = append(w.nodes, n)
	return n
}

// worldProcess is a process of a node: it opens the instance of its folder, adopts those of others, and begins a new one when it
// is fenced.
type worldProcess struct {
	*link
	node   *worldNode
	disk   *vfs.MemFS
	cancel context.CancelFunc
	done   chan struct{} // closed when the process has ended

	instanceMu sync.Mutex
	instance   *Instance // nil: not open
}

func (p *worldProcess) options() Options {
	mem := linkedMemory{p.link, p.w.mem}
	o := Options{
		Log: linkedLog{p.link, p.w.log}, Owners: linkedOwners{p.link, p.w.owners}, Node: p.node.name, Lease: worldLease,
		Engine: forebay.Options{Staging: mem, Target: mem, Buffer: localdisk.On(buffer.Tuning{
			MemTableBytes: 1 << 20, MinImportInterval: time.Second,
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

// start starts a process, which opens its instance as soon as it can.
func (n *worldNode) start() *worldProcess {
	ctx, cancel := context.WithCancel(context.Background())
	p := &worldProcess{link: &link{w: n.w, name: n.name}, node: n, disk: n.disk, cancel: cancel, done: make(chan struct{})}
	before := n.last
	n.runs, n.last = p, p
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
	i, err := Open(ctx, "node", p.options())
	if err != nil {
		if ctx.Err() == nil {
			p.w.Errorf("%s cannot open its instance: %v", p.name, err)
			p.cancel()
		}
		return
	}
	defer p.set(nil)
	var adopting sync.WaitGroup
	adopting.Go(func() { _ = changelog.Adopt(ctx, i.Keeper(), i.Drain) })
	for i.Engine().Define(ctx, worldSource) != nil && ctx.Err() == nil && i.Err() == nil {
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

// open returns the instance; nil if it is not open.
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

// kill ends the process of a node at once. Its disk keeps what was synced, and a part of the rest if there is an rng, or is lost.
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
	w := p.w
	for range rows {
		w.mu.Lock()
		w.sent++
		id := fmt.Sprint(w.sent)
		w.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		_, err := i.Engine().Ingest(ctx, "s", mapping.JSON([]byte(`{"id":"`+id+`"}`)))
		cancel()
		if err != nil || !p.alive() {
			return
		}
		w.mu.Lock()
		w.acked[id] = i.Keeper().Instance()
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
	w.mu.Lock()
	defer w.mu.Unlock()
	count := map[string]int{}
	for _, row := range w.mem.Rows(worldTable) {
		count[row[0]]++
	}
	var lost, twice []string
	for id, instance := range w.acked {
		if count[id] == 0 {
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
