// Package clienttest sends events over HTTP while a test kills the server that receives them or the database that stores them. It checks
// which events are in the table afterwards.
package clienttest

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/internal/proctest"
)

// count is the number of clients.
const count = 8

// Clients post events, one a request. An event is {"client":3,"seq":17}. Each attempt has the next number of its client, even after an
// attempt without a response, so that its rows can be told apart.
type Clients struct {
	*proctest.Loader[Event]
	url atomic.Pointer[string]
}

// Event is a sent event, with the number of its client, and its own.
type Event struct{ Client, Seq int }

// Send starts clients that post to url.
func Send(url string) *Clients {
	c := &Clients{}
	c.SendTo(url)
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: count}}
	c.Loader = proctest.Load(count, func(n, seq int) ([]Event, error) {
		resp, err := client.Post(*c.url.Load(), "application/json", strings.NewReader(fmt.Sprintf(`{"client":%d,"seq":%d}`, n, seq)))
		if err != nil { // the process is gone
			return nil, err
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return nil, errors.New(resp.Status)
		}
		return []Event{{n, seq}}, nil
	})
	return c
}

// SendTo lets the clients post to another url from now on.
func (c *Clients) SendTo(url string) { c.url.Store(&url) }

// Check stops the clients. It fails the test unless each acknowledged event is stored once, and no other one twice. stored has the rows of each event.
func (c *Clients) Check(t testing.TB, stored map[Event]int) {
	t.Helper()
	proctest.Check(t, maps.Keys(c.Stop()), stored)
}
