package linearizability

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/catalog"
)

// Op is the request of a client.
type Op struct {
	// Kind is one of the constants.
	Kind string
	// Source is the id of the source. Text becomes the description of the source or of its sink, and Number a setting of the source.
	Source, Text string
	Number       int
}

// The kinds of operations. A source has one sink.
const (
	Create     = "create"
	Update     = "update"
	Delete     = "delete"
	Set        = "set"
	CreateSink = "create sink"
	UpdateSink = "update sink"
	DeleteSink = "delete sink"
	Read       = "read"
)

// RandomOp draws an operation on one of two sources. Text and number must be of this operation alone. The number is positive.
func RandomOp(rng *rand.Rand, text string, number int) Op {
	kinds := []string{Create, Update, Delete, Set, CreateSink, CreateSink, UpdateSink, UpdateSink, DeleteSink, Read, Read, Read, Read}
	return Op{Kind: kinds[rng.IntN(len(kinds))], Source: []string{"one", "two"}[rng.IntN(2)], Text: text, Number: number}
}

// sink is the id of the sink of each source, and setting the key of the setting.
const (
	sink    = "rows"
	setting = "storage.level.target.import.trigger.count"
)

// part is a source or its sink as a read shows it.
type part struct {
	live    bool
	version int
	text    string
}

// observation is the result that a client sees. A change sets live. A read sets all fields. A change refused because the source or sink
// exists, or does not, is zero.
type observation struct {
	part
	setting string
	sink    part
	token   string // of the sink
}

// state is a source as a read shows it. Versions keep rising when a source or sink is recreated. The token of a sink is unknown until a client
// has read it.
type state observation

// show returns whether a read can show a state, and the state with the details of the read.
func (s state) show(out observation) (bool, state) {
	if !out.live || !s.live {
		return out.live == s.live, s
	}
	if !out.sink.live || !s.sink.live {
		return out.part == s.part && out.setting == s.setting && out.sink.live == s.sink.live, s
	}
	if s.token == "" {
		s.token = out.token
	}
	return out == observation(s), s
}

// change returns whether a change can be made, and the state after it.
func (s state) change(do Op) (bool, state) {
	next := s
	switch do.Kind {
	case Create:
		next = state{part: part{true, s.version + 1, do.Text}, sink: part{version: s.sink.version}}
		return !s.live, next
	case Update:
		next.version, next.text = s.version+1, do.Text
	case Delete:
		next.live, next.sink.live = false, false
	case Set:
		next.version, next.setting = s.version+1, strconv.Itoa(do.Number)
	case CreateSink:
		next.sink, next.token = part{true, s.sink.version + 1, do.Text}, ""
		return s.live && !s.sink.live, next
	case UpdateSink:
		next.sink.version, next.sink.text = s.sink.version+1, do.Text
		return s.live && s.sink.live, next
	case DeleteSink:
		next.sink.live = false
		return s.live && s.sink.live, next
	}
	return s.live, next
}

// model is a store of sources, whose changes are made at once.
var model = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		bySource := map[string][]porcupine.Operation{}
		for _, o := range history {
			source := o.Input.(Op).Source
			bySource[source] = append(bySource[source], o)
		}
		var parts [][]porcupine.Operation
		for _, part := range bySource {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return state{} },
	Step: func(before, input, output any) (bool, any) {
		s, in, out := before.(state), input.(Op), output.(observation)
		if in.Kind == Read {
			return s.show(out)
		}
		possible, next := s.change(in)
		if out.live {
			return possible, next
		}
		return !possible, s // it was refused
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
}

// History is what clients of several catalogs have asked for and learned. Do may be called concurrently.
type History struct {
	// Sink is what each sink is made of, in addition to its name, its description and its table.
	Sink catalog.SinkSpec
	// Find returns the end of a task from any catalog that is open. It is asked about tasks that have not succeeded as far as their catalog
	// knows. One that is closed meanwhile reports a failure when it does not know the outcome. Nil means that no catalog is closed.
	Find func(id string) (catalog.Task, error)

	clock   atomic.Int64
	changes atomic.Int64
	late    sync.WaitGroup // of the tasks that are looked for

	mu     sync.Mutex
	ops    []porcupine.Operation
	failed []error
}

// Changes returns how many changes were made so far.
func (h *History) Changes() int { return int(h.changes.Load()) }

// Len returns how many operations the history has so far.
func (h *History) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.ops)
}

// Do lets a client, counted from 0, do something, and returns when it knows the outcome or will not learn it from this catalog. What was
// not done is not part of the history: a read that failed, and a change that was refused because of a different change or whose task has failed.
func (h *History) Do(ctx context.Context, client int, cat *catalog.Catalog, do Op) {
	call := h.clock.Add(1)
	by := catalog.By{Type: "user"}
	var task catalog.Task
	var err error
	switch do.Kind {
	case Read:
		if cat.CatchUp(ctx) == nil {
			h.note(client, do, read(cat, do.Source), call)
		}
		return
	case Create:
		task, err = cat.CreateSource(by, catalog.SourceSpec{ID: do.Source, Name: do.Source, Type: forebay.HTTP, Description: do.Text})
	case Update:
		task, err = cat.UpdateSource(by, do.Source, catalog.SourcePatch{Description: &do.Text})
	case Delete:
		task, err = cat.Delete(by, catalog.Ref{Source: do.Source})
	case Set:
		task, err = cat.ChangeSettings(by, catalog.Ref{Source: do.Source}, "", []catalog.SettingChange{{Key: setting, Value: strconv.AppendInt(nil, int64(do.Number), 10)}})
	case CreateSink:
		spec := h.Sink
		spec.ID, spec.Name, spec.Description, spec.TableID = sink, sink, do.Text, "in.c-"+do.Source+".rows"
		task, err = cat.CreateSink(by, do.Source, spec)
	case UpdateSink:
		task, err = cat.UpdateSink(by, do.Source, sink, catalog.SinkPatch{Description: &do.Text})
	case DeleteSink:
		task, err = cat.Delete(by, catalog.Ref{Source: do.Source, Sink: sink})
	}
	refused, isRefused := errors.AsType[*catalog.Error](err)
	_, isAway := errors.AsType[*catalog.JournalError](err)
	switch {
	case isRefused && refused.Code == catalog.Busy, isAway, h.Find != nil && errors.Is(err, catalog.ErrClosed):
		return // nothing was changed
	case isRefused: // it is there, or it is not
		h.note(client, do, observation{}, call)
		return
	case err != nil:
		h.fail(fmt.Errorf("%v: %w", do, err))
		return
	}
	ended := func(task catalog.Task, err error) {
		switch {
		case err != nil:
			h.fail(fmt.Errorf("%v: the end of task %s: %w", do, task.ID, err))
		case task.Status == catalog.Succeeded:
			h.changes.Add(1)
			h.note(client, do, observation{part: part{live: true}}, call)
		}
	}
	id := task.ID
	if task, err = task.Wait(ctx); task.Status == catalog.Failed {
		err = nil // it has ended
	}
	if h.Find == nil || err == nil && task.Status == catalog.Succeeded {
		ended(task, err)
		return
	}
	h.late.Go(func() { ended(h.Find(id)) })
}

// read returns a catalog's state of a source and its sink, at one moment.
func read(cat *catalog.Catalog, id string) (out observation) {
	source, sinks, err := cat.Sinks(id, false)
	if err != nil {
		return out
	}
	out.part, out.setting = part{true, source.Version.Number, source.Description}, string(source.Settings[setting])
	for _, s := range sinks {
		out.sink, out.token = part{true, s.Version.Number, s.Description}, s.Token.ID
	}
	return out
}

// note adds an operation that was called at a moment and returns now.
func (h *History) note(client int, do Op, out observation, call int64) {
	back := h.clock.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: do, Call: call, Output: out, Return: back})
}

func (h *History) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed = append(h.failed, err)
}

// Check waits for the tasks that are looked for, and returns nil if the operations could have been made one after the other, each at a
// moment between its call and its return. Otherwise it draws the history into a file, and the error names that.
func (h *History) Check(path string) error {
	h.late.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := errors.Join(h.failed...); err != nil {
		return err
	}
	result, info := porcupine.CheckOperationsVerbose(model, h.ops, patience)
	if result == porcupine.Ok {
		return nil
	}
	return errors.Join(fmt.Errorf("%d operations are not linearizable (%s), see %s", len(h.ops), result, path),
		porcupine.VisualizePath(model, info, path))
}

// patience bounds the search for an order. A history for which that is too short is not accepted.
const patience = 2 * time.Minute
