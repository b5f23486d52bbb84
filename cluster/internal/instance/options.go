package instance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/warnlog"
)

// Options of an [Instance]. A zero field means its default. The fields without one are required.
type Options struct {
	// Log and Owners are the cluster's. A stream of Log holds more than four times Engine.Buffer.MaxPendingBytes.
	Log    changelog.Log
	Owners changelog.Owners
	// Node is the name of this node: 1 to 100 letters, digits, hyphens or underscores. It never changes, even with an
	// empty disk, and is unique in the cluster.
	Node string
	// Lease is how long the node may be silent before others adopt its instance, see [changelog.LeaseOptions]. Default: 12 s.
	Lease time.Duration
	// Engine configures the engine. Staging and Target are required, and all nodes must reach them under the same names, because an adopter continues
	// with them. Changelog is the instance's own.
	Engine forebay.Options
	// Checkpoints holds the checkpoints, and all nodes must reach it. Default: Engine.Staging.
	Checkpoints driver.Staging
	// CheckpointBytes is how much of the log is written before the next checkpoint is made. An adopter reads as much. A checkpoint is
	// made earlier where the log would be full otherwise. Default: 256 MiB.
	CheckpointBytes int64
	// Adopt is called for each adopted instance when its engine is open, and the drainer calls the returned Adoption. Default: none.
	Adopt func(instance string, epoch uint64, e *forebay.Engine) (Adoption, error)
	// Logger gets what an operator should see. Default: warnings and errors go to [slog.Default]; [slog.DiscardHandler] silences them.
	Logger *slog.Logger
}

// Adoption is what else has to know that an instance is drained.
type Adoption interface {
	// Follow gives up rows that are no longer wanted. It is called before rows are moved, and again while a table refuses them.
	Follow(ctx context.Context) error
	// Finish is called when all rows are in their tables. The instance is drained only if it succeeds, and then it may be called again by
	// another adopter.
	Finish(ctx context.Context) error
	// PauseRejects lets nothing but time change the rejected records of the engine, until resume is called. RejectsMoved says that they are
	// another engine's.
	PauseRejects() (resume func())
	RejectsMoved()
	// Owes reports whether rejected records of the engine are to be given up. It is called when copies of them are in the engine of this node. If
	// it returns false, who gives them up later finds the copies.
	Owes(ctx context.Context) (bool, error)
	// Close is called before the engine is closed.
	Close()
}

type noAdoption struct{}

func (noAdoption) Follow(context.Context) error { return nil }

func (noAdoption) Finish(context.Context) error { return nil }

func (noAdoption) PauseRejects() (resume func()) { return func() {} }

func (noAdoption) RejectsMoved() {}

func (noAdoption) Owes(context.Context) (bool, error) { return false, nil }

func (noAdoption) Close() {}

// nodeName leaves room for the rest of the name of an instance, and is a name of folders and streams.
var nodeName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`)

// DefaultLease is the default of Options.Lease.
const DefaultLease = 12 * time.Second

// withDefaults returns a copy without zero fields.
func (o Options) withDefaults() Options {
	o.Lease = cmp.Or(o.Lease, DefaultLease)
	o.CheckpointBytes = cmp.Or(o.CheckpointBytes, 256<<20)
	if o.Checkpoints == nil {
		o.Checkpoints = o.Engine.Staging
	}
	if o.Adopt == nil {
		o.Adopt = func(string, uint64, *forebay.Engine) (Adoption, error) { return noAdoption{}, nil }
	}
	o.Logger = warnlog.Or(o.Logger)
	o.Engine.Logger = cmp.Or(o.Engine.Logger, o.Logger)
	return o
}

// Validate reports every breach at once. Zero fields count as their defaults.
func (o Options) Validate() error {
	o = o.withDefaults()
	problems := []error{o.lease().Validate(), o.Engine.Validate()}
	check := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf("instance options: "+format, args...))
		}
	}
	check(o.Log != nil, "Log is required")
	check(o.Owners != nil, "Owners is required")
	check(nodeName.MatchString(o.Node), "Node is %q, want 1 to 100 letters, digits, hyphens or underscores", o.Node)
	check(o.Engine.Staging != nil, "Engine.Staging is required, the default is a folder of one node")
	check(o.Engine.Target != nil, "Engine.Target is required, the default is a folder of one node")
	check(o.Engine.Changelog == nil, "Engine.Changelog is the instance's own, leave it empty")
	check(o.Engine.OnDamage == nil, "Engine.OnDamage is the instance's own, leave it empty")
	check(o.CheckpointBytes > 0, "CheckpointBytes is %d, it must be above 0", o.CheckpointBytes)
	return errors.Join(problems...)
}

func (o Options) lease() changelog.LeaseOptions {
	return changelog.LeaseOptions{Node: o.Node, Lease: o.Lease, Logger: o.Logger}
}
