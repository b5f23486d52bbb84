package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/cluster/changelog"
)

// A node asks the others about themselves in the frame of the requests of catalogs, so that a release that does not know the request
// responds with its name and says so.
const (
	opNode = "node"
	// nodeFormat is the format of the request and of the response.
	nodeFormat = 1
	// nodesWithin bounds how long Nodes waits for responses.
	nodesWithin = 2 * time.Second
)

type nodeRequest struct {
	Format int    `json:"format"`
	Op     string `json:"op"`
}

type nodeResponse struct {
	Format  int         `json:"format"`
	Node    string      `json:"node"`
	Refused string      `json:"refused,omitempty"`
	Status  *nodeStatus `json:"status,omitempty"`
}

// nodeStatus is the status that a node reports of itself.
type nodeStatus struct {
	status
	LogBytes    int64  `json:"logBytes,omitempty"`
	LogMaxBytes int64  `json:"logMaxBytes,omitempty"`
	LogBehind   int    `json:"logBehind,omitempty"`
	LogLag      uint64 `json:"logLag,omitempty"`
}

func (n *Node) nodeStatus() nodeStatus {
	s := nodeStatus{status: n.status()}
	if log := n.instance.Report().Log; log.ID != "" {
		s.LogBytes, s.LogMaxBytes, s.LogBehind, s.LogLag = log.Bytes, log.MaxBytes, log.Behind, log.Lag
	}
	return s
}

func (s nodeStatus) node() catalog.Node {
	return catalog.Node{
		Name: s.Node, Instance: s.Instance, Epoch: s.Epoch, Ready: s.Ready, Missing: s.Missing, Warning: s.Warning, Adopting: s.Adopting, Adopted: s.Adopted,
		LogBytes: s.LogBytes, LogMaxBytes: s.LogMaxBytes, LogBehind: s.LogBehind, LogLag: s.LogLag,
	}
}

// respond handles requests of other nodes.
func (n *Node) respond(ctx context.Context, asked []byte) []byte {
	var r nodeRequest
	switch err := json.Unmarshal(asked, &r); {
	case err == nil && r.Format == nodeFormat && r.Op == opKeys:
		return n.keys.respond(asked)
	case err == nil && r.Format == nodeFormat && r.Op == opRun:
		return n.keys.respondRun(ctx, asked)
	case err != nil || r.Format != nodeFormat || r.Op != opNode:
		return n.catalog.Respond(ctx, asked)
	}
	own := n.nodeStatus()
	data, _ := json.Marshal(nodeResponse{Format: nodeFormat, Node: own.Node, Status: &own}) // it is always JSON
	return data
}

// Nodes returns the nodes of the cluster as each describes itself, sorted by name. A node that does not respond within 2 s is listed too
// if it owns an instance. A node whose instance was taken over is not listed until it is back. The new owner lists the instance as
// adopted. With an error, because the servers do not respond, the list still has all known nodes. It is made for console.Options.Nodes.
func (n *Node) Nodes(ctx context.Context) ([]catalog.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, nodesWithin)
	defer cancel()
	known := map[string]*catalog.Node{}
	own := n.nodeStatus().node()
	known[own.Name] = &own
	awaited, failed := n.recorded(ctx, known)
	if len(awaited) > 0 {
		if err := n.askNodes(ctx, known, awaited); failed == nil {
			failed = err
		}
	}
	list := make([]catalog.Node, 0, len(known))
	for _, node := range known {
		list = append(list, *node)
	}
	slices.SortFunc(list, func(a, b catalog.Node) int { return cmp.Compare(a.Name, b.Name) })
	return list, failed
}

// recorded adds the other nodes that the records of the instances name, as if they did not respond, and damaged instances to all. awaited
// are the nodes that should respond.
func (n *Node) recorded(ctx context.Context, known map[string]*catalog.Node) (awaited map[string]bool, err error) {
	awaited = map[string]bool{}
	if err := cmp.Or(n.keys.records.wait(ctx), context.Cause(ctx)); err != nil {
		return awaited, fmt.Errorf("cluster: %w", err)
	}
	for instance, o := range n.keys.records.all() {
		if o.Node == "" || o.State == changelog.Drained || o.State == changelog.Retired {
			continue
		}
		node := known[o.Node]
		if node == nil {
			node = &catalog.Node{Name: o.Node, Missing: "it does not respond"}
			known[o.Node] = node
		}
		switch {
		case o.State == changelog.Damaged:
			node.Damaged = append(node.Damaged, instance)
		case o.Node == n.opts.Node:
		case o.State == changelog.Owned:
			awaited[o.Node] = true
			node.Instance, node.Epoch = instance, o.Epoch
		default:
			awaited[o.Node] = true
			node.Adopting = append(node.Adopting, instance)
		}
	}
	for _, node := range known {
		slices.Sort(node.Damaged)
		slices.Sort(node.Adopting)
	}
	return awaited, nil
}

// askNodes replaces the known status of each node by its response. It returns when all awaited nodes have responded.
func (n *Node) askNodes(ctx context.Context, known map[string]*catalog.Node, awaited map[string]bool) error {
	awaited = maps.Clone(awaited)
	request, _ := json.Marshal(nodeRequest{nodeFormat, opNode}) // it is always JSON
	for data, err := range n.peers.Ask(ctx, request) {
		if err != nil {
			return fmt.Errorf("cluster: ask the nodes: %w", err)
		}
		var a nodeResponse
		if _ = json.Unmarshal(data, &a); a.Node == "" || a.Node == n.opts.Node {
			continue // its node is unknown
		}
		node := catalog.Node{Name: a.Node, Missing: cmp.Or(a.Refused, "its response is unreadable")}
		if a.Status != nil && a.Format == nodeFormat {
			node = a.Status.node()
		}
		if before := known[a.Node]; before != nil {
			node.Damaged = before.Damaged
			node.Instance, node.Epoch = cmp.Or(node.Instance, before.Instance), cmp.Or(node.Epoch, before.Epoch)
		}
		known[a.Node] = &node
		if delete(awaited, a.Node); len(awaited) == 0 {
			return nil
		}
	}
	return nil
}
