package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/pebblestore"
)

// sharedFile is the file in the folder of a node that names the shared parts that it has used, as an object with an ID for each.
const sharedFile = "shared"

// lossPatience is how long a part must be missing before it counts as lost.
const lossPatience = 5 * time.Second

// sharedPart is what all nodes of a cluster share. Its ID is drawn when it is made. The error of ID is [changelog.ErrMissing] if there is none.
type sharedPart interface {
	Create(ctx context.Context) error
	ID(ctx context.Context) (string, error)
}

// share makes the parts that no node has made yet, and notes which they are. What this node has used before is never made again, because an empty
// store of owners or journal in its place would look like a cluster without rows and definitions.
func (n *Node) share(ctx context.Context, dir string, parts map[string]sharedPart) error {
	disk := localdisk.Of(n.opts.Engine.Buffer)
	if err := disk.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	path := disk.PathJoin(dir, sharedFile)
	known := map[string]string{}
	switch text, err := pebblestore.ReadNote(disk, path, 4096); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	default:
		if err := json.Unmarshal([]byte(text), &known); err != nil {
			return fmt.Errorf("%s is damaged: remove it if the other nodes work: %w", path, err)
		}
	}
	used := map[string]string{}
	var errs []error
	for what, part := range parts {
		id, before := known[what]
		if !before {
			if err := n.retry(ctx, what+" cannot be created", part.Create); err != nil {
				return err
			}
		}
		found, err := n.find(ctx, what, part)
		if used[what] = found; err == nil && before && found != id {
			err = fmt.Errorf("%s was made again, what this node has used is lost: %w", what, changelog.ErrMissing)
		}
		if errors.Is(err, changelog.ErrMissing) {
			err = fmt.Errorf("%w. Bring the data of the servers back. To continue without it, remove %s at each node", err, path)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	text, err := json.Marshal(used)
	if err != nil {
		return err
	}
	return pebblestore.WriteNote(disk, dir, sharedFile, string(text)+"\n")
}

// find returns the ID of a part, and waits while the servers do not respond.
func (n *Node) find(ctx context.Context, what string, part sharedPart) (id string, err error) {
	began := time.Now()
	var missing error
	err = n.retry(ctx, what+" cannot be found", func(ctx context.Context) (err error) {
		if id, err = part.ID(ctx); errors.Is(err, changelog.ErrMissing) && time.Since(began) > lossPatience {
			missing = fmt.Errorf("%s is lost: %w", what, err)
			return nil
		}
		return err
	})
	return id, errors.Join(missing, err)
}

// retry tries again until there is no error or ctx ends. Perhaps a server that must have a copy is away.
func (n *Node) retry(ctx context.Context, problem string, try func(context.Context) error) error {
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		n.log.Warn("step retried", "problem", problem, "cause", err, "next", "check that the servers and staging respond")
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return err
		}
	}
}
