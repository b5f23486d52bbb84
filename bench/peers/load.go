package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"

	"github.com/forebay/forebay/internal/pipebench"
)

// connections is the number of connections, each with at most one request in flight, for every peer.
const connections = 64

// patience is how long a response may take. A request without one counts as refused.
const patience = 10 * time.Second

// sentEvent is one request with one event.
type sentEvent struct {
	sent, done time.Time
	ok         bool
}

// load sends events until it is ended. It never sends an event twice.
type load struct {
	peer     *peer
	addr     string
	interval time.Duration // between the requests of a connection, or 0 for as fast as possible
	first    int64         // of the ids
	calls    [connections][]sentEvent
	acked    atomic.Int64
	progress chan struct{}
	stop     context.CancelFunc
	all      sync.WaitGroup
}

var loads atomic.Int64

// The id of an event has the number of the load, of the connection, and of the request.
const perConnection, perLoad = 1 << 28, connections << 28

func newLoad(p *peer, addr string, interval time.Duration) *load {
	return &load{peer: p, addr: addr, interval: interval, first: loads.Add(1) * perLoad, progress: make(chan struct{}, 1)}
}

func (l *load) start() {
	var ctx context.Context
	ctx, l.stop = context.WithCancel(context.Background())
	begin := time.Now()
	for n := range connections {
		l.all.Go(func() { l.send(ctx, n, begin.Add(l.interval*time.Duration(n)/connections)) })
	}
}

// end waits for the responses of requests in flight. It may be repeated.
func (l *load) end() {
	l.stop()
	l.all.Wait()
}

func (l *load) send(ctx context.Context, n int, next time.Time) {
	var c connection
	defer c.close()
	for i := int64(0); ; i++ {
		if l.interval > 0 {
			if err := wait(ctx, time.Until(next)); err != nil {
				return
			}
			if next = next.Add(l.interval); next.Before(time.Now()) { // a slow peer gets no burst afterwards
				next = time.Now()
			}
		}
		if ctx.Err() != nil {
			return
		}
		request := l.request(l.first + int64(n)*perConnection + i)
		made := sentEvent{sent: time.Now()}
		ok, err := c.post(l.addr, request)
		made.done, made.ok = time.Now(), ok && err == nil
		l.calls[n] = append(l.calls[n], made)
		switch {
		case made.ok:
			l.acked.Add(1)
			select {
			case l.progress <- struct{}{}:
			default:
			}
		case l.interval == 0: // a peer that is down or full gets a moment
			_ = wait(ctx, 5*time.Millisecond)
		}
	}
}

// wait returns when n more events are confirmed.
func (l *load) wait(ctx context.Context, n int64) error {
	for want := l.acked.Load() + n; l.acked.Load() < want; {
		select {
		case <-l.progress:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// event returns an event, which has about 130 bytes.
func event(id int64) []byte {
	return fmt.Appendf(nil, `{"id":%d,"type":"order.created","user":{"id":%d,"plan":"team"},"amount":%d.25,"note":"the gate opens when the basin is full"}`,
		id, id%1000*151, id%100)
}

func (l *load) request(id int64) []byte {
	body, kind := event(id), "application/json"
	if l.peer.otlp {
		logs := plog.NewLogs()
		logs.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty().Body().SetStr(string(body))
		body, _ = plogotlp.NewExportRequestFromLogs(logs).MarshalProto() // of memory alone
		kind = "application/x-protobuf"
	}
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", l.peer.path, l.addr, kind, len(body), body)
}

// connection connects when it must.
type connection struct {
	conn net.Conn
	in   *bufio.Reader
}

func (c *connection) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

// post reports whether the response has the status 200.
func (c *connection) post(addr string, request []byte) (ok bool, err error) {
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	if c.conn == nil {
		if c.conn, err = net.DialTimeout("tcp", addr, patience); err != nil {
			c.conn = nil
			return false, err
		}
		c.in = bufio.NewReader(c.conn)
	}
	if err := c.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return false, err
	}
	if _, err := c.conn.Write(request); err != nil {
		return false, err
	}
	return pipebench.ReadResponse(c.in)
}

// each yields the calls with their ids.
func (l *load) each(yield func(int64, sentEvent) bool) {
	for n, calls := range l.calls {
		for i, c := range calls {
			if !yield(l.first+int64(n)*perConnection+int64(i), c) {
				return
			}
		}
	}
}

// acknowledged yields the ids of confirmed events.
func (l *load) acknowledged(yield func(int64) bool) {
	l.each(func(id int64, c sentEvent) bool { return !c.ok || yield(id) })
}

// sent returns when an event of this load was sent.
func (l *load) sent(id int64) (at time.Time, ok bool) {
	id -= l.first
	if id < 0 || id >= perLoad || id%perConnection >= int64(len(l.calls[id/perConnection])) {
		return at, false
	}
	return l.calls[id/perConnection][id%perConnection].sent, true
}

func (l *load) refused() (n int) {
	l.each(func(_ int64, c sentEvent) bool {
		if !c.ok {
			n++
		}
		return true
	})
	return n
}

// between returns the rate and the response times, in milliseconds, of the events that were confirmed between two times.
func (l *load) between(from, to time.Time) (perS, p50, p99 float64) {
	var took []time.Duration
	l.each(func(_ int64, c sentEvent) bool {
		if c.ok && !c.done.Before(from) && c.done.Before(to) {
			took = append(took, c.done.Sub(c.sent))
		}
		return true
	})
	return float64(len(took)) / to.Sub(from).Seconds(), quantile(took, 50), quantile(took, 99)
}

// quantile sorts durations and returns one in milliseconds.
func quantile(d []time.Duration, percent int) float64 {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[len(d)*percent/100].Seconds() * 1e3
}
