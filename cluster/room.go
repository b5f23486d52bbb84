package cluster

import (
	"context"
	"fmt"
	"time"
)

// roomWarning says that the room for logs on the server of this node ends, and what to do. It is empty while less than three quarters are reserved,
// and for servers of other processes.
func (n *Node) roomWarning() string {
	if n.server == nil {
		return ""
	}
	reserved, most := n.server.Reserved()
	if reserved < most/4*3 {
		return ""
	}
	text := fmt.Sprintf("streams have reserved %d of %d MiB of this server, and without room no node can begin an instance: raise MaxStore", reserved>>20, most>>20)
	if moving, _ := n.adoption.lists(); len(moving) > 0 {
		text += fmt.Sprintf(", or let the tables take the rows of the %d lost instances that this node drains", len(moving))
	}
	return text
}

// watchRoom logs once in a while that the room ends, until ctx ends.
func (n *Node) watchRoom(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if text := n.roomWarning(); text != "" {
			n.log.Warn("the room for logs ends", "warning", text)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
