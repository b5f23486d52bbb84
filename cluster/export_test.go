package cluster

import "github.com/nats-io/nats.go"

// Conn returns the connection of a node to the servers.
func (n *Node) Conn() *nats.Conn { return n.conn }
