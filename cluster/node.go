package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/internal/instance"
	"github.com/forebay/forebay/cluster/internal/journal"
	"github.com/forebay/forebay/cluster/internal/lease"
	"github.com/forebay/forebay/cluster/natsdriver"
	"github.com/forebay/forebay/cluster/natsserver"
)

// Node is an open node. It is safe for concurrent use.
type Node struct {
	opts Options
	log  *slog.Logger

	server   *natsserver.Server // nil without Options.Server
	conn     *nats.Conn
	owners   changelog.Owners
	leases   *lease.Leases
	logs     *natsdriver.Log
	instance *instance.Instance
	catalog  *catalog.Catalog
	peers    *natsdriver.Peers
	keys     *callKeys
	handler  http.Handler
	// stopResponses ends the responses to other nodes, and stopMetrics the metrics of this one.
	stopResponses, stopMetrics func()

	adoption   adoption
	background sync.WaitGroup
	cancel     context.CancelFunc
	closeOnce  sync.Once
	closed     error
}

// Open opens the node whose folder is dir, which it creates if it is missing. It returns when events can be accepted. Until then it waits for
// unavailable servers and logs which they are. A new cluster needs all its servers, once. A known cluster needs a majority of them.
// When ctx ends before, everything is closed again. Only one node can have the folder open.
//
// Then the node also takes over from nodes that fall silent, in the background.
func Open(ctx context.Context, dir string, opts Options) (*Node, error) {
	if dir == "" {
		return nil, errors.New("cluster: the folder of the node has no name")
	}
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults(dir)
	n := &Node{opts: opts, log: opts.Logger, cancel: func() {}, stopResponses: func() {}, stopMetrics: func() {}}
	if err := n.open(ctx, dir); err != nil {
		return nil, errors.Join(fmt.Errorf("cluster: open node %s: %w", opts.Node, err), n.Close())
	}
	return n, nil
}

func (n *Node) open(ctx context.Context, dir string) (err error) {
	if err := n.connect(ctx); err != nil {
		return err
	}
	logs := n.opts.NATS
	if n.server != nil {
		logs.Leader = cmp.Or(logs.Leader, n.opts.Server.Name)
	}
	log, err := natsdriver.NewLog(n.conn, logs)
	if err != nil {
		return err
	}
	n.logs = log
	owners, err := natsdriver.NewOwners(n.conn, n.opts.NATS)
	if err != nil {
		return err
	}
	commits, err := natsdriver.NewJournal(n.conn, n.opts.NATS)
	if err != nil {
		return err
	}
	if err := n.share(ctx, dir, map[string]sharedPart{"the store of owners": owners, "the journal of definitions": commits}); err != nil {
		return err
	}
	// Imports that wait for a node that is gone wait longer than adoption. In return an election of the servers interrupts no import.
	n.leases = lease.New(owners, n.opts.Node, 2*cmp.Or(n.opts.Lease, instance.DefaultLease), n.log)
	o := n.opts.instance()
	o.Engine.Leases = n.leases
	n.owners = owners
	o.Log, o.Owners = log, owners
	if n.keys = newCallKeys(n.opts.Node, n.log); !n.opts.KeysByNode {
		o.Engine.KnownElsewhere = n.keys.known
	}
	o.Engine.ReplayElsewhere = n.keys.runElsewhere
	o.Adopt = func(name string, epoch uint64, e *forebay.Engine) (instance.Adoption, error) {
		return n.catalog.Adopt(name, epoch, e) // nothing is adopted before the catalog is open
	}
	if n.instance, err = instance.Open(ctx, dir, o); err != nil {
		return err
	}
	definitions := n.opts.Catalog
	peers, err := natsdriver.NewPeers(n.conn, n.opts.NATS)
	if err != nil {
		return err
	}
	store, err := journal.Open(ctx, commits, definitions.Logger)
	if err != nil {
		return err
	}
	shared := &definitions.Shared
	shared.Store, shared.Node, shared.Instance, shared.Peers = store, n.opts.Node, n.instance.Keeper().Instance(), peers
	if n.catalog, err = catalog.OpenContext(ctx, "", n.Engine(), definitions); err != nil {
		return err
	}
	n.peers = peers
	n.keys.own, n.keys.here, n.keys.others = n.instance.Keeper().Instance(), n.instance.Known, peers.Ask
	n.keys.hasRun = n.instance.HasRun
	stop, err := peers.Serve(n.respond)
	if err != nil {
		return err
	}
	n.stopResponses = stop
	if err := n.handlers(); err != nil {
		return err
	}
	measured, err := n.measure()
	if err != nil {
		return err
	}
	n.stopMetrics = measured
	adopting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	n.cancel = cancel
	n.background.Go(func() { n.keys.records.watch(adopting, owners, cmp.Or(n.opts.Lease, instance.DefaultLease)/12) })
	n.background.Go(func() { _ = changelog.Adopt(adopting, n.instance.Keeper(), n.adopt) }) // Err returns the same
	n.background.Go(func() { n.watchWarnings(adopting) })
	n.log.Info("node open", "node", n.opts.Node, "instance", n.instance.Keeper().Instance(), "epoch", n.instance.Keeper().Owner().Epoch, "dir", dir)
	return nil
}

// Engine returns the engine of the node. Its rows are in the log, too. After Done, new rows fail with a [*buffer.FencedError].
func (n *Node) Engine() *forebay.Engine { return n.instance.Engine() }

// Catalog returns the definitions.
func (n *Node) Catalog() *catalog.Catalog { return n.catalog }

// Done is closed when this node has lost its instance to another node, when its disk has lost rows that the log has, when the log cannot
// continue, or with Close. It no longer accepts events.
// Call Close then, and open the node again, in this process or in a new one.
func (n *Node) Done() <-chan struct{} { return n.instance.Done() }

// Err returns nil until Done is closed. After that it is [forebay.ErrClosed] or why this node stopped. The error is
// [changelog.ErrFenced] if another node has its instance.
func (n *Node) Err() error { return n.instance.Err() }

// Ready returns nil if this node accepts events and no other one would be missed. Its engine and its catalog accept requests, its lease
// lasts, and the server inside has everything that it should have a copy of. While one node is not ready, no other one may be stopped.
func (n *Node) Ready() error { return n.status().err }

// GiveUp says that nothing can restore the unreadable part of an instance. The rows missing from its log and its checkpoint are lost, and the rest
// continues. It is an operator's decision, for any node to pass on. See [changelog.GiveUp]. The log lines name the instance.
func (n *Node) GiveUp(ctx context.Context, instance string) error {
	return changelog.GiveUp(ctx, n.owners, instance)
}

// Close stops responding and closes everything that Open opened, in order. Stop the server of Handler before. Waiting rows stay, and continue
// with the next Open. If that does not come within the lease, another node takes over. Call FlushAll of the engine before to leave none.
//
// Close takes a second or two. While the log is away it waits up to 20 seconds for it, and while the server inside is catching up, 3 to 8 seconds more. A
// second call does nothing.
func (n *Node) Close() error {
	n.closeOnce.Do(func() {
		n.cancel()
		n.background.Wait()
		if n.keys != nil {
			n.keys.close()
		}
		n.stopResponses()
		n.stopMetrics()
		var errs []error
		if n.catalog != nil {
			errs = append(errs, n.catalog.Close())
		}
		if n.instance != nil {
			if err := n.instance.Close(); !errors.Is(err, buffer.ErrFenced) { // that is what Err says
				errs = append(errs, err)
			}
		}
		if n.leases != nil {
			n.leases.Close()
		}
		if n.conn != nil {
			n.conn.Close()
		}
		if n.server != nil {
			errs = append(errs, n.server.Close())
		}
		n.closed = errors.Join(errs...)
	})
	return n.closed
}
