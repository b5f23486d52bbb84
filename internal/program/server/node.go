package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/stream/streamapi"
)

// Node is an open node of a cluster.
type Node interface {
	// Engine and Catalog are served. The node closes them.
	Engine() *forebay.Engine
	Catalog() *catalog.Catalog
	// Handler serves /readiness-check and the calls of the Stream API.
	Handler() http.Handler
	// Nodes lists the nodes of the cluster.
	Nodes(ctx context.Context) ([]catalog.Node, error)
	// Done is closed when the node has lost its instance, and Err says why.
	Done() <-chan struct{}
	Err() error
	Close() error
}

// NodeOptions are the options that a server gives to a node.
type NodeOptions struct {
	// Engine are the options of its engine, without leases.
	Engine forebay.Options
	// Catalog are the options of its definitions, without a store.
	Catalog catalog.Options
	// API are the options of the Stream API, with the addresses of this server.
	API streamapi.Options
}

// runNode serves a node of a cluster until ctx ends. A node that has lost its instance is closed and opened again. The listeners stay open
// meanwhile. Every call but a health check then returns 503.
func runNode(ctx context.Context, cfg Config, parts Parts, opts forebay.Options, logger *slog.Logger, out io.Writer) error {
	at, err := listenBoth(cfg, logger)
	if err != nil {
		return err
	}
	defer at.close()
	for ctx.Err() == nil {
		if err := runNodeOnce(ctx, cfg, parts, opts, at, logger, out); err != nil {
			return err
		}
	}
	return nil
}

// runNodeOnce serves a node until ctx ends, or until it has lost its instance.
func runNodeOnce(ctx context.Context, cfg Config, parts Parts, opts forebay.Options, at listeners, logger *slog.Logger, out io.Writer) (err error) {
	m := &management{cfg: cfg, drop: parts.DropTable, drops: parts.DropTables, logger: logger}
	token, err := m.token()
	if err != nil {
		return err
	}
	m.opts = apiOptions(cfg, at.apiURL(), at.eventsURL(), token)
	waiting := answerWaiting(at)
	node, err := parts.OpenNode(ctx, NodeOptions{
		Engine:  opts,
		Catalog: catalog.Options{BranchID: cfg.Stream.BranchID, Extend: cfg.Extend, DropTable: parts.DropTable, DropTables: parts.DropTables, Logger: logger},
		API:     m.opts,
	})
	waiting()
	switch {
	case err != nil && ctx.Err() != nil:
		logger.Info("stopped while opening", "reason", err)
		return nil
	case err != nil:
		return err
	}
	defer func() { err = errors.Join(err, closeNode(node, logger)) }()
	m.eng, m.cat, m.nodes = node.Engine(), node.Catalog(), node.Nodes
	err = m.serve(ctx, parts, service{
		events: reuse(at.events), api: reuse(at.api), handler: node.Handler(), ready: node.Handler(), lost: node.Done(),
	}, out)
	if lost := node.Err(); lost != nil && ctx.Err() == nil {
		logger.Warn("instance of the node lost", "reason", lost, "next", "none; the node reopens")
	}
	return err
}

// closeNode closes a node. Calls that it could not finish are no failure of the process, because they were never acknowledged, and the log
// has all else. This happens when all nodes are stopped at once, and the last nodes no longer have a majority.
func closeNode(node Node, logger *slog.Logger) error {
	err := node.Close()
	if _, ok := errors.AsType[*buffer.FailedError](err); ok {
		logger.Warn("node closed before its last rows were stored", "cause", err, "next", "none; the clients got no response and retry")
		return nil
	}
	return err
}

// answerWaiting serves the listeners while a node opens. The function that it returns ends that.
func answerWaiting(at listeners) (stop func()) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health-check" {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			fmt.Fprint(w, "OK")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "5")
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"statusCode":503,"error":"opening","message":"The node is opening. Its log names the reason for the wait."}`+"\n")
	})
	logger := slog.New(slog.DiscardHandler)
	servers := []Listener{
		{"ingest", serve(reuse(at.events), usualServer("events", h, logger), apiConnections)},
		{"api", serve(reuse(at.api), usualServer("api", h, logger), apiConnections)},
	}
	return func() {
		end, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		for _, s := range servers {
			_ = s.Stop(end) // the calls cut off would return 503
		}
	}
}

// keptListener is a listener that a server may close without closing the socket, so that the next server can listen there.
type keptListener struct {
	*net.TCPListener
	once   sync.Once
	closed chan struct{}
}

// reuse returns a listener for one server. The server before it must have ended.
func reuse(l net.Listener) net.Listener {
	tcp := l.(*net.TCPListener) // which listen returns for "tcp"
	_ = tcp.SetDeadline(time.Time{})
	return &keptListener{TCPListener: tcp, closed: make(chan struct{})}
}

// Accept implements [net.Listener].
func (l *keptListener) Accept() (net.Conn, error) {
	c, err := l.TCPListener.Accept()
	if err == nil {
		return c, nil
	}
	select {
	case <-l.closed:
		return nil, net.ErrClosed
	default:
		return nil, err
	}
}

// Close implements [net.Listener]. It ends only Accept.
func (l *keptListener) Close() (err error) {
	l.once.Do(func() {
		close(l.closed)
		err = l.SetDeadline(time.Unix(1, 0))
	})
	return err
}
