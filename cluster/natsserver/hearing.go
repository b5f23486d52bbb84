package natsserver

import (
	"context"
	"errors"
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

// hearing notices that a server hears no majority.
type hearing struct {
	*Server
	conn   *nats.Conn
	config server.JetStreamConfig
	beats  chan string // the names of servers that were heard
	ready  atomic.Bool // from then on the server may leave elections
	deaf   atomic.Bool
	known  atomic.Int32 // how many other servers say that they are there
	end    context.CancelFunc
	ended  chan struct{}
}

// hear starts to hear the other servers.
func (s *Server) hear(o *server.Options) error {
	conn, err := s.Connect()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	h := &hearing{
		Server: s, conn: conn, beats: make(chan string, 16), end: cancel, ended: make(chan struct{}),
		config: server.JetStreamConfig{ // as the server's own at its start
			StoreDir: o.StoreDir, SyncInterval: o.SyncInterval, SyncAlways: o.SyncAlways, Strict: !o.NoJetStreamStrict,
			MaxMemory: o.JetStreamMaxMemory, MaxStore: o.JetStreamMaxStore, CompressOK: true,
		},
	}
	if _, err := conn.Subscribe(beatSubject, func(m *nats.Msg) {
		select {
		case h.beats <- string(m.Data):
		case <-ctx.Done():
		}
	}); err != nil {
		cancel()
		conn.Close()
		return err
	}
	s.hearing = h
	go h.run(ctx)
	return nil
}

// stop returns when the server is left alone.
func (h *hearing) stop() {
	h.end()
	<-h.ended
	h.conn.Close()
}

func (h *hearing) run(ctx context.Context) {
	defer close(h.ended)
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	own := h.nats.Name()
	heard := map[string]time.Time{}
	last := time.Now()
	for {
		h.known.Store(int32(len(heard)))
		select {
		case <-ctx.Done():
			return
		case name := <-h.beats:
			if name != own {
				heard[name] = time.Now()
			}
			continue
		case <-tick.C:
		}
		_ = h.conn.Publish(beatSubject, []byte(own)) // it fails only when the server ends
		now := time.Now()
		if late := now.Sub(last) - beatEvery; late > beatEvery { // this process stood still, and may have beats to read
			for name := range heard {
				heard[name] = heard[name].Add(late)
			}
		}
		last = now
		silent := 0
		for name, at := range heard { // a server of an earlier release, which does not beat, is not in it
			switch {
			case now.Sub(at) <= deafAfter:
			case h.connectedSince(name).After(at) && now.Sub(h.connectedSince(name)) > deafAfter:
				delete(heard, name) // it was started again, with an earlier release
			default:
				silent++
			}
		}
		deaf := 2*(h.peers-silent) <= h.peers
		switch {
		case deaf && !h.deaf.Load() && h.ready.Load():
			h.log.Warn("server hears no majority", "silent", silent, "next", "check the network between the servers; the server returns automatically")
			h.deaf.Store(true)
			_ = h.nats.ShutdownJetStream() // it has no other error than that it has ended
		case !deaf && h.deaf.Load():
			config := h.config
			if err := h.nats.EnableJetStream(&config); err != nil {
				h.log.Warn("server not returned to the cluster", "cause", err, "next", "it is retried automatically")
				_ = h.nats.ShutdownJetStream()
				continue
			}
			h.deaf.Store(false)
			h.log.Info("server hears a majority again")
		}
	}
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
