package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/internal/instance"
)

// ErrCannotSalvage is returned by [Node.Salvage] for a folder of which it cannot be told which rows the log had, or which rows an earlier call has
// stored. That call stored nothing.
var ErrCannotSalvage = instance.ErrCannotSalvage

// Salvage describes the rows of a folder set aside that were acknowledged on its disk alone.
type Salvage struct {
	// Folder is the folder, and Instance the instance that it belonged to.
	Folder   string `json:"folder"`
	Instance string `json:"instance"`
	// LogEnd is the last batch that the log had of it. Last is the last one of the folder.
	LogEnd uint64 `json:"logEnd"`
	Last   uint64 `json:"last"`
	// Into is the instance that has taken rows, empty if none has. Done says that all that are not left out are stored.
	Into string `json:"into,omitempty"`
	Done bool   `json:"done"`
	// Sinks have the rows of the batches after LogEnd.
	Sinks []SalvagedSink `json:"sinks"`
}

// SalvagedSink are rows of a sink that the log did not have.
type SalvagedSink struct {
	// Source and Sink name the sink.
	Source string `json:"source"`
	Sink   string `json:"sink"`
	// Rows is their number. LeftOut says why they are not stored. Empty means that they are, or will be.
	Rows    int64  `json:"rows"`
	LeftOut string `json:"leftOut,omitempty"`
}

// Salvage finds the rows of a folder fenced-INSTANCE-EPOCH of this node that were acknowledged on its disk alone, for sinks with AckLocal. With store it
// gives them to the engine as new rows. Without it, nothing is changed. Rows that the log had are left out, since the node that took the instance over
// has them. Rows of sinks that wait for the log are left out as well, because they were never acknowledged.
//
// A call may be repeated. Each row is stored once, even after a crash. The error is [ErrCannotSalvage] where that is impossible, because the node has
// lost the instance that an earlier call, which did not end, has given rows to, the end of the log is no longer known, or the folder does not continue
// from there. It is [changelog.ErrNothingToDecide] if there is no such folder. After any other error the call may be repeated.
func (n *Node) Salvage(ctx context.Context, folder string, store bool) (Salvage, error) {
	found, err := n.instance.Salvage(ctx, folder, store)
	if errors.Is(err, instance.ErrNoFolder) {
		err = fmt.Errorf("%w: %w", changelog.ErrNothingToDecide, err)
	}
	if err != nil {
		return Salvage{}, err
	}
	s := Salvage{
		Folder: found.Folder, Instance: found.Instance, LogEnd: found.LogEnd, Last: found.Last, Into: found.Into, Done: found.Done,
		Sinks: []SalvagedSink{},
	}
	for _, to := range found.Sinks {
		s.Sinks = append(s.Sinks, SalvagedSink{to.Source, to.Sink, to.Rows, to.LeftOut})
	}
	return s, nil
}
