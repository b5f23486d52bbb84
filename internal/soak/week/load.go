package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/forebay/forebay/driverkit/ctxio"
)

// calendar maps the time of the run to days.
type calendar struct {
	begin time.Time
	day   time.Duration
	days  int
}

func newCalendar(begin time.Time, cfg config) calendar {
	return calendar{begin, cfg.duration / time.Duration(cfg.days), cfg.days}
}

// at is when a part of a day has passed.
func (c calendar) at(day int, part float64) time.Time {
	return c.begin.Add(time.Duration((float64(day) + part) * float64(c.day)))
}

// dayOf is the number of a day, from 0.
func (c calendar) dayOf(t time.Time) int {
	return max(0, min(c.days-1, int(t.Sub(c.begin)/c.day)))
}

// level is the load at a time: 1 at noon of a working day. The sixth and the seventh day are the weekend.
func (c calendar) level(t time.Time) float64 {
	part := float64(t.Sub(c.begin)%c.day) / float64(c.day)
	level := 0.1 + 0.9*(1-math.Cos(2*math.Pi*part))/2
	if c.dayOf(t) >= 5 {
		level *= 0.6
	}
	return level
}

// Patience of a client with one attempt, and with an event. A node that stands still never responds.
const (
	patience      = 10 * time.Second
	eventPatience = 5 * time.Minute
)

// maxSending bounds the events in progress.
const maxSending = 2000

// load sends events. Each has a time at which it is due, and counts as waiting from then on, so a slow response delays no other event.
type load struct {
	events
	nodes  nodes
	client *http.Client
	path   string // of the source

	mu       sync.Mutex
	acked    []uint8         // by number, the attempt that was acknowledged, 0 for none
	next     uint64          // number of the next event
	took     []time.Duration // of the events that were acknowledged since the last sample
	failures map[string]int  // attempts by what failed
	waiting  int
	quiet    time.Duration // the longest time without an acknowledgement while events waited
	last     time.Time     // of the last one
}

func newLoad(ns nodes, e events, path string) *load {
	return &load{
		events: e, nodes: ns, path: path, failures: map[string]int{},
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}, Timeout: patience},
	}
}

// run sends events until the calendar ends, and returns when each of them is acknowledged.
func (l *load) run(ctx context.Context, c calendar, rate float64) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var sending sync.WaitGroup
	end, owed := c.at(c.days, 0), 0.0
	for last := time.Now(); ; {
		now := time.Now()
		if now.After(end) {
			break
		}
		owed += rate * c.level(now) * now.Sub(last).Seconds()
		for last = now; owed >= 1; owed-- {
			if n, ok := l.begin(now); ok {
				sending.Go(func() {
					if err := l.send(ctx, n, now); err != nil {
						cancel(err)
					}
				})
			}
		}
		if err := ctxio.Sleep(ctx, 5*time.Millisecond); err != nil {
			break
		}
	}
	sending.Wait()
	return context.Cause(ctx)
}

// begin takes the number of an event. At the bound of events in progress there is none, so the load is lower then.
func (l *load) begin(now time.Time) (n uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting >= maxSending {
		l.failures["not sent, too many waited"]++
		return 0, false
	}
	if l.waiting == 0 {
		l.last = now
	}
	l.waiting++
	n = l.next
	l.next++
	l.acked = append(l.acked, 0)
	return n, true
}

// send repeats one event until it is acknowledged. Each attempt has its own id, so that rows can be told apart.
func (l *load) send(ctx context.Context, n uint64, due time.Time) error {
	ctx, cancel := context.WithTimeoutCause(ctx, eventPatience, fmt.Errorf("nobody has acknowledged event %d for %s", n, eventPatience))
	defer cancel()
	pause := ctxio.Pause{First: 50 * time.Millisecond, Last: 2 * time.Second}
	for attempt := 1; attempt < math.MaxUint8; {
		// As a balancer does, it takes nodes that are ready, one after the other.
		urls := l.nodes.urls()
		if len(urls) > 0 {
			status, answer, err := l.post(ctx, urls[(n+uint64(attempt))%uint64(len(urls))]+l.path, l.body(n, attempt))
			switch {
			case err == nil && status == http.StatusOK:
				l.success(n, attempt, due)
				return nil
			case err == nil && status < http.StatusInternalServerError && status != http.StatusNotFound && status != http.StatusTooManyRequests:
				return fmt.Errorf("event %s is refused with status %d: %s", eventID(n, attempt), status, answer)
			case err != nil:
				l.failure("no answer")
			default:
				l.failure(http.StatusText(status))
			}
			attempt++
		}
		if err := pause.Wait(ctx); err != nil {
			return err
		}
	}
	return fmt.Errorf("event %d was sent %d times", n, math.MaxUint8)
}

func (l *load) success(n uint64, attempt int, due time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.acked[n] = uint8(attempt)
	l.took = append(l.took, now.Sub(due))
	l.quiet = max(l.quiet, now.Sub(l.last))
	l.last = now
	l.waiting--
}

func (l *load) failure(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures[what]++
}

// number returns the number of the next event.
func (l *load) number() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next
}

// since returns how long the events took that were acknowledged since the last call, in order, and how many wait.
func (l *load) since() (took []time.Duration, waiting int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	took, l.took = l.took, nil
	slices.Sort(took)
	return took, l.waiting
}

func (l *load) post(ctx context.Context, url string, body []byte) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := l.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	return resp.StatusCode, answer, err
}
