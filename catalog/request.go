package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
)

// The requests.
const (
	opStatistics = "statistics"
	opRetry      = "retry"
	opDiscard    = "discard"

	opSplitFile      = "splitFile"
	opQuarantineFile = "quarantineFile"

	// Of the quarantine of a sink. See rejectsRequest.
	opRejects       = "rejects"
	opRejected      = "rejected"
	opEditReject    = "editReject"
	opTestReject    = "testReject"
	opReplayRejects = "replayRejects"
	opDropRejects   = "dropRejects"
	opCancelRejects = "cancelRejects"
)

// request is a request of a catalog to its engine and to the engines of other nodes, if any.
type request struct {
	Op string `json:"op"`
	// Sources is for statistics. The others name a source, a sink, and perhaps a file.
	Sources []string `json:"sources,omitempty"`
	Source  string   `json:"source,omitempty"`
	Sinks   []string `json:"sinks,omitempty"`
	File    string   `json:"file,omitempty"`
	// Task is the one to cancel.
	Task string `json:"task,omitempty"`
	// Rejects is for the requests about a quarantine.
	Rejects *rejectsRequest `json:"rejects,omitempty"`
}

// instanceResponse is the outcome of a request at one engine.
type instanceResponse struct {
	Instance string `json:"instance"`
	// Epoch is 0 at the node that accepts rows for the instance, and grows with each one that takes it over. The highest knows most.
	Epoch uint64 `json:"epoch,omitempty"`
	// Sinks is the result of opStatistics.
	Sinks []sinkCounts `json:"sinks,omitempty"`
	// Outcome is the result of the other operations.
	Outcome outcome `json:"outcome,omitempty"`
	// Why says it in words, for people. It may be empty.
	Why string `json:"why,omitempty"`
	// Rejects is the result of the requests about a quarantine.
	Rejects *rejectsResponse `json:"rejects,omitempty"`

	err error // of an instance of this node
}

// outcome is what became of a retry or of giving up a file.
type outcome string

const (
	outcomeDone       outcome = "done"
	outcomeNotFound   outcome = "notFound"
	outcomeImportRuns outcome = "importRuns"
	outcomeNotHeld    outcome = "notHeld"
	outcomeFailed     outcome = "failed"
	outcomeChanged    outcome = "changed"
	outcomeOverloaded outcome = "overloaded"
	outcomeInvalid    outcome = "invalid"
)

// place is an engine that requests are carried out with.
type place struct {
	eng *forebay.Engine
	// instance names the engine among the engines of several catalogs. It is empty for a catalog that is [alone].
	instance string
	// define, unless nil, calls run while the engine has a sink as it is defined now.
	define func(ctx context.Context, ref Ref, run func() error) error
}

// carryOut carries out a request with an engine of this catalog.
func (c *Catalog) carryOut(ctx context.Context, p place, r request) instanceResponse {
	out := instanceResponse{Instance: p.instance}
	switch {
	case r.Rejects != nil:
		return c.onRejects(ctx, p, r)
	case r.Op != opCancelRejects:
		out.Outcome, out.Why, out.err = onEngine(ctx, p.eng, r)
	case c.tasks.cancelRejects(Task{ID: r.Task, SourceID: r.Source, SinkID: r.Sinks[0]}):
		out.Outcome = outcomeDone
	default:
		out.Outcome = outcomeNotFound
	}
	return out
}

// responses are the responses of other nodes to a request. On a single node there are none, and nothing is missing.
type responses struct {
	instances []instanceResponse
	// missing returns the instances, by name, that has does not know.
	missing func(ctx context.Context, has func(instance string) bool) []Missing
}

// waitingFiles is the part of a sink that a retry, or a decision about a file, needs.
type waitingFiles interface {
	Discard(ctx context.Context, file string) error
	Retry(ctx context.Context) error
	RetryFile(ctx context.Context, file string) error
	SplitFile(ctx context.Context, file string) error
	QuarantineFile(ctx context.Context, file string) error
}

// onEngine carries out a retry, or a decision about a file, with each of the sinks of an engine. See [onSinks].
func onEngine(ctx context.Context, eng *forebay.Engine, r request) (_ outcome, why string, err error) {
	return onSinks(ctx, func(sink string) waitingFiles { return eng.Sink(r.Source, sink) }, r)
}

// onSinks carries out a retry, or a decision about a file, with each of the sinks. It continues with the other sinks after a failure of one. The error has
// all failures. why has words about an outcome.
func onSinks(ctx context.Context, of func(sink string) waitingFiles, r request) (_ outcome, why string, err error) {
	done := outcomeNotFound
	var failed []error
	for _, sink := range r.Sinks {
		var err error
		var full *buffer.OverloadError
		switch {
		case r.Op == opDiscard:
			err = of(sink).Discard(ctx, r.File)
		case r.Op == opSplitFile:
			err = of(sink).SplitFile(ctx, r.File)
		case r.Op == opQuarantineFile:
			err = of(sink).QuarantineFile(ctx, r.File)
		case r.Op != opRetry:
			err = fmt.Errorf("the request %.40q is not known", r.Op)
		case r.File != "":
			err = of(sink).RetryFile(ctx, r.File)
		default:
			err = of(sink).Retry(ctx)
		}
		switch {
		case err == nil:
			done = outcomeDone
		case errors.Is(err, forebay.ErrUnknownSink), errors.Is(err, buffer.ErrUnknownFile):
		case errors.Is(err, buffer.ErrImportRuns):
			return outcomeImportRuns, "", nil // there is one such file
		case errors.Is(err, buffer.ErrFileMoves):
			return outcomeImportRuns, plain(err), nil
		case errors.Is(err, buffer.ErrNotHeld):
			return outcomeNotHeld, plain(err), nil
		case errors.As(err, &full):
			return outcomeOverloaded, plain(err), nil
		default:
			failed = append(failed, fmt.Errorf("sink %s: %w", sink, err))
		}
	}
	if len(failed) > 0 {
		return outcomeFailed, "", errors.Join(failed...)
	}
	return done, "", nil
}

// plain is an error of the buffer for users, without the name of the package.
func plain(err error) string { return strings.TrimPrefix(err.Error(), "buffer: ") }

// filesTimeout bounds a retry and the giving up of a file at all nodes. A call of a driver may have to end first.
const filesTimeout = 10 * time.Second

// everywhere carries out a retry, or gives up a file, at all nodes. A file is in one instance. When that was found, the others do not matter.
func (c *Catalog) everywhere(ctx context.Context, r request) (_ outcome, why string, _ error) {
	all := c.co.carryOut(ctx, r)
	done, why, err := outcomeOf(all)
	if r.File != "" && (err != nil || done != outcomeNotFound) {
		return done, why, err
	}
	got := c.co.ask(ctx, filesTimeout, r, nil)
	all = append(all, got.instances...)
	done, why, own := outcomeOf(all)
	if err = cmp.Or(err, own); err != nil || r.File != "" && done != outcomeNotFound {
		return done, why, err
	}
	// An engine that another node continues may not know that yet, and fails. The other node does not.
	failed := func(instance string) bool {
		return slices.ContainsFunc(all, func(i instanceResponse) bool { return i.Instance == instance && i.Outcome == outcomeFailed })
	}
	knows := func(instance string) bool {
		return slices.ContainsFunc(all, func(i instanceResponse) bool { return i.Instance == instance && i.Outcome != outcomeFailed })
	}
	missing := got.missing(ctx, knows)
	for i, m := range missing {
		if failed(m.Instance) {
			missing[i].Reason = "it has failed there, see the log of the node"
		}
	}
	if len(missing) > 0 {
		return done, why, &MissingError{missing}
	}
	return done, why, nil
}

// outcomeOf returns what became of a request at some instances, with words about it, and the error of one of this node.
func outcomeOf(list []instanceResponse) (done outcome, why string, err error) {
	done = outcomeNotFound
	for _, i := range list {
		switch {
		case i.Outcome == outcomeImportRuns, i.Outcome == outcomeNotHeld, i.Outcome == outcomeOverloaded: // of the instance that has the file
			return i.Outcome, i.Why, nil
		case i.Outcome == outcomeDone:
			done = i.Outcome
		case i.err != nil:
			err = i.err
		}
	}
	return done, "", err
}
