package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
)

// Peers carries requests to the other catalogs on a shared store, and their responses back. Both are JSON texts without secrets. Most are small.
// A record of a quarantine has its body. Whoever can send a request can read such records and discard rows, so only nodes may.
type Peers interface {
	// Ask sends a request to all other catalogs and yields their responses as they arrive, until ctx ends. Each of the other catalogs calls
	// [Catalog.Respond]. Responses may be lost and may arrive twice. An error ends it.
	Ask(ctx context.Context, request []byte) iter.Seq2[[]byte, error]
}

// Missing is an instance for which no node has responded.
type Missing struct {
	// Instance has the rows. Its Node took them. Another node may be about to take over.
	Instance, Node string
	// Reason is a sentence for people.
	Reason string
}

func (m Missing) String() string {
	return fmt.Sprintf("instance %s of node %s: %s", m.Instance, m.Node, m.Reason)
}

// MissingError says that nodes did not respond, so that not all of a request could be carried out. Send it again when they are back or
// another node has taken over.
type MissingError struct {
	// Missing are the instances for which the outcome of the request is unknown. On all other instances, a request that can be repeated was
	// carried out. If the counters of an instance are missing, a request to clear counters changes nothing.
	Missing []Missing
}

func (e *MissingError) Error() string {
	texts := make([]string, len(e.Missing))
	for i, m := range e.Missing {
		texts[i] = m.String()
	}
	return "not all nodes have responded: " + strings.Join(texts, "; ")
}

// peerFormat is the format of requests and responses that this release writes, and the newest that it reads. A change that an older release must
// not ignore raises it. The members format, node and from of both are the same in all formats.
const peerFormat = 1

// peerRequest is what one catalog asks all others.
type peerRequest struct {
	Format int `json:"format"`
	// From tells the sender from all others.
	From string `json:"from"`
	request
	// Timeout bounds the work for the response.
	Timeout time.Duration `json:"timeout_ns"`
}

const unreadable = "it cannot read the request"

// refused says why this release cannot carry out a request of another one. It is empty if it can.
func (r request) refused() string {
	switch r.Op {
	case opStatistics, opRetry, opDiscard, opSplitFile, opQuarantineFile:
		if r.Rejects == nil {
			return ""
		}
	case opCancelRejects:
		if r.Rejects == nil && len(r.Sinks) == 1 {
			return ""
		}
	case opRejects, opRejected, opEditReject, opTestReject, opReplayRejects, opDropRejects:
		if r.Rejects != nil && len(r.Sinks) == 1 {
			return ""
		}
	default:
		return fmt.Sprintf("it does not know the request %.40q: if it has an older release, update it", r.Op)
	}
	return unreadable
}

// response is the response of a catalog about the instances that it has.
type response struct {
	Format int    `json:"format"`
	Node   string `json:"node"`
	// Refused says why there is no result.
	Refused   string             `json:"refused,omitempty"`
	Instances []instanceResponse `json:"instances,omitempty"`
}

// Respond returns the response to a request that another catalog sent with [Peers.Ask]. It returns nil for a request of this catalog, for any other
// request without a response, and after Close. It may be called concurrently.
func (c *Catalog) Respond(ctx context.Context, asked []byte) []byte {
	s, ok := c.co.(*shared)
	var r peerRequest
	a := response{Format: peerFormat, Node: c.opts.Shared.Node}
	err := json.Unmarshal(asked, &r)
	switch {
	case !ok || c.ctx.Err() != nil || r.From == s.opening:
		return nil
	case r.Format > peerFormat: // whose members may have other types
		a.Refused = fmt.Sprintf("it has an older release, which reads requests up to format %d: update it", peerFormat)
	case err != nil || r.Format < 1:
		a.Refused = unreadable
	case r.refused() != "":
		a.Refused = r.refused()
	default:
		ctx, cancel := context.WithTimeout(ctx, min(max(r.Timeout, time.Millisecond), filesTimeout))
		defer cancel()
		defer context.AfterFunc(c.ctx, cancel)()
		a.Instances = s.carryOut(ctx, r.request)
	}
	for _, i := range a.Instances {
		if i.err != nil { // its text may be nothing for users
			c.log.Warn("request of another node failed", "request", r.Op, "source", r.Source, "file", r.File, "instance", i.Instance, "cause", i.err, "next", "fix the cause, and retry the request on the other node")
		}
	}
	return encode(a)
}

func (s *shared) carryOut(ctx context.Context, r request) (list []instanceResponse) {
	own := adopted{place: place{eng: s.c.eng, instance: s.opts.Instance}}
	for _, a := range append(s.adopted.all(), own) {
		if r.Rejects == nil || r.Rejects.Instance == "" || r.Rejects.Instance == a.instance {
			list = append(list, s.carryOutWith(ctx, a, r))
		}
	}
	return list
}

func (s *shared) carryOutWith(ctx context.Context, a adopted, r request) (out instanceResponse) {
	switch {
	case r.Op == opStatistics:
		return instanceResponse{Instance: a.instance, Epoch: a.epoch, Sinks: countsOf(a.counts(), r.Sources)}
	case r.Rejects != nil && a.move != nil:
		a.move.RLock()
		defer a.move.RUnlock()
		if refused := a.refuses(r, a.eng.Sink(r.Source, r.Sinks[0]).Quarantine()); refused != nil {
			return *refused
		}
	}
	out = s.c.carryOut(ctx, a.place, r)
	out.Epoch = a.epoch
	return out
}

func (s *shared) instances() map[string]string {
	nodes := map[string]string{}
	for instance, m := range s.members.view().instances {
		nodes[instance] = m.Node
	}
	return nodes
}

// moveRounds is how often a task goes through the instances if some of them end meanwhile.
const moveRounds = 3

func (s *shared) rounds() iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		for range moveRounds {
			asked := slices.Sorted(maps.Keys(s.instances()))
			if !yield(asked) {
				return
			}
			now := s.instances()
			if !slices.ContainsFunc(asked, func(instance string) bool { _, lives := now[instance]; return !lives }) {
				return
			}
		}
	}
}

func (s *shared) isShared() bool { return true }

// nodeResponses has the responses of the other nodes, by node. cause says why there are no more. Nil means that the time was over.
type nodeResponses struct {
	byNode map[string]response
	cause  error
}

func (a nodeResponses) instances() (list []instanceResponse) {
	for _, node := range slices.Sorted(maps.Keys(a.byNode)) {
		list = append(list, a.byNode[node].Instances...)
	}
	return list
}

func (s *shared) ask(ctx context.Context, timeout time.Duration, r request, enough func(instanceResponse) bool) responses {
	got := s.askNodes(ctx, timeout, r, enough)
	return responses{got.instances(), func(ctx context.Context, has func(instance string) bool) []Missing {
		_, missing := s.missing(ctx, has, got)
		return missing
	}}
}

func (s *shared) askNodes(ctx context.Context, timeout time.Duration, r request, enough func(instanceResponse) bool) nodeResponses {
	got := nodeResponses{byNode: map[string]response{}}
	nodes := map[string]bool{}
	for _, m := range s.members.view().instances {
		nodes[m.Node] = true
	}
	if delete(nodes, s.opts.Node); len(nodes) == 0 {
		return got
	}
	if s.opts.Peers == nil {
		got.cause = errors.New("this node cannot ask others")
		return got
	}
	asked := peerRequest{peerFormat, s.opening, r, timeout}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for data, err := range s.opts.Peers.Ask(ctx, encode(asked)) {
		if err != nil {
			if ctx.Err() == nil {
				got.cause = err
				s.c.log.Warn("other nodes not reachable", "cause", err, "next", "check the connection to the servers")
			}
			break
		}
		var a response
		err = json.Unmarshal(data, &a)
		switch {
		case a.Node == "":
			continue // its node is not known
		case a.Format > peerFormat:
			a = response{Node: a.Node, Refused: fmt.Sprintf("it has a newer release, which responds in format %d: update this node", a.Format)}
		case err != nil || a.Format < 1:
			a = response{Node: a.Node, Refused: "its response is unreadable"}
		}
		got.byNode[a.Node] = a
		if delete(nodes, a.Node); len(nodes) == 0 || enough != nil && slices.ContainsFunc(a.Instances, enough) {
			break
		}
	}
	return got
}

// missing returns the members, and those that has does not know, by name. An instance that has ended meanwhile is not missing.
func (s *shared) missing(ctx context.Context, has func(instance string) bool, got nodeResponses) (membersView, []Missing) {
	v := s.members.view()
	list := s.missingOf(v, has, got)
	if len(list) > 0 {
		_ = s.catchUp(ctx, statisticsTimeout)
		v = s.members.view()
		list = s.missingOf(v, has, got)
	}
	return v, list
}

// missingOf is [shared.missing] for the members of a view.
func (s *shared) missingOf(v membersView, has func(instance string) bool, got nodeResponses) (list []Missing) {
	for _, instance := range slices.Sorted(maps.Keys(v.instances)) {
		if has(instance) {
			continue
		}
		node := v.instances[instance].Node
		m := Missing{Instance: instance, Node: node}
		switch a, responded := got.byNode[node]; {
		case responded && a.Refused != "":
			m.Reason = a.Refused
		case responded || node == s.opts.Node:
			m.Reason = "the node has a new instance, and no node has this one: it is about to be taken over, or damaged"
		case got.cause != nil:
			m.Reason = "the servers do not pass on the request"
		default:
			m.Reason = "it does not respond, and no other node has taken over yet"
		}
		list = append(list, m)
	}
	return list
}

// adopted is the engine of another node's instance, whose rows this node brings to their tables.
type adopted struct {
	place
	epoch uint64
	// move says whether its rejected records move. It is nil for the engine of the node itself.
	move *rejectsMove
}

// rejectsMove is held for reading by each use of the rejected records of an adopted engine.
type rejectsMove struct {
	sync.RWMutex
	paused, moved bool
}

// refuses returns the response to a request about rejected records that move, or have moved, or nil if the engine serves it. Called with move held.
func (a adopted) refuses(r request, q forebay.SinkQuarantine) *instanceResponse {
	out := &instanceResponse{Instance: a.instance, Epoch: a.epoch, Outcome: outcomeNotFound, Rejects: &rejectsResponse{}}
	switch {
	case a.move.moved && r.Op == opRejects:
		out.Outcome = outcomeDone
	case a.move.moved:
	case !a.move.paused, r.Op == opRejects, r.Op == opRejected, r.Op == opTestReject:
		return nil
	case r.Rejects.Filter != nil || slices.ContainsFunc(r.Rejects.IDs, q.Has):
		out.Outcome, out.err = outcomeOverloaded, &buffer.OverloadError{Resource: "quarantine", RetryAfter: time.Second}
	}
	return out
}

// counts are the counters of an engine. Records that have moved count where they are.
func (a adopted) counts() []forebay.SinkStats {
	sinks := a.eng.Stats().Sinks
	if a.move != nil {
		a.move.RLock()
		defer a.move.RUnlock()
		for i := range sinks {
			if q := &sinks[i].Quarantine; a.move.moved {
				q.Added -= q.Records
				q.Records, q.Bytes, q.OldestAt = 0, 0, time.Time{}
			}
		}
	}
	return sinks
}

// adoptions are the adopted instances that are open.
type adoptions struct {
	mu   sync.Mutex
	list []*Adoption
}

func (a *adoptions) all() (list []adopted) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range a.list {
		list = append(list, one.adopted)
	}
	return list
}
