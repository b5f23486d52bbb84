//go:build !forebay_nocluster

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/nats-io/nats.go"

	"github.com/forebay/forebay/cluster"
	"github.com/forebay/forebay/cluster/natsserver"
	"github.com/forebay/forebay/internal/program/server"
)

// clusterMissing says that the program was built without the cluster. Empty means that it has it.
const clusterMissing = ""

// openNode returns the function that opens the node, or nil without -node. It reads the files of the flags, all of them before the first
// error.
func (cfg *serveConfig) openNode(logger *slog.Logger) (func(context.Context, server.NodeOptions) (server.Node, error), error) {
	f := &cfg.nodeFlags
	if f.node == "" {
		return nil, nil
	}
	opts := cluster.Options{Node: f.node, Logger: logger}
	config, problems := f.tls()
	if f.nats != "" {
		opts.URL = f.nats
		if config != nil {
			opts.Connect = append(opts.Connect, nats.Secure(config))
		}
		if f.natsCredentials != "" {
			if _, err := os.Stat(f.natsCredentials); err != nil {
				problems = append(problems, fmt.Errorf("-nats-credentials: %w", err))
			}
			opts.Connect = append(opts.Connect, nats.UserCredentials(f.natsCredentials))
		}
	} else {
		secret, err := f.readSecret()
		if err != nil {
			problems = append(problems, err)
		}
		opts.Server = &natsserver.Options{
			Listen: f.listen, Advertise: f.advertise, Peers: f.peerList(), Secret: secret, TLS: config, MaxStore: f.maxStore,
		}
	}
	if local := filepath.Join(cfg.Dir, "local"); exists(local) {
		problems = append(problems, fmt.Errorf("-dir: %s has the rows of a server without -node, which a node does not read: let that server move them to their tables, then give the node a separate folder", cfg.Dir))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return func(ctx context.Context, part server.NodeOptions) (server.Node, error) {
		opts := opts
		opts.Engine, opts.Catalog, opts.API = part.Engine, part.Catalog, part.API
		node, err := cluster.Open(ctx, cfg.Dir, opts)
		if err != nil {
			return nil, err
		}
		return node, nil
	}, nil
}
