package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// roomWarning tells the operator that the server of this node has little room left for logs. It is empty while less than three quarters are
// reserved, and if the servers are other processes.
func (n *Node) roomWarning() string {
	if n.server == nil {
		return ""
	}
	reserved, most := n.server.Reserved()
	if reserved < most/4*3 {
		return ""
	}
	text := fmt.Sprintf("streams reserve %d of %d MiB of this server. Without room, no node can start. Raise MaxStore", reserved>>20, most>>20)
	if moving, _ := n.adoption.lists(); len(moving) > 0 {
		text += fmt.Sprintf(", or fix the tables that refuse rows of the %d lost instances that this node drains", len(moving))
	}
	return text
}

// keptLong is how long an adopted instance may be kept until the node warns. Files that their table refuses have moved by then.
const keptLong = 3 * time.Minute

// warning is the roomWarning and the slowWarning, and names the lost instances that this node could not drain for long.
func (n *Node) warning() string {
	var texts []string
	if text := n.roomWarning(); text != "" {
		texts = append(texts, text)
	}
	for _, a := range n.instance.Report().Adopted {
		if a.Keeps != "" && time.Since(a.Since) >= keptLong {
			texts = append(texts, fmt.Sprintf("the rows of the lost instance %s wait in its log: %s", a.Instance, a.Keeps))
		}
	}
	if _, text := n.slowWarning(); text != "" {
		texts = append(texts, text)
	}
	return strings.Join(texts, ". ")
}

// warnEvery is the time between two looks at the warnings, and warnAgain the least time between two lines of one kind.
const (
	warnEvery = 5 * time.Second
	warnAgain = time.Minute
)

// watchWarnings logs the warnings until ctx ends.
func (n *Node) watchWarnings(ctx context.Context) {
	tick := time.NewTicker(warnEvery)
	defer tick.Stop()
	var room, slow time.Time // when the last line was logged
	for {
		now := time.Now()
		if text := n.roomWarning(); text != "" && now.Sub(room) >= warnAgain {
			room = now
			n.log.Warn("room for logs low", "warning", text, "next", "raise MaxStore, or repair the tables that refuse rows")
		}
		if leader, text := n.slowWarning(); text != "" && now.Sub(slow) >= warnAgain {
			slow = now
			n.log.Warn("log slow", "leader", leader, "warning", text, "next", "check the disk of the named servers and the network to them")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
