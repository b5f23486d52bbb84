package platform

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/forebay/forebay/storageapi"
)

// Runner is the program of a component.
type Runner interface {
	// Run does the work of one configuration, or of one row of it. It is called again with the same arguments when
	// the server was stopped in the middle, so it must be ready to find its own earlier effects. It ends soon when
	// ctx does; after [Options.Grace] the job ends without it, and what it does from then on has no effect. An error
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
	// JobID and RunID name the job, ComponentID, ConfigID, RowID and BranchID what is run. RowID is "" without rows,
	// ConfigID may be "" when the job brought its own content.
	JobID, RunID                           string
	ComponentID, ConfigID, RowID, BranchID string
	// Mode is "run", "debug" or "forceRun".
	Mode string
	// Configuration is the effective configuration: that of the root with the row laid over it, without processors,
	// and with the nodes action and image_parameters.
	Configuration json.RawMessage
	// State is what the last run of this configuration or row has left, {} at first.
	State json.RawMessage
	// Client calls the server itself, with the rights of the token that made the job.
	Client *storageapi.Client
	// Logger writes to the log of the job, which can be read as events with the job's run id.
	Logger *slog.Logger

	input    inputNode
	output   outputNode
	dir      string
	newState json.RawMessage
	outputs  []*output
	inputs   []storageapi.QueueTable
}

// storageNode is the node of a configuration that maps tables. Its objects are empty arrays where a client has no other
// way to write an empty one.
type storageNode struct {
	Input  storageapi.Optional[inputNode]  `json:"input"`
	Output storageapi.Optional[outputNode] `json:"output"`
}

type inputNode struct {
	Tables []inputMapping `json:"tables"`
}

type outputNode struct {
	Tables        []outputMapping `json:"tables"`
	DefaultBucket string          `json:"default_bucket"`
}

type inputMapping struct {
	Source        string           `json:"source"`
	Destination   string           `json:"destination"`
	Columns       []string         `json:"columns"`
	WhereColumn   string           `json:"where_column"`
	WhereOperator string           `json:"where_operator"`
	WhereValues   []storageapi.ID  `json:"where_values"` // text or numbers
	ChangedSince  string           `json:"changed_since"`
	Limit         storageapi.IntID `json:"limit"` // a number, or the text of one
}

type outputMapping struct {
	Source      string   `json:"source"`
	Destination string   `json:"destination"`
	Incremental bool     `json:"incremental"`
	PrimaryKey  []string `json:"primary_key"`
	Delimiter   string   `json:"delimiter"`
	Enclosure   string   `json:"enclosure"`
}

// Inputs are the names of the tables of the input mapping, for [Run.OpenInput].
func (r *Run) Inputs() []string {
	var names []string
	for _, m := range r.input.Tables {
		names = append(names, m.name())
	}
	return names
}

func (m inputMapping) name() string {
	if m.Destination != "" {
		return m.Destination
	}
	return m.Source
}

// OpenInput returns a table of the input mapping, by its destination name, as CSV with a header. The caller closes
// the reader.
func (r *Run) OpenInput(ctx context.Context, name string) (io.ReadCloser, error) {
	at := slices.IndexFunc(r.input.Tables, func(m inputMapping) bool { return m.name() == name })
	if at < 0 {
		return nil, UserError(fmt.Errorf("input mapping has no table %q", name))
	}
	m := r.input.Tables[at]
	table, err := r.Client.Table(ctx, m.Source)
	if err != nil {
		return nil, err
	}
	q := storageapi.RowQuery{Columns: m.Columns, Limit: int(m.Limit), ChangedSince: m.ChangedSince}
	if m.WhereColumn != "" {
		filter := storageapi.Filter{Column: m.WhereColumn, Operator: cmp.Or(m.WhereOperator, "eq")}
		for _, value := range m.WhereValues {
			filter.Values = append(filter.Values, string(value))
		}
		q.Filters = []storageapi.Filter{filter}
	}
	id, err := r.Client.ExportTable(ctx, m.Source, storageapi.Export{RowQuery: q})
	if err != nil {
		return nil, err
	}
	file, err := r.Client.Download(ctx, id)
	if err != nil {
		return nil, err
	}
	r.inputs = append(r.inputs, usedTable(table))
	return file.Open(ctx)
}

func usedTable(t *storageapi.Table) storageapi.QueueTable {
	return storageapi.QueueTable{ID: t.ID, Name: t.Name, DisplayName: t.DisplayName, Columns: storageapi.TextColumns(t.Columns...)}
}

// output is a table that a component writes.
type output struct {
	table      OutputTable
	name, path string
	f          *os.File
	*bufio.Writer
	closed bool
}

func (o *output) Close() error {
	if o.closed {
		return nil
	}
	o.closed = true
	return errors.Join(o.Flush(), o.f.Close())
}

// OutputTable says where a table goes that the output mapping of the configuration does not name.
type OutputTable struct {
	// Destination is the id of the table. Default: a table of the same name in the default bucket.
	Destination string
	// Incremental adds the rows; without it they replace those that are there. Rows that are added to a table without a
	// key may be there twice when the server was killed before the end of the row was on disk, because that is run again.
	Incremental bool
	// PrimaryKey are the columns of the key, when the table is created.
	PrimaryKey []string
}

// CreateOutput begins an output table, which is written as CSV with a header. When Run has returned nil the output
// mapping puts it into the table that the configuration names for it, or into the component's default bucket. It is
// closed then if it was not before.
func (r *Run) CreateOutput(name string) (io.WriteCloser, error) {
	return r.CreateOutputTable(name, OutputTable{})
}

// CreateOutputTable is CreateOutput with a place for the table, for when the configuration names none.
func (r *Run) CreateOutputTable(name string, table OutputTable) (io.WriteCloser, error) {
	if !validID(name) || strings.HasPrefix(name, ".") {
		return nil, UserError(fmt.Errorf("output table %q: want a name of a file", name))
	}
	if slices.ContainsFunc(r.outputs, func(o *output) bool { return o.name == name }) {
		return nil, UserError(fmt.Errorf("output table %q is there twice", name))
	}
	path := filepath.Join(r.dir, fmt.Sprintf("out-%d.csv", len(r.outputs)))
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	o := &output{name: name, table: table, path: path, f: f, Writer: bufio.NewWriter(f)}
	r.outputs = append(r.outputs, o)
	return o, nil
}

// SetState replaces the state, which the next run of this configuration or row gets. It is stored when the run has
// succeeded and its tables are in place.
func (r *Run) SetState(state json.RawMessage) error {
	if kind := kindOf(state); kind != '{' && kind != '[' || !json.Valid(state) || len(state) > maxContent {
		return UserError(fmt.Errorf("state: want a JSON object of at most %d bytes", maxContent))
	}
	r.newState = slices.Clone(state)
	return nil
}

// execution is a job of the queue while it runs.
type execution struct {
	q             *queue
	ctx           context.Context
	record        queueRecord
	input, output []storageapi.QueueTable
}

// step is one run of the job: the whole configuration, or one row of it.
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

// plan says what is run in which order, of the version that was the latest when the job began.
func (e *execution) plan(component *Component) (steps []step, err error) {
	r := &e.record
	image := component.ImageParameters
	if r.ConfigData != nil {
		content, err := effectiveConfiguration(r.ConfigData, nil, image)
		return []step{{configuration: content}}, err
	}
	s := e.q.s
	id := configID{r.Branch, r.Component, r.Config}
	if r.Version == 0 {
		_, err := e.q.update(r.ID, func(tx *txn, record *queueRecord) error {
			conf, err := openConfiguration(tx, id, storageapi.TokenRef{}, false)
			if err != nil {
				return err
			}
			record.Version = conf.head.Latest.Version
			r.Version = record.Version
			return nil
		})
		if err != nil {
			return nil, err
		}
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
		root, err := conf.readContent(v)
		if err != nil {
			return err
		}
		for _, id := range r.RowIDs {
			if v.find(id) < 0 {
				return UserError(fmt.Errorf("row %q is not there any more", id))
			}
		}
		if len(v.Rows) == 0 {
			content, err := effectiveConfiguration(root, nil, image)
			steps = []step{{configuration: content, stateKey: id.state()}}
			return err
		}
		for _, ref := range v.ordered() {
			row, err := conf.readRow(ref)
			if err != nil {
				return err
			}
			if len(r.RowIDs) > 0 && !slices.Contains(r.RowIDs, ref.ID) || len(r.RowIDs) == 0 && row.Disabled {
				continue
			}
			content, err := effectiveConfiguration(root, row.Content, image)
			if err != nil {
				return err
			}
			steps = append(steps, step{ref.ID, content, id.rowState(ref.ID)})
		}
		return nil
	})
	return steps, err
}

// step runs the component once: input mapping, run, output mapping, and then the state and the progress of the job in
// one change.
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
	run.Logger = slog.New(&jobLog{life: life, record: r})
	if run.Client, err = life.client(r); err != nil {
		return err
	}
	if err := run.readMappings(); err != nil {
		return err
	}
	if st.stateKey != "" {
		err := s.store.view(func(tx *txn) (err error) {
			run.State, err = readState(tx, st.stateKey)
			return err
		})
		if err != nil {
			return err
		}
	}
	run.Logger.Info("Running component", "component", r.Component, "config", r.Config, "row", st.row)
	err = runProgram(e.ctx, component.Runner, run, s.opts.Grace)
	if errors.Is(err, errAbandoned) {
		s.log.Error("platform: a component has not ended when it was told to, its job ends without it", "job", r.ID, "component", r.Component)
	} else { // otherwise the program may be using them
		for _, o := range run.outputs {
			err = errors.Join(err, o.Close())
		}
		e.input = append(e.input, run.inputs...)
	}
	if err == nil {
		err = e.ctx.Err()
	}
	if err == nil && r.Mode != "debug" {
		err = e.mapOutputs(component, run)
	}
	if err != nil {
		run.Logger.Error("Component failed", "error", e.failureText(err))
		return err
	}
	run.Logger.Info("Component finished", "component", r.Component, "config", r.Config, "row", st.row)
	_, err = e.q.update(r.ID, func(tx *txn, record *queueRecord) error {
		record.Done = append(record.Done, st.row)
		record.Input, record.Output = e.input, e.output
		e.record.Done = record.Done
		if run.newState == nil || st.stateKey == "" || r.Mode == "debug" {
			return nil
		}
		return tx.put(st.stateKey, run.newState)
	})
	return err
}

// readMappings reads the node storage of the configuration.
func (r *Run) readMappings() error {
	var nodes struct {
		Storage json.RawMessage `json:"storage"`
	}
	if err := json.Unmarshal(r.Configuration, &nodes); err != nil {
		return err
	}
	if kindOf(nodes.Storage) != '{' {
		return nil
	}
	var storage storageNode
	if err := json.Unmarshal(nodes.Storage, &storage); err != nil {
		return UserError(fmt.Errorf("node storage: %w", err))
	}
	if storage.Input.Value != nil {
		r.input = *storage.Input.Value
	}
	if storage.Output.Value != nil {
		r.output = *storage.Output.Value
	}
	return nil
}

var (
	errAbandoned = errors.New("the component has not ended after its context had")
	errExited    = errors.New("the component has ended its goroutine without returning")
)

// runProgram runs the program in a goroutine of its own, so that a job has an end also when its program has none. It is
// given the grace after the end of ctx; then the error is errAbandoned, and the run still belongs to the program.
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

// failureText is what the log of the job says of a failure. The job itself says it too, with an exception id if the
// failure is none of the user's.
func (e *execution) failureText(err error) string {
	switch {
	case e.ctx.Err() != nil:
		return "the job was stopped"
	case forUser(err):
		return err.Error()
	}
	return "internal error, see the result of the job"
}

// mapOutputs puts the tables that the component has written to where the configuration wants them.
func (e *execution) mapOutputs(component *Component, run *Run) error {
	for _, m := range run.output.Tables {
		if !slices.ContainsFunc(run.outputs, func(o *output) bool { return o.name == m.Source }) {
			return UserError(fmt.Errorf("output mapping: the component has not written a table %q", m.Source))
		}
	}
	for _, o := range run.outputs {
		places := e.places(component, run, o)
		if len(places) == 0 {
			return UserError(fmt.Errorf("output mapping: there is no destination for table %q", o.name))
		}
		for _, m := range places {
			table, err := e.mapOutput(run, o, m)
			if err != nil {
				return fmt.Errorf("output mapping: table %q: %w", o.name, err)
			}
			e.output = append(e.output, usedTable(table))
		}
	}
	return nil
}

// places are where a table goes: to all that the configuration names for it, or else to the one that the component or a
// default bucket gives.
func (e *execution) places(component *Component, run *Run, o *output) (list []outputMapping) {
	for _, m := range run.output.Tables {
		if m.Source == o.name {
			list = append(list, m)
		}
	}
	switch {
	case len(list) > 0:
		return list
	case o.table.Destination != "":
		return []outputMapping{{Destination: o.table.Destination, Incremental: o.table.Incremental, PrimaryKey: o.table.PrimaryKey}}
	case run.output.DefaultBucket != "":
		return []outputMapping{{Destination: run.output.DefaultBucket + "." + tableName(o.name)}}
	case component.Data.DefaultBucket && e.record.Config != "":
		bucket := component.Data.DefaultBucketStage + ".c-" + strings.ReplaceAll(e.record.Component, ".", "-") + "-" + e.record.Config
		return []outputMapping{{Destination: bucket + "." + tableName(o.name)}}
	}
	return nil
}

func tableName(name string) string { return strings.TrimSuffix(name, ".csv") }

func (e *execution) mapOutput(run *Run, o *output, m outputMapping) (*storageapi.Table, error) {
	bucketID, name := bucketOf(m.Destination), m.Destination[strings.LastIndexByte(m.Destination, '.')+1:]
	stage, bucketName, ok := strings.Cut(bucketID, ".")
	if !ok || name == "" || strings.Contains(bucketName, ".") {
		return nil, UserError(fmt.Errorf("destination %q: want stage.bucket.table", m.Destination))
	}
	c := run.Client
	info, err := os.Stat(o.path)
	if err != nil {
		return nil, err
	}
	f, err := c.Upload(e.ctx, storageapi.FilePrepare{Name: o.name, Tags: []string{"run-" + run.JobID}}, storageapi.Source{
		Size: info.Size(), Open: func() (io.ReadCloser, error) { return os.Open(o.path) },
	})
	if err != nil {
		return nil, err
	}
	if _, err := c.Bucket(e.ctx, bucketID); storageapi.IsNotFound(err) {
		if _, err := c.CreateBucket(e.ctx, storageapi.BucketCreate{Stage: stage, Name: strings.TrimPrefix(bucketName, "c-")}); err != nil && !storageapi.IsAlreadyExists(err) {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	_, err = c.Table(e.ctx, m.Destination)
	if storageapi.IsNotFound(err) {
		return c.CreateTableFromFile(e.ctx, bucketID, storageapi.TableFromFile{
			Name: name, FileID: f.ID, PrimaryKey: m.PrimaryKey, Delimiter: m.Delimiter, Enclosure: m.Enclosure,
		})
	}
	if err != nil {
		return nil, err
	}
	if _, err := c.ImportFile(e.ctx, m.Destination, storageapi.Import{
		FileID: f.ID, Incremental: m.Incremental, Delimiter: m.Delimiter, Enclosure: m.Enclosure,
	}); err != nil {
		return nil, err
	}
	return c.Table(e.ctx, m.Destination)
}
