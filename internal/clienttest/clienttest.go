// Package clienttest sends events over HTTP while a test kills the server that receives them or the database that stores them. It checks
// which events are in the table afterwards.
package clienttest

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// count is the number of clients.
const count = 8

// Clients post events, one a request. An event is {"client":3,"seq":17}. Each attempt has the next number of its client, even after an
// attempt without a response, so that its rows can be told apart.
type Clients struct {
	url      atomic.Pointer[string]
	answered atomic.Int64
	failed   atomic.Int64
	progress chan struct{}
	stop     chan struct{}
	all      sync.WaitGroup
	acked    [count]map[int]bool // returned 200
}

// Event is a sent event, with the number of its client, and its own.
type Event struct{ Client, Seq int }

// Send starts clients that post to url.
func Send(url string) *Clients {
	c := &Clients{progress: make(chan struct{}, 1), stop: make(chan struct{})}
	c.SendTo(url)
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: count}}
	for n := range count {
		c.acked[n] = map[int]bool{}
		c.all.Go(func() { c.run(client, n) })
	}
	return c
}

// SendTo lets the clients post to another url from now on.
func (c *Clients) SendTo(url string) { c.url.Store(&url) }

func (c *Clients) run(client *http.Client, n int) {
	for seq := 0; ; seq++ {
		select {
		case <-c.stop:
			return
		default:
		}
		resp, err := client.Post(*c.url.Load(), "application/json", strings.NewReader(fmt.Sprintf(`{"client":%d,"seq":%d}`, n, seq)))
		if err != nil { // the process is gone
			c.failed.Add(1)
			continue
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			c.failed.Add(1)
		} else {
			c.acked[n][seq] = true
			c.answered.Add(1)
			select {
			case c.progress <- struct{}{}:
			default:
			}
		}
	}
}

// Wait returns when n more events are acknowledged.
func (c *Clients) Wait(n int64) {
	for want := c.answered.Load() + n; c.answered.Load() < want; {
		<-c.progress
	}
}

// Failed returns how many attempts were not acknowledged.
func (c *Clients) Failed() int64 { return c.failed.Load() }

// Stop ends the clients. It may be repeated.
func (c *Clients) Stop() {
	select {
	case <-c.stop:
	default:
		close(c.stop)
	}
	c.all.Wait()
}

// Check fails the test unless each acknowledged event is stored once, and no other one twice. stored has the rows of each event.
func (c *Clients) Check(t testing.TB, stored map[Event]int) {
	t.Helper()
	c.Stop()
	lost, doubled, unconfirmed := 0, 0, 0
	for n := range count {
		for seq := range c.acked[n] {
			if stored[Event{n, seq}] == 0 {
				lost++
			}
		}
	}
	for e, n := range stored {
		if n > 1 {
			doubled++
		}
		if !c.acked[e.Client][e.Seq] {
			unconfirmed++
		}
	}
	t.Logf("%d acknowledged events, %d in the table, %d of them without an answer", c.answered.Load(), len(stored), unconfirmed)
	if lost+doubled > 0 {
		t.Errorf("%d events are lost, %d are doubled", lost, doubled)
	}
}
