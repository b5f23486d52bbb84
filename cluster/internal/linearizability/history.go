package linearizability

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/catalog"
)

// Op is what a client asks for.
type Op struct {
	// Kind is one of the constants.
	Kind string
	// Source is its id. Text becomes its description.
	Source, Text string
}

// The kinds of operations.
const (
	Create = "create"
	Update = "update"
	Delete = "delete"
	Read   = "read"
)

// RandomOp draws an operation on one of two sources.
func RandomOp(rng *rand.Rand, text string) Op {
	return Op{
		Kind:   []string{Create, Update, Update, Delete, Read, Read}[rng.IntN(6)],
		Source: []string{"one", "two"}[rng.IntN(2)], Text: text,
	}
}

// outcome is what a client learns. Of a change that was refused because there is a source, or none, it is zero.
type outcome struct {
	live    bool
	version int
	text    string
}

// model is a store of sources, whose changes are made at once. Its state is a source as a read shows it.
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
	Init: func() any { return outcome{} },
	Step: func(before, input, output any) (bool, any) {
		s, in, out := before.(outcome), input.(Op), output.(outcome)
		switch in.Kind {
		case Read:
			return out == s || !out.live && !s.live, s
		case Create:
			if !out.live { // there was one already
				return s.live, s
			}
			return !s.live, outcome{true, s.version + 1, in.Text}
		case Update:
			if !out.live {
				return !s.live, s
			}
			return s.live, outcome{true, s.version + 1, in.Text}
		default:
			if !out.live {
				return !s.live, s
			}
			return s.live, outcome{false, s.version, s.text}
		}
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%v -> %v", input, output) },
}

// History is what clients of several catalogs have asked for and learned. Do may be called concurrently.
type History struct {
	// Find returns the end of a task from any catalog that is open. It is asked about tasks that have not succeeded as far as their catalog
	// knows: one that is closed meanwhile reports a failure when it does not know the outcome. Nil: no catalog is closed.
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
// not done is not part of the history: a read that failed, and a change that was refused for another one or whose task has failed.
func (h *History) Do(ctx context.Context, client int, cat *catalog.Catalog, do Op) {
	call := h.clock.Add(1)
	by := catalog.By{Type: "user"}
	var task catalog.Task
	var err error
	switch do.Kind {
	case Read:
		if cat.CatchUp(ctx) == nil {
			source, err := cat.Source(do.Source)
			h.note(client, do, outcome{err == nil, source.Version.Number, source.Description}, call)
		}
		return
	case Create:
		task, err = cat.CreateSource(by, catalog.SourceSpec{ID: do.Source, Name: do.Source, Type: forebay.HTTP, Description: do.Text})
	case Update:
		task, err = cat.UpdateSource(by, do.Source, catalog.SourcePatch{Description: &do.Text})
	case Delete:
		task, err = cat.Delete(by, catalog.Ref{Source: do.Source})
	}
	refused, isRefused := errors.AsType[*catalog.Error](err)
	_, isAway := errors.AsType[*catalog.JournalError](err)
	switch {
	case isRefused && refused.Code == catalog.Busy, isAway, h.Find != nil && errors.Is(err, catalog.ErrClosed):
		return // nothing was changed
	case isRefused: // it is there, or it is not
		h.note(client, do, outcome{}, call)
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
			h.note(client, do, outcome{live: true}, call)
		}
	}
	id := task.ID
	if task, err = cat.Wait(ctx, id); h.Find == nil || err == nil && task.Status == catalog.Succeeded {
		ended(task, err)
		return
	}
	h.late.Go(func() { ended(h.Find(id)) })
}

// note adds an operation that was called at a moment and returns now.
func (h *History) note(client int, do Op, out outcome, call int64) {
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
