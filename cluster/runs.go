package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/forebay/forebay"
)

// A replay of an archive keeps its position in the instance of the node that has begun it, and moves with it to the node that takes over. So a node that
// does not have a run asks the other nodes before it begins the run, as it does for a call with a key. The run is in progress at a node before that node
// asks. So of two nodes that begin one run at once, at least one finds the other, and perhaps both are refused.

const opRun = "run"

type runRequest struct {
	nodeRequest
	// Instance is the instance of the node that asks.
	Instance string `json:"instance"`
	Source   string `json:"source"`
	Sink     string `json:"sink"`
	Run      string `json:"run"`
}

type runResponse struct {
	Format  int    `json:"format"`
	Node    string `json:"node"`
	Refused string `json:"refused,omitempty"`
	// Instances are the instances that the node speaks for. Has says that one of them has the run.
	Instances []string `json:"instances"`
	Has       bool     `json:"has,omitempty"`
}

// runElsewhere returns an error if another instance has a run, or may have it. See [forebay.Options].
func (k *callKeys) runElsewhere(ctx context.Context, source, sink, run string) error {
	unclear := func(err error) error {
		return fmt.Errorf("%w, or may be: %q: repeat the call when all nodes respond, or another node has taken over: %w", forebay.ErrReplayElsewhere, run, err)
	}
	ctx, cancel := context.WithTimeout(ctx, keyPatience)
	defer cancel()
	if err := k.records.wait(ctx); err != nil {
		return unclear(err)
	}
	awaited := k.records.others(k.own)
	adopted, has := k.hasRun(ctx, source, sink, run, false)
	if has {
		return fmt.Errorf("%w, from which this one takes over: %q: repeat the call in a moment", forebay.ErrReplayElsewhere, run)
	}
	for _, instance := range adopted {
		delete(awaited, instance)
	}
	request, _ := json.Marshal(runRequest{nodeRequest{nodeFormat, opRun}, k.own, source, sink, run}) // it is always JSON
	at := ""
	err := k.askAwaited(ctx, request, awaited, func(data []byte) {
		var a runResponse
		switch err := json.Unmarshal(data, &a); {
		case err != nil || a.Node == "":
		case a.Refused != "": // its release does not ask other nodes either
			maps.DeleteFunc(awaited, func(_, node string) bool { return node == a.Node })
		default:
			if a.Has {
				at = a.Node
				clear(awaited)
			}
			for _, instance := range a.Instances {
				delete(awaited, instance)
			}
		}
	})
	switch {
	case at != "":
		return fmt.Errorf("%w: %q is at node %s: call Replay there", forebay.ErrReplayElsewhere, run, at)
	case err != nil:
		return unclear(err)
	}
	return nil
}

// respondRun returns the response to a request of another node, nil if there is none.
func (k *callKeys) respondRun(ctx context.Context, data []byte) []byte {
	var r runRequest
	if err := json.Unmarshal(data, &r); err != nil || r.Instance == k.own || r.Instance == "" {
		return nil
	}
	k.records.hear(r.Instance)
	ctx, cancel := context.WithTimeout(ctx, keyPatience) // the asker waits no longer
	defer cancel()
	a := runResponse{Format: nodeFormat, Node: k.node}
	a.Instances, a.Has = k.hasRun(ctx, r.Source, r.Sink, r.Run, true)
	response, _ := json.Marshal(a) // it is always JSON
	return response
}
