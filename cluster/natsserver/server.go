package natsserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Server is a running server. It is safe for concurrent use.
type Server struct {
	nats     *server.Server
	peers    int
	password string // of clients
	maxStore int64
	log      *logger
}

// user is the name of servers and clients where a password needs one.
const user = "forebay"

// Start starts a server and waits until it knows the leader of the cluster. Every five seconds it logs the reason why it waits. When ctx ends
// before, the server is stopped and the error has the reason. The recovery of the data on its disk is not interrupted.
func Start(ctx context.Context, o Options) (*Server, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	s := &Server{peers: len(o.Peers), password: rand.Text(), log: newLogger(o.Logger, o.Secret, o.Peers)}
	o = o.withDefaults()
	s.maxStore = o.MaxStore
	options := o.nats()
	options.Username, options.Password = user, s.password
	var err error
	if s.nats, err = server.NewServer(options); err != nil {
		return nil, errors.New(s.log.text("natsserver: %v", []any{err}))
	}
	s.nats.SetLoggerV2(s.log, false, false, false)
	s.nats.Start()
	if err := s.wait(ctx); err != nil {
		s.stop(func() {})
		return nil, err
	}
	return s, nil
}

// nats returns the options of the server. It listens for clients on a port of the loopback interface, with a password that no other process
// has. Without any listener it would not connect to other servers, nor hand over its leaderships in Close.
func (o Options) nats() *server.Options {
	host, port, _ := net.SplitHostPort(o.Listen)
	number, _ := strconv.Atoi(port)
	options := &server.Options{
		ServerName: o.Name,
		Host:       "127.0.0.1", Port: server.RANDOM_PORT, AuthTimeout: patience.Seconds(),
		Cluster: server.ClusterOpts{
			Name: o.Cluster, Host: host, Port: number, Username: user, Password: o.Secret, TLSConfig: o.TLS,
			NoAdvertise:  true, // of the port for clients
			Advertise:    o.Advertise,
			PingInterval: silence / 3, MaxPingsOut: 2,
		},
		JetStream: true, StoreDir: o.Dir, SyncAlways: !o.LazySync,
		JetStreamMaxStore: o.MaxStore, JetStreamMaxMemory: o.MaxMemory, DisableJetStreamBanner: true,
		NoSigs: true,
		// Clients are of this process, so no client needs time to leave.
		LameDuckDuration: 2 * time.Millisecond, LameDuckGracePeriod: time.Millisecond,
	}
	for _, peer := range o.Peers {
		options.Routes = append(options.Routes, &url.URL{Scheme: "nats", Host: peer, User: url.UserPassword(user, o.Secret)})
	}
	return options
}

// saying is how often wait logs the reason why it waits.
const saying = 5 * time.Second

// wait waits until the server knows a leader, has failed to start, or ctx has ended.
func (s *Server) wait(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for said := time.Now(); ; {
		waitsFor := s.health(server.HealthzOptions{JSMetaOnly: true})
		select {
		case err := <-s.log.fatal:
			return fmt.Errorf("natsserver: %w", err)
		default:
		}
		if waitsFor == nil {
			return nil
		}
		if time.Since(said) >= saying {
			said = time.Now()
			s.log.Info("server waits for the cluster", "cause", waitsFor)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("natsserver: not ready: %w: %w", context.Cause(ctx), waitsFor)
		case err := <-s.log.fatal:
			return fmt.Errorf("natsserver: %w", err)
		case <-tick.C:
		}
	}
}

// Ready returns nil if the server knows the leader of the cluster and has everything that it should have a copy of. Otherwise the
// error names the missing part. While one server is not ready, no other one may be stopped. A server notices after some 20 seconds
// that a majority is gone.
func (s *Server) Ready() error {
	if err := s.health(server.HealthzOptions{}); err != nil {
		return fmt.Errorf("natsserver: not ready: %w", err)
	}
	return nil
}

// Reserved returns how many bytes of its disk the server has reserved for streams, and how many it may: [Options.MaxStore].
func (s *Server) Reserved() (reserved, most int64) {
	_, reserved, err := s.nats.JetStreamReservedResources()
	if err != nil { // the server is stopped
		return 0, s.maxStore
	}
	return reserved, s.maxStore
}

// Other is a different server of the cluster.
type Other struct {
	// Name is its [Options.Name].
	Name string
	// RoundTrip is how long it took to respond last, on its slowest connection. 0 means that it has not responded yet.
	RoundTrip time.Duration
}

// Others returns the servers that this one is connected to, sorted by name.
func (s *Server) Others() []Other {
	routes, err := s.nats.Routez(nil)
	if err != nil {
		return nil
	}
	slowest := map[string]time.Duration{}
	for _, route := range routes.Routes {
		took, _ := time.ParseDuration(route.RTT) // empty before the first response
		slowest[route.RemoteName] = max(slowest[route.RemoteName], took)
	}
	others := make([]Other, 0, len(slowest))
	for _, name := range slices.Sorted(maps.Keys(slowest)) {
		others = append(others, Other{name, slowest[name]})
	}
	return others
}

func (s *Server) health(o server.HealthzOptions) error {
	h := s.nats.Healthz(&o)
	if h.Error == "" {
		return nil
	}
	return fmt.Errorf("%s (%d of %d other servers are connected)", h.Error, s.nats.NumRemotes(), s.peers-1)
}

// silence is how long a server waits for a sign of life of another server before it breaks their connection. A server that hears nothing but
// is heard stands for election again and again, and each time the leader of each stream steps down. As long as its connections last,
// the others mostly cannot write either. The default of a server is 60 to 90 s.
const silence = 15 * time.Second

// patience is how long a connection may take. The default of both sides, 2 s, is too short for a process that just stood still.
const patience = 10 * time.Second

// Connect returns a connection to the server inside of the process. It reconnects for as long as the server runs. The caller closes it
// before the server.
func (s *Server) Connect(options ...nats.Option) (*nats.Conn, error) {
	options = append([]nats.Option{
		nats.InProcessServer(s.nats), nats.UserInfo(user, s.password), nats.MaxReconnects(-1), nats.Timeout(patience),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { s.log.Warnf("connection: %v", err) }),
	}, options...)
	conn, err := nats.Connect("", options...)
	if err != nil {
		return nil, fmt.Errorf("natsserver: connect: %w", err)
	}
	return conn, nil
}

// closing is how long a server may take to hand over its leaderships and to save its state, before Close ends catching up. It takes 1 to 2 seconds.
const closing = 3 * time.Second

// Close hands over the leaderships of the server, which takes about a second, stops it and waits until it has ended. Without that
// the others would miss it for 4 to 9 seconds. If one of its streams is catching up, Close takes 3 to 8 seconds, and the server continues to catch up after
// the next Start. Nothing is lost. A second call does nothing.
func (s *Server) Close() error {
	s.stop(s.nats.LameDuckShutdown)
	return nil
}

// stop stops the server and returns when it has ended. A server that stops sends no more requests to the others, and then waits for its streams. A
// stream that is catching up still waits for responses, and notices only the end of its Raft node. The server ends Raft nodes after the
// streams, so without help it would stop after 15 seconds to minutes.
func (s *Server) stop(before func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		before()
		s.nats.Shutdown() // if it was too early for the first
		s.nats.WaitForShutdown()
	}()
	select {
	case <-ended:
		return
	case <-time.After(closing):
	}
	_ = s.nats.ShutdownJetStream() // it ends the Raft nodes, and has no other error than that they have ended
	<-ended
}
