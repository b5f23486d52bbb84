package changelog

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/forebay/forebay/driverkit/warnlog"
)

// LeaseOptions configure how a node holds its instances.
type LeaseOptions struct {
	// Node is the name of this node. It stays the same after a restart, even with an empty disk. Required.
	Node string
	// Lease is how long the node may acknowledge rows after it began its last successful beat, and how long it has to be silent
	// before another node adopts its instances, even if it only restarts. It beats three times in that time. A lease shorter than
	// an election of the store of owners stops all nodes during each election. Default: 12 s, the least is 3 s.
	Lease time.Duration
	// Logger gets what an operator should see. Default: warnings and errors go to [slog.Default]; [slog.DiscardHandler] silences them.
	Logger *slog.Logger
}

// Validate reports every breach at once. Zero fields count as their defaults.
func (o LeaseOptions) Validate() error {
	o = o.withDefaults()
	var problems []error
	if !validNode(o.Node) {
		problems = append(problems, fmt.Errorf("lease options: Node is %q, want 1 to %d printable characters without spaces", o.Node, maxNode))
	}
	if o.Lease < 3*time.Second {
		problems = append(problems, fmt.Errorf("lease options: Lease is %s, the least is 3s", o.Lease))
	}
	return errors.Join(problems...)
}

func (o LeaseOptions) withDefaults() LeaseOptions {
	o.Lease = cmp.Or(o.Lease, 12*time.Second)
	o.Logger = warnlog.Or(o.Logger)
	return o
}

// FencedError says that another process owns the instance, or that the instance has ended. It is final. Close the local store, set
// its directory aside and start as a new instance. It wraps [ErrFenced].
type FencedError struct {
	// Instance is its name.
	Instance string
	// Epoch is the last one of this node.
	Epoch uint64
	// Owner is the record that was found. It has no Node if the record was deleted after the instance was retired. See [Forget].
	Owner Owner
}

func (e *FencedError) Error() string {
	if e.Owner.Node == "" {
		return fmt.Sprintf("instance %s was retired, and its record is deleted; epoch %d of this process has ended", e.Instance, e.Epoch)
	}
	return fmt.Sprintf("instance %s belongs to node %s with epoch %d (%s); epoch %d of this process has ended",
		e.Instance, e.Owner.Node, e.Owner.Epoch, e.Owner.State, e.Epoch)
}

// Unwrap returns [ErrFenced].
func (*FencedError) Unwrap() error { return ErrFenced }
