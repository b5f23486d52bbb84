package catalog

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/driver"
)

// Peers carries requests to the other catalogs on a shared store, and their responses back. Both are JSON texts without secrets. Most are small.
// A record of a quarantine has its body. Whoever can send a request can read such records and discard rows, so only nodes may.
type Peers interface {
	// Ask sends a request to all catalogs but the own one, each of which calls [Catalog.Answer], and yields the responses as they arrive until
	// ctx ends. Responses may be lost and may arrive twice. An error ends it.
	Ask(ctx context.Context, request []byte) iter.Seq2[[]byte, error]
}

// Missing is an instance for which no node has responded.
type Missing struct {
	// Instance has the rows. Its Node took them. Another node may be about to take over.
	Instance, Node string
	// Reason is a sentence for people.
	Reason string
}

func (m Missing) String() string {
	return fmt.Sprintf("instance %s of node %s: %s", m.Instance, m.Node, m.Reason)
}

// MissingError says that nodes did not respond, so that not all of a request could be carried out. Send it again when they are back or
// another node has taken over.
type MissingError struct {
	// Missing are the instances of which it is not known whether the request was carried out. For all others it was, if it can
	// be repeated. A clearing that lacks counters changes nothing.
	Missing []Missing
}

func (e *MissingError) Error() string {
	texts := make([]string, len(e.Missing))
	for i, m := range e.Missing {
		texts[i] = m.String()
	}
	return "not all nodes have responded: " + strings.Join(texts, "; ")
}

// peerFormat is the format of requests and responses that this release writes, and the newest that it reads. A change that an older release must
// not ignore raises it. The members format, node and from of both are the same in all formats.
const peerFormat = 1

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

// request is what one catalog asks all others.
type request struct {
	Format int `json:"format"`
	// From tells the sender from all others.
	From string `json:"from"`
	Op   string `json:"op"`
	// Sources is for statistics. The others name a source, a sink, and perhaps a file.
	Sources []string `json:"sources,omitempty"`
	Source  string   `json:"source,omitempty"`
	Sinks   []string `json:"sinks,omitempty"`
	File    string   `json:"file,omitempty"`
	// Task is the one to cancel.
	Task string `json:"task,omitempty"`
	// Rejects is for the requests about a quarantine.
	Rejects *rejectsRequest `json:"rejects,omitempty"`
	// Timeout bounds the work for the response.
	Timeout time.Duration `json:"timeout_ns"`
}

// response is the response of a catalog about the instances that it has.
type response struct {
	Format int    `json:"format"`
	Node   string `json:"node"`
	// Refused says why there is no result.
	Refused   string           `json:"refused,omitempty"`
	Instances []instanceAnswer `json:"instances,omitempty"`
}

type instanceAnswer struct {
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
	Rejects *rejectsAnswer `json:"rejects,omitempty"`

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

// sinkCounts are counters of one sink in one instance.
type sinkCounts struct {
	Source    string           `json:"source"`
	Sink      string           `json:"sink"`
	Local     levelRecord      `json:"local,omitzero"`
	Staging   levelRecord      `json:"staging,omitzero"`
	Target    levelRecord      `json:"target,omitzero"`
	Expired   levelRecord      `json:"expired,omitzero"`
	Damaged   levelRecord      `json:"damaged,omitzero"`
	Discarded levelRecord      `json:"discarded,omitzero"`
	Rejected  map[string]int64 `json:"rejected,omitempty"`
	Refused   string           `json:"refused,omitempty"`
	// Quarantine is left out by releases without quarantines.
	Quarantine quarantineRecord `json:"quarantine,omitzero"`
	Files      []fileCounts     `json:"files,omitempty"`
}

// fileCounts is a [buffer.FileStats] without its table.
type fileCounts struct {
	ID          string           `json:"id"`
	State       buffer.FileState `json:"state"`
	OpenedAt    time.Time        `json:"openedAt,omitzero"`
	ClosedAt    time.Time        `json:"closedAt,omitzero"`
	ImportingAt time.Time        `json:"importingAt,omitzero"`
	FinishedAt  time.Time        `json:"finishedAt,omitzero"`
	Reason      string           `json:"reason,omitempty"`
	Slices      int              `json:"slices,omitempty"`
	Level       levelRecord      `json:"level"`
	Attempt     int              `json:"attempt,omitempty"`
	RetryReason string           `json:"retryReason,omitempty"`
	RetryAfter  time.Time        `json:"retryAfter,omitzero"`
	// Refused is left out by releases that cannot split a file on demand.
	Refused *rowRefused `json:"refused,omitempty"`
}

// rowRefused is a [driver.RowError].
type rowRefused struct {
	Row     int64  `json:"row"`
	Column  string `json:"column,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

func newSinkCounts(st forebay.SinkStats) sinkCounts {
	n := sinkCounts{
		Source: st.Source, Sink: st.Sink, Rejected: st.Rejected, Refused: st.Refused, Quarantine: newQuarantineRecord(st.Quarantine),
		Local: levelRecord(st.Local), Staging: levelRecord(st.Staging), Target: levelRecord(st.Target),
		Expired: levelRecord(st.Expired), Damaged: levelRecord(st.Damaged), Discarded: levelRecord(st.Discarded),
	}
	for _, f := range st.Files {
		n.Files = append(n.Files, fileCounts{
			ID: f.ID, State: f.State, OpenedAt: f.OpenedAt, ClosedAt: f.ClosedAt, ImportingAt: f.ImportingAt, FinishedAt: f.FinishedAt,
			Reason: f.Reason, Slices: f.Slices, Level: levelRecord(f.Level), Attempt: f.Attempt, RetryReason: f.RetryReason, RetryAfter: f.RetryAfter,
			Refused: (*rowRefused)(f.Refused),
		})
	}
	return n
}

func (f fileCounts) stats() buffer.FileStats {
	return buffer.FileStats{
		ID: f.ID, State: f.State, OpenedAt: f.OpenedAt, ClosedAt: f.ClosedAt, ImportingAt: f.ImportingAt, FinishedAt: f.FinishedAt,
		Reason: f.Reason, Slices: f.Slices, Level: buffer.Level(f.Level), Attempt: f.Attempt, RetryReason: f.RetryReason, RetryAfter: f.RetryAfter,
		Refused: (*driver.RowError)(f.Refused),
	}
}

// Answer returns the response to a request of [Peers.Ask] of another catalog, nil if there is none, as for a request of this catalog, and
// after Close. It may be called concurrently.
func (c *Catalog) Answer(ctx context.Context, asked []byte) []byte {
	var r request
	a := response{Format: peerFormat, Node: c.opts.Node}
	err := json.Unmarshal(asked, &r)
	switch {
	case c.shared == nil || c.ctx.Err() != nil || r.From == c.held.opening:
		return nil
	case r.Format > peerFormat: // whose members may have other types
		a.Refused = fmt.Sprintf("it has an older release, which reads requests up to format %d: update it", peerFormat)
	case err != nil || r.Format < 1:
		a.Refused = "it cannot read the request"
	default:
		ctx, cancel := context.WithTimeout(ctx, min(max(r.Timeout, time.Millisecond), filesTimeout))
		defer cancel()
		defer context.AfterFunc(c.ctx, cancel)()
		a.Refused, a.Instances = c.carryOut(ctx, r)
	}
	for _, i := range a.Instances {
		if i.err != nil { // its text may be nothing for users
			c.log.Warn("request of another node failed", "request", r.Op, "source", r.Source, "file", r.File, "instance", i.Instance, "cause", i.err, "next", "fix the cause, and retry the request on the other node")
		}
	}
	return encode(a)
}

// carryOut carries out a request with all instances that this catalog has.
func (c *Catalog) carryOut(ctx context.Context, r request) (refused string, list []instanceAnswer) {
	switch r.Op {
	case opStatistics:
		return "", append(c.adoptedCounts(r.Sources), instanceAnswer{Instance: c.opts.Instance, Sinks: countsOf(c.eng.Stats().Sinks, r.Sources)})
	case opRetry, opDiscard, opSplitFile, opQuarantineFile:
		own := adopted{eng: c.eng, instance: c.opts.Instance}
		for _, a := range append(c.adopted.all(), own) {
			done, why, err := onEngine(ctx, a.eng, r)
			list = append(list, instanceAnswer{Instance: a.instance, Epoch: a.epoch, Outcome: done, Why: why, err: err})
		}
		return "", list
	case opCancelRejects:
		if len(r.Sinks) != 1 {
			return "it cannot read the request", nil
		}
		done := outcomeNotFound
		if c.tasks.cancelRejects(Task{ID: r.Task, SourceID: r.Source, SinkID: r.Sinks[0]}) {
			done = outcomeDone
		}
		for _, a := range append(c.adopted.all(), adopted{instance: c.opts.Instance}) {
			list = append(list, instanceAnswer{Instance: a.instance, Epoch: a.epoch, Outcome: done})
		}
		return "", list
	case opRejects, opRejected, opEditReject, opTestReject, opReplayRejects, opDropRejects:
		if r.Rejects == nil || len(r.Sinks) != 1 {
			return "it cannot read the request", nil
		}
		own := adopted{eng: c.eng, instance: c.opts.Instance}
		for _, a := range append(c.adopted.all(), own) {
			if r.Rejects.Instance == "" || r.Rejects.Instance == a.instance {
				list = append(list, c.onRejects(ctx, a, r))
			}
		}
		return "", list
	}
	return fmt.Sprintf("it does not know the request %.40q: if it has an older release, update it", r.Op), nil
}

// countsOf returns the counters of some sources.
func countsOf(sinks []forebay.SinkStats, sources []string) (list []sinkCounts) {
	for _, st := range sinks {
		if slices.Contains(sources, st.Source) {
			list = append(list, newSinkCounts(st))
		}
	}
	return list
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

// onSinks carries out a retry, or a decision about a file, with each of the sinks. One that fails does not keep it from the others. The error has
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

// responses has the responses of the other nodes, by node. cause says why there are no more. Nil means that the time was over.
type responses struct {
	byNode map[string]response
	cause  error
}

func (a responses) instances() (list []instanceAnswer) {
	for _, node := range slices.Sorted(maps.Keys(a.byNode)) {
		list = append(list, a.byNode[node].Instances...)
	}
	return list
}

// ask asks all other nodes and returns when each of them that may have an instance has responded, or the time is over.
func (c *Catalog) ask(ctx context.Context, timeout time.Duration, r request) responses {
	return c.askUntil(ctx, timeout, r, func(response) bool { return false })
}

// askUntil is ask that also returns with the first response that is enough.
func (c *Catalog) askUntil(ctx context.Context, timeout time.Duration, r request, enough func(response) bool) responses {
	got := responses{byNode: map[string]response{}}
	nodes := map[string]bool{}
	for _, m := range c.members.view().instances {
		nodes[m.Node] = true
	}
	if delete(nodes, c.opts.Node); len(nodes) == 0 {
		return got
	}
	if c.opts.Peers == nil {
		got.cause = errors.New("this node cannot ask others")
		return got
	}
	r.Format, r.From, r.Timeout = peerFormat, c.held.opening, timeout
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for data, err := range c.opts.Peers.Ask(ctx, encode(r)) {
		if err != nil {
			if ctx.Err() == nil {
				got.cause = err
				c.log.Warn("other nodes not reachable", "cause", err, "next", "check the connection to the servers")
			}
			break
		}
		var a response
		err = json.Unmarshal(data, &a)
		switch {
		case a.Node == "":
			continue // its node is not known
		case a.Format > peerFormat:
			a = response{Node: a.Node, Refused: fmt.Sprintf("it has a newer release, which responds in format %d: update this node", a.Format)}
		case err != nil || a.Format < 1:
			a = response{Node: a.Node, Refused: "its response is unreadable"}
		}
		got.byNode[a.Node] = a
		if delete(nodes, a.Node); len(nodes) == 0 || enough(a) {
			break
		}
	}
	return got
}

// missing returns the members that has does not know, by name.
func (c *Catalog) missing(v membersView, has func(instance string) bool, got responses) (list []Missing) {
	for _, instance := range slices.Sorted(maps.Keys(v.instances)) {
		if has(instance) {
			continue
		}
		node := v.instances[instance].Node
		m := Missing{Instance: instance, Node: node}
		switch a, answered := got.byNode[node]; {
		case answered && a.Refused != "":
			m.Reason = a.Refused
		case answered || node == c.opts.Node:
			m.Reason = "the node has a new instance, and no node has this one: it is about to be taken over, or damaged"
		case got.cause != nil:
			m.Reason = "the servers do not pass on the request"
		default:
			m.Reason = "it does not respond, and no other node has taken over yet"
		}
		list = append(list, m)
	}
	return list
}

// filesTimeout bounds a retry and the giving up of a file at all nodes. A call of a driver may have to end first.
const filesTimeout = 10 * time.Second

// everywhere carries out a retry, or gives up a file, at all nodes. A file is in one instance. When that was found, the others do not matter.
func (c *Catalog) everywhere(ctx context.Context, r request) (_ outcome, why string, _ error) {
	_, all := c.carryOut(ctx, r)
	done, why, err := outcomeOf(all)
	if c.shared == nil || r.File != "" && (err != nil || done != outcomeNotFound) {
		return done, why, err
	}
	got := c.ask(ctx, filesTimeout, r)
	all = append(all, got.instances()...)
	done, why, own := outcomeOf(all)
	if err = cmp.Or(err, own); err != nil || r.File != "" && done != outcomeNotFound {
		return done, why, err
	}
	// A node that has lost its instance and does not know yet fails. Its adopter does not.
	failed := func(instance string) bool {
		return slices.ContainsFunc(all, func(i instanceAnswer) bool { return i.Instance == instance && i.Outcome == outcomeFailed })
	}
	knows := func(instance string) bool {
		return slices.ContainsFunc(all, func(i instanceAnswer) bool { return i.Instance == instance && i.Outcome != outcomeFailed })
	}
	missing := c.missing(c.members.view(), knows, got)
	if len(missing) > 0 && c.catchUp(ctx, statisticsTimeout) == nil {
		missing = c.missing(c.members.view(), knows, got)
	}
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
func outcomeOf(list []instanceAnswer) (done outcome, why string, err error) {
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

// adopted is the engine of another node's instance, whose rows this node brings to their tables.
type adopted struct {
	instance string
	epoch    uint64
	eng      *forebay.Engine
	// turn is held while the engine has a source for a replay. It is nil for the engine of the node itself.
	turn *sync.Mutex
	// move says whether its rejected records move. It is nil for the engine of the node itself.
	move *rejectsMove
}

// rejectsMove is held for reading by each use of the rejected records of an adopted engine.
type rejectsMove struct {
	sync.RWMutex
	paused, moved bool
}

// refuses returns the response to a request about rejected records that move, or have moved, or nil if the engine serves it. Called with move held.
func (a adopted) refuses(r request, q forebay.SinkQuarantine) *instanceAnswer {
	out := &instanceAnswer{Instance: a.instance, Epoch: a.epoch, Outcome: outcomeNotFound, Rejects: &rejectsAnswer{}}
	switch {
	case a.move.moved && r.Op == opRejects:
		out.Outcome = outcomeDone
	case a.move.moved:
	case !a.move.paused, r.Op == opRejects, r.Op == opRejected, r.Op == opTestReject:
		return nil
	case r.Rejects.Filter != nil || slices.ContainsFunc(r.Rejects.IDs, q.Has):
		out.Outcome, out.err = outcomeOverloaded, &buffer.OverloadError{Resource: "quarantine", RetryAfter: time.Second}
	}
	return out
}

// counts are the counters of an engine. Records that have moved count where they are.
func (a adopted) counts() []forebay.SinkStats {
	sinks := a.eng.Stats().Sinks
	if a.move != nil {
		a.move.RLock()
		defer a.move.RUnlock()
		for i := range sinks {
			if q := &sinks[i].Quarantine; a.move.moved {
				q.Added -= q.Records
				q.Records, q.Bytes, q.OldestAt = 0, 0, time.Time{}
			}
		}
	}
	return sinks
}

// adoptions are the adopted instances that are open.
type adoptions struct {
	mu   sync.Mutex
	list []*Adoption
}

func (a *adoptions) all() (list []adopted) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range a.list {
		list = append(list, one.adopted)
	}
	return list
}

func (c *Catalog) adoptedCounts(sources []string) (list []instanceAnswer) {
	for _, a := range c.adopted.all() {
		list = append(list, instanceAnswer{Instance: a.instance, Epoch: a.epoch, Sinks: countsOf(a.counts(), sources)})
	}
	return list
}
