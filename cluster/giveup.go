package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/forebay/forebay/changelog"
	"github.com/forebay/forebay/cluster/internal/instance"
	"github.com/forebay/forebay/stream/streamapi"
)

// Loss is what [Node.GiveUp] would lose of an instance.
type Loss struct {
	// Instance is its name.
	Instance string `json:"instance"`
	// Node had the instance last, and State is what its record says.
	Node  string               `json:"node"`
	State changelog.OwnerState `json:"state"`
	// CanGiveUp: GiveUp accepts the state. The fields behind it are empty otherwise.
	CanGiveUp bool `json:"canGiveUp"`
	// Acknowledged is the last batch that the record knows as acknowledged: there may be more, of up to a third of a lease. Checkpoint is the last
	// one of the checkpoint, Readable the last one that checkpoint and log give together.
	Acknowledged uint64 `json:"acknowledged"`
	Checkpoint   uint64 `json:"checkpoint"`
	Readable     uint64 `json:"readable"`
	// Lost is how many batches would be lost at least: those behind Readable. LostBefore were lost when the instance was given up earlier.
	Lost       uint64 `json:"lost"`
	LostBefore uint64 `json:"lostBefore"`
	// CheckpointProblem and LogProblem say what cannot be read, and why. Empty: everything can.
	CheckpointProblem string `json:"checkpointProblem,omitempty"`
	LogProblem        string `json:"logProblem,omitempty"`
}

// Loss looks what GiveUp would lose of an instance. It fetches the checkpoint and reads the log, and changes no row and no record. The error is
// [changelog.ErrNothingToDecide] if there is no such instance. Any other one says that it cannot be told now, because a part does not answer.
func (n *Node) Loss(ctx context.Context, name string) (Loss, error) {
	found, err := n.instance.Loss(ctx, name)
	if errors.Is(err, instance.ErrUnknown) {
		err = fmt.Errorf("%w: %w", changelog.ErrNothingToDecide, err)
	}
	if err != nil {
		return Loss{}, err
	}
	l := Loss{Instance: name, Node: found.Owner.Node, State: found.Owner.State, CanGiveUp: found.Owner.CanGiveUp()}
	if l.CanGiveUp {
		l.Acknowledged, l.Checkpoint, l.Readable, l.Lost = found.Owner.Released, found.Checkpoint, found.Readable, found.Batches()
		l.LostBefore = found.Owner.Lost
	}
	for problem, err := range map[*string]error{&l.CheckpointProblem: found.CheckpointError, &l.LogProblem: found.LogError} {
		if err != nil {
			*problem = err.Error()
		}
	}
	return l, nil
}

// operated is what operators do through a node.
type operated interface {
	Loss(ctx context.Context, instance string) (Loss, error)
	GiveUp(ctx context.Context, instance string) error
	Salvage(ctx context.Context, folder string, store bool) (Salvage, error)
}

// clusterPath is where operators ask. The Stream API has nothing below it.
const (
	clusterPath   = "/v1/cluster/"
	instancesPath = clusterPath + "instances/"
	foldersPath   = clusterPath + "folders/"
)

// operations serves operators, with the tokens of the Stream API that may change something.
func operations(n operated, opts streamapi.Options) http.Handler {
	mux := http.NewServeMux()
	project := cmp.Or(opts.Ingest.ProjectID, 1)
	handle := func(pattern string, do func(ctx context.Context, name string) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			err := authorize(r, opts.Auth, project)
			if err == nil && r.URL.RawQuery != "" {
				err = errParameters
			}
			var answer any
			if err == nil {
				// To fetch a checkpoint may take longer than the server gives to an answer.
				_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
				answer, err = do(r.Context(), r.PathValue("name"))
			}
			w.Header().Set("Content-Type", "application/json")
			if err != nil {
				refused := refusal(err)
				w.WriteHeader(refused.Status)
				answer = refused
			}
			_ = json.NewEncoder(w).Encode(answer)
		})
	}
	handle("GET "+instancesPath+"{name}", func(ctx context.Context, instance string) (any, error) { return n.Loss(ctx, instance) })
	handle("POST "+instancesPath+"{name}/give-up", func(ctx context.Context, instance string) (any, error) {
		return struct{}{}, n.GiveUp(ctx, instance)
	})
	handle("GET "+foldersPath+"{name}", func(ctx context.Context, folder string) (any, error) { return n.Salvage(ctx, folder, false) })
	handle("POST "+foldersPath+"{name}/salvage", func(ctx context.Context, folder string) (any, error) { return n.Salvage(ctx, folder, true) })
	return mux
}

// refused is the answer to a request that was not carried out, in the form of the Stream API.
type refused struct {
	Status  int    `json:"statusCode"`
	Name    string `json:"error"`
	Message string `json:"message"`
}

var errParameters = errors.New("this call takes no parameters; nothing was done")

var errForbidden = errors.New("a master token with the role admin of the project is required")

// authorize accepts the tokens that may change something through the Stream API.
func authorize(r *http.Request, auth streamapi.Authenticator, project int) error {
	token := r.Header.Get("X-StorageApi-Token")
	if scheme, rest, ok := strings.Cut(r.Header.Get("Authorization"), " "); token == "" && ok && strings.EqualFold(scheme, "Bearer") {
		token = rest
	}
	if token = strings.TrimSpace(token); token == "" {
		return errForbidden
	}
	who, err := auth.Verify(r.Context(), token)
	if refused := (*streamapi.AuthError)(nil); err != nil && !errors.As(err, &refused) {
		return &streamapi.UnavailableError{Err: err} // whose text is not for strangers
	}
	if err == nil && (!who.Master || !who.Admin || who.ProjectID != project) {
		err = errForbidden
	}
	return err
}

// refusal is the answer for an error.
func refusal(err error) refused {
	if auth, ok := errors.AsType[*streamapi.AuthError](err); ok {
		return refused{auth.Status, auth.Name, auth.Message}
	}
	switch _, away := errors.AsType[*streamapi.UnavailableError](err); {
	case away:
		return refused{http.StatusServiceUnavailable, "unavailable", "The token cannot be verified now, try again later."}
	case errors.Is(err, errParameters):
		return refused{http.StatusBadRequest, "badRequest", err.Error()}
	case errors.Is(err, errForbidden):
		return refused{http.StatusForbidden, "forbidden", err.Error()}
	case errors.Is(err, changelog.ErrNothingToDecide):
		return refused{http.StatusConflict, "nothingToDecide", err.Error()}
	case errors.Is(err, ErrCannotSalvage):
		return refused{http.StatusConflict, "cannotSalvage", err.Error()}
	case errors.Is(err, changelog.ErrLost):
		return refused{http.StatusConflict, "changed", err.Error()}
	}
	return refused{http.StatusServiceUnavailable, "unavailable", "It is not known whether this was done; look again: " + err.Error()}
}
