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

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/internal/instance"
	"github.com/forebay/forebay/stream/refusal"
	"github.com/forebay/forebay/stream/streamapi"
)

// Loss is what [Node.GiveUp] would lose of an instance.
type Loss struct {
	// Instance is its name.
	Instance string `json:"instance"`
	// Node had the instance last, and State is what its record says.
	Node  string               `json:"node"`
	State changelog.OwnerState `json:"state"`
	// CanGiveUp: GiveUp accepts the state. The fields after it are empty otherwise.
	CanGiveUp bool `json:"canGiveUp"`
	// Acknowledged is the last batch that the record knows as acknowledged. There may be more, of up to a third of a lease. Checkpoint is the last
	// one of the checkpoint, Readable the last one that checkpoint and log give together.
	Acknowledged uint64 `json:"acknowledged"`
	Checkpoint   uint64 `json:"checkpoint"`
	Readable     uint64 `json:"readable"`
	// Lost is the least number of batches that would be lost, the batches after Readable. LostBefore were lost when the instance was given up earlier.
	Lost       uint64 `json:"lost"`
	LostBefore uint64 `json:"lostBefore"`
	// CheckpointProblem and LogProblem name the unreadable parts and the reasons. Empty means that everything can be read.
	CheckpointProblem string `json:"checkpointProblem,omitempty"`
	LogProblem        string `json:"logProblem,omitempty"`
}

// Loss finds out what GiveUp would lose of an instance. It fetches the checkpoint and reads the log, and changes no row and no record. The error is
// [changelog.ErrNothingToDecide] if there is no such instance. Any other error says that the loss is unknown now, because a part does not respond.
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
			var response any
			if err == nil {
				// To fetch a checkpoint may take longer than the server allows for a response.
				_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
				response, err = do(r.Context(), r.PathValue("name"))
			}
			if err != nil {
				refusalOf(err).Write(w)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(response)
		})
	}
	handle("GET "+instancesPath+"{name}", func(ctx context.Context, instance string) (any, error) { return n.Loss(ctx, instance) })
	handle("POST "+instancesPath+"{name}/give-up", func(ctx context.Context, instance string) (any, error) {
		return struct{}{}, n.GiveUp(ctx, instance)
	})
	handle("GET "+foldersPath+"{name}", func(ctx context.Context, folder string) (any, error) { return n.Salvage(ctx, folder, false) })
	handle("POST "+foldersPath+"{name}/salvage", func(ctx context.Context, folder string) (any, error) { return n.Salvage(ctx, folder, true) })
	refusal.Rest(mux, "GET "+instancesPath+"INSTANCE, POST "+instancesPath+"INSTANCE/give-up, GET "+foldersPath+"FOLDER and POST "+foldersPath+"FOLDER/salvage")
	return mux
}

var errParameters = errors.New("this call has no parameters; nothing was done")

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

// refusalOf is the response for an error.
func refusalOf(err error) refusal.Error {
	if auth, ok := errors.AsType[*streamapi.AuthError](err); ok {
		return refusal.New(auth.Status, auth.Name, auth.Message)
	}
	switch _, away := errors.AsType[*streamapi.UnavailableError](err); {
	case away:
		return refusal.New(http.StatusServiceUnavailable, "unavailable", "The token cannot be verified now, try again later.")
	case errors.Is(err, errParameters):
		return refusal.New(http.StatusBadRequest, "badRequest", err.Error())
	case errors.Is(err, errForbidden):
		return refusal.New(http.StatusForbidden, "forbidden", err.Error())
	case errors.Is(err, changelog.ErrNothingToDecide):
		return refusal.New(http.StatusConflict, "nothingToDecide", err.Error())
	case errors.Is(err, ErrCannotSalvage):
		return refusal.New(http.StatusConflict, "cannotSalvage", err.Error())
	case errors.Is(err, changelog.ErrLost):
		return refusal.New(http.StatusConflict, "changed", err.Error())
	}
	return refusal.New(http.StatusServiceUnavailable, "unavailable", "It is not known whether this was done; look again: "+err.Error())
}
