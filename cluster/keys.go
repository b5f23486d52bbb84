package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/internal/instance"
)

// A call with a key may be repeated at another node, because its own was lost. So a node that gets such a call asks the other nodes whether they
// know the key, while the call has its turn, and stores its rows only if all have responded. Each instance has one process that speaks for it: its owner,
// or its adopter from the time on when the instance is restored. While it has none, calls with keys are refused and may be repeated later.
//
// # Why no call is stored twice
//
// Of two calls with one key at two nodes, each has its turn before it asks. So at least one of them finds the other one running, or finds its receipts.
// A call that finds another one running waits for it. If both still ask, the call at the instance with the smaller name does not wait. The node that
// lets it pass notes that, and asks again before it stores anything.
//
// An instance is asked if the store of owners has its record. A node reads all records before it accepts events and watches them from then
// on. Its watch may lag. But a node asks all instances that it knows before it stores rows under a key, and each node that is asked learns
// the instance that asks. So an instance that is missing in the records of a node has stored nothing under a key.
//
// A damaged instance has no process that speaks for it until an operator has decided, and is not waited for.
//
// # What it costs
//
// One round trip for all calls that wait at a node, over the servers of the logs, and a lookup in memory at each node. A node sends the next question when
// it has the responses to the last one. With more than nine nodes it also waits for further calls, longer the more nodes there are, so that the questions that
// a node gets in a second do not grow with the cluster.

const (
	opKeys = "keys"
	// keyPatience is how long a node waits for the responses to one question.
	keyPatience = time.Second
	// keysAtOnce is how many keys one question has.
	keysAtOnce = 1024
	// keyPause is the time from one question to the next for each other node beyond keyFree, unless so many calls wait that the question is full.
	keyPause = 500 * time.Microsecond
	keyFree  = 8
	// runningAgain is the time between two questions for a call that runs elsewhere, and runningMost the time until the call is refused.
	runningAgain = 20 * time.Millisecond
	runningMost  = 5 * time.Second
)

type keysRequest struct {
	nodeRequest
	// Instance is the instance of the node that asks.
	Instance string `json:"instance"`
	// Keys are the bytes of all keys, one after the other.
	Keys []byte `json:"keys"`
}

type keysResponse struct {
	Format  int    `json:"format"`
	Node    string `json:"node"`
	Refused string `json:"refused,omitempty"`
	// Instances are the instances that the node speaks for.
	Instances []string `json:"instances"`
	// Known has only the keys of which it knows something.
	Known []knownKey `json:"known,omitempty"`
}

type knownKey struct {
	Place    int           `json:"place"` // in the request
	Running  bool          `json:"running,omitempty"`
	Receipts []sentReceipt `json:"receipts,omitempty"`
}

type sentReceipt struct {
	Sink string    `json:"sink"`
	At   time.Time `json:"at"`
	Data []byte    `json:"data"`
}

// question is a key that a call asks for.
type question struct {
	key     buffer.Key
	done    chan struct{}
	found   []buffer.Receipt
	running bool // a call with the key runs elsewhere
	err     error
}

// callAsks is a call that asks. passed says that a call at another node was let pass since the question was sent.
type callAsks struct{ passed bool }

// callKeys asks other nodes for the keys of calls. Its methods may be called concurrently.
type callKeys struct {
	node string
	log  *slog.Logger
	ctx  context.Context
	end  context.CancelFunc

	// own is the instance of this node. here looks for keys in this process, hasRun for a replay, and others sends a request to all nodes. They are set
	// before the node accepts events.
	own    string
	here   func([]buffer.Key) (instances []string, known []instance.KnownKey)
	hasRun func(ctx context.Context, source, sink, run string, own bool) (instances []string, has bool)
	others func(ctx context.Context, request []byte) iter.Seq2[[]byte, error]

	mu      sync.Mutex
	waiting []*question
	asks    bool      // a goroutine sends the questions
	due     time.Time // when it sends the next one
	warned  time.Time
	asking  sync.WaitGroup
	// calls are the calls of this node that have the turn of their key and ask.
	calls map[buffer.Key]*callAsks

	records records
}

func newCallKeys(node string, log *slog.Logger) *callKeys {
	k := &callKeys{node: node, log: log, calls: map[buffer.Key]*callAsks{}}
	k.ctx, k.end = context.WithCancel(context.Background())
	k.records.read = make(chan struct{})
	return k
}

// close refuses calls from then on.
func (k *callKeys) close() {
	k.mu.Lock()
	k.end()
	k.mu.Unlock()
	k.asking.Wait()
}

// known returns what other nodes have stored under a key, whose turn the call has here. See [forebay.Options].
func (k *callKeys) known(ctx context.Context, key buffer.Key) ([]buffer.Receipt, error) {
	call := &callAsks{}
	k.mu.Lock()
	k.calls[key] = call
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.calls, key)
	}()
	for began := time.Now(); ; {
		q := &question{key: key, done: make(chan struct{})}
		k.ask(q, call)
		select {
		case <-q.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if q.err != nil {
			return nil, q.err
		}
		if !q.running && k.pass(key, call) {
			return q.found, nil
		}
		if time.Since(began) >= runningMost {
			return nil, fmt.Errorf("%w: a call with the key runs at another node", forebay.ErrKeyUnclear)
		}
		select {
		case <-time.After(runningAgain):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// pass ends the questions of a call, unless another call was let pass since the last one.
func (k *callKeys) pass(key buffer.Key, call *callAsks) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if call.passed {
		return false
	}
	delete(k.calls, key) // no other call is let pass from now on
	return true
}

// ask adds a question to the waiting ones.
func (k *callKeys) ask(q *question, call *callAsks) {
	k.mu.Lock()
	defer k.mu.Unlock()
	call.passed = false
	if k.ctx.Err() != nil {
		q.err = forebay.ErrClosed
		close(q.done)
		return
	}
	k.waiting = append(k.waiting, q)
	if !k.asks {
		k.asks = true
		k.asking.Go(k.askAll)
	}
}

// askAll sends questions until none waits.
func (k *callKeys) askAll() {
	for {
		k.gather()
		k.mu.Lock()
		some := k.waiting[:min(keysAtOnce, len(k.waiting))]
		k.waiting = k.waiting[len(some):]
		if k.asks = len(some) > 0; !k.asks {
			k.waiting = nil
			k.mu.Unlock()
			return
		}
		k.mu.Unlock()
		if err := k.round(some); err != nil {
			k.mu.Lock()
			some, k.waiting = slices.Concat(some, k.waiting), nil // or they would wait for the same instance
			k.mu.Unlock()
			for _, q := range some {
				q.err = err
			}
		}
		for _, q := range some {
			close(q.done)
		}
	}
}

// gather waits until the next question is due.
func (k *callKeys) gather() {
	k.mu.Lock()
	pause := time.Until(k.due)
	full := len(k.waiting) >= keysAtOnce
	k.mu.Unlock()
	if pause <= 0 || full {
		return
	}
	select {
	case <-time.After(pause):
	case <-k.ctx.Done():
	}
}

// round asks all other nodes once.
func (k *callKeys) round(list []*question) error {
	ctx, cancel := context.WithTimeout(k.ctx, keyPatience)
	defer cancel()
	if err := k.records.wait(ctx); err != nil {
		return fmt.Errorf("%w: %w", forebay.ErrKeyUnclear, err)
	}
	awaited := k.records.others(k.own)
	r := keysRequest{nodeRequest: nodeRequest{nodeFormat, opKeys}, Instance: k.own}
	named := make([]buffer.Key, len(list))
	for i, q := range list {
		named[i] = q.key
		r.Keys = append(r.Keys, q.key[:]...)
	}
	// The instances that this node has adopted. The keys of one that is not awaited, because it is drained, are in its own. They may have come after
	// the call has got its turn.
	instances, found := k.here(named)
	for i := range found {
		list[i].found = append(list[i].found, found[i].Receipts...)
	}
	for _, name := range instances {
		delete(awaited, name)
	}
	k.mu.Lock()
	k.due = time.Now().Add(keyPause * time.Duration(max(0, nodesOf(awaited)-keyFree)))
	k.mu.Unlock()
	request, _ := json.Marshal(r) // it is always JSON
	err := k.askAwaited(ctx, request, awaited, func(data []byte) { k.take(data, list, awaited) })
	switch {
	case err == nil:
		return nil
	case k.ctx.Err() != nil:
		return forebay.ErrClosed
	}
	missing := strings.Join(slices.Sorted(maps.Keys(awaited)), ", ")
	k.mu.Lock()
	warn := time.Since(k.warned) >= time.Minute
	if warn {
		k.warned = time.Now()
	}
	k.mu.Unlock()
	if warn {
		k.log.Warn("calls with a key refused", "instances", missing, "next", "if a node was stopped or lost, do nothing: calls are accepted when it is back or another node has taken over")
	}
	return fmt.Errorf("%w: %w", forebay.ErrKeyUnclear, err)
}

// nodesOf returns how many nodes speak for instances. A node may speak for many that it has adopted.
func nodesOf(awaited map[string]string) int {
	nodes := map[string]bool{}
	for _, node := range awaited {
		nodes[node] = true
	}
	return len(nodes)
}

// askAwaited sends a request to all other nodes, if instances are awaited, and returns when take has removed them all. take gets each response.
func (k *callKeys) askAwaited(ctx context.Context, request []byte, awaited map[string]string, take func(data []byte)) error {
	if len(awaited) == 0 {
		return nil
	}
	for data, err := range k.others(ctx, request) {
		if err != nil {
			return err
		}
		if take(data); len(awaited) == 0 {
			return nil
		}
	}
	return fmt.Errorf("no node speaks for instance %s", strings.Join(slices.Sorted(maps.Keys(awaited)), ", "))
}

// take reads a response, and removes the instances that it speaks for.
func (k *callKeys) take(data []byte, list []*question, awaited map[string]string) {
	var a keysResponse
	if err := json.Unmarshal(data, &a); err != nil || a.Node == "" {
		return
	}
	if a.Refused != "" { // its release does not ask others either, as all nodes before the upgrade
		maps.DeleteFunc(awaited, func(_, node string) bool { return node == a.Node })
		return
	}
	for _, known := range a.Known {
		if known.Place < 0 || known.Place >= len(list) {
			return
		}
	}
	for _, known := range a.Known {
		q := list[known.Place]
		for _, r := range known.Receipts {
			q.found = append(q.found, buffer.Receipt{SinkID: r.Sink, At: r.At, Data: r.Data, Copied: true})
		}
		q.running = q.running || known.Running
	}
	for _, instance := range a.Instances {
		delete(awaited, instance)
	}
}

// respond returns the response to a request of another node, nil if there is none.
func (k *callKeys) respond(data []byte) []byte {
	var r keysRequest
	size := len(buffer.Key{})
	if err := json.Unmarshal(data, &r); err != nil || r.Instance == k.own || r.Instance == "" || len(r.Keys)%size != 0 {
		return nil
	}
	k.records.hear(r.Instance)
	list := make([]buffer.Key, 0, len(r.Keys)/size)
	for b := range slices.Chunk(r.Keys, size) {
		list = append(list, buffer.Key(b))
	}
	a := keysResponse{Format: nodeFormat, Node: k.node}
	var found []instance.KnownKey
	asked := k.askers(list)
	a.Instances, found = k.here(list)
	if r.Instance < k.own {
		k.letPass(list, asked, found)
	}
	for place, f := range found {
		if len(f.Receipts) == 0 && !f.Running {
			continue
		}
		one := knownKey{Place: place, Running: f.Running}
		for _, r := range f.Receipts {
			one.Receipts = append(one.Receipts, sentReceipt{r.SinkID, r.At, r.Data})
		}
		a.Known = append(a.Known, one)
	}
	response, _ := json.Marshal(a) // it is always JSON
	return response
}

// askers returns the calls of this node that ask for some keys, nil where none does.
func (k *callKeys) askers(list []buffer.Key) []*callAsks {
	k.mu.Lock()
	defer k.mu.Unlock()
	calls := make([]*callAsks, len(list))
	for i, key := range list {
		calls[i] = k.calls[key]
	}
	return calls
}

// letPass lets another node pass the calls that have asked all the time since askers. They have stored nothing, and no other call had the turn.
func (k *callKeys) letPass(list []buffer.Key, asked []*callAsks, found []instance.KnownKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range found {
		if call := k.calls[list[i]]; found[i].Running && call != nil && call == asked[i] {
			call.passed, found[i].Running = true, false
		}
	}
}

// records has the records of instances that this node has read. They may lag.
type records struct {
	read chan struct{} // closed when all were read once

	mu sync.Mutex
	// owners are the last records, by instance. A record that cannot be read is of a newer release. Its node is the last one that is known, or empty.
	owners map[string]changelog.Owner
	// heard is when an instance without a known record has asked.
	heard map[string]time.Time
}

// heardFor is how long an instance without a record counts. It is much longer than a watch of the records may lag.
const heardFor = 5 * time.Minute

// hear notes that an instance has asked, which may be newer than the records that are known here.
func (r *records) hear(instance string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.owners[instance]; !ok {
		if r.heard == nil {
			r.heard = map[string]time.Time{}
		}
		r.heard[instance] = time.Now()
	}
}

// wait returns when all records were read once.
func (r *records) wait(ctx context.Context) error {
	select {
	case <-r.read:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the records of the nodes are not read yet: %w", context.Cause(ctx))
	}
}

// all returns the records by instance.
func (r *records) all() map[string]changelog.Owner {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.owners)
}

// speaks reports whether a process speaks for the instance of a record.
func speaks(o changelog.Owner) bool {
	return o.State == changelog.Owned || o.State == changelog.Adopting || o.State == changelog.Draining
}

// others returns the other instances that may have stored rows under a key, with the nodes that speak for them.
func (r *records) others(own string) map[string]string {
	others := map[string]string{}
	r.mu.Lock()
	defer r.mu.Unlock()
	for instance, o := range r.owners {
		if speaks(o) && instance != own {
			others[instance] = o.Node
		}
	}
	for instance, at := range r.heard {
		switch _, known := r.owners[instance]; {
		case known || time.Since(at) >= heardFor:
			delete(r.heard, instance)
		case instance != own:
			others[instance] = ""
		}
	}
	return others
}

// see notes a record.
func (r *records) see(v changelog.Versioned) {
	if v.Version == 0 { // these were all
		select {
		case <-r.read:
		default:
			close(r.read)
		}
		return
	}
	var o changelog.Owner
	instance := strings.TrimPrefix(v.Key, changelog.OwnerKey(""))
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.owners == nil {
		r.owners = map[string]changelog.Owner{}
	}
	if o.UnmarshalJSON(v.Value) != nil {
		if o = r.owners[instance]; !speaks(o) {
			o = changelog.Owner{State: changelog.Owned}
		}
	}
	r.owners[instance] = o
}

// watch follows the records until ctx ends.
func (r *records) watch(ctx context.Context, owners changelog.Owners, pause time.Duration) {
	for {
		for v, err := range owners.Watch(ctx, changelog.OwnerKey("")) {
			if err != nil {
				break
			}
			r.see(v)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}
