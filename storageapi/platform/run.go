package platform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/forebay/forebay/storageapi"
)

// Runner is the program of a component.
type Runner interface {
	// Run does the work of one configuration, or of one row of it. It is called again with the same arguments when
	// the server was stopped before it had returned, so it must be ready to find its own earlier effects. It ends soon when
	// ctx does. After [Options.Grace] the job ends without it, and its later actions have no effect. An error
	// that was made with [UserError] is shown to the user of the API, any other, and a panic, is only logged.
	Run(ctx context.Context, run *Run) error
}

// RunnerFunc is a function that is a [Runner].
type RunnerFunc func(ctx context.Context, run *Run) error

// Run calls f.
func (f RunnerFunc) Run(ctx context.Context, run *Run) error { return f(ctx, run) }

// UserError marks an error whose text the user of the API is to see. A nil err gives nil.
func UserError(err error) error {
	if err == nil {
		return nil
	}
	return &userError{err}
}

type userError struct{ err error }

func (e *userError) Error() string { return e.err.Error() }
func (e *userError) Unwrap() error { return e.err }

// Run is one run of a component. It belongs to the call of [Runner.Run] and to its goroutine: Client and Logger do
// nothing after its end.
type Run struct {
	// JobID and RunID name the job, ComponentID, ConfigID, RowID and BranchID its subject. RowID is "" without rows,
	// ConfigID may be "" when the job brought its own content.
	JobID, RunID                           string
	ComponentID, ConfigID, RowID, BranchID string
	// Mode is "run", "debug" or "forceRun".
	Mode string
	// Configuration is the effective configuration, which is the row laid over the root, without processors, and with the nodes
	// action and image_parameters.
	Configuration json.RawMessage
	// State was left by the last run of this configuration or row; {} at first.
	State json.RawMessage
	// Client calls the server itself, with the rights of the token that made the job.
	Client *storageapi.Client
	// Logger writes to the log of the job, which can be read as events with the job's run id.
	Logger *slog.Logger

	input    inputNode
	output   outputNode
	dir      string
	newState json.RawMessage
	saveNow  func(state json.RawMessage) error
	outputs  []*output
	inputs   []storageapi.QueueTable
}

// SetState replaces the state, which the next run of this configuration or row gets. It is stored when the run has
// succeeded and its tables are in place.
func (r *Run) SetState(state json.RawMessage) error {
	if err := checkState(state); err != nil {
		return err
	}
	r.newState = slices.Clone(state)
	return nil
}

// SaveState replaces the state at once. When it returns nil the state is on disk, whatever becomes of the run. It is for what must not be
// lost with a run that fails, such as a credential that a server has replaced. What the next run is to do again, after a failure, must be in
// it as it was before. A job that brought its own content has no state, and nothing is kept. In the mode "debug" the state is.
func (r *Run) SaveState(state json.RawMessage) error {
	if err := checkState(state); err != nil {
		return err
	}
	return r.saveNow(slices.Clone(state))
}

func checkState(state json.RawMessage) error {
	if kind := kindOf(state); kind != '{' && kind != '[' || !json.Valid(state) || len(state) > maxContent {
		return UserError(fmt.Errorf("state: want a JSON object of at most %d bytes", maxContent))
	}
	return nil
}

// execution is a job of the queue while it runs.
type execution struct {
	q             *queue
	ctx           context.Context
	record        queueRecord
	input, output []storageapi.QueueTable
	// mask has the decrypted values.
	mask mask
}

// step is one run of the job, for the whole configuration, or one row of it.
type step struct {
	row           string
	configuration json.RawMessage
	stateKey      string // "" when no state is kept
}

func (e *execution) run() error {
	s := e.q.s
	component := s.components[e.record.Component]
	if component == nil || component.Runner == nil {
		return UserError(errNoRunner)
	}
	steps, err := e.plan(component)
	if err != nil {
		return err
	}
	for _, st := range steps {
		if slices.Contains(e.record.Done, st.row) {
			continue // before a crash
		}
		if err := e.step(component, st); err != nil {
			if st.row != "" {
				return fmt.Errorf("row %s: %w", st.row, err)
			}
			return err
		}
	}
	return nil
}

// plan returns the steps of the job in order, from the version that was the latest when the job began.
func (e *execution) plan(component *Component) (steps []step, err error) {
	r := &e.record
	image := component.ImageParameters
	s := e.q.s
	id := configID{r.Branch, r.Component, r.Config}
	if err := e.fix(id); err != nil {
		return nil, err
	}
	effective := func(root, row json.RawMessage) (json.RawMessage, error) {
		root, err := replaceVariables(root, r.Values)
		if err != nil {
			return nil, err
		}
		if row, err = replaceVariables(row, r.Values); err != nil {
			return nil, err
		}
		content, err := effectiveConfiguration(root, row, image)
		if err != nil {
			return nil, err
		}
		return e.decryptSecrets(content)
	}
	if r.ConfigData != nil {
		content, err := effective(r.ConfigData, nil)
		return []step{{configuration: content}}, err
	}
	err = s.store.view(func(tx *txn) error {
		conf, err := openConfiguration(tx, id, storageapi.TokenRef{}, false)
		if err != nil {
			return err
		}
		v, err := conf.readVersion(r.Version)
		if err != nil {
			return err
		}
		if v.Disabled && r.Mode != "forceRun" {
			return UserError(fmt.Errorf("configuration %q is disabled: use mode forceRun", r.Config))
		}
		root := conf.readContent(v)
		for _, id := range r.RowIDs {
			if v.find(id) < 0 {
				return UserError(fmt.Errorf("row %q is no longer there", id))
			}
		}
		if len(v.Rows) == 0 {
			content, err := effective(root, nil)
			steps = []step{{configuration: content, stateKey: id.state()}}
			return err
		}
		for _, ref := range v.ordered() {
			row := conf.readRow(ref)
			if len(r.RowIDs) > 0 && !slices.Contains(r.RowIDs, ref.ID) || len(r.RowIDs) == 0 && row.Disabled {
				continue
			}
			content, err := effective(root, row.Content)
			if err != nil {
				return err
			}
			steps = append(steps, step{ref.ID, content, id.rowState(ref.ID)})
		}
		return nil
	})
	return steps, err
}

// fix records what must not change when the job runs again after a crash, which is the version of the configuration and the values of
// its variables.
func (e *execution) fix(id configID) error {
	r := &e.record
	if r.Version > 0 || r.Values != nil {
		return nil
	}
	_, err := e.q.update(r.ID, func(tx *txn, record *queueRecord) error {
		root := r.ConfigData
		if root == nil {
			conf, err := openConfiguration(tx, id, storageapi.TokenRef{}, false)
			if err != nil {
				return err
			}
			root = conf.readContent(conf.head.Latest)
			record.Version = conf.head.Latest.Version
		}
		values, err := e.resolveVariables(tx, root)
		if err != nil {
			return err
		}
		record.Values = values
		r.Version, r.Values = record.Version, values
		return nil
	})
	return err
}

// step runs the component once, with input mapping, run, output mapping, and then the state and the progress of the job in
// one change. A program that had ended before a crash is not run again, because its output waits in the record of the job.
func (e *execution) step(component *Component, st step) error {
	s, r := e.q.s, e.record
	dir, err := os.MkdirTemp(s.runs, "run-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	run := &Run{
		JobID: fmt.Sprint(r.ID), RunID: r.runID(), ComponentID: r.Component, ConfigID: r.Config, RowID: st.row, BranchID: r.Branch, Mode: r.Mode,
		Configuration: st.configuration, State: emptyObject(), dir: dir,
	}
	life := newRunLife(s)
	defer life.end()
	run.Logger = slog.New(&jobLog{life: life, record: r, mask: e.mask})
	run.saveNow = func(state json.RawMessage) error {
		if !life.begin() {
			return errRunEnded
		}
		defer life.calls.Done()
		if st.stateKey == "" {
			return nil
		}
		return s.store.update("", func(tx *txn) error { tx.put(st.stateKey, state); return nil })
	}
	if run.Client, err = life.client(r); err != nil {
		return err
	}
	left := r.Written
	if left == nil || left.Row != st.row {
		left, err = e.produce(component, run, st)
	}
	if err == nil {
		err = e.importAll(run, left)
	}
	if err != nil {
		run.Logger.Error("Component failed", "error", e.failureText(err))
		return err
	}
	run.Logger.Info("Component finished", "component", r.Component, "config", r.Config, "row", st.row)
	_, err = e.q.update(r.ID, func(tx *txn, record *queueRecord) error {
		record.Done = append(record.Done, st.row)
		record.Input, record.Output, record.Written = e.input, e.output, nil
		e.record.Done, e.record.Written = record.Done, nil
		if left.State != nil && st.stateKey != "" {
			tx.put(st.stateKey, left.State)
		}
		return nil
	})
	return err
}

// produce runs the program and returns its output, which is on disk.
func (e *execution) produce(component *Component, run *Run, st step) (*written, error) {
	s, r := e.q.s, e.record
	if err := run.readMappings(); err != nil {
		return nil, err
	}
	if st.stateKey != "" {
		var err error
		if run.State, err = viewed(s.store, func(tx *txn) (json.RawMessage, error) { return readState(tx, st.stateKey), nil }); err != nil {
			return nil, err
		}
	}
	run.Logger.Info("Running component", "component", r.Component, "config", r.Config, "row", st.row)
	err := runProgram(e.ctx, component.Runner, run, s.opts.Grace)
	if errors.Is(err, errAbandoned) {
		s.log.Error("platform: a component has not ended when it was told to, its job ends without it", "job", r.ID, "component", r.Component)
		return nil, err // the program may be using its tables
	}
	for _, o := range run.outputs {
		err = errors.Join(err, o.Close())
	}
	e.input = append(e.input, run.inputs...)
	if err == nil {
		err = e.ctx.Err()
	}
	left := &written{Row: st.row}
	if err != nil || r.Mode == "debug" {
		return left, err
	}
	left.State = run.newState
	if left.Imports, err = e.planImports(component, run); err != nil || len(left.Imports) == 0 {
		return left, err
	}
	_, err = e.q.update(r.ID, func(_ *txn, record *queueRecord) error {
		record.Written, record.Input = left, e.input
		return nil
	})
	return left, err
}

var (
	errAbandoned = errors.New("the component has not ended after its context had")
	errExited    = errors.New("the component has ended its goroutine without returning")
)

// runProgram runs the program in its own goroutine, so that a job ends even if its program does not. The program gets grace
// after the end of ctx. Then the error is errAbandoned, and the program may still use the run.
func runProgram(ctx context.Context, program Runner, run *Run, grace time.Duration) error {
	ended := make(chan error, 1)
	go func() {
		err := errExited
		defer func() { ended <- err }()
		err = guard(func() error { return program.Run(ctx, run) })
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case err := <-ended:
		return err
	case <-timer.C:
		return errAbandoned
	}
}

// failureText is the text of a failure in the log of the job. The result of the job has it too, with an exception id for an
// internal failure.
func (e *execution) failureText(err error) string {
	switch {
	case e.ctx.Err() != nil:
		return "the job was stopped"
	case forUser(err):
		return err.Error()
	}
	return "internal error, see the result of the job"
}
