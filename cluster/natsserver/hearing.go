package natsserver

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// A server that hears no leader asks for votes after 4 to 9 seconds, again and again, under a higher term each time. The others follow a higher term. So
// such a server deposes leaders that are well: at once if they hear it, and otherwise when it is back. Therefore a server that does not hear a majority
// stops its part in elections before it first asks, and resumes it when it hears them. It could not lead anything meanwhile.

const (
	// beatSubject is where each server says that it is there, and beatEvery how often.
	beatSubject = "fb.servers"
	beatEvery   = 500 * time.Millisecond
	// deafAfter is less than the 4 seconds after which a server asks for votes.
	deafAfter = 3 * time.Second
)

var errDeaf = errors.New("it hears no majority of the servers, and takes no part in elections until it does")

// aliveFor is how long a server that was heard may still be alive. Servers that were silent before cannot elect a leader with the others, so leaving would
// protect no one.
const aliveFor = 5 * deafAfter

// hearing notices that a server hears no majority.
type hearing struct {
	*Server
	conn   *nats.Conn
	config server.JetStreamConfig
	ready  atomic.Bool // from then on the server may leave elections
	deaf   atomic.Bool
	end    context.CancelFunc
	work   sync.WaitGroup

	mu    sync.Mutex
	heard map[string]time.Time // when the other servers were heard last, without servers of an earlier release, which do not beat
}

// hear starts to hear the other servers.
func (s *Server) hear(o *server.Options) error {
	conn, err := s.Connect()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	h := &hearing{
		Server: s, conn: conn, end: cancel, heard: map[string]time.Time{},
		config: server.JetStreamConfig{ // as the server's own at its start
			StoreDir: o.StoreDir, SyncInterval: o.SyncInterval, SyncAlways: o.SyncAlways, Strict: !o.NoJetStreamStrict,
			MaxMemory: o.JetStreamMaxMemory, MaxStore: o.JetStreamMaxStore, CompressOK: true,
		},
	}
	if _, err := conn.Subscribe(beatSubject, func(m *nats.Msg) { h.hear(string(m.Data)) }); err != nil {
		cancel()
		conn.Close()
		return err
	}
	s.hearing = h
	h.work.Go(func() { h.beat(ctx) })
	h.work.Go(func() { h.watch(ctx) })
	return nil
}

// stop returns when the server is left alone.
func (h *hearing) stop() {
	h.end()
	h.work.Wait()
	h.conn.Close()
}

func (h *hearing) hear(name string) {
	if name == h.nats.Name() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard[name] = time.Now()
}

// beat tells the others that this server is there, even while it leaves or returns.
func (h *hearing) beat(ctx context.Context) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		_ = h.conn.Publish(beatSubject, []byte(h.nats.Name())) // it fails only when the server ends
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// watch leaves elections and returns to them.
func (h *hearing) watch(ctx context.Context) {
	tick := time.NewTicker(beatEvery / 2)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if late := time.Since(last); late > 2*beatEvery { // this process stood still, and may have beats to read
			h.shift(late)
		}
		silent, heard, alive := h.count()
		majority := h.peers/2 + 1
		switch deaf := isDeaf(h.peers, silent, heard); {
		case deaf && alive >= majority && !h.deaf.Load() && h.ready.Load():
			h.log.Warn("server hears no majority", "silent", silent, "next", "check the network between the servers; the server returns automatically")
			h.deaf.Store(true)
			_ = h.nats.ShutdownJetStream() // it has no other error than that it has ended
		case !deaf && h.deaf.Load():
			config := h.config
			if err := h.nats.EnableJetStream(&config); err != nil {
				h.log.Warn("server not returned to the cluster", "cause", err, "next", "it is retried automatically")
				_ = h.nats.ShutdownJetStream()
				break
			}
			h.deaf.Store(false)
			h.log.Info("server hears a majority again")
		}
		last = time.Now()
	}
}

// isDeaf reports whether a server of so many hears no majority. A server that was replaced under a different name is silent for good, so the names that
// are heard count too. A server of an earlier release is never heard, so the names that are silent count as well.
func isDeaf(servers, silent, heard int) bool {
	majority := servers/2 + 1
	return servers-silent < majority && heard+1 < majority
}

// shift counts silence from later on.
func (h *hearing) shift(by time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	for name, at := range h.heard {
		if h.heard[name] = at.Add(by); h.heard[name].After(now) {
			h.heard[name] = now
		}
	}
}

// count returns how many other servers are silent, how many are heard, and how many may be alive, silent or not.
func (h *hearing) count() (silent, heard, alive int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, at := range h.heard {
		since := time.Since(at)
		if since <= aliveFor {
			alive++
		}
		if since <= deafAfter {
			heard++
			continue
		}
		if connected := h.connectedSince(name); connected.After(at) && time.Since(connected) > deafAfter {
			delete(h.heard, name) // it was started again, with an earlier release
			continue
		}
		silent++
	}
	return silent, heard, alive
}

// connectedSince returns when a server connected last. Its connection shows that both sides hear each other then.
func (h *hearing) connectedSince(name string) (since time.Time) {
	routes, err := h.nats.Routez(nil)
	if err != nil {
		return since
	}
	for _, route := range routes.Routes {
		if route.RemoteName == name && route.Start.After(since) {
			since = route.Start
		}
	}
	return since
}
