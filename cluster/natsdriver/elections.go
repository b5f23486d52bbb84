package natsdriver

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// electedSubject is where the servers say that a stream has a new leader. The name of the stream follows.
const electedSubject = "$JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED."

// lateAfter is how long something that was sent before an election, or just after it, may still get its response. A message that reached no leader gets none.
const lateAfter = 500 * time.Millisecond

var errElected = errors.New("the stream has a new leader since")

// elections follows the elections of leaders. A request that arrives while there is no leader is lost, and without the news of an election its sender
// waits for its whole time-out.
type elections struct {
	conn *nats.Conn
	once sync.Once

	mu      sync.Mutex
	any     election            // of any stream
	streams map[string]election // by the name of the stream
}

// election is the last one of a stream.
type election struct {
	count  int
	leader string
	at     time.Time
	next   chan struct{} // closed at the next one, nil while no one waits for it
}

func newElections(conn *nats.Conn) *elections {
	return &elections{conn: conn, streams: map[string]election{}}
}

// calls are the options of requests to the servers of a connection.
type calls struct {
	Options
	elections *elections
}

// last returns the last election of a stream, or of any stream if it has no name. A count of 0 means that none is known.
func (e *elections) last(stream string) election {
	e.once.Do(func() {
		_, _ = e.conn.Subscribe(electedSubject+"*", e.hear) // without it each request waits for its time-out. It ends with the connection
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	last := e.any
	if stream != "" {
		last = e.streams[stream]
	}
	if last.next == nil {
		last.next = make(chan struct{})
		e.set(stream, last)
	}
	return last
}

func (e *elections) set(stream string, last election) {
	if stream == "" {
		e.any = last
		return
	}
	e.streams[stream] = last
}

// know notes the leader of a stream whose election was not heard.
func (e *elections) know(stream, leader string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if last := e.streams[stream]; last.count == 0 {
		last.leader = leader
		e.streams[stream] = last
	}
}

func (e *elections) hear(m *nats.Msg) {
	var elected struct{ Leader string }
	_ = json.Unmarshal(m.Data, &elected) // without a name the leader is unknown
	stream := strings.TrimPrefix(m.Subject, electedSubject)
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, name := range []string{"", stream} {
		last := e.any
		if name != "" {
			last = e.streams[name]
		}
		if last.next != nil {
			close(last.next)
		}
		e.set(name, election{count: last.count + 1, leader: elected.Leader, at: time.Now()})
	}
}

// bound returns a context that ends after a time, and a moment after the next election of a stream, or of any stream if it has no name.
func (e *elections) bound(ctx context.Context, stream string, within time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, within)
	if e == nil {
		return ctx, cancel
	}
	next := e.last(stream).next
	go func() {
		select {
		case <-next:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(lateAfter):
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
