package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// slowRecord is many times the usual time for a record within one region. farServer is many times the usual round trip there.
	slowRecord = 250 * time.Millisecond
	farServer  = 100 * time.Millisecond
	// stuckAfter is longer than an election that a server has handed over.
	stuckAfter = 3 * time.Second
	// enoughRecords are as many as a mean needs, and paceFor is how long it says something.
	enoughRecords = 16
	paceFor       = time.Minute
)

// slowWarning tells the operator that this node acknowledges slowly, or not at all, and the server that leads its log. It also names each server that is
// slow to respond to this node's, and ends with the next step. It is empty if there is nothing to say.
func (n *Node) slowWarning() (leader, text string) {
	keeper := n.instance.Keeper()
	pace := n.logs.Pace(keeper.Owner().LogName(keeper.Instance()))
	leader = cmp.Or(pace.Leader, "unknown")
	report := n.instance.Report()
	since := report.FailingSince
	if since.IsZero() || !report.WaitingSince.IsZero() && report.WaitingSince.Before(since) {
		since = report.WaitingSince
	}
	var parts, servers []string
	leads := "Its leader is not known"
	if pace.Leader != "" {
		leads = "Its leader is server " + pace.Leader
	}
	switch stuck := time.Since(since); {
	case !since.IsZero() && stuck > stuckAfter:
		parts = append(parts, fmt.Sprintf("the log of this node has acknowledged nothing for %s", stuck.Round(time.Second)), leads)
	case pace.Records >= enoughRecords && pace.Took > slowRecord && time.Since(pace.Last) < paceFor:
		parts = append(parts, fmt.Sprintf("the log of this node is slow: a record takes %s", pace.Took.Round(time.Millisecond)), leads)
	}
	if len(parts) > 0 && pace.Leader != "" {
		servers = append(servers, pace.Leader)
	}
	if n.server != nil {
		for _, s := range n.server.Others() {
			if s.RoundTrip > farServer {
				parts = append(parts, fmt.Sprintf("server %s responds after %s", s.Name, s.RoundTrip.Round(time.Millisecond)))
				if !slices.Contains(servers, s.Name) {
					servers = append(servers, s.Name)
				}
			}
		}
	}
	switch {
	case len(parts) == 0:
		return leader, ""
	case len(servers) == 1:
		parts = append(parts, "Check the disk of that server and the network to it")
	default: // none is known, or there are several
		parts = append(parts, "Check the disks of the servers and the network to them")
	}
	return leader, strings.Join(parts, ". ")
}
