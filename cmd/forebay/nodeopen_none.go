//go:build forebay_nocluster

package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/forebay/forebay/internal/program/server"
)

// clusterMissing says that the program was built without the cluster. NATS is an eighth of the program.
const clusterMissing = "needs the cluster, and this program was built without it: build it without the tag forebay_nocluster"

// openNode returns nil, because flags of a node are refused before it is called.
func (cfg *serveConfig) openNode(*slog.Logger) (func(context.Context, server.NodeOptions) (server.Node, error), error) {
	if cfg.node != "" {
		return nil, errors.New("-node " + clusterMissing)
	}
	return nil, nil
}
