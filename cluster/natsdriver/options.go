package natsdriver

import (
	"errors"
	"fmt"
	"regexp"
	"time"
)

// Options are the options of [NewLog] and [NewOwners]. The zero value has a default for each.
type Options struct {
	// Cluster tells the streams of several clusters on the same servers apart. It consists of letters, digits and hyphens. Default: main.
	Cluster string
	// Replicas is how many servers keep each stream that is created: 3 survive the loss of one, 5 of two. 1 survives none. Default: 3.
	Replicas int
	// MaxBytes bounds the stream of an instance. The servers reserve 32 MiB for each stream, and more when it fills up. The last 4 MiB are for
	// markers, so that a full stream can be opened. MaxBytes should be four times the bytes that are written between two checkpoints.
	// Default: 1 GiB. Minimum: 16 MiB.
	MaxBytes int64
	// Leader is the name of a server that leads the logs which are open here, whenever it has a copy of all their records. Acknowledgements then depend on
	// this server and on any second one, and the loss of a different server delays none. It differs between nodes. Default: any server leads that is not
	// slow, and [cluster.Open] names the server inside of the node.
	//
	// [cluster.Open]: https://pkg.go.dev/github.com/forebay/forebay/cluster#Open
	Leader string
	// AppendTimeout is how long an append or a CompareAndSet waits for its response. Its outcome is unknown after that. It ends earlier, half a second after an
	// election, if there is one. Default: 5 s.
	AppendTimeout time.Duration
	// Timeout is how long all other calls repeat their request while no server responds, and how long Read waits for the next
	// record. A lost leader is replaced after 4 to 9 seconds. Default: 20 s.
	Timeout time.Duration
}

// Validate returns all errors of the options, joined.
func (o Options) Validate() error {
	o = o.withDefaults()
	var errs []error
	if !clusterName.MatchString(o.Cluster) {
		errs = append(errs, fmt.Errorf("natsdriver: Cluster is %q, must be 1 to 64 letters, digits or hyphens", o.Cluster))
	}
	if o.Replicas != 1 && o.Replicas != 3 && o.Replicas != 5 {
		errs = append(errs, fmt.Errorf("natsdriver: Replicas is %d, must be 1, 3 or 5: an even number survives no more than the odd one below", o.Replicas))
	}
	if o.MaxBytes < minBytes {
		errs = append(errs, fmt.Errorf("natsdriver: MaxBytes is %d, must be at least 16 MiB", o.MaxBytes))
	}
	if o.AppendTimeout < time.Millisecond || o.Timeout < time.Millisecond {
		errs = append(errs, fmt.Errorf("natsdriver: AppendTimeout is %s and Timeout %s, must be at least 1ms", o.AppendTimeout, o.Timeout))
	}
	return errors.Join(errs...)
}

var (
	clusterName  = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)
	instanceName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)
)

const minBytes = 16 << 20

// markerBytes of a stream are left for the markers of Open. A full stream is opened once by each process that becomes its owner, with some 4 KB.
const markerBytes = 4 << 20

func (o Options) withDefaults() Options {
	if o.Cluster == "" {
		o.Cluster = "main"
	}
	if o.Replicas == 0 {
		o.Replicas = 3
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 1 << 30
	}
	if o.AppendTimeout == 0 {
		o.AppendTimeout = 5 * time.Second
	}
	if o.Timeout == 0 {
		o.Timeout = 20 * time.Second
	}
	return o
}
