package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/stream"
	"github.com/forebay/forebay/stream/streamapi"
)

// Handler returns the handler of this node:
//
//	/stream/…, /otlp/…, /v1/logs, /v1/metrics, /v1/traces   events and telemetry, see package stream
//	/health-check       200 while the process works
//	/readiness-check    200 when Ready returns nil, else 503; the JSON body names the node, its instance, the missing part, and the instances whose rows
//	                    it moves to their tables, and warns of a log that is slow, with the server that leads it
//	/v1/…               the Stream API, if Options.API has an Auth, and with it the requests of operators, for tokens that may change something:
//	GET  /v1/cluster/instances/INSTANCE           what giving an instance up would lose, see Loss
//	POST /v1/cluster/instances/INSTANCE/give-up   gives it up, see GiveUp
//	GET  /v1/cluster/folders/FOLDER               the rows of a folder of this node that was set aside, see Salvage
//	POST /v1/cluster/folders/FOLDER/salvage       stores it
//
// To serve events and the API on different addresses, or events through package fastserver, build them from Engine and Catalog.
func (n *Node) Handler() http.Handler { return n.handler }

func (n *Node) handlers() error {
	events := stream.Ingest(n.Engine(), n.opts.API.Ingest)
	var api, operators http.Handler = http.NotFoundHandler(), http.NotFoundHandler()
	if n.opts.API.Auth != nil {
		var err error
		if api, err = streamapi.New(n.catalog, n.opts.API); err != nil {
			return err
		}
		operators = operations(n, n.opts.API)
	}
	// It is no ServeMux. See stream.Ingest.
	n.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case isEvents(r.URL.Path):
			events.ServeHTTP(w, r)
		case r.URL.Path == "/health-check":
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Header().Set("Server", "forebay/"+forebay.Version())
			_, _ = w.Write([]byte("OK"))
		case r.URL.Path == "/readiness-check":
			n.serveReadiness(w)
		case strings.HasPrefix(r.URL.Path, clusterPath):
			operators.ServeHTTP(w, r)
		default:
			api.ServeHTTP(w, r)
		}
	})
	return nil
}

// isEvents reports whether a path belongs to package stream. The API has other paths below /v1.
func isEvents(path string) bool {
	if strings.HasPrefix(path, "/stream/") || strings.HasPrefix(path, "/otlp/") {
		return true
	}
	switch strings.TrimSuffix(path, "/") {
	case "/v1/logs", "/v1/metrics", "/v1/traces", "/v1/profiles", "/v1development/profiles":
		return true
	}
	return false
}

// status is the response of /readiness-check.
type status struct {
	Node     string `json:"node"`
	Instance string `json:"instance"`
	Epoch    uint64 `json:"epoch"`
	Ready    bool   `json:"ready"`
	// Missing describes the missing part, for people.
	Missing string `json:"missing,omitempty"`
	// Warning names a resource that a ready node is about to exhaust, or the server that makes its log slow, and tells the operator what to do.
	Warning string `json:"warning,omitempty"`
	// Adopting are the instances whose rows this node moves to their tables, and Adopted the instances whose rows it has moved since Open.
	Adopting []string `json:"adopting,omitempty"`
	Adopted  []string `json:"adopted,omitempty"`

	err error
}

func (n *Node) status() status {
	keeper := n.instance.Keeper()
	errs := []error{n.Err(), n.Engine().Ready(), n.catalog.Ready()}
	if !keeper.Valid() {
		errs = append(errs, errors.New("the lease has ended: the records of owners cannot be written"))
	}
	if n.server != nil {
		errs = append(errs, n.server.Ready())
	}
	s := status{Node: n.opts.Node, Instance: keeper.Instance(), Epoch: keeper.Owner().Epoch, Warning: n.warning(), err: errors.Join(errs...)}
	s.Adopting, s.Adopted = n.adoption.lists()
	if s.Ready = s.err == nil; !s.Ready {
		s.Missing = s.err.Error()
	}
	return s
}

func (n *Node) serveReadiness(w http.ResponseWriter) {
	s := n.status()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Server", "forebay/"+forebay.Version())
	if !s.Ready {
		w.Header().Set("Retry-After", "2")
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(s)
}

// adoption knows the instances that this node adopts.
type adoption struct {
	mu            sync.Mutex
	moving, moved []string
}

// adopt drains an instance.
func (n *Node) adopt(ctx context.Context, k *changelog.Keeper) {
	a, instance := &n.adoption, k.Instance()
	a.mu.Lock()
	a.moving = append(a.moving, instance)
	a.mu.Unlock()
	n.instance.Drain(ctx, k)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.moving = slices.DeleteFunc(a.moving, func(i string) bool { return i == instance })
	if state := k.Owner().State; state == changelog.Drained || state == changelog.Retired {
		a.moved = append(a.moved, instance)
	}
}

func (a *adoption) lists() (moving, moved []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.moving), slices.Clone(a.moved)
}
