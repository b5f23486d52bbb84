package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forebay/forebay/driverkit/ctxio"
)

// maxEvents keeps an event number within the seven digits of an id.
const maxEvents = 9_999_999

// patience is how long a client waits for a response. A stalled node never sends one.
const patience = 15 * time.Second

// ledger is the clients' record of events.
type ledger struct {
	sent atomic.Int64 // acknowledged events

	mu      sync.Mutex
	fault   []ack               // since the last fault began
	acked   map[string]*process // the process that acknowledged it, by id of the attempt
	last    time.Time           // of the last acknowledgement, or of when events began to wait again
	stalled time.Duration       // the longest time between two
	failed  map[string]int      // attempts by what failed
	changed chan struct{}       // closed by the next acknowledgement
}

func newLedger() *ledger {
	return &ledger{acked: make(map[string]*process), failed: make(map[string]int), changed: make(chan struct{})}
}

// ack is an event that a node has acknowledged.
type ack struct {
	node *process
	at   time.Time
	took time.Duration // from the first attempt
}

func (l *ledger) success(id string, node *process, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.acked[id] = node
	l.fault = append(l.fault, ack{node, now, took})
	l.stalled = max(l.stalled, now.Sub(l.last))
	l.last = now
	l.sent.Add(1)
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *ledger) failure(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed[what]++
}

// begin notes that clients have events again.
func (l *ledger) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = time.Now()
}

// beginFault notes that a fault begins, and acks returns the acknowledgements since.
func (l *ledger) beginFault() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault = nil
}

func (l *ledger) acks() []ack {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.fault)
}

// await waits until so many events are acknowledged.
func (l *ledger) await(ctx context.Context, events int) error {
	for {
		l.mu.Lock()
		changed := l.changed
		l.mu.Unlock()
		if l.sent.Load() >= int64(events) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// of returns the ids that a node has acknowledged.
func (l *ledger) of(node *process) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ids []string
	for id, by := range l.acked {
		if by == node {
			ids = append(ids, id)
		}
	}
	return ids
}

// load sends events, each until a node has acknowledged it.
type load struct {
	*ledger
	nodes []*process
	keys  bool
	next  atomic.Int64
}

// pace is how long a client waits on average between two events when the events of a part are sent, and its fault is not over.
const pace = 4 * time.Second

// send sends events until the number of the next one is end, and then some more until over is closed. It returns when each of them is acknowledged.
func (l *load) send(ctx context.Context, clients, end int, over <-chan struct{}) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l.begin()
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for ctx.Err() == nil {
				event := l.next.Load()
				if event >= int64(end) {
					select {
					case <-time.After(rand.N(2 * pace)):
						event = l.next.Load()
					case <-over:
						return
					case <-ctx.Done():
						return
					}
				}
				if !l.next.CompareAndSwap(event, event+1) {
					continue
				}
				if err := l.sendEvent(ctx, int(event), c); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// sendEvent repeats one event until it is acknowledged, and begins at the same node for all events of a client, so that a node that does not respond keeps its own
// clients only. Every second event has a key and one id for all attempts. Each attempt of the others has its own
// id, so that rows can be told apart. Acknowledged ids must be in the table once, other ids at most once.
func (l *load) sendEvent(ctx context.Context, event, client int) error {
	pause := ctxio.Pause{First: 20 * time.Millisecond, Last: time.Second}
	begin := time.Now()
	for attempt := 1; ; attempt++ {
		node := (client + attempt) % len(l.nodes)
		url := l.nodes[node].url()
		if url == "" {
			if attempt%len(l.nodes) != 0 {
				continue // try another node at once
			}
		} else {
			id, key := fmt.Sprintf("%07d-%d", event, attempt), ""
			if event%2 == 0 && l.keys {
				id = fmt.Sprintf("%07d-0", event)
				key = id
			}
			status, err := post(ctx, l.nodes[node].client, url, key, fmt.Appendf(nil, `{"id":%q,"event":%d}`, id, event))
			switch {
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case err != nil:
				l.failure("no answer")
			case status == http.StatusOK:
				l.success(id, l.nodes[node], time.Since(begin))
				return nil
			case status < http.StatusInternalServerError:
				return fmt.Errorf("node %s refuses event %d with status %d: see %s", l.nodes[node].Name, event, status, l.nodes[node].logPath())
			default:
				l.failure(http.StatusText(status))
			}
		}
		if err := pause.Wait(ctx); err != nil {
			return err
		}
	}
}

func post(ctx context.Context, client *http.Client, url, key string, body []byte) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}
