package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/cluster/internal/instance"
	"github.com/forebay/forebay/cluster/natsdriver"
	"github.com/forebay/forebay/cluster/natsserver"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/userinfo"
	"github.com/forebay/forebay/driverkit/warnlog"
	"github.com/forebay/forebay/stream/streamapi"
)

// Options of [Open]. Node, Engine.Staging and Engine.Target are required, and Server or URL.
type Options struct {
	// Node is the name of this node. It is unique in the cluster and the same after each start, even on a new disk. 1 to 100 letters, digits,
	// hyphens or underscores.
	Node string

	// Server runs a server of NATS inside of this node. Its Name is Node and its Dir the folder nats of the node's by default. Only
	// this node can use it, so a cluster has three, five or seven nodes with a server each, or separate servers and URL.
	Server *natsserver.Options
	// URL has the addresses of servers that run already, separated by commas. Not together with Server.
	URL string
	// Connect are options of the connection to URL, for example of TLS. The connection is restored whenever it was lost and, by default,
	// when its server has not responded for half of the Lease. What becomes of it is logged, unless handlers of Connect take that.
	Connect []nats.Option
	// NATS are the options of streams and records. They must be the same for all nodes.
	NATS natsdriver.Options

	// Lease is how long this node may be silent before another node takes over. A lease shorter than an election of the servers, 4 to 9
	// seconds, stops all nodes during each of them. Default: 12 s.
	Lease time.Duration
	// CheckpointBytes is how much the log of the node's instance grows between two checkpoints. Adoption reads at most this much. Default: 256 MiB.
	CheckpointBytes int64
	// Checkpoints keeps the checkpoints. All nodes must reach it, and it must keep an object until it is deleted. The files of the
	// platform, of storageapi/drivers, end by themselves after two weeks. Default: Engine.Staging.
	Checkpoints driver.Staging

	// KeysByNode lets a node look for the key of a call among its own calls alone, so that it asks no other node. A retry at another node is then stored
	// again. Set it, at all nodes, if senders repeat calls at the same node only, or if each event has an id. Default: a call with a key waits until
	// all nodes have looked for it.
	KeysByNode bool

	// Engine are the options of the engine. All nodes must reach its Staging and its Target, and give them the same options. Leases are the
	// cluster's. One node at a time imports into the tables of a Target that is [driver.Exclusive].
	Engine forebay.Options
	// Catalog are the options of the definitions, which all nodes share. Store, and Shared except for its Lease, are the cluster's. BranchID defaults to
	// the branch of API.Ingest.
	Catalog catalog.Options
	// API are the options of the Stream API and, with its field Ingest, of ingestion. Without API.Auth there is no Stream API.
	API streamapi.Options

	// Logger gets what an operator should see, including the parts whose options have no logger. Default: warnings and errors go to [slog.Default]; [slog.DiscardHandler] silences them.
	Logger *slog.Logger
}

// Validate reports all problems at once. Zero fields count as their defaults.
func (o Options) Validate() error {
	o = o.withDefaults("")
	errs := []error{o.NATS.Validate(), o.instance().Validate(), o.Catalog.Validate()}
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf("cluster: Options."+format, args...)) }
	switch {
	case o.Server != nil && o.URL != "":
		fault("Server and Options.URL exclude each other")
	case o.Server != nil:
		errs = append(errs, o.Server.Validate())
	case o.URL == "":
		fault("Server or Options.URL is required")
	default:
		for address := range strings.SplitSeq(o.URL, ",") {
			if err := userinfo.Check(strings.TrimSpace(address)); err != nil {
				fault("URL has an address that cannot be read: %v", err)
			}
		}
	}
	if s := o.Catalog.Shared; o.Catalog.Store != nil || s.Store != nil || s.Node != "" || s.Instance != "" || s.Peers != nil {
		fault("Catalog has a Store, or Catalog.Shared more than a Lease: they are the cluster's")
	}
	if o.Engine.Leases != nil {
		fault("Engine.Leases is the cluster's, leave it empty")
	}
	if o.Engine.KnownElsewhere != nil {
		fault("Engine.KnownElsewhere is the cluster's, leave it empty")
	}
	if o.Engine.ReplayElsewhere != nil {
		fault("Engine.ReplayElsewhere is the cluster's, leave it empty")
	}
	if o.API.Auth != nil {
		errs = append(errs, o.API.Validate())
	} else {
		errs = append(errs, o.API.Ingest.Validate())
	}
	return errors.Join(errs...)
}

func (o Options) withDefaults(dir string) Options {
	o.Logger = warnlog.Or(o.Logger)
	for _, logger := range []**slog.Logger{&o.Engine.Logger, &o.Catalog.Logger, &o.API.Ingest.Logger} {
		*logger = cmp.Or(*logger, o.Logger)
	}
	o.Catalog.BranchID = cmp.Or(o.Catalog.BranchID, o.API.Ingest.BranchID)
	if o.Server != nil {
		server := *o.Server
		server.Name = cmp.Or(server.Name, o.Node)
		server.Dir = cmp.Or(server.Dir, filepath.Join(dir, "nats"))
		server.Logger = cmp.Or(server.Logger, o.Logger)
		o.Server = &server
	}
	return o
}

// instance are the options of the node's instance.
func (o Options) instance() instance.Options {
	return instance.Options{
		Log: (*natsdriver.Log)(nil), Owners: (*natsdriver.Owners)(nil), // which Open makes
		Node: o.Node, Lease: o.Lease, Engine: o.Engine, Checkpoints: o.Checkpoints, CheckpointBytes: o.CheckpointBytes, Logger: o.Logger,
	}
}
